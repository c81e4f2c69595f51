"""Script mode: a training program as it is, in copies with and without the fixes, compared run by
run.

Four kinds of evidence, each from runs of its own, as each recorder disturbs the others:
`check_pass` (equal results), `count_pass` (host-device traffic), `time_pass` (speed), and which
lines ran at all.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path

from torchlint import __version__
from torchlint.program.command import Command
from torchlint.program.machine.manifest import manifest, warnings
from torchlint.program.machine.workspace import Workspace, replace_file
from torchlint.program.traffic import UNUSED
from torchlint.report.kit.words import pluralise
from torchlint.verify.errors import OriginalFailedError
from torchlint.verify.fixes import applied, diff
from torchlint.verify.model import Counts, Judged, Proof, Report, Status, VariantResult
from torchlint.verify.options import Options
from torchlint.verify.proof import Grounds, judged
from torchlint.verify.script import check_pass, count_pass, reference
from torchlint.verify.script.check_pass import Checked
from torchlint.verify.script.pacing import Pace, stages_of
from torchlint.verify.script.pristine import Pristine
from torchlint.verify.script.reference import Explored, Reference
from torchlint.verify.script.request import Request
from torchlint.verify.script.run_extent import RunExtent
from torchlint.verify.script.runs import (
    Home,
    Run,
    Runner,
    RunRecord,
    SpentError,
    in_words,
)
from torchlint.verify.script.time_pass import TimePass, capacity
from torchlint.verify.script.verdicts import (
    interactions,
    moved,
    opt_in_notes,
    results,
    undecided,
    unreached,
)
from torchlint.verify.script.versions import CHANGE, Versions
from torchlint.verify.session.facts import WarmFacts
from torchlint.verify.session.site import site_in
from torchlint.verify.session.times import Times
from torchlint.verify.statistics import levels
from torchlint.verify.stopwatch import Stopwatch
from torchlint.verify.variants import (
    ALL,
    NULL,
    ORIGINAL,
    Variant,
    planned,
    single,
    sound,
    together,
)

TOGETHER_SHARE = 0.25
"""How much of what is left of the budget is kept for the program with all that was proved."""
PROVED = "proved together"
CONTEXT_BYTES = 700_000_000
"""What a process takes of a GPU beside what torch's allocator counts."""
MANY_CORES = 4
"""Cores from which what launches are forked from imports beside all that is not timed."""
WAIT_SHARE = 0.25
"""How much of what is left of the budget may be waited for it, so that it is not beside a
launch."""
REPORT_SECONDS, REPORT_SHARE = 1.0, 0.03
"""What is kept of the budget for ending the processes, removing the copies and the report, at
least and as a share."""


class Early:
    """What begins before it is known what there is to verify: the workspace, and the process that
    programs are forked from, which imports torch meanwhile; use it with ``with``.

    Args:
        options: how.
        root, cwd, command: as of `Request`.
        watch: runs from the command's start.
        make: makes the versions to compare in the workspace, where these are no fixes.

    Raises:
        UsageError: the project cannot be copied, or there are no such versions.
    """

    def __init__(
        self,
        options: Options,
        root: Path,
        cwd: Path,
        command: Command,
        watch: Stopwatch,
        make: Callable[[Workspace], Versions] | None = None,
    ) -> None:
        self.watch = watch
        wanted = options.device
        cuda = wanted == "cuda" or (wanted == "auto" and Path("/dev/nvidiactl").exists())
        with ExitStack() as stack:
            self.workspace = stack.enter_context(Workspace(keep=options.keep))
            self.workspace.demand_outside(root)
            self.versions = make(self.workspace) if make is not None else None
            if self.versions is not None:
                self.versions.demand(command, root, cwd)
            site = site_in(self.workspace, options)
            end = watch.end - max(REPORT_SECONDS, REPORT_SHARE * watch.budget)
            self.runner = stack.enter_context(
                Runner(
                    site,
                    command,
                    root,
                    cwd,
                    "cuda" if cuda else "cpu",
                    end,
                    self.versions.folders if self.versions is not None else (),
                )
            )
            if site.host.cores >= MANY_CORES and wanted != "virtual-cuda":
                self.runner.warm.start(range(_first_launches(options)))
            warm = self.runner.warm
            cold = bool(warm.why_cold)
            self.facts = stack.enter_context(
                WarmFacts(options.python, lambda end: warm.zygote(0, end), cold=cold)
            )
            """Answers for the interpreter; see `doctor.ready`."""
            self._stack = stack.pop_all()

    def __enter__(self) -> Early:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()


