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
from collections.abc import Callable, Mapping, Sequence
from datetime import date

from torchlint import __version__
from torchlint.program.machine.manifest import manifest, warnings
from torchlint.program.machine.workspace import Workspace, replace_file
from torchlint.program.traffic import UNUSED
from torchlint.verify.fixes import applied, diff
from torchlint.verify.machine import unrest
from torchlint.verify.machine.pristine import Pristine
from torchlint.verify.model import Counts, Judged, Proof, Report, Status, VariantResult
from torchlint.verify.proof import Grounds, judged
from torchlint.verify.script import check_pass, count_pass, reference
from torchlint.verify.script.check_pass import Checked
from torchlint.verify.script.reference import Reference
from torchlint.verify.script.request import Request
from torchlint.verify.script.runs import Home, Runner, in_words
from torchlint.verify.script.time_pass import TimePass, capacity, expected_seconds, stages_of
from torchlint.verify.script.verdicts import (
    interactions,
    moved,
    opt_in_notes,
    results,
    undecided,
    unreached,
)
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

START_SHARE = 0.25
"""How much of what is left of the budget is kept for starting the processes of the time pass."""
TOGETHER_SHARE = 0.25
"""How much of what is left of the budget is kept for the program with all that was proved."""
PROVED = "proved together"
LEAST_SECONDS = 5.0
"""What a launch gets even when the budget is spent: without times the run would have been for
nothing."""


