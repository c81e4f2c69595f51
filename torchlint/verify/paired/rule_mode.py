"""Rule mode: the examples of the rules' pages, Bad against Good: equal results, times, and
predicted traffic."""

from __future__ import annotations

import datetime
import statistics as numbers
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torchlint
from torchlint.api import RuleInfo, load_catalog
from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.program.machine.workspace import Workspace
from torchlint.report.kit.words import pluralise
from torchlint.verify import statistics
from torchlint.verify.model import NullControl, Report, Speed, Status, VariantResult, Verdict
from torchlint.verify.options import Options
from torchlint.verify.paired.rule_check import STANDIN, VIRTUAL, ExampleRunner
from torchlint.verify.paired.rule_page import Page, applied_fixes, page
from torchlint.verify.paired.sessions import Session, Version, session
from torchlint.verify.session.times import INTERRUPTED, NO_TIME, Times
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.stopwatch import Stopwatch
from torchlint.verify.variants import NULL, ORIGINAL

PRELOAD = ("numpy", "torch.utils.data", "torch.distributed", "torch._dynamo")
"""What many examples import; it is done once, before the first fork."""
BLOCK_MS = 8.0
"""The least length of a block; shorter than in function mode, as there are dozens of rules."""
LONG_MS = 40.0
"""Examples of which one run takes longer (worker processes start in it) are timed in 12 pairs."""
TIMEOUT = 60.0
"""The most seconds for one answer of an example, each of which takes a fraction of one."""
FIXED = "fixed"
"""The name of Good among what is timed."""
_Outcome = tuple[VariantResult, Times | None]


