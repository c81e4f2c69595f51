"""Reads of device scalars that are put off until somebody looks at them, or made together: sums and
lists over a loop, and neighbours in a tuple."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby

import libcst as cst

from torchlint.base.records import frozen
from torchlint.fixes.after_loop import kept_for_later, numbers_of, rare_reads_as_numbers
from torchlint.fixes.expressions import detached, method_call
from torchlint.fixes.log_every_n import log_every_n, logged_every
from torchlint.fixes.reads_together import stacked_safely
from torchlint.rule import (
    Fix,
    InsertAfter,
    InsertBefore,
    Module,
    NeedImport,
    NodeEdit,
    Remove,
    Replace,
    Safety,
    inferred,
    one_sentence,
)
from torchlint.semantic.code.bindings import meaning_of
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.text import remarked
from torchlint.semantic.code.tree import DISPLAYS, components, root_of
from torchlint.semantic.data.per_step_use import LOG_EVERY, log_lines, redraws_bar
from torchlint.semantic.device.host_reads import HostRead, number_kind, scalar_reads
from torchlint.semantic.torch.spelling import LOSS, called
from torchlint.semantic.uses.accumulators import (
    LoopSum,
    added,
    gathering_loop,
    in_changing_mode,
    in_each_step,
    reaches_line_after,
    sum_of_loop,
)
from torchlint.semantic.uses.assumptions import (
    ACCELERATOR,
    FRAMES,
    LOSSES,
    MEMORY,
    ONE_DEVICE,
    SIZES,
    STEPS,
    TORCH,
)
from torchlint.semantic.uses.number_uses import all_calls, only_returned, uses_of_number
from torchlint.semantic.uses.plain_numbers import has_no_dimension, is_python_number
from torchlint.semantic.uses.reads_together import FEWEST, read_stays_beside
from torchlint.semantic.uses.unchanged_values import fresh_per_iteration
from torchlint.semantic.values.apple import may_be_mps
from torchlint.semantic.values.detachable import detachable

METHOD_OF_KIND = {"float": "double", "int": "long"}
_COUNTING = frozenset(("sum", "count_nonzero"))
"""Reductions that give 64 bits for whole numbers of any size."""
_ENDS = frozenset(("min", "max", "amin", "amax"))
_LINEAR = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_TITLE = "Sum on the device and read once after the loop"
_LATER = "Read it where it is used"
_TENSOR = "Until the loop has ended the sum is a tensor, for an exception handler or debugger too."
_NO_MPS = "On an accelerator without float64 (MPS) the sum raises."
_ROUNDED = "The sum is rounded to the tensor's own dtype at each step."
LOGGED_EVERY_N = (
    f"Only every {LOG_EVERY}th step is logged, and the last where the loop tells which it is."
)
_REDRAWN = (
    f"The bar is redrawn every {LOG_EVERY}th step only, and in the last where the loop tells "
    "which it is."
)
_ONCE = "A division by zero gives inf or nan instead of an error."
_HELD = "Between the uses the name holds a tensor, for a debugger too."
_KEPT = "Until the loop has ended the list holds tensors, for an exception handler or debugger too."
_EMPTY = "A loop without steps gives 0.0 instead of 0."
_SET_BACK = "Where the loop has set it back to 0, it gives 0.0 instead."
_APART = "Tensors of different devices would raise."
_LAST_PLACE = "To divide by a number, a GPU multiplies by its inverse: the last place may differ."
"""``BinaryDivTrueKernel.cu`` of PyTorch."""
_OF_NUMPY = "A factor or term that is an array or a number of NumPy may raise."
_MODES = "A sum that begins under inference_mode raises where it grows outside of it."
_SHADOWED = "The file gives `float` or `int` another meaning."
_WHOLE_PART = "Of a fraction the whole part is taken."
_LEFT = (
    "Where the program does not go on at the line after the loop (an exception, an interrupted "
    "cell), a tensor is left in place of the number."
)
_RETURNED = "The function returns a tensor, also to code outside of this project."


@frozen
class Deferred:
    """The edits that put reads off: the title of the fix, what may change, empty where nobody can
    see a difference, what is taken for granted, and whether it logs every N steps
    (see `Fix`)."""

    edits: tuple[NodeEdit, ...]
    title: str
    note: str = ""
    assumes: Mapping[str, str] = field(default_factory=dict)
    logs_every_n: bool = False

    @property
    def fix(self) -> Fix:
        """The fix, which is safe where no note says what may change."""
        safety = Safety.UNSAFE if self.note else Safety.SAFE
        return Fix(
            self.edits,
            safety,
            self.title,
            self.note,
            assumes=self.assumes,
            logs_every_n=self.logs_every_n,
        )


@frozen
class _Term:
    """A read of a device scalar in a sum, and the kind of number that it adds: ``int``,
    ``float`` or, for unknown, None."""

    read: HostRead
    kind: str | None


def kept_on_device(module: Module, read: HostRead) -> Deferred | None:
    """Return the fix by which the sum that a read feeds stays on the device until it is looked at.

    What only logs it in each step is made to log every N steps. Safe where nobody can see a
    difference; None where something else looks at it in each step, or where it is not known whether
    it is a sum of whole numbers.
    """
    found = _summed(module, read.node)
    if found is None:
        return None
    way = _Deferral(module)
    return way.deferred(_TITLE, _TENSOR) if way.adds(found) else None


@frozen
class _Sum:
    """A sum of a loop, what it adds, and the kind of number that it is: ``int`` or ``float``."""

    sum: LoopSum
    terms: tuple[_Term, ...]
    kind: str


def _summed(
    module: Module, node: cst.BaseExpression, kept: Mapping[cst.CSTNode, str] = {}
) -> _Sum | None:
    """Return the sum to which an expression is added, a read or one that `kept` says to be a tensor
    by now, with the kind of its number."""
    step = module.small_statement(node)
    found = sum_of_loop(module, step) if isinstance(step, (cst.AugAssign, cst.Assign)) else None
    if found is None:
        return None
    terms = tuple(term for each in found.steps for term in _terms(module, found, each, kept))
    if node not in [term.read.node for term in terms]:
        return None
    if not all(detachable(module, term.read.tensor) for term in terms):
        return None
    kinds = {term.kind for term in terms}
    total = "float" if found.start == "float" or "float" in kinds else "int"
    if total == "int" and (found.scaled or None in kinds):
        return None
    return _Sum(found, terms, total)


class _Deferral:
    """Follows a number that becomes a tensor to all that uses it, and gathers the edits."""

    def __init__(self, module: Module, *, single: bool = False) -> None:
        self.module, self._single = module, single
        self.edits: list[NodeEdit] = []
        self.notes: list[str] = []
        self.assumes: dict[str, str] = {}
        self._shown: dict[cst.BaseExpression, str] = {}
        self._kept: dict[cst.CSTNode, str] = {}
        self._sums: set[cst.CSTNode] = set()
        self._functions: list[cst.FunctionDef] = []

    def deferred(self, title: str, held: str) -> Deferred | None:
        """Return the fix, or None where a line that looks at a number each step does more than
        log. `held` says what is a tensor for a while."""
        logs = log_every_n(self.module, LOG_EVERY, self._shown)
        if logs is None:
            return None
        notes = [LOGGED_EVERY_N, *self.notes] if logs else self.notes
        whole = f"{title}, log every {LOG_EVERY} steps" if logs else title
        assumes = {FRAMES: held, TORCH: held, LOSSES: held, **self.assumes}
        return Deferred((*self.edits, *logs), whole, one_sentence(notes), assumes, bool(logs))

    def adds(self, found: _Sum) -> bool:
        """Keep a sum on the device."""
        if found.sum.steps[0] in self._sums:
            return True
        self._sums.add(found.sum.steps[0])
        narrow = found.kind == "float" and may_be_mps(self.module)
        self.edits += _edits(self.module, found, None if narrow else METHOD_OF_KIND[found.kind])
        self._shown.update(dict.fromkeys(found.sum.each_step, found.kind))
        if narrow:
            self.notes.append(_ROUNDED)
        elif found.kind == "float":
            self.assumes[ACCELERATOR] = _NO_MPS
        if len(found.terms) > 1:
            self.assumes[ONE_DEVICE] = _APART
        self.notes += _differing(self.module, found)
        added_up = [added(self.module, step) for step in found.sum.steps]
        if any(_is_batch_size(leaf) for whole in added_up for leaf in _linear_parts(whole)):
            self.assumes[SIZES] = _OF_NUMPY
        if not reaches_line_after(self.module, found.sum.loop):
            self.notes.append(_LEFT)
        if found.kind == "float" and found.sum.whole:
            self.notes.append(_SET_BACK)
        if found.kind != found.sum.start and _counts_each_step(self.module, found):
            self.assumes[STEPS] = _EMPTY
        elif found.kind != found.sum.start:
            self.notes.append(_EMPTY)
        return True

    def used(self, node: cst.BaseExpression, kind: str) -> bool:
        """Follow an expression that is now a tensor of a number; False where it must stay one."""
        self._kept[node] = kind
        statement = self.module.small_statement(node)
        match statement:
            case cst.Expr(value) if value is node:
                return True
            case cst.Assign([cst.AssignTarget(cst.Name() as target)], value):
                if value is node:
                    return self.bound(target, kind)
            case cst.Expr(cst.Call(args=[cst.Arg(value)]) as append) if value is node:
                if (filled := gathering_loop(self.module, append)) is not None:
                    number = None if self._single else f"{kind}(value)"
                    self.edits += _numbers_after(self.module, filled, append, number)
                    self.assumes |= {ONE_DEVICE: _APART} if self._single else {}
                    return True
        found = _summed(self.module, node, self._kept)
        if found is not None:
            return self.adds(found)
        self._shown[node] = kind
        return isinstance(node, cst.Name)

    def bound(self, target: cst.Name, kind: str) -> bool:
        """Follow a name that is bound to it."""
        uses = uses_of_number(self.module, target)
        if uses is None:
            returned = only_returned(self.module, target)
            return returned is not None and all(self.returned_as(each, kind) for each in returned)
        self.edits += rare_reads_as_numbers(self.module, target, uses, kind)
        return all(self.used(each, kind) for each in uses.each_step)

    def returned_as(self, node: cst.BaseExpression, kind: str) -> bool:
        """Follow what a function returns to its callers: the number alone, or in a tuple that they
        take apart."""
        function, above = self.module.function(node), self.module.parent(node)
        if function is None or function in self._functions:
            return False
        self._functions.append(function)
        sites = all_calls(self.module, function)
        if sites is None:
            return False
        if function.returns is not None or self.module.outside.in_package():
            self.notes.append(_RETURNED)
        said = function.returns.annotation if function.returns is not None else None
        if isinstance(above, cst.Return):
            return self._annotated(said) and all(self.used(site, kind) for site in sites)
        row = self.module.parent(above) if isinstance(above, cst.Element) else None
        if not isinstance(row, cst.Tuple) or not isinstance(self.module.parent(row), cst.Return):
            return False
        place = [each.value for each in row.elements].index(node)
        match said:
            case cst.Subscript(slice=parts) if len(parts) == len(row.elements):
                each = [getattr(part.slice, "value", said) for part in parts]
                said = said if isinstance(each[-1], cst.Ellipsis) else each[place]
        return self._annotated(said) and all(
            _taken(self.module, self, site, (place, len(row.elements)), kind) for site in sites
        )

    def _annotated(self, said: cst.BaseExpression | None) -> bool:
        """Let an annotation that says a number say a tensor; False where it says anything else."""
        if isinstance(said, cst.Name) and said.value in ("float", "int"):
            torch = name_for_module(self.module, "torch", "torch")
            self.edits += [
                Replace(said, cst.parse_expression(f"{torch}.Tensor")),
                NeedImport("torch", torch),
            ]
            return True
        return said is None


def _edits(
    module: Module, found: _Sum, method: str | None
) -> tuple[Replace | InsertAfter | InsertBefore, ...]:
    name, loop = found.sum.name, found.sum.loop
    rarely = [each for each in found.sum.reads if each not in found.sum.each_step]
    after = [InsertAfter(loop, f"{name} = {found.kind}({name})")]
    mixed = len({module.source_of(term.read.tensor) for term in found.terms}) > 1
    held = [(term.read, _added(module, term.read, method)) for term in found.terms]
    return (
        *(
            Replace(read.node, _without_dimension(module, read, new) if mixed else new)
            for read, new in held
        ),
        *numbers_of(module, rarely, found.sum.steps, found.kind),
        *(after if found.sum.read_after else ()),
    )


def _terms(
    module: Module,
    found: LoopSum,
    step: cst.AugAssign | cst.Assign,
    kept: Mapping[cst.CSTNode, str],
) -> Iterator[_Term]:
    """Yield the reads of one ``+=`` that may become additions on the device, and what is a tensor
    by now."""
    for node, kind in kept.items():
        if isinstance(node, cst.BaseExpression) and module.is_within(node, added(module, step)):
            divided = _way(module, node, added(module, step))
            if divided is not None:
                yield _Term(HostRead(node, node, "item"), "float" if divided else kind)
    for node in module.within(added(module, step), cst.Call):
        for read in scalar_reads(module, node):
            divided = _way(module, read.node, added(module, step))
            if divided is not None and read.how in ("item", "float", "int"):
                yield _Term(
                    read,
                    "float"
                    if divided
                    else number_kind(module, read)
                    or ("float" if called(found.name, LOSS) else None),
                )


def _way(module: Module, node: cst.CSTNode, whole: cst.CSTNode) -> bool | None:
    """Say whether what is read is divided on the way to the sum; None where it is not just added,
    scaled or divided."""
    divided, at = False, node
    while at is not whole:
        above = module.parent(at)
        if not isinstance(above, cst.BinaryOperation) or not isinstance(above.operator, _LINEAR):
            return None
        divided = divided or isinstance(above.operator, cst.Divide)
        at = above
    return divided


def _differing(module: Module, found: _Sum) -> Iterator[str]:
    """Yield in what the sum of the device may differ from that of Python."""
    if any(in_changing_mode(module, step, found.sum.loop) for step in found.sum.steps):
        yield _MODES
    if meaning_of(module, found.kind, found.sum.loop) != f"builtins.{found.kind}":
        yield _SHADOWED
    if found.kind == "int" and not all(_is_count(module, each.read.tensor) for each in found.terms):
        yield _WHOLE_PART
    terms = [term.read.node for term in found.terms]
    added_up = [added(module, step) for step in found.sum.steps]
    divisors = [each for whole in added_up for each in _divisors(whole)]
    if found.sum.scaled or divisors:
        yield _LAST_PLACE
    if not all(isinstance(each, (cst.Integer, cst.Float)) for each in divisors):
        yield _ONCE
    leaves = [leaf for whole in added_up for leaf in _linear_parts(whole) if leaf not in terms]
    unknown = [leaf for leaf in leaves if not is_python_number(module, leaf)]
    if not all(_is_batch_size(leaf) for leaf in unknown):
        yield _OF_NUMPY


def _is_batch_size(node: cst.BaseExpression) -> bool:
    """Say whether something is called a batch size: ``args.batch_size``."""
    return (dotted_text(node) or "").endswith(("batch_size", "BATCH_SIZE"))


def _counts_each_step(module: Module, found: _Sum) -> bool:
    """Say whether a loop that takes a step has added something before anything looks at the sum."""
    first, loop = found.sum.steps[0], found.sum.loop
    grown = len(writes_of(module, loop, found.sum.name)) == len(found.sum.steps)
    later = all(module.before(first, read) for read in found.sum.reads)
    return grown and later and in_each_step(module, first, loop)


def _added(module: Module, read: HostRead, method: str | None) -> cst.BaseExpression:
    """Return what a sum adds in place of a read: a count as it is, which has no graph and 64
    bits."""
    counted = _is_count(module, read.tensor)
    if counted and method != METHOD_OF_KIND["float"]:
        return read.tensor
    held = read.tensor
    if read.node is not read.tensor and not counted:
        held = detached(module, held)
    return method_call(held, method) if method is not None else held


def _is_count(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor is an integer of 64 bits: the number, or the sum, of truth values or
    whole numbers."""
    match tensor:
        case cst.Attribute(inner, cst.Name("data")):
            return _is_count(module, inner)
        case cst.Call(cst.Attribute(attr=cst.Name(method)) as func, args):
            plain = len(args) == (module.name(func) == f"torch.{method}")
            integer = inferred(module, tensor).dtype == "int"
            return plain and integer and method in _COUNTING
    return False


