"""Edits inside expressions: replacing, appending, prepending, and the parentheses they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.span import Span
from torchlint.edits.positions import rendered
from torchlint.edits.splice import EditContext, Splice, WithheldError
from torchlint.fixes.fix import Append, Prepend, Replace
from torchlint.semantic.code.tree import keyword_of

_COMMENT = regex(r"[ \t]*#")
_TOKEN = regex(r"\w+|[^\S\r\n]+|\r\n|[^\w ]")
_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Subscript,
    cst.Call,
    cst.BaseString,
    cst.BaseNumber,
    cst.BaseList,
    cst.BaseSet,
    cst.BaseDict,
    cst.Ellipsis,
)
_LOOSEST = (cst.NamedExpr, cst.Yield, cst.GeneratorExp)
_TIGHTNESS: tuple[tuple[type[cst.CSTNode], int], ...] = (
    (cst.BooleanOperation, 2),
    (cst.Comparison, 4),
    (cst.BinaryOperation, 5),
    (cst.UnaryOperation, 6),
    (cst.Await, 7),
)
"""How tightly an expression binds; atoms 8, ``not`` 3, `lambda` and the ternary 0."""
_DEMANDS: tuple[tuple[tuple[type[cst.CSTNode], ...], int], ...] = (
    ((cst.Attribute, cst.Await, cst.Call, cst.Subscript), 8),
    ((cst.BinaryOperation, cst.UnaryOperation), 7),
    ((cst.Comparison, cst.ComparisonTarget, cst.StarredElement, cst.StarredDictElement), 5),
    ((cst.BooleanOperation,), 3),
    ((cst.CompFor, cst.CompIf, cst.IfExp), 2),
)
"""How tightly an operand of these must bind to go without parentheses; elsewhere anything does."""
_TUPLE_PLACES = (cst.Assign, cst.AugAssign, cst.Expr, cst.For, cst.Return, cst.AssignTarget)
Field = cst.FormattedStringExpression | cst.TemplatedStringExpression
_FIELDS = (cst.FormattedStringExpression, cst.TemplatedStringExpression)
_PLAIN = regex(r"[\w.()\[\], ]*")
"""What may stand in a replacement field of any f-string: no quotes, braces, colons, backslashes or
new lines."""


def checked_inside_strings(
    node: cst.CSTNode, splices: Iterable[Splice], context: EditContext
) -> Iterator[Splice]:
    """Yield the splices of an edit of `node`.

    Raises:
        WithheldError: `node` is in a replacement field of an f-string, and it is not certain that
            what is written there means the same as elsewhere, or the field shows its own code.
    """
    field = _field_around(node, context)
    for splice in splices:
        if field is not None and (field.equal is not None or not _PLAIN.fullmatch(splice.text)):
            raise WithheldError("the code is inside an f-string")
        yield splice


def _field_around(node: cst.CSTNode, context: EditContext) -> Field | None:
    at = context.parent(node)
    while at is not None and not isinstance(at, cst.BaseSuite):
        if isinstance(at, _FIELDS):
            return at
        at = context.parent(at)
    return None


def replace(edit: Replace, context: EditContext) -> Iterator[Splice]:
    """Yield the splice that puts ``edit.new`` in the place of ``edit.node``, cut to what
    differs."""
    old, new = edit.node, edit.new
    keep = _keeps_parentheses(old, new)
    span = context.span(old, whole=not keep)
    if (
        isinstance(old, cst.Call)
        and isinstance(new, cst.Call)
        and _is_commented(span, context.text)
    ):
        new = _added_above(old, new)
    code = rendered(new, context.tree, context.indent(old))
    if (
        isinstance(new, cst.BaseExpression)
        and not keep
        and not new.lpar
        and _needs_parentheses(old, new, code, context)
    ):
        code = f"({code})"
    yield from trimmed(span, _spaced(span, code, context.text), context)


def _is_commented(span: Span, text: str) -> bool:
    """Say whether the last of several lines of code has its bracket and a comment at its end."""
    last = text[span.start : span.end].rpartition("\n")
    return bool(last[1]) and bool(last[2].strip(" \t)")) and bool(_COMMENT.match(text, span.end))


def _added_above(old: cst.Call, new: cst.Call) -> cst.Call:
    """Return a call whose new keywords stand above its last argument: so the comment behind that
    stays with it."""
    count = len(old.args)
    names = [keyword_of(arg) for arg in new.args]
    more = new.args[count:]
    if not count or not more or "" in names[count - 1 :]:
        return new
    last = old.args[-1].keyword
    if last is None or last.value != names[count - 1]:
        return new
    order = [*new.args[: count - 1], *more, new.args[count - 1]]
    args = [
        arg.with_changes(comma=place.comma, whitespace_after_arg=place.whitespace_after_arg)
        for arg, place in zip(order, new.args, strict=True)
    ]
    return new.with_changes(args=args)


def append(edit: Append, context: EditContext) -> Iterator[Splice]:
    """Yield the splices that put ``edit.code`` behind ``edit.node``, in parentheses where it must
    be."""
    span = context.span(edit.node)
    code = _laid_out(edit.code, edit.node, span, context)
    if code.startswith((".", "[", "(")) and not _takes_trailers(edit.node):
        yield Splice(Span(span.start, span.start), "(")
        code = f"){code}"
    yield Splice(Span(span.end, span.end), code)


def prepend(edit: Prepend, context: EditContext) -> Iterator[Splice]:
    """Yield the splice that puts ``edit.code`` in front of ``edit.node``."""
    span = context.span(edit.node)
    yield Splice(Span(span.start, span.start), _laid_out(edit.code, edit.node, span, context))


def trimmed(span: Span, code: str, context: EditContext) -> Iterator[Splice]:
    """Yield the splice from the text in `span` to `code` without the tokens that both start or end
    with.

    Nothing is yielded where they are equal.
    """
    old, new = context.text[span.start : span.end], code
    ours, theirs = _TOKEN.findall(old), _TOKEN.findall(new)
    limit = min(len(ours), len(theirs))
    head = next((k for k in range(limit) if ours[k] != theirs[k]), limit)
    tail = next((k for k in range(limit - head) if ours[-1 - k] != theirs[-1 - k]), limit - head)
    lead = sum(map(len, ours[:head]))
    trail = sum(map(len, ours[len(ours) - tail :]))
    if old != new:
        start = span.start + lead
        yield Splice(
            Span(start, span.end - trail), context.as_written(new[lead : len(new) - trail], start)
        )


def _laid_out(code: str, node: cst.CSTNode, span: Span, context: EditContext) -> str:
    """Return `code` with the file's newlines, lines after the first indented like the statement of
    `node`."""
    return context.as_written(code.replace("\n", "\n" + context.indent(node)), span.start)


def _spaced(span: Span, code: str, text: str) -> str:
    """Return `code` with a space where it would run into a word: ``return(x)`` to ``return y``."""
    before, after = text[: span.start][-1:], text[span.end :][:1]
    lead = " " if _is_word(before) and (_is_word(code[:1]) or code[:1] in "\"'") else ""
    trail = " " if _is_word(after) and _is_word(code[-1:]) else ""
    return f"{lead}{code}{trail}"


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_atomic(node: cst.CSTNode) -> bool:
    """Say whether the expression binds as tightly as a name."""
    return isinstance(node, _ATOMS) or (isinstance(node, cst.Tuple) and bool(node.lpar))


def _takes_trailers(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.BaseExpression) and node.lpar:
        return True
    return _is_atomic(node) and not isinstance(node, cst.Integer)


def _keeps_parentheses(old: cst.CSTNode, new: cst.CSTNode) -> bool:
    """Say whether the parentheses around `old` stay around `new`."""
    if not isinstance(old, cst.BaseExpression) or not isinstance(new, cst.BaseExpression):
        return False
    if not old.lpar or new.lpar or isinstance(old, cst.Tuple | cst.GeneratorExp):
        return False
    return _is_atomic(old) or not _is_atomic(new)


def _needs_parentheses(
    old: cst.CSTNode, new: cst.BaseExpression, code: str, context: EditContext
) -> bool:
    """Say whether `new`, written as `code`, could be read differently, or not at all, in the place
    of `old`."""
    place = context.parent(old)
    if isinstance(new, cst.Integer) and isinstance(place, cst.Attribute):
        return True
    if not _parses(code):
        return True
    if type(new) is type(old) and not getattr(old, "lpar", ()) and _operator(new) is _operator(old):
        return False
    if isinstance(new, cst.Tuple) and not new.lpar:
        return not isinstance(place, _TUPLE_PLACES)
    return isinstance(new, _LOOSEST) or _tightness(new) < _demand(place)


def _operator(node: cst.CSTNode) -> type[object]:
    return type(getattr(node, "operator", None))


def _tightness(node: cst.CSTNode) -> int:
    if _is_atomic(node):
        return 8
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return 3
    return next((level for kind, level in _TIGHTNESS if isinstance(node, kind)), 0)


def _demand(place: cst.CSTNode | None) -> int:
    if isinstance(place, cst.UnaryOperation) and isinstance(place.operator, cst.Not):
        return 3
    return next((level for kinds, level in _DEMANDS if isinstance(place, kinds)), 0)


def _parses(code: str) -> bool:
    """Say whether the code is an expression outside of brackets too (it may hold bare newlines)."""
    if "\n" not in code and "\r" not in code:
        return True
    try:
        cst.parse_expression(code)
    except cst.ParserSyntaxError:
        return False
    return True
