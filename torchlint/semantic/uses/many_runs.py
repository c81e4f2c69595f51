"""What launches many kernels one after the other, as a loop that decodes does: the host is never
ahead of the device there."""

from __future__ import annotations

import itertools

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.tree import (
    LOOPS,
    keyword_of,
)
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.iterations import is_structural, iteration_count
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.time.runs import runs_model
from torchlint.semantic.uses.dominance import (
    is_optional,
    runs_whenever,
)
from torchlint.semantic.uses.waits_inside import known_waits
from torchlint.semantic.values.definitions_behind import reached
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

_ITERATIONS, _OPERATIONS = 8, 3
"""From how many iterations, and operations in each, a loop keeps the host busy launching
kernels."""
_GENERATION = regex(r"max_(new_tokens|length)|num_beams|do_sample|generation_config|attention_mask")
_LIBRARIES = ("builtins.", "torch.")


@question(
    yes="`{answer}` launches one kernel after the other behind it",
    no="no loop behind it launches one kernel after the other",
)
def before_many_runs(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the loop behind a place that comes before it, once, and always goes on to it: one that
    runs a model in each iteration, where nothing is trained, as decoding does, or one that computes
    with tensors of the device step by step; or the call behind it of a function that has such a
    loop. The host is never ahead of the device there."""
    function = module.function(node)
    heat = heat_of(module, node)
    iteration = module.loop(node)
    if (
        iteration is not None
        and heat.grade is Grade.EVAL
        and loop_kind(module, iteration) is LoopKind.OTHER
    ):
        calls = (each for each in module.within(iteration, cst.Call) if module.before(node, each))
        return next(
            (
                e
                for e in calls
                if runs_whenever(module, e, node) and _runs_often(module, e, waits=False)
            ),
            None,
        )
    if function is None or module.loops(node) or not heat.hot:
        return None
    return next(
        (
            loop
            for loop in module.within(function.body, cst.For, cst.While)
            if isinstance(loop, LOOPS)
            and module.before(node, loop)
            and runs_whenever(module, loop, node)
            and not any(
                module.before(node, end) and module.before(end, loop)
                for end in module.within(function.body, cst.Return)
            )
            and loop_kind(module, loop) is LoopKind.OTHER
            and (
                runs_model(module, loop)
                if heat.grade is Grade.EVAL
                else _launches_often(module, loop)
            )
        ),
        None,
    )


@question(
    yes="its iteration runs a network many times, in `{answer}`",
    no="its iteration is not known to run a network many times",
)
def beside_many_waits(
    module: Module, node: cst.CSTNode, *, waits: bool = True
) -> cst.CSTNode | None:
    """Return what generates text in an iteration that comes to a place, or the loop beside it, of
    its own or of a function that it calls, each iteration of which runs a model and, if `waits`,
    waits for the device."""
    iteration = module.loop(node) or module.function(node)
    return next(
        (
            each
            for each in (module.within(iteration, cst.Call, *LOOPS) if iteration else ())
            if each is not iteration
            and _runs_often(module, each, waits)
            and not module.is_within(node, each)
            and not module.is_within(each, node)
            and runs_whenever(module, each, node)
        ),
        None,
    )


@question(circular=False)
def _runs_often(module: Module, node: cst.CSTNode, waits: bool) -> bool:
    if isinstance(node, cst.Call):
        return _generates(module, node) or any(
            isinstance(each, LOOPS) or _generates(where, each)
            for where, function in (reached(module, node) if _is_own(module, node) else ())
            for each in where.within(function.body, cst.Call, *LOOPS)
            if not is_optional(where, each, function)
            and (isinstance(each, cst.Call) or _runs_often(where, each, waits))
        )
    runs = runs_model(module, node) or loop_kind(module, node) is not LoopKind.OTHER
    return runs and (not waits or bool(known_waits(module, node)))


def _is_own(module: Module, call: cst.Call) -> bool:
    """Say whether a call may run a function of the project: none of a library, nor a tensor's
    method."""
    held = call.func.value if isinstance(call.func, cst.Attribute) else None
    return not (
        (module.name(call.func) or "").startswith(_LIBRARIES)
        or (held is not None and inferred(module, held).tensor)
    )


def _generates(module: Module, call: cst.CSTNode) -> bool:
    """Say whether a call generates text, token by token."""
    match call:
        case cst.Call(cst.Attribute(model, cst.Name("generate")), args):
            asks = any(_GENERATION.match(keyword_of(arg)) for arg in args)
            return asks or inferred(module, model).kind == "module"
    return False


def _launches_often(module: Module, loop: cst.For | cst.While) -> bool:
    """Say whether a loop of more than a few iterations, which are no parts of a network, computes
    several tensors of the device in each."""
    count = iteration_count(module, loop)
    if (count is not None and count < _ITERATIONS) or is_structural(module, loop):
        return False
    made = module.within(loop.body, cst.Call, cst.BinaryOperation)
    found = (e for e in made if isinstance(e, cst.BaseExpression) and on_device(module, e) is True)
    return sum(1 for _ in itertools.islice(found, _OPERATIONS)) == _OPERATIONS
