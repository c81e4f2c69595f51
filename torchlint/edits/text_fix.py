"""From a rule's node edits to text edits on the file as it was read.

Text that no edit names stays as it is, byte for byte, but for lines that get too long and are
wrapped: new code is cut to what differs from the old, takes the newlines of the line it stands on
and the indentation of its statement. What cannot be written down safely (code inside an f-string, a
statement that shares its line, a comment that would go) is withheld with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

import libcst as cst

from torchlint.base.finding import Edit, TextFix
from torchlint.base.regex import regex
from torchlint.base.span import Span
from torchlint.edits import expressions
from torchlint.edits.imports import import_splices
from torchlint.edits.positions import rendered
from torchlint.edits.splice import EditContext, Line, Splice, WithheldError
from torchlint.edits.wrapping import comments_of, wrapped
from torchlint.fixes.fix import (
    Append,
    Fix,
    InsertAfter,
    InsertBefore,
    NeedImport,
    NodeEdit,
    Prepend,
    Remove,
    Replace,
)
from torchlint.source.notebook import MARK

__all__ = ["EditContext", "text_fix"]

_PRAGMA = regex(r"#\s*(noqa|type:|fmt:|%%|pragma|pylint|torchlint)")
_LOST_COMMENT = "it would lose a comment"


def text_fix(fix: Fix, context: EditContext) -> TextFix | str:
    """Return the fix as text edits, or in one clause why it cannot be had.

    A fix that would lose a comment has its edits and the reason in `TextFix.withheld`.
    """
    try:
        ordered = _in_order(_splices(fix, context), context.text)
        ordered = _closed_up(ordered, context)
        splices = wrapped(ordered, context)
    except WithheldError as error:
        return str(error)
    position = context.index.position
    edits = tuple(
        Edit(splice.span, splice.text, position(splice.span.start), position(splice.span.end))
        for splice in splices
    )
    if not edits:
        return "it changes nothing"
    spare = [each.about for each in ordered if each.about is not None]
    withheld = _LOST_COMMENT if _loses_comment(splices, spare, context) else ""
    return TextFix(fix.safety, fix.title, edits, fix.note, withheld, assumes=tuple(fix.assumes))


def _splices(fix: Fix, context: EditContext) -> list[Splice]:
    """Return the splices of all edits, unordered; imports come last, for they depend on where the
    others are."""
    removed: set[cst.CSTNode] = {
        small
        for edit in fix.edits
        if isinstance(edit, Remove) and not isinstance(edit.node, cst.If)
        for small in _smalls(edit.node, context)
    }
    made = [(edit, list(_of_edit(edit, removed, context))) for edit in fix.edits]
    found = [splice for _, splices in made for splice in splices]
    # What only goes needs no import.
    places = [
        splice.span.start
        for edit, splices in made
        if not isinstance(edit, Remove)
        for splice in splices
    ] or [splice.span.start for splice in found]
    for edit in fix.edits:
        if isinstance(edit, NeedImport):
            found.extend(import_splices(edit, context, places))
    return found


def _of_edit(edit: NodeEdit, removed: set[cst.CSTNode], context: EditContext) -> Iterator[Splice]:
    if isinstance(edit, Remove):
        yield from _remove(edit, removed, context)
    elif isinstance(edit, InsertBefore | InsertAfter):
        yield _insert(edit, context)
    elif not isinstance(edit, NeedImport):
        splices = _of_expression(edit, context)
        yield from expressions.checked_inside_strings(edit.node, splices, context)


def _of_expression(edit: Append | Prepend | Replace, context: EditContext) -> Iterator[Splice]:
    if isinstance(edit, Append):
        yield from expressions.append(edit, context)
    elif isinstance(edit, Prepend):
        yield from expressions.prepend(edit, context)
    elif isinstance(edit.node, cst.BaseStatement | cst.BaseSmallStatement):
        yield from _replace_statement(edit, context)
    else:
        yield from expressions.replace(edit, context)


def _in_order(splices: Sequence[Splice], text: str) -> list[Splice]:
    """Return the splices in text order, insertions at one place joined in the order given, new
    lines last; what is put behind a line that goes takes its place.

    Raises:
        WithheldError: two of them change the same text.
    """
    ordered: list[Splice] = []
    for splice in sorted(splices, key=_place):
        last = ordered[-1] if ordered else None
        if last is not None and last.span == splice.span and splice.span.start == splice.span.end:
            ordered[-1] = Splice(last.span, last.text + splice.text)
        elif last is not None and (taken := _behind_what_goes(last, splice, text)) is not None:
            ordered[-1] = taken
        elif last is not None and (last.span.overlaps(splice.span) or last.span == splice.span):
            raise WithheldError("two of its edits change the same code")
        else:
            ordered.append(splice)
    return ordered


def _place(splice: Splice) -> tuple[int, int, bool]:
    return splice.span.start, splice.span.end, splice.text.startswith(("\n", "\r"))


def _behind_what_goes(gone: Splice, added: Splice, text: str) -> Splice | None:
    """Return both splices as one where lines are deleted and others put behind the last of them."""
    newline = text[added.span.start : gone.span.end]
    at_end = gone.span.start < added.span.start == added.span.end and newline in ("\n", "\r\n")
    if gone.text or not at_end or not added.text.startswith(newline):
        return None
    return Splice(gone.span, added.text[len(newline) :] + newline)


def _loses_comment(splices: Sequence[Splice], spare: Sequence[Span], context: EditContext) -> bool:
    """Say whether a comment inside the edited spans is not in the new text, but for those in
    `spare`."""
    text = context.text
    if not any("#" in text[splice.span.start : splice.span.end] for splice in splices):
        return False
    old = Counter(
        text[comment.start : comment.end]
        for comment in comments_of(text)
        if any(splice.span.overlaps(comment) for splice in splices)
        and not any(span.overlaps(comment) for span in spare)
    )
    new = "\n".join(splice.text for splice in splices)
    return any(new.count(comment) < count for comment, count in old.items())


def _smalls(node: cst.CSTNode, context: EditContext) -> Sequence[cst.BaseSmallStatement]:
    """Return the small statements that `Remove` takes away: all of a line, or the one."""
    if isinstance(node, cst.SimpleStatementLine):
        return node.body
    if isinstance(node, cst.BaseSmallStatement):
        return (node,)
    above = context.parent(node)
    if isinstance(above, cst.Expr):
        return (above,)
    raise WithheldError("only simple statements can be removed")


def _remove(edit: Remove, removed: set[cst.CSTNode], context: EditContext) -> Iterator[Splice]:
    if isinstance(edit.node, cst.If):
        yield _cut_line(_insertable(edit.node, context), context)
        return
    smalls = _smalls(edit.node, context)
    line = context.parent(smalls[0])
    if not isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        raise WithheldError("the statement is not in a block")
    if not set(line.body) <= removed:
        for small in smalls:
            yield _cut_small(small, line.body, context)
        return
    if smalls[0] is not line.body[0]:
        return
    block = context.parent(line)
    whole = Span(context.span(smalls[0]).start, context.span(line.body[-1]).end)
    lines = block.body if isinstance(block, cst.IndentedBlock) else ()
    if isinstance(line, cst.SimpleStatementSuite) or (
        lines and line is lines[0] and _all_gone(lines, removed)
    ):
        yield Splice(whole, "pass")
    elif edit.remark and (remark := line.trailing_whitespace.comment) is not None:
        yield Splice(Span(whole.start, context.text.index(remark.value, whole.end)), "")
    else:
        yield replace(_cut_line(line, context), comments=edit.comments)


def _all_gone(lines: Sequence[cst.BaseStatement], removed: set[cst.CSTNode]) -> bool:
    return all(
        isinstance(line, cst.SimpleStatementLine) and set(line.body) <= removed for line in lines
    )


def _cut_small(
    small: cst.BaseSmallStatement, line: Sequence[cst.BaseSmallStatement], context: EditContext
) -> Splice:
    """Return the splice that takes one statement out of ``a; b``, with one semicolon."""
    at = next(number for number, other in enumerate(line) if other is small)
    span = context.span(small)
    if at + 1 < len(line):
        return Splice(Span(span.start, context.span(line[at + 1]).start), "")
    return Splice(Span(context.span(line[at - 1]).end, span.end), "")


def _cut_line(line: Line, context: EditContext) -> Splice:
    """Return the splice that deletes a whole line; a file without a final newline stays without
    one."""
    index = context.index
    start = context.line_start(context.span(line).start)
    row = index.position(context.after_line(line)).row
    first = index.position(start).row
    if row < len(index):
        return Splice(Span(start, index.starts[row]), "", _leads(line, context))
    if first > 1 and start == index.starts[first - 1]:
        start = index.line_end(first - 1)
    return Splice(Span(start, len(context.text)), "")


def _leads(line: Line, context: EditContext) -> bool:
    """Say whether a statement is the first of a block, or of a notebook's cell, with no comment
    above it."""
    block = context.parent(line)
    lines = list(block.body) if isinstance(block, cst.IndentedBlock | cst.Module) else []
    at = next((number for number, each in enumerate(lines) if each is line), None)
    above = [*getattr(block, "header", ())] if isinstance(block, cst.Module) and not at else []
    return (
        at is not None
        and (at == 0 or _is_seam(lines[at - 1]))
        and not any(empty.comment for empty in (*above, *line.leading_lines))
    )


def _is_seam(line: cst.CSTNode) -> bool:
    """Say whether a line stands between two cells of a notebook, see
    `torchlint.source.notebook`."""
    # A pattern would read how every line is written, which costs that libcst reads the file.
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(line.body[0], cst.Pass):
        return False
    comment = line.trailing_whitespace.comment
    return len(line.body) == 1 and comment is not None and comment.value.startswith(f"# {MARK}")


def _closed_up(splices: Sequence[Splice], context: EditContext) -> list[Splice]:
    """Return the splices, where lines that go take along what is between them if that is blank, and
    the fewer of the blank lines above and below them; at the start of a block, those below."""
    starts = set(context.index.starts)
    found: list[Splice] = []
    for splice in splices:
        last = found[-1] if found else None
        if last is not None and _goes(last, starts) and _goes(splice, starts):
            between = context.text[last.span.end : splice.span.start]
            if not between.strip():
                whole = Span(last.span.start, splice.span.end)
                both = last.comments and splice.comments
                found[-1] = Splice(whole, "", last.leads, both)
                continue
        if last is not None and last.span.end == splice.span.start and splice.leads:
            splice = replace(splice, leads=False)  # Something else is put in front.
        found.append(splice)
    return [
        _between_blanks(_with_comments(each, context), context) if _goes(each, starts) else each
        for each in found
    ]


def _with_comments(splice: Splice, context: EditContext) -> Splice:
    """Return a splice that deletes lines, with the comments right above them where nothing that
    they may speak of is left behind it."""
    index, text = context.index, context.text
    if not splice.comments:
        return splice
    first = row = index.position(splice.span.start).row
    indent = _indent(index.line(first))
    after = text[splice.span.end :].partition("\n")[0]
    if after.strip() and not after.lstrip().startswith("#") and _indent(after) == indent:
        return splice
    while (
        row > 1
        and index.line(row - 1).startswith(f"{indent}# ")
        and not _PRAGMA.match(index.line(row - 1).strip())
    ):
        row -= 1
    if row == first:
        return splice
    start = index.starts[row - 1]
    gone = Span(start, splice.span.start)
    return replace(splice, span=Span(start, splice.span.end), about=gone)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _goes(splice: Splice, starts: Set[int]) -> bool:
    """Say whether a splice deletes whole lines, and not the last."""
    return not splice.text and splice.span.start in starts and splice.span.end in starts


def _between_blanks(splice: Splice, context: EditContext) -> Splice:
    index, span = context.index, splice.span
    if span.end == len(context.text):
        return splice
    first, behind = index.position(span.start).row, index.position(span.end).row
    above, below = _blanks(context, first - 1, -1), _blanks(context, behind, 1)
    if splice.leads and behind - 1 + below < len(index):
        return replace(splice, span=Span(span.start, index.starts[behind - 1 + below]))
    if above <= below:
        return replace(splice, span=Span(index.starts[first - 1 - above], span.end))
    if behind - 1 + below < len(index):
        return replace(splice, span=Span(span.start, index.starts[behind - 1 + below]))
    return splice


def _blanks(context: EditContext, row: int, step: int) -> int:
    """Return how many lines from one on, upwards or downwards, are blank."""
    index, found = context.index, 0
    while 1 <= row <= len(index) and not (
        context.text[index.starts[row - 1] : index.line_end(row)].strip()
    ):
        row, found = row + step, found + 1
    return found


def _insert(edit: InsertBefore | InsertAfter, context: EditContext) -> Splice:
    """Return the splice that puts statements on lines of their own around a statement."""
    line = _insertable(edit.statement, context)
    indent = context.indent(line)
    try:
        new = cst.parse_module(edit.code.strip("\n"))
    except cst.ParserSyntaxError:
        raise WithheldError("the code to insert does not parse") from None
    tree = _as_deep(context.tree, getattr(line, "body", None), context.parent(line))
    lines = [
        indent + rendered(statement, tree, indent) + _remark(statement) for statement in new.body
    ]
    start = context.line_start(context.span(line).start)
    if isinstance(edit, InsertBefore):
        return Splice(
            Span(start, start), context.as_written("".join(f"{code}\n" for code in lines), start)
        )
    end = context.after_line(line)
    return Splice(Span(end, end), context.as_written("".join(f"\n{code}" for code in lines), end))


def _as_deep(tree: cst.Module, *blocks: object) -> cst.Module:
    """Return a tree by which new code is indented as the first of some blocks that are is."""
    block = next((each for each in blocks if isinstance(each, cst.IndentedBlock)), None)
    own = block.indent if block is not None else None
    return tree if own is None else tree.with_changes(default_indent=own)


def _remark(statement: cst.CSTNode) -> str:
    """Return the comment behind a statement on its line, as it is written."""
    rest = getattr(statement, "trailing_whitespace", None)
    comment = rest.comment if isinstance(rest, cst.TrailingWhitespace) else None
    return f"  {comment.value}" if comment is not None else ""


def _insertable(node: cst.CSTNode, context: EditContext) -> Line:
    """Return the line of a statement next to which a line can be put.

    Raises:
        WithheldError: the statement shares its line, or is the ``elif`` of another.
    """
    line = context.line_of(node)
    at: cst.CSTNode | None = node
    while at is not None and at is not line:
        if isinstance(at, cst.SimpleStatementSuite):
            raise WithheldError("the statement shares its line with other code")
        at = context.parent(at)
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) > 1:
        raise WithheldError("the statement shares its line with other code")
    if isinstance(context.parent(line), cst.If):
        raise WithheldError("no statement can stand next to an elif")
    return line


def _replace_statement(edit: Replace, context: EditContext) -> Iterator[Splice]:
    """Yield the splice for a statement; comments above, behind and below the old one stay."""
    old, new = edit.node, edit.new
    if isinstance(old, cst.SimpleStatementLine) and isinstance(new, cst.BaseSmallStatement):
        new = cst.SimpleStatementLine([new])
    small = isinstance(old, cst.BaseSmallStatement)
    if isinstance(new, cst.BaseSmallStatement) is not small:
        line = context.parent(old)
        if not small or not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
            raise WithheldError("a statement inside a line cannot become a block")
        old = line
    span = context.span(old)
    code = rendered(new, context.tree, context.indent(old))
    if isinstance(context.parent(old), cst.If):
        if not isinstance(new, cst.If):
            raise WithheldError("an elif can only become an elif")
        code = f"el{code}"
    yield from expressions.trimmed(span, code, context)
