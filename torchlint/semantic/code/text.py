"""What a file's text says, wherever it says it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_REASON = regex(
    r"\b(work-?around|hack|because|otherwise|unlike|on purpose|intention\w*|deliberate\w*|must"
    r"|needed|necessary|required|to avoid|avoids|prevents?|do not|don't)\b",
    re.IGNORECASE,
)
"""Words with which people say why code is as it is."""
_DEF = regex(r"\bdef[ \t]+$")
_OF_WORD = regex(r"\w")
MAIN = regex(r"^if\s+__name__\s*==\s*['\"]__main__['\"]", re.MULTILINE)


def uncommented(text: str, part: str) -> Iterator[tuple[int, str]]:
    """Yield where a text holds a part of a word, and what stands before it on its line; lines that
    are comments are left out."""
    at = text.find(part)
    while at >= 0:
        before = text[text.rfind("\n", 0, at) + 1 : at]
        if not before.lstrip(" \t").startswith("#"):
            yield at, before
        at = text.find(part, at + len(part))


def spoken(text: str, word: str) -> Iterator[str]:
    """Yield what stands on its line before each place where a text holds a word; lines that are
    comments are left out."""
    for at, before in uncommented(text, word):
        around = f"{before[-1:]} {text[at + len(word) : at + len(word) + 1]}"
        if not _OF_WORD.search(around):
            yield before


def defines(before: str) -> bool:
    """Say whether what stands before a name on its line defines it as a function."""
    return _DEF.search(before) is not None


@question(
    yes="the file mentions what the rule looks for",
    no="the file nowhere mentions what the rule looks for",
    ground=True,
)
def mentions(module: Module, pattern: re.Pattern[str] | Wording) -> bool:
    """Say whether a pattern is found anywhere in the file's text."""
    return pattern.search(module.text) is not None


@question(
    yes='the file has `if __name__ == "__main__":`',
    no='the file has no `if __name__ == "__main__":`',
    ground=True,
)
def has_main_guard(module: Module) -> bool:
    """Whether the file has ``if __name__ == "__main__":``."""
    return mentions(module, MAIN)


@question(
    yes='it stands under `if __name__ == "__main__":`',
    no='it does not stand under `if __name__ == "__main__":`',
)
def in_main_guard(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a node runs only where the file itself is run: it stands, outside of functions,
    under ``if __name__ == "__main__":``."""
    if module.function(node) is not None or not has_main_guard(module):
        return False
    return any(
        isinstance(above, cst.If) and MAIN.match(f"if {module.source_of(above.test)}")
        for above in module.ancestors(node)
    )


@question(remember=False)
def explained(module: Module, node: cst.CSTNode, pattern: re.Pattern[str]) -> bool:
    """Say whether a comment speaks of something where a statement stands: above or behind it, or at
    a ``with`` around it."""
    for each in (module.statement(node), *module.ancestors(node)):
        if isinstance(each, cst.FunctionDef):
            break
        if _is_commented(module, each, pattern):
            return True
    return False


@question(remember=False)
def remarked(module: Module, line: cst.CSTNode, *, above: bool = True, behind: bool = True) -> bool:
    """Say whether a comment stands above a line of simple statements, or behind it.

    The comments of the tree cost that libcst reads the whole text: they are asked where the rows
    leave it open.
    """
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    if above:
        found = module.statements.comment_above(line.body[0])
        if found is None:
            found = any(each.comment is not None for each in line.leading_lines)
        if found:
            return True
    if not behind:
        return False
    found = module.statements.comment_after(line.body[-1])
    return line.trailing_whitespace.comment is not None if found is None else found


def _is_commented(module: Module, node: cst.CSTNode, pattern: re.Pattern[str]) -> bool:
    """Say whether a comment above a simple statement or a ``with``, or behind its lines, matches.

    The comments of the tree cost that libcst reads the whole text: they are asked where the lines
    match.
    """
    if not isinstance(node, (cst.SimpleStatementLine, cst.With)):
        return False
    lines = node.body if isinstance(node, cst.SimpleStatementLine) else (node,)
    rows = module.statements.rows(lines[0], lines[-1])
    return pattern.search(rows) is not None and any(map(pattern.search, _comments_at(node)))


def _comments_in(node: cst.CSTNode) -> Iterator[str]:
    for child in node.children:
        if isinstance(child, cst.Comment):
            yield child.value
        else:
            yield from _comments_in(child)


def _comments_at(node: cst.CSTNode) -> list[str]:
    """Return the comments above a simple statement or a ``with``, and behind its line or lines."""
    match node:
        case cst.SimpleStatementLine():
            # Those between the lines of one that goes over several are its own as well.
            return list(_comments_in(node))
        case cst.With(leading_lines=above, body=cst.IndentedBlock(header=end)):
            comments = [*(line.comment for line in above), end.comment]
        case _:
            comments = []
    return [each.value for each in comments if each is not None]


@question(
    yes="a comment says why the code is as it is", no="no comment says why the code is as it is"
)
def reasoned(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a comment at the statement of a node gives a reason, or one of its function says
    what a function does that is called there, as ``# type_as follows the device in traces``; a mere
    label, ``# model state_dict``, says nothing."""
    if "#" not in module.text:
        return False
    if explained(module, node, _REASON):
        return True
    funcs = [call.func for call in module.within(node, cst.Call)]
    names = {func.attr.value for func in funcs if isinstance(func, cst.Attribute)}
    # A name with an underscore is no word of the language.
    names = {name for name in names if "_" in name.strip("_")}
    if not names:
        return False
    named = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))}) (is|was|has|\w+[^s]s)\b")
    home = module.scope(node)
    lines = module.within(home, cst.SimpleStatementLine, cst.With)
    return any(_is_commented(module, line, named) for line in lines)
