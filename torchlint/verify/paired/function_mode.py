"""Function mode: one function of the user's with given inputs, the original beside each fixed version of its module."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchlint.base.errors import UsageError
from torchlint.verify.errors import OriginalFailedError
from torchlint.verify.machine.workspace import Workspace
from torchlint.verify.model import Equality, Expected, Level, Machine, NullControl, Plan, Speed, Status, Verdict
from torchlint.verify.options import Options
from torchlint.verify.paired import pairs
from torchlint.verify.paired.sessions import Session, session
from torchlint.verify.paired.workers import Worker, WorkerError
from torchlint.verify.session.promise import Comparison, comparison, judged, together

_FACTORY = re.compile(r"(?P<file>[^\s:()\[\],'\"]+\.py):(?P<name>[A-Za-z_]\w*)")
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the project.

    Args:
        name: ``"fix:TL603@pkg/model.py:15"``.
        folder: the copy of the project.
        expected: what its fixes promise together.
        safe: whether all of them are safe.
    """

    name: str
    folder: Path
    expected: Expected = Expected.CLOSE
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of one version."""

    speed: Speed
    equality: Equality | None
    status: Status = Status.OK
    error: str = ""
    blocks_ns: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """The whole run: an outcome by version name, the null control, the machine, the plan, what to warn of."""

    outcomes: Mapping[str, Outcome]
    null_control: NullControl | None
    machine: Machine
    plan: Plan
    warnings: tuple[str, ...]


def parse_target(text: str, root: Path) -> Target:
    """Understand ``pkg/mod.py::func``.

    Args:
        text: a path, from the current folder or absolute, and a function's name.
        root: the project.

    Raises:
        UsageError: it is not of that form, there is no such file, it lies outside the project, or is no module.
    """
    path, mark, name = text.partition("::")
    if not mark or not _NAME.fullmatch(name) or not path.endswith(".py"):
        raise UsageError(f"{text!r} is no function: write path/to/module.py::function or module.py::Class.method")
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(f"{path}: no such file")
    if not file.is_relative_to(root.resolve()):
        raise UsageError(f"{path} lies outside the project {root}")
    relative = file.relative_to(root.resolve())
    source = "src" if relative.parts[0] == "src" and not (root / "src" / "__init__.py").exists() else ""
    parts = list((relative.relative_to(source) if source else relative).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    if not parts or not all(part.isidentifier() for part in parts):
        raise UsageError(f"{path} cannot be imported: {'.'.join(parts) or path} is no module name")
    return Target(".".join(parts), name, source, relative.as_posix())


def run(
    target: Target,
    inputs: str | None,
    original: Path,
    versions: Sequence[Version],
    options: Options,
    workspace: Workspace,
    *,
    grad: bool = False,
    seeds: int = 3,
    tick: Callable[[str], None] = lambda line: None,
    pristine: Path | None = None,
) -> Measured:
    """Compare and time a function in the original and in every version.

    Args:
        target: the function.
        inputs: arguments as one writes them in a call, or ``file.py:factory``; None for defaults.
        original: the copy of the project as it is.
        versions: copies with fixes.
        options: interpreter, device, pairs, launches, seed, threads, min_effect, timeout.
        workspace: of the run; the copies lie in it.
        grad: whether ``backward`` is part of it.
        seeds: for how many seeds results are compared.
        tick: takes a line of progress.
        pristine: the project that the copies were made of; files that a call changes are put back from there.

    Raises:
        UsageError: function and inputs do not fit.
        OriginalFailedError: the original raises, hangs or crashes.
        NoTorchError: the interpreter has no usable torch.
    """
    with session(options, workspace) as live:
        return Run(live, target, inputs, original, grad, max(1, seeds), tick, pristine).all(versions)


class Run:
    """One run in a session: the check pass decides what is timed. Arguments as those of `run`."""

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
    ) -> None:
        self.live = live
        self.options = live.options
        self.target = target
        self.original = original
        self.grad = grad
        self.seeds = range(live.options.seed, live.options.seed + seeds)
        self.tick = tick
        self.pristine = pristine
        self.mutates = False
        self.raises: dict[int, str] = {}
        """What the original raises, by seed."""
        self.notes: list[str] = []
        factory = _FACTORY.fullmatch(inputs.strip()) if inputs else None
        self.factory = [_existing(factory["file"]), factory["name"]] if factory else None
        self.inputs = None if factory else inputs
        self._files = 0

    def all(self, versions: Sequence[Version]) -> Measured:
        """Check every version, then time those that run; raises as `run` does."""
        first = self._saved(Version("original", self.original))
        second = self._saved(Version("original again", self.original))
        outcomes: dict[str, Outcome] = {}
        for version in versions:
            self.tick(f"comparing results: {version.name}")
            try:
                equality = self._equality(first, second, self._run_in(version), version)
                outcomes[version.name] = Outcome(Speed(Verdict.NOT_MEASURED), equality)
            except WorkerError as error:
                outcomes[version.name] = _broken(error, version)
        lanes, control = self._timed([v for v in versions if outcomes[v.name].status is Status.OK])
        self.notes += [f"seed {seed}: {self.target.name} raises {error}" for seed, error in self.raises.items()]
        for lane in lanes[2:]:
            outcomes[lane.name] = self._with_times(outcomes[lane.name], lanes[0], lane, control)
        return Measured(
            outcomes,
            control,
            self.live.machine(lanes),
            self.live.plan(),
            tuple(filter(None, (self.live.here.busy, *self.notes))),
        )

    def program(self, folder: Path) -> dict[str, object]:
        """Return the settings of `inside.function` for one copy."""
        return {
            "kind": "function",
            "seed": self.options.seed,
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

    def _saved(self, version: Version) -> list[str]:
        """Run the original once a seed; return the snapshots."""
        self.tick(f"running {self.target.name}")
        try:
            return self._run_in(version)
        except WorkerError as error:
            if error.kind == "usage":
                raise UsageError(str(error)) from None
            where = f" ({_relative(error.where, self.original)})" if error.where else ""
            raise OriginalFailedError(f"{self.target.name} fails without any fix: {error}{where}") from None

    def _run_in(self, version: Version) -> list[str]:
        worker = self.live.zygotes[0].fork(version.folder)
        saved = []
        try:
            worker.load(self.options.timeout, self.program(version.folder))
            for seed in self.seeds:
                self._files += 1
                path = str(self.live.place.folder / f"f{self._files}.pt")
                answer = worker.ask(self.options.timeout, check=path, seed=seed)
                self.mutates = self.mutates or bool(answer["mutates"])
                self.notes += [note for note in answer["notes"] if note not in self.notes]
                if answer["raised"] is not None:
                    self._raised(answer["raised"], seed, version)
                saved.append(path)
        finally:
            worker.close()
        return saved

    def _raised(self, raised: Mapping[str, str], seed: int, version: Version) -> None:
        """Note that the original raises for some of the seeds; then the fixed versions must do so too.

        Raises:
            WorkerError: a fixed version raises where the original does not, or the original for the first seed:
                then it fails with any inputs, as far as is known, and nothing can be timed.
        """
        if version.folder != self.original and seed in self.raises:
            return
        if version.folder != self.original or seed == self.seeds[0]:
            raise WorkerError(raised["error"], raised["kind"], raised["where"])
        self.raises.setdefault(seed, raised["error"])

    def _equality(
        self, first: Sequence[str], second: Sequence[str], fixed: Sequence[str], version: Version
    ) -> Equality:
        redrawn = version.expected is Expected.RNG
        found = []
        worker = self.live.zygotes[0].fork()
        try:
            for seed, one, two, other in zip(self.seeds, first, second, fixed, strict=True):
                noisy = self._compare(worker, one, two).effects
                itself = self._compare(worker, one, two, ignored=noisy)
                compared = self._compare(worker, one, other, band=itself.band, redrawn=redrawn, ignored=noisy)
                equality = judged(compared, itself, version.expected, safe=version.safe)
                unseen = tuple(f"{name}: differs between two runs of the original, not compared" for name in noisy)
                found.append((f"seed {seed}", replace(equality, notes=(*equality.notes, *unseen))))
        finally:
            worker.close()
        return together(found)

    def _compare(self, worker: Worker, before: str, after: str, **how: object) -> Comparison:
        return comparison(worker.ask(self.options.timeout, compare=[before, after], how=how))

    # Times

    def _timed(self, versions: Sequence[Version]) -> tuple[list[pairs.Lane], NullControl | None]:
        if self.options.device == "virtual-cuda" or not versions:
            return [], None
        self.tick(f"timing {len(versions) + 2} versions")
        folders = {"original": self.original, "null": self.original, **{v.name: v.folder for v in versions}}
        lanes = [pairs.Lane(name, self.program(folder), folder) for name, folder in folders.items()]
        pairs.measure(self.live.zygotes, lanes, self.live.pace(pairs.BLOCK_MS))
        if lanes[0].failure is not None:
            # Its results were compared in calls of their own: only calls one after the other fail.
            self.notes.append(f"not timed: {self.target.name} cannot be called again and again: {lanes[0].failure}")
            return lanes[:1], None
        return lanes, pairs.null_control(lanes[0], lanes[1])

    def _with_times(
        self, outcome: Outcome, before: pairs.Lane, lane: pairs.Lane, control: NullControl | None
    ) -> Outcome:
        failed = lane.failure
        return replace(
            outcome,
            speed=pairs.speed(before, lane, control, self.live.pace(pairs.BLOCK_MS)),
            status=Status.OK if failed is None else pairs.STATUSES.get(failed.kind, Status.BROKEN),
            error="" if failed is None else str(failed),
            blocks_ns=pairs.blocks(before, lane),
        )


def _broken(error: WorkerError, version: Version) -> Outcome:
    """Return the outcome of a version that fails where the original does not."""
    status = pairs.STATUSES.get(error.kind, Status.BROKEN)
    where = f" ({_relative(error.where, version.folder)})" if error.where else ""
    text = f"{error}{where}"
    equality = Equality(Level.DIFFERENT, version.expected, False, notes=(text,))
    return Outcome(Speed(Verdict.NOT_MEASURED, why=status.value), equality, status, text)


def _existing(file: str) -> str:
    if not Path(file).is_file():
        raise UsageError(f"--inputs: {file}: no such file")
    return str(Path(file).resolve())


def _relative(where: str, folder: Path) -> str:
    return where.removeprefix(f"{folder}/")
