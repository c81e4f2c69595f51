"""Reads of device scalars that are put off until somebody looks at them, or made together: sums and
lists over a loop, and neighbours in a tuple."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import libcst as cst

from torchlint.base.records import frozen
from torchlint.fixes.after_loop import kept_for_later, numbers_of, rare_reads_as_numbers
from torchlint.fixes.expressions import detached, method_call
from torchlint.fixes.log_every_n import log_every_n, logged_every
from torchlint.fixes.notes import safe_unless
from torchlint.rule import (
    Fix,
    InsertAfter,
    InsertBefore,
    Module,
    NeedImport,
    NodeEdit,
    Replace,
    inferred,
)
from torchlint.semantic.code.bindings import meaning_of
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import components, is_name
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
class _Term:
    """A read of a device scalar in a sum, and the kind of number that it adds: ``int``,
    ``float`` or, for unknown, None."""

    read: HostRead
    kind: str | None


def kept_on_device(module: Module, read: HostRead) -> Fix | None:
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

    def deferred(self, title: str, held: str) -> Fix | None:
        """Return the fix, or None where a line that looks at a number each step does more than
        log. `held` says what is a tensor for a while."""
        logs = log_every_n(self.module, LOG_EVERY, self._shown)
        if logs is None:
            return None
        notes = [LOGGED_EVERY_N, *self.notes] if logs else self.notes
        whole = f"{title}, log every {LOG_EVERY} steps" if logs else title
        assumes = {FRAMES: held, TORCH: held, LOSSES: held, **self.assumes}
        return safe_unless(notes, (*self.edits, *logs), whole, assumes, logs_every_n=bool(logs))

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
        if any(_is_batch_size(leaf) for whole in added_up for leaf in components(whole, *_LINEAR)):
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
        if is_name(said, "float", "int"):
            torch = torch_name(self.module)
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
    leaves = [e for whole in added_up for e in components(whole, *_LINEAR) if e not in terms]
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


def read_where_used(module: Module, read: HostRead) -> Fix | None:
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


def read_after_loop(module: Module, read: HostRead) -> Fix | None:
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
    return safe_unless(notes, (Replace(read.node, kept), *after), title, assumes)


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
        torch = torch_name(module)
        line = f"if {name}:\n    {name} = {torch}.stack({name}).tolist()"
        return (InsertAfter(loop, line), NeedImport("torch", torch))
    return (InsertAfter(loop, f"{name} = [{number} for value in {name}]"),)


def rarely_shown(module: Module, read: HostRead) -> Fix | None:
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
    return safe_unless([_REDRAWN], logged_every(LOG_EVERY, found), title)


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