def read_where_used(module: Module, read: HostRead) -> Deferred | None:
    """Return the fix by which a name, or the result of a function, holds the tensor, and the number
    is read where it is used; None where more than a sum, a list or a log uses it in each step, or
    where not all that uses it is known."""
    kind = number_kind(module, read)
    if kind is None or read.how not in ("item", "float", "int"):
        return None
    if not detachable(module, read.tensor):
        return None
    kept: cst.BaseExpression = detached(module, read.tensor)
    if not fresh_per_iteration(module, read.tensor):
        kept = method_call(kept, "clone")
    way = _Deferral(module, single=_is_single(module, read))
    way.edits.append(Replace(read.node, kept))
    way.notes += [_WHOLE_PART] if kind == "int" and not _is_count(module, read.tensor) else []
    match module.small_statement(read.node):
        case cst.Assign([cst.AssignTarget(cst.Name() as target)], value) if value is read.node:
            followed = way.bound(target, kind)
        case cst.Return():
            followed = way.returned_as(read.node, kind)
        case _:
            return None
    return way.deferred(_LATER, _HELD) if followed else None


def _taken(
    module: Module, way: _Deferral, site: cst.Call, place: tuple[int, int], kind: str
) -> bool:
    """Follow the one of the names that a call's tuple is bound to; one that nothing reads is
    fine."""
    match module.small_statement(site):
        case cst.Expr(value):
            return value is site
        case cst.Assign([cst.AssignTarget(cst.Tuple(elements))], value) if (
            value is site and len(elements) == place[1]
        ):
            target = elements[place[0]].value
            whole = all(isinstance(each, cst.Element) for each in elements)
            return whole and isinstance(target, cst.Name) and way.bound(target, kind)
    return False


