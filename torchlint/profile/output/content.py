"""What a report shows, whatever its form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torchlint.base.finding import Finding
from torchlint.profile.bounds import Whole
from torchlint.profile.change import Change, change
from torchlint.profile.elsewhen import Elsewhen
from torchlint.profile.growth import Growth
from torchlint.profile.join import Costs
from torchlint.profile.limits import Operators
from torchlint.profile.lines import LineCost
from torchlint.profile.live import Steps
from torchlint.profile.modules import Modules
from torchlint.profile.output.table import kind_words
from torchlint.profile.predicted import Predicted
from torchlint.profile.report import Rank, Report
from torchlint.profile.statements import Loading, Statement
from torchlint.profile.timeline import Timeline
from torchlint.profile.waits import Waits
from torchlint.profile.workers import Workers

_NO_SHAPES = (
    "what limits operators, arithmetic, memory or launches, is not known: no shapes were recorded; "
    "record_shapes=True of the profiler does, and --shapes of a run"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Of one rank in detail, and of all beside each other; None where there is no trace.

    Args:
        report: what was counted.
        rank: the rank to show, the lowest where None.
        top: how many kernels, waits, places and findings of a kind are shown.
        against: an older report, shown beside it.
        waits: where the program waits.
        whole: of which bounds are told as parts.
        costs: findings, with what was measured at their places.
        lines: what places of the program cost.
        checked: whether the program's files were checked.
        steps: what a run of the program says of a step.
        step: what is drawn of the median step.
        predicted: what steps would wait for and copy on a GPU; None where nothing was tried.
        growth: memory that grows from step to step; None where changes were not recorded.
        texts: the files of the program by their names, for the code of findings and places.
        statements: that take much with all that they call.
        loading: what lines take of the waits for batches, in which they run.
        aside: what ran only in steps of another kind.
        modules: what modules cost; None where the trace shows none.
        operators: what limits operators; None where the trace has no shapes.
    """

    report: Report
    rank: int | None
    top: int
    against: Report | None = None
    waits: Waits | None = None
    whole: Whole | None = None
    costs: Costs | None = None
    lines: tuple[LineCost, ...] | None = None
    checked: bool = False
    steps: Steps | None = None
    step: Timeline | None = None
    predicted: Predicted | None = None
    growth: tuple[Growth, ...] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    statements: tuple[Statement, ...] = ()
    loading: tuple[Loading, ...] = ()
    aside: tuple[Elsewhen, ...] = ()
    modules: Modules | None = None
    operators: Operators | None = None

    @property
    def shown(self) -> Rank:
        """Return the rank to show."""
        return self.report.rank(self.rank)

    @property
    def before(self) -> Rank | None:
        """Return the rank of the older report."""
        return None if self.against is None else self.against.rank(self.rank)

    @property
    def change(self) -> Change | None:
        """Return what became of a step since the older report; None where that cannot be told."""
        return None if self.before is None else change(self.shown, self.before)

    @property
    def recorded(self) -> Whole:
        """Return what times are compared with that are no bounds: they were taken there."""
        whole = self.shown.figures.span if self.waits is None else self.waits.span
        return Whole(whole, None if self.whole is None else self.whole.steps)

    @property
    def unbounded(self) -> tuple[Finding, ...]:
        """Return the findings that have no bound."""
        known = () if self.costs is None else self.costs.each
        return tuple(cost.finding for cost in known if cost.bound is None)

    @property
    def workers(self) -> Workers | None:
        """Return what the workers of the program's DataLoaders did."""
        return None if self.steps is None else self.steps.workers

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what the linter says of the program."""
        return () if self.costs is None else tuple(cost.finding for cost in self.costs.each)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is to be known about the traces, and about what is predicted; where a trace
        is read, which steps are left out of places and bounds: a run's report has rows of them."""
        older = self.against.notes if self.against is not None else ()
        predicted = self.predicted.doubts if self.predicted is not None else ()
        aside = [
            f"steps {kind_words(one.kind)} ({one.whole.steps}) are left out of lines and bounds"
            for one in (self.aside if self.steps is None else ())
        ]
        worked = self.waits is not None and self.shown.figures.temporal is not None
        shapes = (_NO_SHAPES,) if worked and self.operators is None else ()
        return (*self.report.notes, *older, *predicted, *aside, *shapes)
