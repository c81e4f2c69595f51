"""Function mode: one function of the user's with given inputs, the original beside each fixed
version of its module."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from torchlint import __version__
from torchlint.api import Document
from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.program.machine.manifest import manifest, warnings
from torchlint.program.machine.workspace import Workspace, replace_file
from torchlint.report.kit.words import pluralise
from torchlint.verify.errors import OriginalFailedError
from torchlint.verify.fixes import FixUnit, applied, diff
from torchlint.verify.model import (
    Equality,
    Expected,
    Level,
    Report,
    Speed,
    Status,
    VariantResult,
    Verdict,
)
from torchlint.verify.options import Options
from torchlint.verify.paired.sessions import Session, Version, session
from torchlint.verify.session.promise import Comparison, comparison, judged, together
from torchlint.verify.session.times import INTERRUPTED, NO_TIME, Times
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.session.workers import Worker
from torchlint.verify.stopwatch import Stopwatch
from torchlint.verify.variants import NULL, ORIGINAL, Variant, planned, sound

BLOCK_MS = 20.0
"""The least length of a block."""
SEEDS = 3
"""For how many seeds results are compared."""
_FACTORY = re.compile(r"(?P<file>[^\s:()\[\],'\"]+\.py):(?P<name>[A-Za-z_]\w*)")
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@frozen
class Target:
    """A function: ``pkg/mod.py::Class.method`` under the project root.

    Args:
        module: its dotted name, as imported from `source`.
        name: of the function, dotted for a method.
        source: the folder under the project root that goes on ``sys.path``: ``""`` or ``"src"``.
        file: posix path under the project root.
    """

    module: str
    name: str
    source: str
    file: str


@frozen
class FunctionRequest:
    """What is to be verified.

    Args:
        typed: as the user named it: ``pkg/mod.py::func``.
        root: the project, which is copied.
        target: the function.
        inputs: arguments as one writes them in a call, or ``file.py:factory``; None for defaults.
        units: the fixes of its module.
        documents: the files that they change, by posix path under `root`.
        skipped: fixes that are left out, in words.
        options: how.
        grad: whether ``backward`` is part of it.
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


@frozen
class Fixed:
    """A copy of the project with fixes."""

    variant: Variant
    unit: FixUnit
    folder: Path

    @property
    def name(self) -> str:
        """Return what the version is called."""
        return self.variant.name