def read_after_loop(module: Module, read: HostRead) -> Deferred | None:
    """Return the fix by which a list is filled with tensors, and turned into numbers behind the
    loop; None where somebody looks at the list before."""
    append = module.taker(read.node)
    if not isinstance(append, cst.Call) or read.how not in ("item", "float"):
        return None
    if not detachable(module, read.tensor):
        return None
    loop = gathering_loop(module, append)
    if loop is None:
        return None
    kept = kept_for_later(module, read, append)
    if kept is read.tensor:
        kept = kept.with_changes(lpar=(), rpar=())
    number = "float(value)" if read.how == "float" else "value.item()"
    single = _is_single(module, read)
    after = _numbers_after(module, loop, append, None if single else number)
    notes = [] if reaches_line_after(module, loop) else [_LEFT]
    assumes = {FRAMES: _KEPT, TORCH: _KEPT, LOSSES: _KEPT, MEMORY: _KEPT}
    if single:
        assumes[ONE_DEVICE] = _APART
    title = "Collect the tensors and read them after the loop"
    return Deferred((Replace(read.node, kept), *after), title, one_sentence(notes), assumes)


def _is_single(module: Module, read: HostRead) -> bool:
    """Say whether what is read has no dimension, and holds the kind of number that the read gives:
    then many of them are read as one stack."""
    kind = number_kind(module, replace(read, how="item"))
    known = kind is not None and kind == number_kind(module, read)
    return known and has_no_dimension(module, read.tensor)


