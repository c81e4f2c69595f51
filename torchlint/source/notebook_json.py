"""The JSON text of a notebook: its code cells with their places, and new sources put in those
places.

The text is scanned once, by the standard library's own JSON scanner, and never written anew: a
changed notebook is the old text with the tokens of changed sources exchanged, so that outputs,
metadata, indentation, newlines and the style of escapes stay byte for byte. What is expected of a
notebook follows nbformat 4 (https://nbformat.readthedocs.io/en/latest/format_description.html).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from json.decoder import JSONDecodeError
from typing import Any

from torchlint.base.errors import SourceError
from torchlint.base.regex import regex
from torchlint.base.span import LineIndex, Span
from torchlint.source.notebook import Cell, Notebook, SeamError, assembled
from torchlint.source.source_tokens import Source, spliced

_SPACE = regex(r"[ \t\r\n]*")
_SURROGATE = regex(r"[\ud800-\udfff]")
_SEEN = regex(r"nvidia-smi|\bcuda:\d")
"""What a cell or an output says of a GPU that is there."""
_FORMAT = 4
_MOST_NESTED = "is nested too deeply"
Fields = dict[str, Span]
Inner = Callable[[int], int]


@dataclass(slots=True)
class _Code:
    """A code cell as the scan finds it."""

    number: int
    fields: Fields
    source: Source


@dataclass(slots=True)
class _Scan:
    """One pass over a notebook's JSON text; `fields` are those of the notebook itself."""

    text: str
    codes: list[_Code] = field(default_factory=list)
    cells: int = 0
    fields: Fields = field(default_factory=dict)
    # Numbers and constants are not looked at: as text they are neither too long nor out of range.
    decoder: json.JSONDecoder = field(
        default_factory=lambda: json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
    )
    _source: Source | None = None

    def run(self) -> _Scan:
        """Scan the whole text.

        Raises:
            JSONDecodeError: it is not JSON, or not that of a notebook.
            RecursionError: it is nested too deeply.
        """
        self.fields, at = self._object(self._skip(0), {"cells": self._cells})
        at = self._skip(at)
        if at < len(self.text):
            raise JSONDecodeError("Extra data", self.text, at)
        return self

    def value(self, span: Span | None) -> Any:
        """Return the value of a field; None for one that is not there."""
        return None if span is None else self.decoder.raw_decode(self.text, span.start)[0]

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def _expect(self, at: int, sign: str, words: str) -> int:
        if not self.text.startswith(sign, at):
            raise JSONDecodeError(words, self.text, at)
        return self._skip(at + len(sign))

    def _object(self, at: int, inner: Mapping[str, Inner]) -> tuple[Fields, int]:
        """Scan an object; what has a scanner in `inner` is left to that. Return the values' places,
        and the end."""
        found: Fields = {}
        at = self._expect(at, "{", "Expecting '{'")
        while not self.text.startswith("}", at):
            if found:
                at = self._expect(at, ",", "Expecting ',' delimiter")
            start = at
            if not self.text.startswith('"', at):
                raise JSONDecodeError(
                    "Expecting property name enclosed in double quotes", self.text, at
                )
            key, at = self.decoder.raw_decode(self.text, at)
            if key in found:
                raise JSONDecodeError(
                    f"The key {key!a} stands here for the second time", self.text, start
                )
            at = self._expect(self._skip(at), ":", "Expecting ':' delimiter")
            start = at
            at = inner[key](at) if key in inner else self.decoder.raw_decode(self.text, at)[1]
            found[key] = Span(start, at)
            at = self._skip(at)
        return found, at + 1

    def _array(self, at: int, item: Inner, words: str) -> int:
        at = self._expect(at, "[", words)
        first = True
        while not self.text.startswith("]", at):
            if not first:
                at = self._expect(at, ",", "Expecting ',' delimiter")
            first = False
            at = self._skip(item(at))
        return at + 1

    def _cells(self, at: int) -> int:
        return self._array(at, self._cell, "Expecting the list of cells")

    def _cell(self, at: int) -> int:
        self.cells += 1
        self._source = None
        fields, end = self._object(at, {"source": self._source_at})
        if self.value(fields.get("cell_type")) == "code":
            if self._source is None:
                raise JSONDecodeError(f"Cell {self.cells} has no source", self.text, at)
            self.codes.append(_Code(self.cells, fields, self._source))
        return end

    def _source_at(self, at: int) -> int:
        tokens: list[tuple[Span, str]] = []

        def token(at: int) -> int:
            if not self.text.startswith('"', at):
                raise JSONDecodeError(f"The source of cell {self.cells} is not text", self.text, at)
            value, end = self.decoder.raw_decode(self.text, at)
            tokens.append((Span(at, end), value))
            return end

        listed = self.text.startswith("[", at)
        end = self._array(at, token, "") if listed else token(at)
        self._source = Source(Span(at, end), tuple(tokens), listed)
        return end


