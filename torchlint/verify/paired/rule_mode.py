"""Rule mode: the examples of the rules' pages, Bad against Good: equal results, times, and predicted traffic."""

from __future__ import annotations

import datetime
import statistics as numbers
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torchlint
from torchlint.api import RuleInfo, load_catalog
from torchlint.base.errors import UsageError
from torchlint.verify import statistics
from torchlint.verify.machine.workspace import Workspace
from torchlint.verify.model import (
    NullControl,
    Report,
    Speed,
    Status,
    VariantResult,
    Verdict,
)
from torchlint.verify.options import Options
from torchlint.verify.paired import pairs
from torchlint.verify.paired.rule_check import STANDIN, VIRTUAL, ExampleRunner
from torchlint.verify.paired.rule_page import Page, applied_fixes, page
from torchlint.verify.paired.sessions import Session, session
from torchlint.verify.paired.workers import WorkerError

PRELOAD = ("numpy", "torch.utils.data", "torch.distributed", "torch._dynamo")
"""What many examples import; it is done once, before the first fork."""
BLOCK_MS = 8.0
"""The least length of a block; shorter than in function mode, as there are dozens of rules."""
LONG_MS = 40.0
"""Examples of which one run takes longer (worker processes start in it) are timed in 12 pairs."""
TIMEOUT = 60.0
"""The most seconds for one answer of an example, each of which takes a fraction of one."""
_Outcome = tuple[VariantResult, pairs.Lane | None, pairs.Lane | None]


def run(codes: Sequence[str], options: Options, tick: Callable[[str], None] = lambda line: None) -> Report:
    """Run the examples of rules.

    Args:
        codes: of the rules; empty for all.
        options: interpreter, device, pairs, launches, seed, threads, min_effect, timeout.
        tick: takes a line of progress.

    Raises:
        UsageError: there is no such rule, or this system cannot fork.
        NoTorchError: the interpreter has no usable torch.
    """
    begun = time.monotonic()
    options = replace(options, timeout=min(options.timeout, TIMEOUT))
    pages = [page(info) for info in _wanted(codes)]
    with Workspace(keep=options.keep) as workspace, session(options, workspace, preload=PRELOAD) as live:
        tick(f"finding the fixes of {len(pages)} rules")
        run = _Run(live, applied_fixes(pages))
        for zygote in live.zygotes:
            zygote.ready()
        results = []
        for number, each in enumerate(pages, 1):
            tick(f"{each.info.code} {each.info.name} ({number} of {len(pages)})")
            results.append(run.rule(each))
        return run.report(codes, results, time.monotonic() - begun)