def _numbers_after(
    module: Module, loop: cst.CSTNode, append: cst.Call, number: str | None
) -> tuple[NodeEdit, ...]:
    """Turn what a list holds into numbers behind the loop that filled it: all at once, where no
    `number` says how each is read."""
    assert isinstance(append.func, cst.Attribute)
    name = module.source_of(append.func.value)
    if number is None:
        torch = name_for_module(module, "torch", "torch")
        line = f"if {name}:\n    {name} = {torch}.stack({name}).tolist()"
        return (InsertAfter(loop, line), NeedImport("torch", torch))
    return (InsertAfter(loop, f"{name} = [{number} for value in {name}]"),)


def read_together(module: Module, read: HostRead) -> Deferred | None:
    """Return the fix by which neighbours in a tuple, or in lines below each other, all of them
    reads of one kind, become one read of a stacked tensor."""
    above = module.parent(read.node)
    if isinstance(above, cst.Assign):
        return _lines_together(module, read)
    row = module.parent(above) if isinstance(above, cst.Element) else None
    if not isinstance(row, cst.Tuple) or any(not isinstance(e, cst.Element) for e in row.elements):
        return None
    run = _run([next(_plain_reads(module, e.value), None) for e in row.elements], module, read)
    if len(run) < FEWEST:
        return None
    numbers, needed = _numbers_of(module, run)
    left = [e for e in row.elements if e.value not in [each.node for each in run]]
    if not left and _unpacked(module, row):
        new = numbers
    elif not left:
        new = f"tuple({numbers})"
    else:
        at = [e.value for e in row.elements].index(run[0].node)
        codes = [module.source_of(e.value) for e in row.elements]
        codes[at : at + len(run)] = [f"*{numbers}"]
        new = f"({', '.join(codes)})"
    edits = (Replace(row, cst.parse_expression(new)), needed)
    note, assumes = stacked_safely(module, run)
    return Deferred(edits, "Read all of them at once", note, assumes)


