"""Nodes of libcst's that know what code says, and learn how it is written when somebody asks.

Two thirds of libcst's tree are white space, commas and parentheses, which hardly anybody reads: the
analysis asks for names and operators, and so do most rules. A lean node has the fields that carry
meaning; the others, its spelling, are empty. The first to read one has libcst parse the statement,
where that is not enough the statement of the module around it, and at last the whole text, and all
nodes in it get theirs: what is read is the same as if libcst had made the tree. No caller knows the
difference.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.source.python import MisreadError

SKIPPED = frozenset(
    (
        "lpar rpar lbracket rbracket lbrace rbrace comma semicolon equal colon dot leading_lines "
        "header "
        "footer lines_after_decorators trailing_whitespace newline operator star asynchronous "
        "indent "
        "first_line empty_lines default_indent default_newline has_trailing_newline encoding "
        "relative walrus "
        "start end prefix posonly_ind star_arg_ind type_parameters "
        "first_colon second_colon leading_whitespace last_line trailing_comma"
    ).split()
)
"""Fields below which nothing stands that carries meaning."""
_WORDS = frozenset(("asynchronous", "operator", "relative", "star", "start", "end"))
"""Fields that the walk over a tree skips, as nothing stands below them, but that mean something."""


class _DifferentError(Exception):
    """Two nodes do not mean the same."""


_SEMICOLON = regex(rb"[ \t]*;")
_BLOCKS = frozenset(("body", "finalbody", "handlers", "orelse"))
_ABOVE = "leading_lines"
"""What stands above a statement is told by the text of the whole file alone."""


class Body(list[cst.CSTNode]):
    """The statements of a lean module: a list that one may hold weakly, so that no tree holds
    itself."""

    __slots__ = ("__weakref__",)


class Spelling:
    """How the nodes of one lean tree are written.

    Args:
        text: what the tree says.
        data: the same in UTF-8.
        newline: the first newline in it.
        parse: gives libcst's tree of a text.
    """

    __slots__ = ("_body", "_data", "_exact", "_indent", "_newline", "_parse", "_text")

    def __init__(
        self, text: str, data: bytes, newline: str, parse: Callable[[str], cst.Module]
    ) -> None:
        self._text = text
        self._data = data
        self._newline = newline
        self._parse = parse
        self._body: Callable[[], Body | None] = lambda: None
        self._indent = ""
        self._exact: cst.Module | None = None

    def belongs_to(self, body: Body, indent: str) -> None:
        """Take note of the tree's statements, and of how deep its first block is indented."""
        self._body = weakref.ref(body)
        self._indent = indent

    def learn(self, node: cst.CSTNode) -> None:
        """Give each node of the tree its spelling; `node` is the one that was asked.

        Raises:
            MisreadError: libcst does not read the same.
        """
        if self._exact is None:
            try:
                exact = self._parse(self._text)
                body = self._body()
                if body is not None:
                    _spell(body, exact.body)
            except (cst.ParserSyntaxError, cst.CSTValidationError, _DifferentError) as error:
                raise MisreadError(self._text) from error
            self._exact = exact.with_changes(body=())
        if isinstance(node, cst.Module):
            _copy(node, self._exact)

    def learn_part(self, part: Part) -> None:
        """Give a statement of the module and all nodes in it their spelling, but for the lines
        above it, if that can be had.

        Raises:
            MisreadError: libcst does not read the same.
        """
        body = self._body()
        if body is None or part.is_read:
            return
        part.is_read = True
        theirs = self._read_part(part)
        ours: Any = body[part.top]
        if isinstance(part, Block):
            ours = _holder(ours, part.unit)
        if ours is None or theirs is None:
            return
        above = spelled(type(ours))[0].get(ours)
        try:
            _spell([ours], [theirs])
        except _DifferentError as error:
            raise MisreadError(self._text) from error
        spelled(type(ours))[0].set(ours, above)

    def _read_part(self, part: Part) -> cst.CSTNode | None:
        """Return libcst's tree of a part."""
        start, data, newline = part.start, self._data, self._newline.encode()
        row = max(data.rfind(b"\n", 0, start), data.rfind(b"\r", 0, start)) + 1
        one = self._indent.encode()
        depth = (start - row) // len(one)
        if data[row:start] != one * depth:
            return None
        # What stands below the last block belongs to it, or to the next statement.
        behind = b"" if part.end == len(data) else b"pass" + newline
        above = b"".join(one * each + b"if 1:" + newline for each in range(depth))
        code = above + data[row : part.end] + behind
        try:
            exact = self._parse(code.decode("utf-8", "surrogatepass"))
        except (cst.ParserSyntaxError, cst.CSTValidationError):
            return None
        if (exact.default_indent, exact.default_newline) != (self._indent, self._newline):
            return None
        found: Any = exact.body[0]
        for _ in range(depth):
            found = found.body.body[0]
        return cast(cst.CSTNode, found)

    def learn_statement(self, unit: Unit) -> None:
        """Give the nodes of one statement their spelling, of a compound one those of its header, if
        that can be had.

        Raises:
            MisreadError: libcst does not read the same.
        """
        body = self._body()
        ours = _holder(body[unit.around.top], unit) if body is not None else None
        theirs = self._statement(unit)
        if ours is None or theirs is None or type(ours) is not type(theirs):
            return
        try:
            if not unit.compound:
                _spell(ours.body, theirs.body)  # type: ignore[attr-defined]
                return
            for slot in meant(type(ours)):
                if slot.name not in _BLOCKS:
                    _spell([slot.get(ours)], [slot.get(theirs)])
            _copy(ours, theirs, but=_ABOVE)
        except _DifferentError as error:
            raise MisreadError(self._text) from error

    def _statement(self, unit: Unit) -> cst.CSTNode | None:
        """Return libcst's tree of one statement, with an empty block if it is a compound one."""
        start, end, data = unit.start, unit.end, self._data
        row = max(data.rfind(b"\n", 0, start), data.rfind(b"\r", 0, start)) + 1
        indent = data[row:start]
        if indent.strip(b" \t"):
            return None
        if unit.compound:
            code = data[start:end] + b"pass"
            code = code[2:] if code.startswith(b"elif") else code
        else:
            semicolon = _SEMICOLON.match(data, end)
            code = data[start : semicolon.end() if semicolon is not None else end]
        above = b"if 1:" if indent else b""
        newline = self._newline.encode()
        try:
            found = self._parse(
                (above + newline + indent + code + newline).decode("utf-8", "surrogatepass")
            )
        except (cst.ParserSyntaxError, cst.CSTValidationError):
            return None
        body = found.body[0].body.body if indent else found.body  # type: ignore[union-attr]
        return body[0] if len(body) == 1 else None


