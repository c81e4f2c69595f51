"""Waits of one step beside each other: what becomes of the fix and the words of one where another
stays. What counts as what is said in `torchlint.base.waits`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import libcst as cst

from torchlint.base.finding import Safety, Severity
from torchlint.base.regex import regex
from torchlint.base.waits import MOST_NAMED, WaitPolicy, policy_of
from torchlint.engine.placing import Placed, severity_of
from torchlint.fixes.fix import Fix, NodeEdit, Remove, Replace
from torchlint.fixes.notes import one_sentence
from torchlint.rule import Wait
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.module import Module
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.step_overhead import backward_reads
from torchlint.semantic.uses.network_waits import network_wait
from torchlint.semantic.uses.unavoidable_syncs import wait_beside, waits_besides, waits_of_caller
from torchlint.semantic.uses.waits_inside import may_read

_OTHERS = (
    "The {step_or_batch} waits for the GPU in {other_waits} as well; while it does, the host does "
    "not run ahead."
)
_NAMES = frozenset(("beside", "other", "wait"))
"""Words of a message that name another wait."""
_SILENCES = regex(r"^[^#\n]*#.*\b(noqa|torchlint)\b", re.MULTILINE)
_HALF = "Another wait of the same statement stays, so that nothing is gained."
_APPLIED = {
    Safety.SUGGESTION: (Safety.SAFE, Safety.UNSAFE),
    Safety.UNSAFE: (Safety.SAFE,),
}
"""Which fixes fix a wait, and how safe one is beside a wait that no such fix fixes."""


def weighed(
    module: Module, judged: list[tuple[Placed, Placed | None]]
) -> list[tuple[Placed, Placed | None]]:
    """Return the hits, the fix of a wait no safer than the one of another for which its statement,
    or its step beside it, waits as well: to fix one alone saves next to nothing."""
    waits = [
        each
        for each, stronger in judged
        if (policy(each).grouped or _waits_to_copy(each))
        and (stronger is None or stronger.rule is each.rule)
    ]
    weaker: dict[int, Placed] = {}
    for safety, applied in _APPLIED.items():
        now = [weaker.get(id(each), each) for each in waits]
        left: list[Placed] = []
        fixed: list[cst.CSTNode] = []
        for each in now:
            if not policy(each).grouped:
                continue
            if _is_fixed(module, each, now, applied):
                fixed.append(each.hit.node)
            else:
                left.append(each)
        for first, each in zip(waits, now, strict=True):
            fix = each.hit.fix
            if fix is None or fix.safety not in applied:
                continue
            if any(_beside(module, each, other) for other in left if other is not each):
                fix = replace(fix, safety=safety, note=one_sentence([fix.note, _HALF]))
                weaker[id(first)] = replace(each, hit=replace(each.hit, fix=fix))
            else:
                weaker[id(first)] = _in_vain(module, each, left, fixed, safety)
    weakened = [
        (weaker.get(id(each), each), weaker.get(id(stronger), stronger))
        for each, stronger in judged
    ]
    named = [
        each.hit.node
        for each, stronger in weakened
        if stronger is None and each.hit.named and _is_named(each)
    ]
    return [
        (_with_others(module, each, named) if stronger is None else each, stronger)
        for each, stronger in weakened
    ]


def policy(placed: Placed) -> WaitPolicy:
    """Return what a hit is among the waits of its step."""
    return policy_of(placed.rule.effect, waits=isinstance(placed.hit.cause, Wait))


def _waits_to_copy(placed: Placed) -> bool:
    """Say whether the host waits in a copy, for what the device has to do before; what takes the
    host's own time is worth a fix beside any wait."""
    return bool(policy(placed).named) and policy(placed).kept_back


def _is_named(placed: Placed) -> bool:
    return severity_of(placed) in policy(placed).named


def _with_others(module: Module, wait: Placed, every_wait: Sequence[cst.CSTNode]) -> Placed:
    """Return a wait whose message names the others of its step, unless it names one by itself."""
    many = len(every_wait) > MOST_NAMED
    node = wait.hit.node
    if many or not _is_named(wait) or not _NAMES.isdisjoint(wait.hit.args):
        return wait
    if not heat_of(module, node).hot:
        return wait  # It is no wait of the step.
    every = (*waits_besides(module, node, every_wait), *waits_of_caller(module, node, every_wait))
    others = list({module.source_of(each): each for each in every}.values())
    if not others:
        return wait
    first = [
        f"{'another ' if each.deep_equals(node) else ''}`{module.shown(each)}`"
        f"{_inside(module, each)}"
        for each in others[:2]
    ]
    more = len(others) - 2
    rest = "one more place" if more == 1 else f"{more} more places"
    named = f"{', '.join(first)} and {rest}" if more > 0 else " and ".join(first)
    message = f"{wait.hit.message or wait.rule.message} {_OTHERS}"
    unit = "batch" if heat_of(module, node).grade is Grade.EVAL else "step"
    args = {**wait.hit.args, "step_or_batch": unit, "other_waits": named}
    return replace(wait, hit=replace(wait.hit, args=args, message=message))


def _inside(module: Module, node: cst.BaseExpression) -> str:
    """Return in words where a network that a call runs waits, or what makes a backward pass do."""
    if method_called(node) == "backward" and (switch := backward_reads(module)) is not None:
        return f" (`{module.shown(switch)}`)"
    wait = network_wait(module, node) if isinstance(node, cst.Call) else None
    return f" ({wait.shown_from(module)})" if wait is not None else ""