def _numbers_of(module: Module, run: Sequence[HostRead]) -> tuple[str, NeedImport]:
    """Return the code of the list of what several reads give, read at once."""
    torch = name_for_module(module, "torch", "torch")
    bare = [each.tensor.with_changes(lpar=(), rpar=()) for each in run]
    parts = ", ".join(cst.Module(()).code_for_node(each) for each in bare)
    return f"{torch}.stack(({parts})).tolist()", NeedImport("torch", torch)


def _lines_together(module: Module, read: HostRead) -> Deferred | None:
    """Return the fix by which lines below each other, each of which binds one read, bind all of
    them at once; none of them uses what one before it binds."""
    line = module.statement(read.node)
    block = module.parent(line)
    if not isinstance(block, cst.IndentedBlock) or isinstance(module.parent(block), cst.Try):
        return None
    run = _run([_bound_read(module, each) for each in block.body], module, read)
    lines = [module.statement(each.node) for each in run]
    assigns = [module.small_statement(each.node) for each in run]
    targets = [each.targets[0].target for each in assigns if isinstance(each, cst.Assign)]
    if (
        len(run) < FEWEST
        or read_stays_beside(module, block.body, *map(block.body.index, (lines[0], lines[-1])))
        or _depends(module, run, targets)
        or any(remarked(module, each, behind=False) for each in lines[1:])
    ):
        return None
    numbers, needed = _numbers_of(module, run)
    names = ", ".join(module.source_of(each) for each in targets)
    first = cst.parse_statement(f"{names} = {numbers}")
    assert isinstance(first, cst.SimpleStatementLine)
    assert isinstance(assigns[0], cst.Assign)
    removed = [Remove(each) for each in lines[1:]]
    edits: tuple[NodeEdit, ...] = (Replace(assigns[0], first.body[0]), *removed, needed)
    note, assumes = stacked_safely(module, run)
    return Deferred(edits, "Read all of them at once", note, assumes)