def run(
    request: Request,
    say: Callable[[str], None],
    tick: Callable[[str], None],
    early: Early | None = None,
) -> Report:
    """Verify, and return the report: when all is known, the budget is spent, or an interrupt comes.

    Args:
        request: what.
        say: takes lines that the user should read before the result: the plan.
        tick: takes a line of progress.
        early: what has begun already; it is ended.

    Raises:
        OriginalFailedError: the program fails without any fix.
        UsageError: the project cannot be copied.
        KeyboardInterrupt: it came before anything was known, or a second time.
    """
    given = request.options
    before = manifest(request.root)
    with early or Early(
        given, request.root, request.cwd, request.command, Stopwatch(given.budget)
    ) as begun:
        begun.runner.be(request.device)
        verification = _Verification(request, begun.workspace, begun.runner, begun.watch, say, tick)
        try:
            report = verification.run()
        except OriginalFailedError as error:
            if request.versions is None:
                raise
            raise OriginalFailedError(
                f"{request.versions.before.name}: {error}", error.log
            ) from None
        notes = begun.workspace.notes  # what its removal adds is there afterwards
        kept = (f"the copies are in {begun.workspace.path}",) if given.keep else ()
    changed = warnings(request.root, before)
    return dataclasses.replace(
        report,
        tree_unchanged=not changed,
        warnings=(*changed, *report.warnings, *notes, *kept),
        seconds=begun.watch.spent,
    )