def parse_target(text: str, root: Path) -> Target:
    """Understand ``pkg/mod.py::func``.

    Args:
        text: a path, from the current folder or absolute, and a function's name.
        root: the project.

    Raises:
        UsageError: it is not of that form, there is no such file, it lies outside the project, or
            is no module.
    """
    path, mark, name = text.partition("::")
    if not mark or not _NAME.fullmatch(name) or not path.endswith(".py"):
        raise UsageError(
            f"{text!r} is no function: write path/to/module.py::function or module.py::Class.method"
        )
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(f"{path}: no such file")
    if not file.is_relative_to(root.resolve()):
        raise UsageError(f"{path} lies outside the project {root}")
    relative = file.relative_to(root.resolve())
    source = (
        "src" if relative.parts[0] == "src" and not (root / "src" / "__init__.py").exists() else ""
    )
    parts = list((relative.relative_to(source) if source else relative).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    if not parts or not all(part.isidentifier() for part in parts):
        raise UsageError(f"{path} cannot be imported: {'.'.join(parts) or path} is no module name")
    return Target(".".join(parts), name, source, relative.as_posix())


def run(
    request: FunctionRequest,
    say: Callable[[str], None],
    tick: Callable[[str], None],
    watch: Stopwatch | None = None,
) -> Report:
    """Verify, and return the report.

    Args:
        request: what.
        say: takes the plan.
        tick: takes a line of progress.
        watch: runs out with the budget; one from now on where None.

    Raises:
        UsageError: function and inputs do not fit.
        OriginalFailedError: the original raises, hangs or crashes.
        NoTorchError: the interpreter has no usable torch.
    """
    options = request.options
    watch = watch or Stopwatch(options.budget)
    latest = f"in about {max(0.0, watch.left):.0f} s at the latest (--budget)"
    before = manifest(request.root)
    variants, notes = sound(planned(request.units, options.ablation), request.documents)
    fixed = [(each, each.unit) for each in variants if each.unit is not None]
    with Workspace(keep=options.keep) as workspace:
        say(
            f"plan: {request.typed}: {pluralise(len(fixed), 'version')} with fixes; compares "
            f"results, then times each beside the original {options.pairs} times; the answer "
            f"{latest}"
        )
        say(f"plan: runs your code in copies under {workspace.path}")
        original = workspace.copy(request.root, "v0")
        copies = [
            _copied(*each, number, request, workspace) for number, each in enumerate(fixed, 1)
        ]
        with session(options, workspace) as live:
            live.demand()
            calls = FunctionCalls(
                live,
                request.target,
                request.inputs,
                original,
                request.grad,
                SEEDS,
                tick,
                request.root,
                watch.end,
                lambda seconds: say(
                    "plan: times them now; the answer in about "
                    f"{max(0.0, min(seconds, watch.left)):.0f} s"
                ),
            )
            outcomes = calls.compare(copies)
            results = [
                replace(
                    outcomes[each.name],
                    blocks_ns=calls.times.blocks_ns(each.name),
                    diff=diff([each.unit], request.documents),
                )
                for each in copies
            ]
            machine, plan = live.machine(calls.times), live.plan()
            notes = [*filter(None, [live.site.host.busy]), *calls.notes, *notes]
        notes += workspace.notes
        cut = calls.times.ended
        notes += [f"the copies are in {workspace.path}"] if options.keep else []
    changed = warnings(request.root, before)
    return Report(
        mode="function",
        command=(request.typed, *(("--inputs", request.inputs) if request.inputs else ())),
        version=__version__,
        date=date.today().isoformat(),
        machine=machine,
        plan=plan,
        variants=tuple(results),
        null_control=calls.times.null_control(),
        tree_unchanged=not changed,
        warnings=(*changed, *watch.words(cut), *notes),
        skipped=request.skipped,
        seconds=watch.spent,
        cut=cut,
    )


def _copied(
    variant: Variant, unit: FixUnit, number: int, request: FunctionRequest, workspace: Workspace
) -> Fixed:
    folder = workspace.copy(request.root, f"v{number}")
    for file, data in applied([unit], request.documents).items():
        replace_file(folder, file, data)
    return Fixed(variant, unit, folder)


class FunctionCalls:
    """FunctionCalls a function in the original and in every fixed version; results decide what is
    timed.

    Args:
        live: forks the workers.
        target: the function.
        inputs: as in `FunctionRequest`.
        original: the copy of the project as it is.
        grad: whether ``backward`` is part of it.
        seeds: for how many seeds results are compared.
        tick: takes a line of progress.
        pristine: the project that the copies were made of; files that a call changes are put back
            from there.
        end: the time (`time.monotonic`) at which no further version is begun.
        tell: takes the seconds that timing will take.

    Attributes:
        times: what was measured.
        notes: what to warn of.
    """

    def __init__(
        self,
        live: Session,
        target: Target,
        inputs: str | None,
        original: Path,
        grad: bool,
        seeds: int,
        tick: Callable[[str], None],
        pristine: Path | None = None,
        end: float = math.inf,
        tell: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.live = live
        self.target = target
        self.original = original
        self.grad = grad
        self.seeds = range(live.options.seed, live.options.seed + seeds)
        self.tick = tick
        self.pristine = pristine
        self.end = end
        self.tell = tell
        self.mutates = False
        self.raises: dict[int, str] = {}
        """What the original raises, by seed."""
        self.notes: list[str] = []
        self.times = Times()
        factory = _FACTORY.fullmatch(inputs.strip()) if inputs else None
        self.factory = [_existing(factory["file"]), factory["name"]] if factory else None
        self.inputs = None if factory else inputs
        self._files = 0

    def compare(self, copies: Sequence[Fixed]) -> dict[str, VariantResult]:
        """Check every version, then time those that run; raises as `run` does. An interrupt ends
        it once the original has run."""
        first, second = self.saved(), self.saved()
        outcomes: dict[str, VariantResult] = {}
        try:
            for number, copy in enumerate(copies):
                if number and time.monotonic() > self.end:
                    self.times.cut = True
                    break
                self.tick(f"comparing results: {copy.name}")
                try:
                    equality = self._equality(first, second, self._called_in(copy.folder), copy)
                    speed = Speed(Verdict.NOT_MEASURED)
                    outcomes[copy.name] = copy.variant.result(speed, equality=equality)
                except ProgramError as error:
                    outcomes[copy.name] = _broken(error, copy)
            timed = [
                copy
                for copy in copies
                if copy.name in outcomes and outcomes[copy.name].status is Status.OK
            ]
            if timed and self.live.options.device != "virtual-cuda":
                outcomes |= self._timed(timed, outcomes)
        except KeyboardInterrupt:
            self.times.interrupted = True
        why = INTERRUPTED if self.times.interrupted else NO_TIME
        late = Speed(Verdict.NOT_MEASURED, why=why)
        for copy in copies:
            outcomes.setdefault(copy.name, copy.variant.result(late))
        self.notes += [
            f"seed {seed}: {self.target.name} raises {error}" for seed, error in self.raises.items()
        ]
        return outcomes

    def program(self, folder: Path) -> dict[str, object]:
        """Return the settings of `inside.function` for one copy."""
        return {
            "kind": "function",
            "seed": self.live.options.seed,
            "root": str(folder / self.target.source),
            "module": self.target.module,
            "name": self.target.name,
            "inputs": self.inputs,
            "factory": self.factory,
            "grad": self.grad,
            "mutates": self.mutates,
            "folder": str(folder),
            "pristine": None if self.pristine is None else str(self.pristine.resolve()),
        }

    # Results

    def saved(self) -> list[str]:
        """Call the original once a seed; return the snapshots."""
        self.tick(f"running {self.target.name}")
        try:
            return self._called_in(self.original)
        except ProgramError as error:
            if error.kind == "usage":
                raise UsageError(str(error)) from None
            raise OriginalFailedError(
                f"{self.target.name} fails without any fix: {_with_place(error, self.original)}"
            ) from None

    def _called_in(self, folder: Path) -> list[str]:
        saved = []
        with self.live.fork(folder) as worker:
            worker.load(self.program(folder))
            for seed in self.seeds:
                self._files += 1
                path = str(self.live.site.folder / f"f{self._files}.pt")
                answer = worker.ask(check=path, seed=seed)
                self.mutates = self.mutates or bool(answer["mutates"])
                self.notes += [note for note in answer["notes"] if note not in self.notes]
                if answer["raised"] is not None:
                    self._raised(answer["raised"], seed, folder)
                saved.append(path)
        return saved

    def _raised(self, raised: Mapping[str, str], seed: int, folder: Path) -> None:
        """Note that the original raises for some of the seeds; then the fixed versions must do so
        too.

        Raises:
            ProgramError: a fixed version raises where the original does not, or the original for
                the first seed: then it fails with any inputs, as far as is known, and nothing can
                    be timed.
        """
        if folder != self.original and seed in self.raises:
            return
        if folder != self.original or seed == self.seeds[0]:
            raise ProgramError(raised["error"], raised["kind"], raised["where"])
        self.raises.setdefault(seed, raised["error"])

    def _equality(
        self, first: Sequence[str], second: Sequence[str], fixed: Sequence[str], copy: Fixed
    ) -> Equality:
        redrawn = copy.unit.expected is Expected.RNG
        found = []
        with self.live.fork() as worker:
            for seed, one, two, other in zip(self.seeds, first, second, fixed, strict=True):
                noisy = _compared(worker, one, two).effects
                itself = _compared(worker, one, two, ignored=noisy)
                compared = _compared(
                    worker, one, other, band=itself.band, redrawn=redrawn, ignored=noisy
                )
                equality = judged(compared, itself, copy.unit.expected, safe=copy.unit.safe)
                unseen = tuple(
                    f"{name}: differs between two runs of the original, not compared"
                    for name in noisy
                )
                found.append((f"seed {seed}", replace(equality, notes=(*equality.notes, *unseen))))
        return together(found)

    # Times

    def _timed(
        self, copies: Sequence[Fixed], outcomes: Mapping[str, VariantResult]
    ) -> dict[str, VariantResult]:
        """Return the outcomes with times; sets `times`."""
        self.tick(f"timing {len(copies) + 2} versions")
        folders = {
            ORIGINAL: self.original,
            NULL: self.original,
            **{copy.name: copy.folder for copy in copies},
        }
        versions = {name: Version(self.program(folder), folder) for name, folder in folders.items()}
        cut = self.times.cut
        self.times = times = self.live.measure(versions, BLOCK_MS, end=self.end, tell=self.tell)
        times.cut |= cut
        failed = times.failures.get(ORIGINAL)
        if failed is not None:
            # Its results were compared in calls of their own: only calls one after the other fail.
            self.notes.append(
                f"not timed: {self.target.name} cannot be called again and again: {failed}"
            )
            self.times = Times(device=times.device, device_name=times.device_name)
            return {}
        control = times.null_control()
        found = {}
        for name in (copy.name for copy in copies):
            error = times.failures.get(name)
            found[name] = replace(
                outcomes[name],
                speed=self.live.speed(times, name, control),
                status=Status.OK if error is None else error.status,
                error="" if error is None else str(error),
            )
        return found


def _compared(worker: Worker, before: str, after: str, **how: object) -> Comparison:
    return comparison(worker.ask(compare=[before, after], how=how))


def _broken(error: ProgramError, copy: Fixed) -> VariantResult:
    """Return the outcome of a version that fails where the original does not."""
    text = _with_place(error, copy.folder)
    return copy.variant.result(
        Speed(Verdict.NOT_MEASURED, why=error.status.value),
        equality=Equality(Level.DIFFERENT, copy.unit.expected, False, notes=(text,)),
        status=error.status,
        error=text,
    )


def _with_place(error: ProgramError, folder: Path) -> str:
    where = error.where.removeprefix(f"{folder}/")
    return f"{error} ({where})" if where else str(error)


def _existing(file: str) -> str:
    if not Path(file).is_file():
        raise UsageError(f"--inputs: {file}: no such file")
    return str(Path(file).resolve())
