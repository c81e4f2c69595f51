"""Reads of several scalars in one statement, or in statements below each other, for each of which
the host waits: they could be made at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.text import remarked
from torchlint.semantic.code.tree import COMPREHENSIONS, DISPLAYS, attr_of, root_of
from torchlint.semantic.device.host_reads import HostRead, number_kind, scalar_reads
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.detachable import detachable
from torchlint.semantic.values.inferred import inferred

FEWEST = 3
"""Reads that are worth a line of their own: for two of them nobody wants it."""
_LINES = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Expr, cst.Return)
_PLAIN = frozenset(("builtins", "math", "numpy", "time"))
"""Libraries whose functions change no tensor."""
_ACTING = frozenset(("builtins.next", "builtins.exec", "builtins.eval", "builtins.setattr"))
_METHODS = ops.COMPUTING_METHODS | ops.ALIASING_METHODS | ops.HOST_METHODS
_KNOWN = _METHODS | {"item", "append", "format", "tolist"}
_ENDS = frozenset(("min", "max", "amin", "amax"))
_NEVER_RAISE = frozenset(("all", "any", "sum", "mean", "detach"))
_TRIES = (cst.Try, cst.TryStar)


@frozen
class ReadsTogether:
    """Reads of scalars of one kind that could be made at once.

    Args:
        lines: the statements in which they are, before which all of them could be made.
        reads: the reads, in their order.
        in_order: whether nothing but known, plain calls happens before the last of them, which
            would then come behind it.
    """

    lines: Sequence[cst.SimpleStatementLine]
    reads: tuple[HostRead, ...]
    in_order: bool


@question(
    yes="it is read beside others, with which it could be read at once",
    no="nothing that is read beside it could be read with it at once",
)
def reads_together(module: Module, node: cst.BaseExpression) -> ReadsTogether | None:
    """Return the reads with which a read of a scalar could be made at once, it among them: those of
    its statement, and of its neighbours that do little else; None where it is alone."""
    line = module.statement(node)
    block = module.parent(line)
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(block, cst.IndentedBlock):
        return None
    if isinstance(module.parent(block), _TRIES):
        return None
    own = next((read for read in _reads_in(module, line) if read.node is node), None)
    kind = _number_kind(module, own) if own is not None else None
    if kind is None:
        return None
    at = list(block.body).index(line)
    first = last = at
    while first > 0 and _joins(module, block.body[first - 1 : last + 1], kind):
        first -= 1
    while last + 1 < len(block.body) and _joins(module, block.body[first : last + 2], kind):
        last += 1
    lines = [e for e in block.body[first : last + 1] if isinstance(e, cst.SimpleStatementLine)]
    reads = [read for each in lines for read in _of_kind(module, each, kind)]
    few = len({module.source_of(read.tensor) for read in reads}) < FEWEST
    if few or _read_stays_beside(module, block.body, first, last):
        return None
    return ReadsTogether(lines, tuple(reads), _in_order(module, lines, reads))


@question(
    yes="it stands beside others in a tuple, in whose place they could be read at once",
    no="nothing stands beside it in a tuple that could be read with it in their place",
    remember=False,
)
def neighbours_in_tuple(module: Module, node: cst.BaseExpression) -> ReadsTogether | None:
    """Return the reads beside a read in a tuple, it among them, all of one kind. In their place
    they can be made at once whether or not the line comes to the tuple, and whatever else it does.
    """
    line = module.statement(node)
    block = module.parent(line)
    row = module.parent(module.parent(node) or line)
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(block, cst.IndentedBlock):
        return None
    if not isinstance(row, cst.Tuple):
        return None
    plain = (_plain_read(module, each.value) for each in row.elements)
    runs = (list(run) for known, run in groupby(plain, lambda each: each is not None) if known)
    reads = [e for run in runs for e in run if any(r and r.node is node for r in run) and e]
    kinds = {_number_kind(module, read) for read in reads}
    few = len({module.source_of(read.tensor) for read in reads}) < FEWEST
    at = list(block.body).index(line)
    if few or len(kinds) > 1 or None in kinds or _read_stays_beside(module, block.body, at, at):
        return None
    return ReadsTogether((line,), tuple(reads), in_order=False)


def bound_to(line: cst.CSTNode, read: HostRead) -> cst.BaseExpression | None:
    """Return the one name, key or attribute to which a line binds a read, and does nothing else."""
    match line:
        case cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], value)]) if (
            value is read.node and isinstance(target, (cst.Name, cst.Attribute, cst.Subscript))
        ):
            return target
    return None


def _read_stays_beside(module: Module, lines: Sequence[cst.CSTNode], first: int, last: int) -> bool:
    """Say whether a line right before the first or behind the last of some makes a read by itself,
    for which the host would wait as before."""
    return any(
        any(scalar_reads(module, call))
        for line in (*lines[max(first - 1, 0) : first], *lines[last + 1 : last + 2])
        if isinstance(line, cst.SimpleStatementLine)
        for call in module.within(line, cst.Call)
    )


def _joins(module: Module, lines: Sequence[cst.CSTNode], kind: str) -> bool:
    """Say whether each of some lines reads something, and the reads of the later ones do not depend
    on what the earlier ones do."""
    bound: set[str] = set()
    local = module.function(lines[0]) is not None
    for each in lines:
        reads = _of_kind(module, each, kind)
        if not reads or any(remarked(module, line, behind=False) for line in lines[1:]):
            return False
        # Where lines only give local names to reads, what makes the tensors is called in its order,
        # and sees no difference.
        target = bound_to(each, reads[0])
        own = reads if local and target is not None else ()
        local = local and isinstance(target, cst.Name)
        used = {name for read in reads for name in _names(module, read.tensor)}
        if bound & used or not all(
            _is_harmless(module, call, own) for call in module.within(each, cst.Call)
        ):
            return False
        bound |= _bound(module, each)
    return True


def _names(module: Module, node: cst.CSTNode) -> Iterator[str]:
    """Yield the names, and the dotted names, that an expression uses."""
    for name in module.within(node, cst.Name):
        yield name.value
    for attribute in module.within(node, cst.Attribute):
        if (text := dotted_text(attribute)) is not None:
            yield text


def _bound(module: Module, line: cst.CSTNode) -> set[str]:
    """Return the names and dotted names that a line binds; of what is stored in a container, the
    container's."""
    found: set[str] = set()
    targets: list[cst.BaseExpression] = []
    for small in module.within(line, cst.Assign, cst.AnnAssign, cst.AugAssign):
        match small:
            case cst.Assign():
                targets += [each.target for each in small.targets]
            case cst.AnnAssign() | cst.AugAssign():
                targets.append(small.target)
    for target in targets:
        parts = target.elements if isinstance(target, DISPLAYS) else ()
        for each in [part.value for part in parts] or [target]:
            each = root_of(each, cst.Subscript)
            found.add(dotted_text(each) or "")
    return found