class _Verification:
    """One run: its variants, and what is known of them so far."""

    def __init__(
        self,
        request: Request,
        workspace: Workspace,
        runner: Runner,
        watch: Stopwatch,
        say: Callable[[str], None],
        tick: Callable[[str], None],
    ) -> None:
        self.request = request
        self.options = request.options
        self.workspace = workspace
        self.runner = runner
        self.site = runner.site
        self.watch = watch
        self.say = say
        self.tick = tick
        self.together = max(1, request.doctor.host.cores)
        self.homes: dict[str, Home] = {}
        self.timings = 0
        self.notes: list[str] = []
        self.judged: list[Judged] = []
        self.launches = request.options.launches
        self.unknown = False
        """Whether a version was not run for its results, as no time was left for it."""
        self.variants: Sequence[Variant] = ()
        self.base: Reference | None = None
        self.checked = Checked()
        self.counts: dict[str, Counts] = {}
        self.timed = Times()

    def run(self) -> Report:
        """Run all passes, as far as there is time."""
        spent = False
        options = self.options
        where = (
            "writes elsewhere are blocked (Landlock)"
            if self.site.landlock
            else ("writes to absolute paths outside the copy are NOT blocked")
        )
        versions = self.request.versions
        what = pluralise(len(self.request.units), "fix")
        if versions is not None:
            what = (
                f"{versions.after.name} against {versions.before.name}, which differ in "
                f"{pluralise(len(versions.changed), 'file')}"
            )
        if options.device == "virtual-cuda":
            rounds = f"counts over {options.check_steps} steps, no times"
        else:
            launches = pluralise(options.launches, "launch")
            rounds = f"{options.pairs} blocks in {launches}"
        self.say(
            f"plan: {in_words(self.request.command.typed)}: {what}; {rounds}; the answer in "
            f"{max(0.0, self.watch.left):.0f} s at the latest (--budget)"
        )
        self.say(
            f"plan: runs your code in copies under {self.workspace.path}; {where}; the network "
            "is not blocked"
        )
        if self._timing:
            busy = self.request.doctor.host.busy
            if busy:
                self.say(f"plan: {busy}")
        try:
            self._passes()
        except SpentError:
            spent = True
        except KeyboardInterrupt:
            if self.base is None:
                raise
            self.runner.interrupted = True
        assert self.base is not None
        if self.runner.interrupted:
            return self._report(self.base, "interrupted")
        spent = spent or self.timed.cut or self.unknown
        return self._report(self.base, "spent" if spent else "")

    def _passes(self) -> None:
        self._settle(planned((), self.options.ablation))
        explored = self._explored()
        self.base = base = explored.alone()
        reached = base.reached(self.request.units)
        ablation = "alone" if self.request.proving else self.options.ablation
        variants, self.notes = sound(planned(reached, ablation), self.request.documents)
        self.variants = variants
        if explored.watched.status is Status.TIMEOUT:
            raise SpentError
        self._announce_variants(len(reached), len(variants), base)
        if not reached:
            return
        self._settle(variants[1:])
        if self._timing:  # they import while there is nothing to be timed
            many = self.together >= MANY_CORES
            left = (self.runner.left) / 2  # the rest is for results and traffic
            fitted = Pace.of(base.record.record, 3, self.together, self.options).fitted(left)
            options = fitted.options if fitted is not None else self.options
            first = _first_launches(options)
            self.runner.warm.start(range(options.launches if many else first))
        again = explored.runs(self.homes[ORIGINAL])
        records = self._runs(variants, explored.run_extent, again)
        self.base = base = explored.compared(self.runner, again, records[: len(again)])
        self._judge(variants, base, records[len(again) :])
        if self._timing:
            self._time(variants, base)
        more, notes = sound(self._split(variants), self.request.documents)
        self.notes += notes
        if more:
            self._settle(more)
            self.variants = [*variants[:-1], *more, variants[-1]]
            self._compare([variants[0], *more], base)
            if self._timing and (self.options.ablation != "auto" or self._moved(variants)):
                self._time([*variants[:2], *more], base)
        if self.request.proving:
            self._prove(base)

    def _explored(self) -> Explored:
        def tell(name: str) -> None:
            self.tick("running the original")

        others = []
        if self.request.versions is not None:
            whole = single(self.request.units[0])
            self._settle([whole])
            others = [self.homes[whole.name]]
        return reference.explore(self.runner, self.homes[NULL], self.request.units, tell, others)

    def _runs(
        self, variants: Sequence[Variant], run_extent: RunExtent, first: Sequence[Run] = ()
    ) -> list[RunRecord | None]:
        """Run what comes first, then each variant for its results, then all for their traffic where
        the first did not show it: side by side, as far as there are cores and memory."""
        assert self.base is not None
        others = [variant for variant in variants if variant.unit is not None]
        checks: list[Run] = [(self.homes[v.name], "check", run_extent.settings()) for v in others]
        counts: list[Run] = []
        if not (run_extent.ledger or run_extent.gap):
            counted = [variants[0], *others]
            how = count_pass.settings(self.base.run_extent)
            counts = [(self.homes[variant.name], "count", how) for variant in counted]
        return self.runner.all(
            [*first, *checks, *counts],
            min(self.together, self._room(max(self.checked.peak, self.base.peak), 1)),
            lambda name: self.tick(f"comparing results and traffic: {name}"),
        )

    def _compare(self, variants: Sequence[Variant], base: Reference) -> None:
        """Run versions, and compare their results and traffic with the original, the first."""
        self._judge(variants, base, self._runs(variants, base.run_extent))

    def _room(self, peak: int, least: int) -> int:
        """Return how many processes of such a peak of memory can be there at once."""
        free = self.request.doctor.host.memory_free
        if self.request.device == "cuda" and self.request.doctor.gpus:
            gpu = self.request.doctor.gpus[0]
            free, peak = gpu.memory if gpu.free is None else gpu.free, peak + CONTEXT_BYTES
        return capacity(free, peak, least)

    def _judge(
        self, variants: Sequence[Variant], base: Reference, records: Sequence[RunRecord | None]
    ) -> None:
        """Compare results and traffic, given the records of `_runs`."""
        others = [variant for variant in variants if variant.unit is not None]
        checks, counted = records[: len(others)], records[len(others) :]
        ran = [(v, r) for v, r in zip(others, checks, strict=True) if r is not None]
        found = check_pass.judge(
            self.runner,
            self.homes[ORIGINAL],
            ran,
            base,
            lambda name: self.tick(f"comparing results: {name}"),
        )
        self.checked.merge(found)
        self.unknown = self.unknown or None in records
        if not counted:
            self.counts |= count_pass.taken(
                base.record, found.records, self.homes, base.run_extent.gap, self.request.device
            )
        elif counted[0] is not None:
            for variant, record in zip(others, counted[1:], strict=True):
                if record is not None and found.status.get(variant.name) is Status.OK:
                    homes = self.homes[ORIGINAL], self.homes[variant.name]
                    self.counts[variant.name] = count_pass.paired(
                        counted[0], record, *homes, self.request.device
                    )

    def _prove(self, base: Reference) -> None:
        """Judge each fix, and run the program with all that are proved, where that is a version of
        its own."""
        variants, timed = self.variants, self.timed
        grounds = self._grounds(timed)
        found = results(variants, base, self.checked, timed, self.counts, {}, self.options)
        self.judged = [judged(each.fixes[0], each, grounds) for each in found]
        names = {each.fix for each in self.judged if each.proven}
        units = [unit for unit in self.request.units if unit.id in names]
        several = [together(units, PROVED)] if len(units) > 1 else []
        whole, notes = sound(several, self.request.documents)
        self.notes += notes
        if whole:
            self.say(f"plan: {len(units)} fixes are proved alone; now together")
            self._settle(whole)
            self.variants = [*variants, *whole]
            self._compare([variants[0], *whole], base)
            self._time([*variants[:2], *whole], base)

    def _grounds(self, timed: Times) -> Grounds:
        null = timed.null_control()
        peaks = timed.peak(ORIGINAL), timed.peak(NULL)
        noise = abs(peaks[0] - peaks[1]) if peaks[0] is not None and peaks[1] is not None else 0
        steady = null is not None and null.ok
        return Grounds(self.request.device, self.options.min_effect, steady, noise)

    def _proof(self, found: Sequence[VariantResult], timed: Times) -> Proof | None:
        if not self.request.proving:
            return None
        order = [unit.id for unit in self.request.units]
        known = {each.fix: each for each in self.judged}
        grounds = self._grounds(timed)
        for each in found:  # what no run reached, and what is no Python
            if each.kind == "single" and each.fixes[0] not in known:
                known[each.fixes[0]] = judged(each.fixes[0], each, grounds)
        for name in order:
            known.setdefault(name, Judged(name, False, why="with it, the file is no Python"))
        proven = [each for each in self.judged if each.proven]
        whole = next((judged(ALL, each, grounds) for each in found if each.kind == "all"), None)
        if whole is None and len(proven) == 1:
            whole = dataclasses.replace(proven[0], fix=ALL)
        elif whole is None and proven:
            whole = Judged(ALL, False, why="together they are no Python")
        return Proof(tuple(known[name] for name in order), whole)

    @property
    def _timing(self) -> bool:
        return self.options.device != "virtual-cuda"

    def _announce_variants(self, reached: int, variants: int, base: Reference) -> None:
        every = len(self.request.units)
        versions = self.request.versions
        if versions is not None:
            if not reached:
                self.say(f"plan: no function that differs ran in {base.watched}")
            return
        if reached < every:
            self.say(
                f"plan: {every - reached} of {every} fixes change lines that did not run in "
                f"{base.watched}"
            )
        if reached:
            self.say(
                f"plan: {variants} variants: the original, a null control, and {variants - 2} "
                "with fixes"
            )

    def _settle(self, variants: Sequence[Variant]) -> None:
        """Make the copies."""
        for variant in [variant for variant in variants if variant.name not in self.homes]:
            number = len(self.homes)
            self.tick(f"copying {self.request.root.name or 'the project'} ({variant.name})")
            root, source = self.request.root, self.request.source(variant)
            copy = self.workspace.copy(
                source,
                f"v{number}/{root.name or 'project'}",
                beside=root if self.site.landlock else None,
            )
            fixed = (
                applied([variant.unit], self.request.documents) if variant.unit is not None else {}
            )
            for file, data in fixed.items():
                replace_file(copy, file, data)
            folder = self.workspace.path / f"h{number}"
            folder.mkdir()
            self.homes[variant.name] = Home(
                variant.name, copy, folder, Pristine(copy, source, fixed)
            )

    def _time(self, variants: Sequence[Variant], base: Reference) -> None:
        """Time the variants that run: all fixes together first, each alone only if these move."""
        wanted = [
            variant
            for variant in variants
            if variant.unit is None or self.checked.status.get(variant.name) is Status.OK
        ]
        if len(wanted) < 3:
            return
        if self.request.proving:
            # Time every variant that keeps its promise; each alone leaves time for all that is
            # proved.
            kept = [each for each in wanted if each.unit is None or self.checked.kept(each.name)]
            alone = all(variant.kind != "all" for variant in kept)
            if len(kept) > 2:
                self._launches(kept, base, 1 - TOGETHER_SHARE if alone else 1.0)
            for each in wanted:
                if each not in kept:
                    self.timed.left_out[each.name] = (
                        "not timed, as its results are not those promised"
                    )
            return
        first = [variant for variant in wanted if variant.kind in ("original", "null", "all")]
        rest = [variant for variant in wanted if variant not in first]
        if self.options.ablation != "auto" or len(first) < 3 or not rest:
            self._launches(wanted, base, 1.0)
            return
        self._launches(first, base, 0.5)
        if moved(self.timed, first[-1], self.options):
            self._launches([*first[:2], *rest], base, 1.0)

    def _launches(self, wanted: Sequence[Variant], base: Reference, share: float) -> None:
        """Time some variants in a share of what is left of the budget, launch by launch; after each
        look, those with a verdict take no further part."""
        self.timings += 1
        sockets = self.workspace.path / f"s{self.timings}"
        sockets.mkdir()
        timing = TimePass(
            self.runner,
            self.homes,
            sockets,
            self.together,
            self._room(self.checked.peak, 3),
            random.Random(self.options.seed),
            self.tick,
        )
        try:
            self._looks(timing, wanted, base, share)
        finally:  # also on Ctrl-C
            self.timed.merge(timing.found)
        failed = timing.found.failed()
        if not {ORIGINAL, NULL} & failed.keys():  # else it is not the fix that is to blame
            self.checked.blame(failed)

    def _looks(
        self, timing: TimePass, wanted: Sequence[Variant], base: Reference, share: float
    ) -> None:
        whole = self.runner.left
        pace = Pace.of(base.record.record, len(wanted), self.together, self.options)
        fitted = pace.fitted(whole * share)
        if fitted is None or fitted.options.launches == 1:  # that would decide nothing
            fitted = pace.fitted(whole)
        if fitted is None:
            timing.found.cut = True
            return
        pace, planned = fitted, fitted.options
        self.launches = planned.launches
        stages = stages_of(planned.pairs, planned.launches)
        looks = list(itertools.accumulate(map(sum, stages)))
        self._announce_times(pace, whole * share)
        begun, ends = time.monotonic(), zip(stages, looks, strict=True)
        coming = sum(len(rounds) for rounds, look in ends if look <= planned.pairs)
        going = list(wanted)
        for number, (rounds, level) in enumerate(zip(stages, levels(looks), strict=True)):
            extra = looks[number] > planned.pairs
            if extra:
                coming = len(rounds)
                if self.runner.left <= time.monotonic() - begun:
                    break
            # What the later ones are forked from had better not import while the first is timed.
            left = self.runner.left
            self._warmed(timing, len(rounds), pace, self.runner.end - (1 - WAIT_SHARE) * left)
            for count in rounds:
                ready = self._warmed(timing, 1, pace, self.runner.end)
                kept = 0.0 if extra else whole * (1 - share)
                seconds = self._share(timing, pace, coming, count, kept)
                coming -= 1
                if not ready or (timing.started and seconds < pace.rounds(1, 1)):
                    timing.found.cut |= not extra
                    break
                timing.launch(going, count, seconds, pace)
                done = timing.found.launches.get(NULL, [[]])[-1]
                ended = timing.found.failures.keys() & {ORIGINAL, NULL}
                timing.found.cut |= not extra and len(done) < count and not ended
            timing.found.level |= dict.fromkeys((variant.name for variant in going), level)
            near = looks[number] == planned.pairs and self.request.device == "cpu"
            near = near and not self.request.proving  # where a proof needs more pairs to be one
            still = undecided(timing.found, going, planned, level=level, last=near)
            going = [*wanted[:2], *still]
            if len(going) == 2:
                break

    def _share(self, timing: TimePass, pace: Pace, coming: int, rounds: int, kept: float) -> float:
        """Return the seconds of one of the coming launches; what is kept for later is not, where
        that would cost rounds of this one."""
        left = self.runner.left
        start = max(timing.started, pace.launch)
        seconds = (left - kept) / coming - start
        return seconds if seconds >= pace.rounds(rounds, 1) else left / coming - start

    def _warmed(self, timing: TimePass, launches: int, pace: Pace, end: float) -> bool:
        """Wait until `end` for what the next launches are forked from; return whether it is there,
        and time for a launch."""
        numbers = range(timing.launches, timing.launches + launches)
        warm, last = self.runner.warm, self.runner.end - pace.alone - pace.rounds(1, 1)
        if warm.missing(numbers) and time.monotonic() + warm.seconds > last:
            return False
        try:
            warm.wait(numbers, min(end, last))
        except TimeoutError:
            return False
        return True

    def _announce_times(self, pace: Pace, left: float) -> None:
        """Say how long it is until the answer."""
        planned = pace.options
        launches = pluralise(planned.launches, "launch")
        about = min(left, pace.expected)
        self.say(
            f"plan: {pace.lanes} variants x {planned.pairs} blocks in {launches}; the answer in "
            f"about {about:.0f} s, in {max(0.0, self.watch.left):.0f} s at the latest"
        )

    def _moved(self, variants: Sequence[Variant]) -> bool:
        return any(
            variant.kind == "all" and moved(self.timed, variant, self.options)
            for variant in variants
        )

    def _split(self, variants: Sequence[Variant]) -> list[Variant]:
        """Return single variants for the groups that moved or compute something else."""
        grouped = [variant for variant in variants if variant.kind == "group"]
        wanted = {
            name
            for variant in grouped
            if moved(self.timed, variant, self.options)
            or (variant.name in self.checked.status and not self.checked.kept(variant.name))
            for name in variant.ids
        }
        return [single(unit) for unit in self.request.units if unit.id in wanted]

    def _written(self, checked: Reference) -> tuple[str, ...]:
        """Name what the program wrote outside its copy where nothing refuses that."""
        paths = () if self.site.landlock else checked.writes
        return tuple(f"the program wrote outside its copy: {path}" for path in paths)

    def _unpredicted(self, counts: Mapping[str, Counts]) -> tuple[str, ...]:
        """Say how to have the GPU's path predicted where a command keeps the program on the
        host."""
        if not any(each.unavailable == UNUSED for each in counts.values()):
            return ()
        hint = count_pass.unused_hint(self.request.command.typed)
        return (hint,) if hint else ()

    def _report(self, base: Reference, cut: str) -> Report:
        request, doctor = self.request, self.request.doctor
        variants, timed, counts = self.variants, self.timed, self.counts
        versions = request.versions
        diffs = {v.name: diff([v.unit], request.documents) for v in variants if v.unit is not None}
        if versions is not None:
            diffs = {CHANGE: versions.diff()}
        idle = [unit for unit in request.units if base.exercised.get(unit.id) is False]
        found = (
            *unreached(idle, request.documents, base.watched),
            *results(variants, base, self.checked, timed, counts, diffs, request.options),
        )
        return Report(
            mode="script",
            command=request.command.typed,
            version=__version__,
            date=date.today().isoformat(),
            machine=self.site.machine(
                device=request.device,
                device_name=doctor.gpus[0].name
                if request.device == "cuda" and doctor.gpus
                else None,
                torch=doctor.torch or "",
                python=doctor.python_version or "",
            ),
            plan=self.site.plan(
                timed.block_steps or None,
                launches=self.launches,
                check_steps=base.run_extent.compared,
            ),
            variants=found,
            null_control=timed.null_control(),
            interactions=interactions(variants, timed),
            blocked_writes=base.writes if self.site.landlock else (),
            warnings=(
                *self.watch.words(cut),
                *self.notes,
                *base.warnings,
                *self._unpredicted(counts),
                *self._written(base),
                *opt_in_notes(variants),
            ),
            skipped=request.skipped,
            proof=self._proof(found, timed),
            cut=cut,
            extra=versions.commits if versions is not None else {},
            versions=(versions.before.name, versions.after.name) if versions is not None else None,
        )


def _first_launches(options: Options) -> int:
    """Return how many launches there are before the first look."""
    return len(stages_of(options.pairs, options.launches)[0])