def read_notebook(text: str, filename: str) -> Notebook | str:
    """Return the notebook that JSON text holds, or in a few words why there is nothing in it for
    torchlint.

    Raises:
        SourceError: it is no notebook, with the place of the fault.
    """
    scan = _scanned(text, filename)
    reason = _foreign(scan)
    if reason:
        return reason
    index = LineIndex(text)
    cells = [_cell(scan, code, index) for code in scan.codes if _language(scan, code) == "python"]
    for cell in cells:
        lone = _SURROGATE.search(cell.source)
        if lone:
            row = LineIndex(cell.source).position(lone.start()).row
            words = (
                f"cell {cell.number} holds half of a surrogate pair in row {row}, which no "
                "file can hold"
            )
            raise SourceError(f"{filename}: {words}", (cell.file_rows[row - 1], 1))
    return replace(assembled(cells), accelerated=_is_accelerated(scan))


def _is_accelerated(scan: _Scan) -> bool:
    """Say whether a notebook asks for an accelerator, as Colab and Kaggle write it down, or was run
    on one."""
    metadata = scan.value(scan.fields.get("metadata"))
    for chosen in (metadata, _inside(metadata, "kaggle")):
        name = _inside(chosen, "accelerator")
        if isinstance(name, str) and name.lower() not in ("", "none", "cpu"):
            return True
    words = "nvidia-smi" in scan.text or "cuda:" in scan.text
    return words and _SEEN.search(scan.text) is not None


def rewritten(text: str, notebook: Notebook, python: str, filename: str) -> str:
    """Return the JSON text with the sources that `notebook` has where its text has become `python`.

    Raises:
        SourceError: the edits reached beyond the cells, or the result is not the same notebook but
            for the sources: faults of ours.
    """
    try:
        sources = notebook.sources(python)
    except SeamError as error:
        raise SourceError(f"{filename}: {error}") from error
    wanted = {
        part.cell.number: new
        for part, new in zip(notebook.parts, sources, strict=True)
        if new != part.cell.source
    }
    if not wanted:
        return text
    scan = _scanned(text, filename)
    pieces = []
    at = 0
    for code in scan.codes:
        if code.number in wanted:
            pieces += [
                text[at : code.source.span.start],
                spliced(code.source, text, wanted[code.number]),
            ]
            at = code.source.span.end
    new = "".join((*pieces, text[at:]))
    again = _scanned(new, filename)
    expected = [wanted.get(code.number, code.source.text) for code in scan.codes]
    if [code.source.text for code in again.codes] != expected or _unchanged_text(
        again, wanted
    ) != _unchanged_text(scan, wanted):
        raise SourceError(f"{filename}: the fixed sources cannot be put into the notebook")
    return new


def _unchanged_text(scan: _Scan, changed: Mapping[int, str]) -> list[str]:
    """Return the JSON text between the sources of the changed cells."""
    spans = [code.source.span for code in scan.codes if code.number in changed]
    starts, ends = (
        [0, *(span.end for span in spans)],
        [*(span.start for span in spans), len(scan.text)],
    )
    return [scan.text[start:end] for start, end in zip(starts, ends, strict=True)]


def _scanned(text: str, filename: str) -> _Scan:
    try:
        return _Scan(text).run()
    except JSONDecodeError as error:
        words = (
            f"{filename}: not a notebook: {error.msg} (line {error.lineno}, column "
            f"{error.colno} of the JSON text)"
        )
        raise SourceError(words, (error.lineno, error.colno)) from error
    except RecursionError as error:
        raise SourceError(f"{filename}: not a notebook: {_MOST_NESTED}") from error


def _foreign(scan: _Scan) -> str:
    """Return why a notebook is left alone, or an empty string."""
    span = scan.fields.get("nbformat")
    version = scan.text[span.start : span.end] if span else ""
    if not version.isdecimal():
        return f"is no notebook: its nbformat is {'no number' if span else 'missing'}"
    if int(version[:9]) < _FORMAT:
        return (
            f"has nbformat {version}; `jupyter nbconvert --to notebook` makes it {_FORMAT}, "
            "which torchlint reads"
        )
    if int(version[:9]) > _FORMAT:
        return f"has nbformat {version[:9]}; torchlint reads {_FORMAT}"
    if not scan.cells:
        return "has no cells"
    metadata = scan.value(scan.fields.get("metadata"))
    for section, key in (("kernelspec", "language"), ("language_info", "name")):
        language = _inside(_inside(metadata, section), key)
        if isinstance(language, str) and language and not _is_python(language):
            return f"is written in {language[:40]}, not in Python"
    return ""


def _inside(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _is_python(language: str) -> bool:
    return language.lower().startswith(("python", "ipython"))


def _language(scan: _Scan, code: _Code) -> str:
    """Return the language of one cell: VS Code lets each have its own."""
    span = code.fields.get("metadata")
    if span is None or '"vscode"' not in scan.text[span.start : span.end]:
        return "python"
    language = _inside(_inside(scan.value(span), "vscode"), "languageId")
    return "python" if not isinstance(language, str) or _is_python(language) else language


def _cell(scan: _Scan, code: _Code, index: LineIndex) -> Cell:
    name = scan.value(code.fields.get("id"))
    source = code.source
    rows = []
    ends = []
    total = 0
    for span, value in source.tokens:
        total += len(value)
        ends.append((total, index.position(span.start).row))
    default = index.position(source.span.start).row
    at = 0
    for start in LineIndex(source.text).starts:
        while at < len(ends) - 1 and ends[at][0] <= start:
            at += 1
        rows.append(ends[at][1] if ends else default)
    return Cell(code.number, source.text, name if isinstance(name, str) else "", tuple(rows))