def _wanted(codes: Sequence[str]) -> list[RuleInfo]:
    catalog = load_catalog()
    if not codes:
        return list(catalog.rules)
    chosen = catalog.resolve(codes, "verify rules", UsageError)
    found = [info for info in catalog.rules if info.code in chosen]
    if not found:
        raise UsageError(f"verify rules: {', '.join(codes)} names no rule that has a page with examples")
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    """One run. `fixes` says which fix leads from each Bad to its Good, by code and number."""

    live: Session
    fixes: Mapping[tuple[str, int], str]

    @property
    def options(self) -> Options:
        """How it is run."""
        return self.live.options

    def rule(self, each: Page) -> _Outcome:
        """Compare and time one rule's examples."""
        code = each.info.code
        runner = ExampleRunner(self.live.zygotes[0], each, self.options)
        fixes = [self.fixes.get((code, index), "") for index in range(len(each.pairs))]
        if not each.pairs:
            return _unmeasured(each, "its page has no Bad with a Good"), None, None
        try:
            absent = runner.absent()
            if absent:
                return _unmeasured(each, f"needs {absent}"), None, None
            equality = runner.equality(fixes)
        except WorkerError as error:
            return _unmeasured(each, str(error), pairs.STATUSES.get(error.kind, Status.BROKEN)), None, None
        counts = runner.counts() if not each.untimed else None
        before, null, after = self._timed(each, runner)
        speed = self._speed(each.untimed or _untimed(self.options, runner), before, null, after)
        if runner.instead:
            equality = replace(equality, notes=(*equality.notes, f"run on {runner.instead}"))
        if runner.instead == STANDIN and speed.ratio is not None:
            speed = replace(speed, why="; ".join(filter(None, (speed.why, f"run on {STANDIN}"))))
        failure = next((lane.failure for lane in (before, after) if lane is not None and lane.failure), None)
        broken = failure is not None and failure.kind != "empty"
        result = VariantResult(
            id=f"rule:{code}",
            kind="rule",
            fixes=(code,),
            title=each.info.name,
            where="",
            speed=speed,
            status=pairs.STATUSES.get(failure.kind, Status.BROKEN) if failure is not None and broken else Status.OK,
            counts=counts,
            equality=equality,
            blocks_ns=pairs.blocks(before, after) if before is not None and after is not None else (),
            error=str(failure) if failure is not None and broken else "",
        )
        return result, before, null

    def _timed(
        self, each: Page, runner: ExampleRunner
    ) -> tuple[pairs.Lane | None, pairs.Lane | None, pairs.Lane | None]:
        if each.untimed or runner.instead == VIRTUAL or self.options.device == "virtual-cuda":
            return None, None, None
        bad, good = (runner.program(side) for side in each.pairs[0])
        lanes = [pairs.Lane("original", bad), pairs.Lane("null", bad), pairs.Lane("fixed", good)]
        pairs.measure(self.live.zygotes, lanes, self.live.pace(BLOCK_MS, LONG_MS))
        return lanes[0], lanes[1], lanes[2]

    def _speed(
        self, untimed: str, before: pairs.Lane | None, null: pairs.Lane | None, after: pairs.Lane | None
    ) -> Speed:
        if before is None or null is None or after is None:
            return Speed(Verdict.NOT_MEASURED, why=f"not timed: {untimed}")
        return pairs.speed(before, after, pairs.null_control(before, null), self.live.pace(BLOCK_MS, LONG_MS))

    def report(self, codes: Sequence[str], results: Sequence[_Outcome], seconds: float) -> Report:
        """Put together what was found."""
        return Report(
            mode="rules",
            command=tuple(codes),
            version=torchlint.__version__,
            date=datetime.date.today().isoformat(),
            machine=self.live.machine([lane for _, lane, _ in results if lane is not None]),
            plan=self.live.plan(),
            variants=tuple(result for result, _, _ in results),
            null_control=_all_nulls(results),
            warnings=tuple(filter(None, (self.live.here.busy,))),
            seconds=seconds,
        )


def _untimed(options: Options, runner: ExampleRunner) -> str:
    """Say why a rule is not timed whose page does not say so."""
    if options.device == "virtual-cuda":
        return "--device virtual-cuda takes counts only"
    return "it runs on CUDA only" if runner.instead == VIRTUAL else "nothing was run"


def _unmeasured(each: Page, why: str, status: Status = Status.OK) -> VariantResult:
    """Return the result of a rule whose examples do not run: for want of a package that is no failure."""
    return VariantResult(
        id=f"rule:{each.info.code}",
        kind="rule",
        fixes=(each.info.code,),
        title=each.info.name,
        where="",
        speed=Speed(Verdict.NOT_MEASURED, why=why),
        status=status,
        error="" if status is Status.OK else why,
    )


def _all_nulls(results: Sequence[_Outcome]) -> NullControl | None:
    """Return one null control for the table: a pair is a rule, its original's and its copy's median time."""
    medians = [
        (numbers.median(before.times(0)), numbers.median(null.times(0)))
        for _, before, null in results
        if before is not None and null is not None and before.times(0) and null.times(0)
    ]
    return statistics.null_control([pair[0] for pair in medians], [pair[1] for pair in medians]) if medians else None
