"""What a statement says, however it is laid out: the part of a finding that a baseline remembers;
and what a whole text says, to the letter."""

from __future__ import annotations

import re

from torchlint.base.regex import regex

_LONGEST = 10_000
"""Characters of the longest statement whose layout is looked through; a longer one is taken by its
words."""
_TOKEN = regex(
    r"(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"\"\"|''')(?P<long>(?:[^\\]|\\.)*?)(?P=quote)"
    r"|(?P<prefix1>[A-Za-z]{0,2})(?:\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>(?:[^'\\\n]|\\.)*)')"
    r"|\#[^\r\n]*|\\(?:\r\n|\r|\n)|\s+|(?P<word>\w+)|(?P<sign>.)",
    re.DOTALL,
)


def content_digest(code: str, statement: str) -> str:
    """Return 16 hex digits for a rule's code and a statement, the same wherever the statement
    stands.

    White space, comments, line breaks, parentheses, trailing commas and the kind of quotes do not
    count, so that a formatter changes nothing. The same on every Python.
    """
    import hashlib  # loads OpenSSL; a run that finds nothing needs none

    text = "\0".join((code, *_words(statement)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def text_digest(text: str) -> str:
    """Return 32 hex digits that tell a file's text from any other one."""
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _words(statement: str) -> list[str]:
    if len(statement) > _LONGEST:
        return statement.split()
    found: list[str] = []
    for token in _TOKEN.finditer(statement):
        prefix = token["prefix"] or token["prefix1"] or ""
        body = next(
            (token[name] for name in ("long", "double", "single") if token[name] is not None), None
        )
        word = token["word"] or token["sign"] if body is None else f"{prefix.lower()}'{body}"
        if word in (")", "]", "}") and found and found[-1] == ",":
            found.pop()
        if word and word not in ("(", ")"):
            found.append(word)
    return found