class Part:
    """The nodes of one statement of a lean module, all in it included.

    Args:
        around: of the whole tree.
        top: its place among the statements of the module.
        start: its place in the text, encoded.
        end: where the next one begins, or the text ends.
    """

    __slots__ = ("around", "end", "is_read", "spelling", "start", "top")

    def __init__(self, around: Spelling | Part, top: int, start: int, end: int) -> None:
        self.around = around
        self.spelling: Spelling = around if isinstance(around, Spelling) else around.spelling
        self.top = top
        self.start = start
        self.end = end
        self.is_read = False

    def learn(self, node: cst.CSTNode) -> None:
        """Give the nodes of the statement their spelling; `node` is the one that was asked."""
        self.spelling.learn_part(self)


class Block(Part):
    """The nodes of one compound statement in a block, all in it included.

    Args:
        around: of the statement, or the compound one, in which it lies.
        unit: of its header.
        end: where the next statement begins.
    """

    __slots__ = ("unit",)

    def __init__(self, around: Part, unit: Unit, end: int) -> None:
        super().__init__(around, around.top, unit.start, end)
        self.unit = unit


class Unit:
    """The nodes of one statement of a lean tree, of a compound one those of its header.

    Args:
        around: the statement of the module in which it lies.
        start: its place in the text, encoded.
        end: its end; of a compound statement where its first block begins.
        compound: whether it is one.
    """

    __slots__ = ("around", "compound", "end", "start")

    def __init__(self, around: Part, start: int, end: int, compound: bool) -> None:
        self.around = around
        self.start = start
        self.end = end
        self.compound = compound

    def learn(self, node: cst.CSTNode) -> None:
        """Give the nodes of the statement their spelling; `node` is the one that was asked."""
        self.around.spelling.learn_statement(self)


_LEAN = (Unit, Block, Part, Spelling)
"""What stands in a node whose spelling is not known, from the nearest to the whole text."""


def _holder(top: cst.CSTNode, unit: Unit) -> cst.CSTNode | None:
    """Return the statement that a unit is about, at or below a statement of the module."""
    stack: list[Any] = [top]
    while stack:
        at = stack.pop()
        first = at.body[0] if type(at) is cst.SimpleStatementLine else at
        if spelled(type(first))[0].get(first) is unit:
            return cast(cst.CSTNode, at)
        if first is not at:
            continue
        for slot in meant(type(at)):
            if slot.name in _BLOCKS:
                below = slot.get(at)
                stack.extend(
                    below if isinstance(below, list) else [below] if below is not None else ()
                )
    return None


@frozen
class Slot:
    """Where nodes keep a field: its name, and what reads and writes it in C."""

    name: str
    get: Callable[[Any], Any]
    set: Callable[[Any, Any], None]


def _is_spelling(name: str) -> bool:
    return name not in _WORDS and (name in SKIPPED or name.startswith("whitespace"))