def _in_order(module: Module, lines: Sequence[cst.CSTNode], reads: Sequence[HostRead]) -> bool:
    """Say whether nothing but known, plain calls happens before the last of some reads, which would
    then come behind it."""
    last = reads[-1].node
    for line in lines:
        for call in module.within(line, cst.Call):
            around = all(module.is_within(read.node, call) for read in reads)
            later = module.before(last, call) and not module.is_within(last, call)
            if not around and not later and not _is_harmless(module, call, reads):
                return False
    return True


def _is_harmless(module: Module, call: cst.Call, reads: Sequence[HostRead]) -> bool:
    """Say whether a call changes no tensor and no name, or makes what is read."""
    if any(module.is_within(call, read.node) for read in reads):
        return True
    name = module.name(call.func)
    if name is not None:
        root, last = name.partition(".")[0], name.rpartition(".")[2]
        if root == "torch":
            return not last.endswith("_")
        return root in _PLAIN and name not in _ACTING
    func = call.func
    return attr_of(func) in _KNOWN


def _of_kind(module: Module, line: cst.CSTNode, kind: str) -> list[HostRead]:
    """Return the reads of one kind in a line; none where it is no line of its own."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return []
    if not isinstance(line.body[0], _LINES):
        return []
    return [read for read in _reads_in(module, line) if _number_kind(module, read) == kind]


def _number_kind(module: Module, read: HostRead) -> str | None:
    """Return the kind of number that a read gives; truth values are one of their own, which would
    become numbers beside numbers, and where it is not known, the tensor of which it is an end or an
    element."""
    if inferred(module, read.tensor).dtype == "bool":
        return "bool"
    if (known := number_kind(module, read)) is not None:
        return known
    match read.tensor:
        case cst.Call(cst.Attribute(base, cst.Name(method))) if method in _ENDS:
            return module.source_of(base)
        case cst.Subscript(base):
            return module.source_of(base)
    return None


def _reads_in(module: Module, line: cst.SimpleStatementLine) -> Iterator[HostRead]:
    """Yield the reads ``x.item()`` of one number that a line certainly makes, or could make without
    harm."""
    calls = module.within(line, cst.Call)
    found = [read for call in calls if (read := _plain_read(module, call)) is not None]
    certain = [read for read in found if _made_anyway(module, read, line)]
    made = {module.source_of(read.tensor) for read in certain}
    yield from (read for read in found if module.source_of(read.tensor) in made)


def _plain_read(module: Module, node: cst.BaseExpression) -> HostRead | None:
    """Return the read ``x.item()`` of one number that an expression is."""
    for read in scalar_reads(module, node):
        plain = read.node is node and read.how == "item" and _is_single(module, read.tensor)
        if plain and detachable(module, read.tensor):
            return read
    return None


def _is_single(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor has no dimension, or is the ``.data`` of one that has none."""
    while isinstance(tensor, cst.Attribute) and attr_of(tensor) == "data":
        tensor = tensor.value
    return inferred(module, tensor).rank == 0


def _made_anyway(module: Module, read: HostRead, line: cst.CSTNode) -> bool:
    """Say whether a line makes a read on each way, or could do so, as it cannot raise."""
    child: cst.CSTNode = read.node
    for above in module.ancestors(read.node):
        if above is line:
            return True
        if isinstance(above, (cst.Lambda, *COMPREHENSIONS)):
            return False
        chosen = isinstance(above, cst.IfExp) and child is not above.test
        chosen |= isinstance(above, cst.BooleanOperation) and child is above.right
        if chosen and not _never_raises(module, read.tensor):
            return False
        child = above
    return False


def _never_raises(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a tensor is made of others by what takes an empty one too."""
    match node:
        case cst.Name():
            return True
        case cst.Attribute(value, cst.Name("data")):
            return _never_raises(module, value)
        case cst.Comparison(left, [cst.ComparisonTarget(comparator=right)]):
            return _never_raises(module, left) and isinstance(right, (cst.Integer, cst.Float))
        case cst.UnaryOperation(cst.Minus(), inner):
            return _never_raises(module, inner)
        case cst.Call(func, [cst.Arg(value)]) if name := module.name(func):
            root, _, last = name.rpartition(".")
            return root == "torch" and last in _NEVER_RAISE and _never_raises(module, value)
        case cst.Call(cst.Attribute(value, cst.Name(method)), []):
            return method in _NEVER_RAISE and _never_raises(module, value)
    return False
