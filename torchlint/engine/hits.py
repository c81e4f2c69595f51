"""From one parsed file to findings: the hits of the rules, their places, and which of them yield to
others.

Each step gives values to the next: `module_of`, `hits`, `Placing.placed`, `strongest`,
`Placing.finding`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import replace

import libcst as cst

from torchlint.base.finding import (
    Finding,
    Note,
    Safety,
)
from torchlint.base.span import Span
from torchlint.engine import syntax
from torchlint.engine.job import Job
from torchlint.engine.placing import Crash, Placing, described, message_of
from torchlint.engine.waits import keeps_fixes_apart
from torchlint.engine.yielding import (
    fixed_together,
    joined,
    parts_of_wider,
    step_of,
    strongest,
)
from torchlint.fixes.fix import Append, Fix, Prepend, Remove, Replace
from torchlint.fixes.notes import one_sentence
from torchlint.rule import Hit, Rule
from torchlint.semantic.code.bindings import imported_over
from torchlint.semantic.code.text import reasoned
from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.time.heat import cannot_run
from torchlint.semantic.uses.assumptions import broken
from torchlint.semantic.uses.observers import clock_after
from torchlint.source.python import MisreadError

_IMPORTED = (
    "An import gives a name in this code another meaning than it had, so that nothing is "
    "proven of it."
)
_SAID = "A comment there may say why the code is as it is."
_RECORD = (
    "The file stands among what programs wrote, and may be a copy that says how a run was made."
)

_TIMED = "A clock read behind it no longer includes the wait."
_WAITS = frozenset(("wait", "copy", "host", "upload"))
"""Effects of what the host waits for, and of what takes its time."""
_FAILS = "This code ends in an error, so that nothing is gained."

Found = tuple[tuple[Finding, ...], tuple[Note, ...]]
"""What the rules find in a file, and what to say of those that crashed."""


def findings(
    module: Module,
    filename: str,
    rules: Iterable[Rule],
    wanted: Collection[str],
    job: Job | None = None,
) -> Found:
    """Return what the rules of the codes in `wanted` find in a file; the others of `rules` are
    those they yield to.

    A rule that crashes costs a note that names it, and only its own findings.
    """
    strict, unfixable = (job.strict, job.unfixable) if job is not None else (False, ())
    found, crashes = hits(module, rules, strict, unfixable)
    placing = Placing(module, filename, job)
    made: dict[tuple[str, Span], Finding] = {}
    beside: dict[tuple[str, cst.CSTNode], list[tuple[str, Span]]] = {}
    for placed, stronger in strongest(module, placing.placed(found), wanted):
        key = (placed.rule.code, placed.span)
        if key in made or (stronger is not None and stronger.rule is not placed.rule):
            continue
        finding, crash = placing.finding(placed)
        crashes += [crash] if crash is not None else []
        if stronger is None:
            made[key] = finding
            if (step := step_of(module, placed)) is not None:
                beside.setdefault((placed.rule.code, step), []).append(key)
        else:
            first = (stronger.rule.code, stronger.span)
            made[first] = joined(made[first], finding)
    if not keeps_fixes_apart(module.text):
        steps: dict[cst.CSTNode, list[tuple[str, Span]]] = {}
        for (_, step), keys in beside.items():
            made.update(fixed_together({key: made[key] for key in keys}))
            steps.setdefault(step, []).extend(keys)
        for keys in steps.values():
            made.update(parts_of_wider({key: made[key] for key in keys}))
    return tuple(made.values()), tuple(map(placing.note, crashes))


def module_of(
    job: Job,
    tree: cst.Module,
    text: str,
    python: ast.Module | None = None,
    outside: Outside | None = None,
) -> Module:
    """Return the analysis of a parsed file under the settings of its job."""
    # What the code runs on; a notebook may say so outside of its cells.
    notebook = job.document.notebook
    seen = job.accelerator == "auto" and notebook is not None and notebook.accelerated
    return Module(
        tree,
        text,
        job.relative,
        target_torch=job.target_torch,
        torch_declared=job.torch_declared,
        newest_torch=job.newest_torch,
        accelerator="cuda" if seen else job.accelerator,
        assume_hot=job.assume_hot,
        contract=job.contract,
        python=python,
        structure=syntax.structure(text, tree),
        outside=outside if outside is not None else Outside(),
    )


def hits(
    module: Module, rules: Iterable[Rule], strict: bool = False, unfixable: Collection[str] = ()
) -> tuple[list[tuple[Rule, Hit]], list[Crash]]:
    """Run the checks of `rules` over a file; return what they yield, and which of them crashed.

    With `strict`, fixes take nothing for granted of the project; those of rules whose code is
    `unfixable` are dropped before anything is asked of them."""
    found: list[tuple[Rule, Hit]] = []
    crashes: list[Crash] = []
    for rule in rules:
        for node_type, check in rule.checks:
            for node in check.nodes(module, node_type):
                try:
                    for hit in check(node, module):
                        found.append((rule, _reported(module, rule, hit, strict, unfixable)))
                except (RecursionError, MemoryError, MisreadError):
                    raise
                except Exception as error:
                    crashes.append(Crash(rule, node, described(error)))
    return found, crashes


def _reported(
    module: Module, rule: Rule, hit: Hit, strict: bool, unfixable: Collection[str]
) -> Hit:
    """Return a hit as it is reported; whatever is wrong with it is raised here, where the rule is
    known."""
    if not isinstance(hit, Hit) or not isinstance(hit.node, cst.CSTNode):
        raise TypeError(f"a check yields Hit(node, ...), not {type(hit).__name__}")
    message_of(rule, hit)
    hit = _proven(module, replace(hit, fix=None) if rule.code in unfixable else hit, strict)
    fix = hit.fix
    if (
        fix is None
        or fix.safety is not Safety.UNSAFE
        or rule.effect not in _WAITS
        or "clock" in fix.note
        or clock_after(module, hit.node) is None
    ):
        return hit
    return replace(hit, fix=replace(fix, note=one_sentence((fix.note, _TIMED))))


def _proven(module: Module, hit: Hit, strict: bool) -> Hit:
    """Return a hit whose fix is only suggested where a comment gives a reason for the code, and not
    safe where the project does not keep to what it takes for granted, or where an import may have
    given a name in it another meaning."""
    fix = hit.fix
    if fix is None or fix.safety is Safety.SUGGESTION:
        return hit
    if fix.assumes:
        fix = _granted(module, fix, strict)
        hit = replace(hit, fix=fix)
    for stays, note in (
        (reasoned(module, hit.node), _SAID),
        (module.outside.recorded(), _RECORD),
        (cannot_run(module, hit.node), _FAILS),
    ):
        if stays:
            return replace(hit, fix=replace(fix, safety=Safety.SUGGESTION, note=note))
    if fix.safety is not Safety.SAFE:
        return hit
    places = [
        hit.node,
        *(edit.node for edit in fix.edits if isinstance(edit, (Append, Prepend, Remove, Replace))),
    ]
    if not any(imported_over(module, place) for place in places):
        return hit
    return replace(hit, fix=replace(fix, safety=Safety.UNSAFE, note=_IMPORTED))


def _granted(module: Module, fix: Fix, strict: bool) -> Fix:
    """Return a fix that is as safe as what it takes for granted allows; what holds is left in
    `Fix.assumes`."""
    lost = [name for name in fix.assumes if strict or broken(module, name)]
    if not lost:
        return fix
    names = " and ".join(f"`{name}`" for name in lost)
    why = "" if strict else f"This project does not keep to {names}."
    note = one_sentence([fix.note, *(fix.assumes[name] for name in lost), why])
    held = {name: text for name, text in fix.assumes.items() if name not in lost}
    return replace(fix, safety=Safety.UNSAFE, note=note, assumes=held)