def _bound_read(module: Module, line: cst.CSTNode) -> HostRead | None:
    """Return the read that is all that a line binds to one name, key or attribute."""
    match line:
        case cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], value)]) if isinstance(
            target, (cst.Name, cst.Attribute, cst.Subscript)
        ):
            return next(_plain_reads(module, value), None)
    return None


def _depends(module: Module, run: Sequence[HostRead], targets: Sequence[cst.CSTNode]) -> bool:
    """Say whether a read, or where it is kept, uses what a line before it binds."""
    for index, (read, target) in enumerate(zip(run, targets, strict=True)):
        bound = {name for each in targets[:index] for name in _held_by(each)}
        names = {n.value for part in (read.tensor, target) for n in module.within(part, cst.Name)}
        plain = {target.value} if isinstance(target, cst.Name) else set[str]()
        if bound & (names - plain - _held_by(target)):
            return True
        if bound & {n.value for n in module.within(read.tensor, cst.Name)}:
            return True
    return False


def _held_by(target: cst.CSTNode) -> set[str]:
    """Return the name that a target is, or the object whose key or attribute it is."""
    target = root_of(target, cst.Attribute, cst.Subscript)
    return {target.value} if isinstance(target, cst.Name) else set()


def _run(reads: Sequence[HostRead | None], module: Module, read: HostRead) -> Sequence[HostRead]:
    """Return those of some reads that stand beside `read` without a gap, it among them; nothing
    where it is not, or where they are of different kinds, of which those of one would stay."""
    runs = (list(run) for known, run in groupby(reads, lambda each: each is not None) if known)
    run = next((r for r in runs if any(each and each.node is read.node for each in r)), [])
    alike = [each for each in run if each is not None and _alike(module, each, read)]
    return alike if len(alike) == len(run) else ()