def _in_vain(
    module: Module,
    wait: Placed,
    left: Sequence[Placed],
    fixed: Sequence[cst.CSTNode],
    safety: Safety,
) -> Placed:
    """Return a wait with its fix, which is no more than `safety` where the step waits beside it as
    well; it is a hint, where what no fix fixes is a warning, here or in the function that waits."""
    fix = wait.hit.fix
    if fix is None or not policy(wait).kept_back:
        return wait
    others = {e.hit.node: e for e in left if e is not wait and _stays(e)}
    node = wait_beside(module, wait.hit.node, others, fixed)
    if node is not None and any(_rewrites(module, edit, node) for edit in fix.edits):
        node = None
    where = " beside it"
    if node is None and fix.logs_every_n:
        node, where = _elsewhere_in_step(module, wait, fix, others, fixed), ""
    if node is None:
        return wait
    other = others[node].hit.fix if node in others else None
    if other is not None and _goes_with(module, other, fix):
        note = one_sentence([fix.note, other.note])
        both = replace(fix, safety=safety, note=note, edits=(*fix.edits, *other.edits))
        return replace(wait, hit=replace(wait.hit, fix=both))
    note = f"As long as `{module.shown(node)}`{where} waits as well, little is gained."
    note = one_sentence([fix.note, note])
    told = bool(where) and (
        severity_of(others[node]) is Severity.WARNING
        if node in others
        else not may_read(module, node)
    )
    hint = told and safety is Safety.SUGGESTION and severity_of(wait) is Severity.WARNING
    severity = Severity.INFO if hint else wait.hit.severity
    weaker = replace(fix, safety=safety, note=note)
    return replace(wait, hit=replace(wait.hit, fix=weaker, severity=severity))


def _goes_with(module: Module, other: Fix, fix: Fix) -> bool:
    """Say whether the lines that one unsafe fix takes away can go with another fix."""
    return (
        other.safety is Safety.UNSAFE
        and not keeps_fixes_apart(module.text)
        and all(
            isinstance(edit, Remove)
            and not any(
                module.is_within(mine.node, edit.node) or module.is_within(edit.node, mine.node)
                for mine in fix.edits
                if isinstance(mine, (Remove, Replace))
            )
            for edit in other.edits
        )
    )


def keeps_fixes_apart(text: str) -> bool:
    """Say whether a comment of a file may keep back the fix of one finding, and not of others."""
    return _SILENCES.search(text) is not None


def _elsewhere_in_step(
    module: Module,
    wait: Placed,
    fix: Fix,
    left: Collection[cst.CSTNode],
    fixed: Collection[cst.CSTNode],
) -> cst.CSTNode | None:
    """Return what the step waits for wherever that is in it, but for what a fix moves: who sees
    fewer numbers wants a step without a wait for that."""
    lines = [edit.node for edit in fix.edits if isinstance(edit, (Remove, Replace))]
    return next(
        (
            place
            for place in waits_besides(module, wait.hit.node, left, likely=True)
            if not any(
                module.is_within(place, each) or module.is_within(each, place)
                for each in (*fixed, *lines)
            )
        ),
        None,
    )


def _stays(wait: Placed) -> bool:
    """Say whether a wait that no fix fixes is one, and goes with none of those beside it."""
    fix = wait.hit.fix
    return policy(wait).keeps_back and (fix is None or not fix.in_vain)


def _is_fixed(
    module: Module, wait: Placed, waits: Iterable[Placed], applied: Collection[Safety]
) -> bool:
    """Say whether a wait has a fix that is applied, or another's fix rewrites the place."""
    if wait.hit.fix is not None:
        return wait.hit.fix.safety in applied
    fixes = (each.hit.fix for each in waits if each.rule is wait.rule)
    return any(
        _rewrites(module, edit, wait.hit.node)
        for fix in fixes
        if fix is not None and fix.safety in applied
        for edit in fix.edits
    )


def _rewrites(module: Module, edit: NodeEdit, node: cst.CSTNode) -> bool:
    """Say whether an edit takes the place of an expression, or of a part of it."""
    match edit:
        case Replace(node=place, new=new) if module.is_within(node, place):
            return module.source_of(node) not in module.root.code_for_node(new)
        case Replace(node=place):
            return module.is_within(place, node)
        case Remove(node=place):
            return module.is_within(node, place)
    return False


def _beside(module: Module, one: Placed, other: Placed) -> bool:
    """Say whether a wait of the same statement comes with another, as often: not in the other arm
    of ``a if test else b``, nor outside of its comprehension."""
    mine, its = one.hit.cause, other.hit.cause
    if not isinstance(mine, Wait) or not isinstance(its, Wait):
        return False
    same = mine.statement is its.statement and mine.scope in (mine.statement, its.scope)
    return same and not any(
        isinstance(above, cst.IfExp)
        and module.is_within(other.hit.node, above)
        and {_arm(module, above, one), _arm(module, above, other)} == {"body", "orelse"}
        for above in module.ancestors(one.hit.node)
    )


def _arm(module: Module, choice: cst.IfExp, placed: Placed) -> str:
    arms = (
        arm for arm in ("body", "orelse") if module.is_within(placed.hit.node, getattr(choice, arm))
    )
    return next(arms, "test")
