"""A function of the user's with and without the fixes of its module, as a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from torchlint import __version__
from torchlint.api import Document
from torchlint.report.kit.words import pluralise
from torchlint.verify.fixes import FixUnit, applied, diff
from torchlint.verify.machine.manifest import manifest, warnings
from torchlint.verify.machine.workspace import Workspace, replace_file
from torchlint.verify.model import Report, VariantResult
from torchlint.verify.options import Options
from torchlint.verify.paired import function_mode
from torchlint.verify.paired.function_mode import Measured, Outcome, Target, Version
from torchlint.verify.script.time_pass import Stopwatch
from torchlint.verify.variants import Variant, planned, sound


@dataclass(frozen=True, slots=True)
class FunctionRequest:
    """What is to be verified.

    Args:
        typed: as the user named it: ``pkg/mod.py::func``.
        root: the project, which is copied.
        target: the function.
        inputs: what it is called with.
        units: the fixes of its module.
        documents: the files that they change, by posix path under `root`.
        skipped: fixes that are left out, in words.
        options: how.
        grad: whether gradients are compared.
    """

    typed: str
    root: Path
    target: Target
    inputs: str | None
    units: tuple[FixUnit, ...]
    documents: Mapping[str, Document]
    skipped: tuple[str, ...]
    options: Options
    grad: bool


def run(request: FunctionRequest, say: Callable[[str], None], tick: Callable[[str], None]) -> Report:
    """Verify, and return the report; raises what `function_mode.run` raises.

    Args:
        request: what.
        say: takes the plan.
        tick: takes a line of progress.
    """
    watch = Stopwatch(request.options.budget)
    before = manifest(request.root)
    variants, notes = sound(planned(request.units, request.options.ablation), request.documents)
    fixed = [variant for variant in variants if variant.unit is not None]
    with Workspace(keep=request.options.keep) as workspace:
        launches = f"{request.options.launches} launch{'es' * (request.options.launches != 1)}"
        say(
            f"plan: {request.typed}: {pluralise(len(fixed), 'version')} with fixes; {request.options.pairs} blocks in "
            f"{launches}; runs your code in copies under {workspace.path}"
        )
        original = workspace.copy(request.root, "v0")
        versions = [_version(variant, number, request, workspace) for number, variant in enumerate(fixed, 1)]
        measured = function_mode.run(
            request.target,
            request.inputs,
            original,
            versions,
            request.options,
            workspace,
            grad=request.grad,
            tick=tick,
            pristine=request.root,
        )
        kept = (f"the copies are in {workspace.path}",) if request.options.keep else ()
        notes = [*notes, *workspace.notes, *kept]
    changed = warnings(request.root, before)
    return _report(request, fixed, measured, (*changed, *measured.warnings, *notes), not changed, watch.spent)


def _version(variant: Variant, number: int, request: FunctionRequest, workspace: Workspace) -> Version:
    assert variant.unit is not None
    folder = workspace.copy(request.root, f"v{number}")
    for file, data in applied([variant.unit], request.documents).items():
        replace_file(folder, file, data)
    return Version(variant.name, folder, variant.unit.expected, variant.unit.safe)


def _report(
    request: FunctionRequest,
    variants: Sequence[Variant],
    measured: Measured,
    warnings: tuple[str, ...],
    unchanged: bool,
    seconds: float,
) -> Report:
    return Report(
        mode="function",
        command=(request.typed, *(("--inputs", request.inputs) if request.inputs else ())),
        version=__version__,
        date=date.today().isoformat(),
        machine=measured.machine,
        plan=measured.plan,
        variants=tuple(_result(each, measured.outcomes[each.name], request) for each in variants),
        null_control=measured.null_control,
        tree_unchanged=unchanged,
        warnings=warnings,
        skipped=request.skipped,
        seconds=seconds,
    )


def _result(variant: Variant, outcome: Outcome, request: FunctionRequest) -> VariantResult:
    assert variant.unit is not None
    return VariantResult(
        id=variant.name,
        kind=variant.kind,
        fixes=variant.ids,
        title="all together" if variant.kind == "all" else variant.unit.title,
        where="" if variant.kind in ("all", "without", "group") else variant.unit.where,
        speed=outcome.speed,
        status=outcome.status,
        equality=outcome.equality,
        blocks_ns=outcome.blocks_ns,
        error=outcome.error,
        diff=diff([variant.unit], request.documents),
        note=variant.unit.note,
    )