def _alike(module: Module, other: HostRead, read: HostRead) -> bool:
    """Say whether two reads give numbers of one kind: one that is known, or that of the tensor of
    which both are an end. Truth values would become integers beside integers."""
    dtypes = {inferred(module, each.tensor).dtype for each in (other, read)}
    kind = number_kind(module, read)
    if kind is not None:
        return number_kind(module, other) == kind and ("bool" not in dtypes or len(dtypes) == 1)
    bases = [_shares_dtype_with(each.tensor) for each in (other, read)]
    first, second = bases
    return first is not None and second is not None and first.deep_equals(second)


def _shares_dtype_with(tensor: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the tensor of which one is an end or an element, and so of its dtype."""
    match tensor:
        case cst.Call(cst.Attribute(base, cst.Name(method))) if method in _ENDS:
            return base
        case cst.Subscript(base):
            return base
    return None


def _plain_reads(module: Module, node: cst.BaseExpression) -> Iterator[HostRead]:
    """Yield the read that an expression is: ``x.item()`` of one number, which nothing else looks at
    in it."""
    for read in scalar_reads(module, node):
        scalar = inferred(module, read.tensor).rank == 0 and detachable(module, read.tensor)
        if read.node is node and read.how == "item" and scalar:
            yield read


def rarely_shown(module: Module, read: HostRead) -> Deferred | None:
    """Return the fix by which a progress bar, ``bar.set_postfix(loss=loss.item())``, is redrawn
    every N steps; None where the lines beside it show more than a bar."""
    line = module.small_statement(read.node)
    call = line.value if isinstance(line, cst.Expr) else None
    found = log_lines(module, call) if isinstance(call, cst.Call) else None
    if found is None:
        return None
    calls = [each.value for one in found.lines for each in one.body if isinstance(each, cst.Expr)]
    if not all(isinstance(each, cst.Call) and redraws_bar(module, each) for each in calls):
        return None
    title = f"Redraw the bar every {LOG_EVERY} steps"
    return Deferred(logged_every(LOG_EVERY, found), title, _REDRAWN)


def _without_dimension(
    module: Module, read: HostRead, held: cst.BaseExpression
) -> cst.BaseExpression:
    """Return what a sum of several terms adds: ``+=`` refuses a term of shape ``[1]`` after one
    that has no dimension."""
    if has_no_dimension(module, read.tensor) or _is_count(module, read.tensor):
        return held
    return method_call(held, "reshape").with_changes(args=[cst.Arg(cst.Tuple([]))])


def _divisors(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide):
            yield node.right
        yield from _divisors(node.left)
        yield from _divisors(node.right)


def _unpacked(module: Module, row: cst.Tuple) -> bool:
    """Say whether a tuple is taken apart at once, so that a list does as well."""
    above = module.parent(row)
    targets = above.targets if isinstance(above, cst.Assign) else ()
    return len(targets) == 1 and isinstance(targets[0].target, DISPLAYS)


def _linear_parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what an expression adds, scales and divides."""
    return components(node, *_LINEAR)