def run(
    codes: Sequence[str],
    options: Options,
    tick: Callable[[str], None] = lambda line: None,
    watch: Stopwatch | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Report:
    """Run the examples of rules.

    Args:
        codes: of the rules; empty for all.
        options: interpreter, device, pairs, launches, seed, threads, min_effect, timeout.
        tick: takes a line of progress.
        watch: runs out with the budget, of which each rule gets an equal share of what is left; one
            from now on where None.
        say: takes the plan.

    Raises:
        UsageError: there is no such rule, or this system cannot fork.
        NoTorchError: the interpreter has no usable torch.
        KeyboardInterrupt: it came before anything was known.
    """
    watch = watch or Stopwatch(options.budget)
    options = replace(options, timeout=min(options.timeout, TIMEOUT))
    pages = [page(info) for info in wanted(codes)]
    with (
        Workspace(keep=options.keep) as workspace,
        session(options, workspace, preload=PRELOAD) as live,
    ):
        tick(f"finding the fixes of {len(pages)} rules")
        examples = _Examples(live, applied_fixes(pages))
        live.demand()
        return examples.report(codes, pages, examples.all(pages, tick, say, watch), watch)


def wanted(codes: Sequence[str]) -> list[RuleInfo]:
    """Return the rules that codes name, all for none; raises `UsageError` where there is none."""
    catalog = load_catalog()
    if not codes:
        return list(catalog.rules)
    chosen = catalog.resolve(codes, "verify rules", UsageError)
    found = [info for info in catalog.rules if info.code in chosen]
    if not found:
        raise UsageError(
            f"verify rules: {', '.join(codes)} names no rule that has a page with examples"
        )
    return found


@frozen
class _Examples:
    """Those of all rules. `fixes` says which fix leads from each Bad to its Good, by code and
    number."""

    live: Session
    fixes: Mapping[tuple[str, int], str]

    def all(
        self,
        pages: Sequence[Page],
        tick: Callable[[str], None],
        say: Callable[[str], None],
        watch: Stopwatch,
    ) -> list[_Outcome]:
        """Compare and time the examples of all rules, until an interrupt comes."""
        count = len(pages)
        say(
            f"plan: {pluralise(count, 'rule')}: compares the results of Bad and Good, then times "
            f"them {self.live.options.pairs} times"
        )
        results: list[_Outcome] = []
        begun = time.monotonic()
        try:
            for number, each in enumerate(pages, 1):
                if number == 2:
                    left = min((time.monotonic() - begun) * (count - 1), watch.left)
                    say(f"plan: by the first rule, the answer in about {max(0.0, left):.0f} s")
                tick(f"{each.info.code} {each.info.name} ({number} of {count})")
                share = watch.left / (count - number + 1)
                results.append(self.rule(each, time.monotonic() + share))
                if _ended(*results[-1]) == "interrupted":
                    break
        except KeyboardInterrupt:
            if not results:
                raise
        return results

    def rule(self, each: Page, end: float) -> _Outcome:
        """Compare and time one rule's examples, which no part of is begun after `end`."""
        if time.monotonic() > end:
            return _unmeasured(each, NO_TIME), None
        code = each.info.code
        runner = ExampleRunner(self.live, each)
        fixes = [self.fixes.get((code, index), "") for index in range(len(each.pairs))]
        if not each.pairs:
            return _unmeasured(each, "its page has no Bad with a Good"), None
        try:
            absent = runner.absent()
            if absent:
                return _unmeasured(each, f"needs {absent}"), None
            equality = runner.equality(fixes)
        except ProgramError as error:
            return _unmeasured(each, str(error), error.status), None
        counts = runner.counts() if not each.untimed else None
        untimed = each.untimed or self._untimed(runner)
        times = None if untimed else self._timed(each, runner, end)
        if times is None:
            speed = Speed(Verdict.NOT_MEASURED, why=f"not timed: {untimed}")
        else:
            speed = self.live.speed(times, FIXED, times.null_control())
        if runner.instead:
            equality = replace(equality, notes=(*equality.notes, f"run on {runner.instead}"))
        if runner.instead == STANDIN and speed.ratio is not None:
            speed = replace(speed, why="; ".join(filter(None, (speed.why, f"run on {STANDIN}"))))
        failure = (
            None if times is None else times.failures.get(ORIGINAL) or times.failures.get(FIXED)
        )
        if failure is not None and failure.kind == "empty":
            failure = None
        result = _result(
            each,
            speed,
            status=Status.OK if failure is None else failure.status,
            counts=counts,
            equality=equality,
            blocks_ns=times.blocks_ns(FIXED) if times is not None else (),
            error="" if failure is None else str(failure),
        )
        return result, times

    def _untimed(self, runner: ExampleRunner) -> str:
        """Say why a rule is not timed whose page does not say so; empty where it is."""
        if self.live.options.device == "virtual-cuda":
            return "--device virtual-cuda takes counts only"
        return "it runs on CUDA only" if runner.instead == VIRTUAL else ""

    def _timed(self, each: Page, runner: ExampleRunner, end: float) -> Times:
        bad, good = (Version(runner.program(side)) for side in each.pairs[0])
        return self.live.measure({ORIGINAL: bad, NULL: bad, FIXED: good}, BLOCK_MS, LONG_MS, end)

    def report(
        self,
        codes: Sequence[str],
        pages: Sequence[Page],
        results: Sequence[_Outcome],
        watch: Stopwatch,
    ) -> Report:
        """Put together what was found; an interrupt came before the pages that lack."""
        ended = {_ended(*each) for each in results}
        if len(results) < len(pages):
            ended.add("interrupted")
        cut = min(filter(None, ended), default="")  # an interrupt says more than a spent budget
        missing = [_unmeasured(each, INTERRUPTED) for each in pages[len(results) :]]
        busy = filter(None, (self.live.site.host.busy,))
        return Report(
            mode="rules",
            command=tuple(codes),
            version=torchlint.__version__,
            date=datetime.date.today().isoformat(),
            machine=self.live.machine(
                next((times for _, times in results if times and times.device), None)
            ),
            plan=self.live.plan(),
            variants=(*(result for result, _ in results), *missing),
            null_control=_all_nulls(results),
            warnings=(*watch.words(cut), *busy),
            seconds=watch.spent,
            cut=cut,
        )


def _ended(result: VariantResult, times: Times | None) -> str:
    """Say why no more is known of a rule, as `Report.cut` does."""
    if times is not None:
        return times.ended
    return "spent" if result.speed.why == NO_TIME else ""


def _result(each: Page, speed: Speed, **known: Any) -> VariantResult:
    code = each.info.code
    return VariantResult(f"rule:{code}", "rule", (code,), each.info.name, "", speed, **known)


def _unmeasured(each: Page, why: str, status: Status = Status.OK) -> VariantResult:
    """Return the result of a rule whose examples do not run: for want of a package that is no
    failure."""
    error = "" if status is Status.OK else why
    return _result(each, Speed(Verdict.NOT_MEASURED, why=why), status=status, error=error)


def _all_nulls(results: Sequence[_Outcome]) -> NullControl | None:
    """Return one null control for the table: a pair is a rule, its original's median time and that
    over the paired ratio of its copy."""
    before, after = [], []
    for times in (times for _, times in results if times is not None):
        read = times.ratio(NULL)
        if read is not None:
            before.append(numbers.median(one for one, _ in times.blocks_ns(NULL)))
            after.append(before[-1] / read.estimate)
    return statistics.null_control(before, after) if before else None