def run(request: Request, say: Callable[[str], None], tick: Callable[[str], None]) -> Report:
    """Verify, and return the report.

    Args:
        request: what.
        say: takes lines that the user should read before the result: the plan.
        tick: takes a line of progress.

    Raises:
        OriginalFailedError: the program fails without any fix.
        UsageError: the project cannot be copied.
    """
    watch = Stopwatch(request.options.budget)
    before = manifest(request.root)
    with Workspace(keep=request.options.keep) as workspace:
        site = site_in(workspace, request.options, request.doctor.host)
        with Runner(site, request.command, request.root, request.cwd, request.device) as runner:
            report = _Verification(request, workspace, runner, watch, say, tick).run()
        kept = (f"the copies are in {workspace.path}",) if request.options.keep else ()
        notes = tuple(workspace.notes)
    changed = warnings(request.root, before)
    return dataclasses.replace(
        report,
        tree_unchanged=not changed,
        warnings=(*changed, *report.warnings, *notes, *kept),
        seconds=watch.spent,
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

    def run(self) -> Report:
        """Run all passes."""
        self._announce()
        self._settle(planned((), self.options.ablation))
        base = self._reference()
        reached = base.reached(self.request.units)
        ablation = "alone" if self.request.proving else self.options.ablation
        variants, self.notes = sound(planned(reached, ablation), self.request.documents)
        self._announce_variants(len(reached), len(variants), base)
        self._settle(variants[1:] if reached else [])
        checked = self._check(variants, base)
        counts = self._count(variants, checked, base)
        timed = self._time(variants, base, checked) if self._timing and reached else Times()
        more, notes = sound(self._split(variants, timed, checked), self.request.documents)
        self.notes += notes
        if more:
            self._settle(more)
            later = self._check([variants[0], *more], base)
            checked.merge(later)
            counts.update(self._count([variants[0], *more], later, base))
            if self._timing and (self.options.ablation != "auto" or self._moved(variants, timed)):
                timed.merge(self._time([*variants[:2], *more], base, later))
            variants = [*variants[:-1], *more, variants[-1]]
        if self.request.proving:
            variants = [*variants, *self._proved(variants, base, checked, counts, timed)]
        return self._report(variants, base, checked, counts, timed)

    def _proved(
        self,
        variants: Sequence[Variant],
        base: Reference,
        checked: Checked,
        counts: dict[str, Counts],
        timed: Times,
    ) -> list[Variant]:
        """Judge each fix, and run the program with all that are proved; return that one where it is
        a version of its own."""
        grounds = self._grounds(timed)
        found = results(variants, base, checked, timed, counts, {}, self.options)
        self.judged = [judged(each.fixes[0], each, grounds) for each in found]
        names = {each.fix for each in self.judged if each.proven}
        units = [unit for unit in self.request.units if unit.id in names]
        several = [together(units, PROVED)] if len(units) > 1 else []
        whole, notes = sound(several, self.request.documents)
        self.notes += notes
        if whole:
            self.say(f"plan: {len(units)} fixes are proved alone; now together")
            self._settle(whole)
            later = self._check([variants[0], *whole], base)
            checked.merge(later)
            counts.update(self._count([variants[0], *whole], later, base))
            timed.merge(self._time([*variants[:2], *whole], base, later))
        return whole

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
        if reached < every:
            self.say(
                f"plan: {every - reached} of {every} fixes change lines that did not run in "
                f"{base.course.extent}"
            )
        if reached:
            self.say(
                f"plan: {variants} variants: the original, a null control, and {variants - 2} "
                "with fixes"
            )

    def _announce(self) -> None:
        options = self.options
        where = (
            "writes elsewhere are blocked (Landlock)"
            if self.site.landlock
            else ("writes to absolute paths outside the copy are NOT blocked")
        )
        fixes = len(self.request.units)
        what = f"{fixes} fix{'es' * (fixes != 1)}"
        if options.device == "virtual-cuda":
            rounds = f"counts over {options.check_steps} steps, no times"
        else:
            launches = f"{options.launches} launch{'es' * (options.launches != 1)}"
            rounds = f"{options.pairs} blocks in {launches}, at most about {options.budget:g} s"
        self.say(f"plan: {in_words(self.request.command.typed)}: {what}; {rounds} (--budget)")
        self.say(
            f"plan: runs your code in copies under {self.workspace.path}; {where}; the network "
            "is not blocked"
        )
        busy = self.request.doctor.host.busy
        if busy:
            self.say(f"plan: {busy}")
        if self._timing:
            width = unrest.half_width(unrest.probe(), options.pairs)
            self.say(f"plan: {unrest.words(width, options.pairs)}")

    def _settle(self, variants: Sequence[Variant]) -> None:
        """Make the copies."""
        for variant in [variant for variant in variants if variant.name not in self.homes]:
            number = len(self.homes)
            self.tick(f"copying {self.request.root.name or 'the project'} ({variant.name})")
            copy = self.workspace.copy(
                self.request.root,
                f"v{number}/{self.request.root.name or 'project'}",
                beside=self.site.landlock,
            )
            fixed = (
                applied([variant.unit], self.request.documents) if variant.unit is not None else {}
            )
            for file, data in fixed.items():
                replace_file(copy, file, data)
            folder = self.workspace.path / f"h{number}"
            folder.mkdir()
            self.homes[variant.name] = Home(
                variant.name, copy, folder, Pristine(copy, self.request.root, fixed)
            )

    def _reference(self) -> Reference:
        def tell(name: str) -> None:
            self.tick("running the original twice")

        homes = self.homes[ORIGINAL], self.homes[NULL]
        return reference.run(self.runner, homes, self.request.units, self.together, tell)

    def _check(self, variants: Sequence[Variant], base: Reference) -> Checked:
        def tell(name: str) -> None:
            self.tick(f"comparing results: {name}")

        return check_pass.run(self.runner, self.homes, variants, base, self.together, tell)

    def _count(
        self, variants: Sequence[Variant], checked: Checked, base: Reference
    ) -> dict[str, Counts]:
        course = base.course
        if course.ledger or course.gap:
            return count_pass.taken(
                base.record, checked.records, self.homes, course.gap, self.request.device
            )
        sound = [variants[0], *(v for v in variants if checked.status.get(v.name) is Status.OK)]
        return count_pass.run(
            self.runner,
            self.homes,
            sound,
            self.together,
            lambda name: self.tick(f"counting transfers: {name}"),
        )

    def _time(self, variants: Sequence[Variant], base: Reference, checked: Checked) -> Times:
        """Time the variants that run: all fixes together first, each alone only if these move."""
        wanted = [
            variant
            for variant in variants
            if variant.unit is None or checked.status[variant.name] is Status.OK
        ]
        if self.request.proving:
            return self._timed_to_prove(wanted, base, checked)
        first = [variant for variant in wanted if variant.kind in ("original", "null", "all")]
        rest = [variant for variant in wanted if variant not in first]
        if self.options.ablation != "auto" or len(first) < 3 or not rest:
            return self._timed(wanted, base, checked, self.watch.left)
        found = self._timed(first, base, checked, self.watch.left / 2)
        if moved(found, first[-1], self.options):
            found.merge(self._timed([*first[:2], *rest], base, checked, self.watch.left))
        return found

    def _timed_to_prove(
        self, wanted: Sequence[Variant], base: Reference, checked: Checked
    ) -> Times:
        """Time every variant that keeps its promise; each alone leaves time for all that is
        proved."""
        kept = [each for each in wanted if each.unit is None or checked.kept(each.name)]
        left = self.watch.left
        if all(variant.kind != "all" for variant in kept):
            left *= 1 - TOGETHER_SHARE
        found = self._timed(kept, base, checked, left) if len(kept) > 2 else Times()
        found.left_out = {
            each.name: "not timed, as its results are not those promised"
            for each in wanted
            if each not in kept
        }
        return found

    def _timed(
        self, wanted: Sequence[Variant], base: Reference, checked: Checked, budget: float
    ) -> Times:
        """Time some variants, launch by launch; after each, those with a verdict take no further
        part."""
        options = self.options
        self.timings += 1
        sockets = self.workspace.path / f"s{self.timings}"
        sockets.mkdir()
        room = capacity(self.request.doctor.host.memory_free, checked.peak)
        timing = TimePass(
            self.runner,
            self.homes,
            sockets,
            self.together,
            room,
            random.Random(options.seed),
            self.tick,
        )
        stages = stages_of(options.pairs, options.launches)
        looks = list(itertools.accumulate(map(sum, stages)))
        seconds = max(LEAST_SECONDS, budget * (1 - START_SHARE) / options.launches)
        most = seconds * options.launches
        about = min(most, expected_seconds(base.record.record, len(wanted), options, self.together))
        blocks = f"{len(wanted)} variants x {options.pairs} blocks"
        self.say(f"plan: {blocks}, about {about:.0f} s, at most {most:.0f} s")
        begun = self.watch.spent
        going = list(wanted)
        for number, (rounds, level) in enumerate(zip(stages, levels(looks), strict=True)):
            extra = looks[number] > options.pairs
            if extra and self.watch.left <= self.watch.spent - begun:
                break
            for count in rounds:
                timing.launch(going, count, seconds)
            timing.found.level |= dict.fromkeys((variant.name for variant in going), level)
            near = looks[number] == options.pairs and self.request.device == "cpu"
            near = near and not self.request.proving  # where a proof needs more pairs to be one
            still = undecided(
                timing.found, going, options, level=level, last=near, planned=looks[number]
            )
            going = [*wanted[:2], *still]
            if len(going) == 2:
                break
        failed = timing.found.failed()
        if not {ORIGINAL, NULL} & failed.keys():  # else it is not the fix that is to blame
            checked.blame(failed)
        return timing.found

    def _moved(self, variants: Sequence[Variant], timed: Times) -> bool:
        return any(
            variant.kind == "all" and moved(timed, variant, self.options) for variant in variants
        )

    def _split(self, variants: Sequence[Variant], timed: Times, checked: Checked) -> list[Variant]:
        """Return single variants for the groups that moved or compute something else."""
        grouped = [variant for variant in variants if variant.kind == "group"]
        wanted = {
            name
            for variant in grouped
            if moved(timed, variant, self.options) or not checked.kept(variant.name)
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

    def _report(
        self,
        variants: Sequence[Variant],
        base: Reference,
        checked: Checked,
        counts: Mapping[str, Counts],
        timed: Times,
    ) -> Report:
        request, doctor = self.request, self.request.doctor
        diffs = {v.name: diff([v.unit], request.documents) for v in variants if v.unit is not None}
        idle = [unit for unit in request.units if base.exercised.get(unit.id) is False]
        found = (
            *unreached(idle, request.documents, base.course.extent),
            *results(variants, base, checked, timed, counts, diffs, request.options),
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
            plan=self.site.plan(timed.block_steps or None),
            variants=found,
            null_control=timed.null_control(),
            interactions=interactions(variants, timed),
            blocked_writes=base.writes if self.site.landlock else (),
            warnings=(
                *self.notes,
                *base.warnings,
                *self._unpredicted(counts),
                *self._written(base),
                *opt_in_notes(variants),
            ),
            skipped=request.skipped,
            proof=self._proof(found, timed),
        )