def slots(kind: Any) -> tuple[Slot, ...]:
    """Return the slots of a class of nodes in the order of its fields."""
    out = []
    for each in dataclasses.fields(kind):
        at: Any = next(
            (vars(base)[each.name] for base in kind.__mro__ if each.name in vars(base)), None
        )
        member = _members.get(at, at)
        if type(member).__name__ == "member_descriptor":
            out.append(Slot(each.name, member.__get__, member.__set__))
    return tuple(out)


class _Spelled(dict[Any, tuple[Slot, ...]]):
    """By class of nodes the slots that say how it is written; the first of a lean node holds its
    unit."""

    def __missing__(self, kind: Any) -> tuple[Slot, ...]:
        every = [slot for slot in slots(kind) if _is_spelling(slot.name)]
        found = self[kind] = tuple(sorted(every, key=lambda slot: slot.name != _ABOVE))
        return found


class _Meant(dict[Any, tuple[Slot, ...]]):
    """By class of nodes the slots that carry meaning."""

    def __missing__(self, kind: Any) -> tuple[Slot, ...]:
        found = self[kind] = tuple(slot for slot in slots(kind) if not _is_spelling(slot.name))
        return found


_spelled, _meant = _Spelled(), _Meant()
spelled, meant = _spelled.__getitem__, _meant.__getitem__
_members: dict[Any, Any] = {}
"""For each property that was put in the place of a slot, the slot."""


def watch(kind: Any) -> None:
    """Have the fields of a class that say how it is written ask for that where they are empty."""
    for name, member in list(vars(kind).items()):
        if type(member).__name__ == "member_descriptor" and _is_spelling(name):
            read = property(_reader(name, member.__get__), member.__set__)
            _members[read] = member
            setattr(kind, name, read)


def _reader(name: str, get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(node: Any) -> Any:
        try:
            found = get(node)
            if type(found) not in _LEAN:
                return found
        except AttributeError:
            found = spelled(type(node))[0].get(node)
            if type(found) not in _LEAN:
                raise
        anchor = found
        if type(found) is Unit and name == _ABOVE:
            found = found.around
        while type(found) is not Spelling:
            found.learn(node)
            try:
                known = get(node)
                if known is not anchor:
                    return known
            except AttributeError:
                pass
            found = found.around
        found.learn(node)
        return get(node)

    return read


def lean(kind: Any) -> Callable[..., Any]:
    """Return a function that makes a node of a class: of the tree's spelling and the fields that
    carry meaning."""
    names: dict[str, Any] = {"new": object.__new__, "kind": kind}
    params, lines = ["spelling"], ["node = new(kind)"]
    if spelled(kind):
        names["anchor"] = spelled(kind)[0].set
        lines.append("anchor(node, spelling)")
    for slot in meant(kind):
        names[f"set_{slot.name}"] = slot.set
        params.append(slot.name)
        lines.append(f"set_{slot.name}(node, {slot.name})")
    text = "\n    ".join([f"def make({', '.join(params)}):", *lines, "return node"])
    exec(text, names)  # noqa: S102 - all names in it are libcst's fields
    made: Callable[..., Any] = names["make"]
    return made


def _copy(one: cst.CSTNode, other: cst.CSTNode, but: str = "") -> None:
    for slot in spelled(type(one)):
        if slot.name != but:
            slot.set(one, slot.get(other))


def _spell(ours: Sequence[cst.CSTNode], theirs: Sequence[cst.CSTNode]) -> None:
    """Give nodes, and all below them, the spelling of others that mean the same.

    Raises:
        _DifferentError: they do not mean the same.
    """
    pairs: list[tuple[Any, Any]] = []
    _pair(ours, theirs, pairs)
    while pairs:
        one, other = pairs.pop()
        kind = type(one)
        for slot in _spelled[kind]:
            slot.set(one, slot.get(other))
        for slot in _meant[kind]:
            _pair(slot.get(one), slot.get(other), pairs)


def means_same(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Say whether two nodes mean the same, however they are written."""
    pairs: list[tuple[Any, Any]] = [(one, other)] if type(one) is type(other) else []
    try:
        for one, other in pairs:
            for slot in meant(type(one)):
                _pair(slot.get(one), slot.get(other), pairs)
    except _DifferentError:
        return False
    return bool(pairs)


def _pair(one: Any, other: Any, pairs: list[tuple[Any, Any]]) -> None:
    """Add the nodes in two values of one field to the pairs of nodes that are still to be
    compared."""
    if type(one) is str or one is None:
        if one != other:
            raise _DifferentError
    elif isinstance(one, cst.CSTNode):
        if type(one) is not type(other):
            raise _DifferentError
        pairs.append((one, other))
    elif isinstance(one, (list, tuple)):
        if not isinstance(other, (list, tuple)) or len(one) != len(other):
            raise _DifferentError
        for each, beside in zip(one, other, strict=True):
            _pair(each, beside, pairs)
    elif one != other:
        raise _DifferentError
