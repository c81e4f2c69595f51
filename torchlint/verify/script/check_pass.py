"""The check pass: does every variant compute what the original computes? Not timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torchlint.verify.model import Equality, Expected, Level, Status
from torchlint.verify.script.reference import Reference
from torchlint.verify.script.runs import Home, Runner, RunRecord
from torchlint.verify.session.promise import Comparison, judged
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.variants import Variant


@dataclass(slots=True)
class Checked:
    """What the check pass found, by the variant's name.

    Args:
        status, errors: how the variants ended.
        equality: of the variants that ran.
        peak: the largest peak of resident memory of any run, in bytes.
        records: of all of them.
    """

    status: dict[str, Status] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    equality: dict[str, Equality] = field(default_factory=dict)
    peak: int = 0
    records: dict[str, RunRecord] = field(default_factory=dict)

    def kept(self, name: str) -> bool:
        """Say whether a variant ran and kept its promise."""
        found = self.equality.get(name)
        return self.status.get(name) is Status.OK and (found is None or found.ok)

    def blame(self, failed: Mapping[str, ProgramError]) -> None:
        """Take note of variants that ran here and failed later, while they were timed."""
        for name, error in failed.items():
            # It had the memory while it ran beside fewer: that there is none now is not its fault.
            out = error.status is Status.OUT_OF_MEMORY
            if self.status.get(name) is Status.OK and not out:
                self.status[name] = error.status
                self.errors[name] = str(error)
                self.equality.pop(name, None)

    def merge(self, other: Checked) -> None:
        """Add what a later pass found of other variants."""
        self.status.update(other.status)
        self.errors.update(other.errors)
        self.equality.update(other.equality)
        self.records.update(other.records)
        self.peak = max(self.peak, other.peak)


def judge(
    runner: Runner,
    home: Home,
    ran: Sequence[tuple[Variant, RunRecord]],
    base: Reference,
    tick: Callable[[str], None],
) -> Checked:
    """Compare a run of each variant with the original.

    Args:
        runner: compares.
        home: of the original, which may have to run once more.
        ran: the runs; those that there was no time for are not among them.
        base: the original.
        tick: takes the name of each further run.
    """
    peaks = [int(record.record.get("peak") or 0) for _, record in ran]
    checked = Checked(peak=max([base.peak, *peaks]))
    for variant, record in ran:
        checked.status[variant.name] = record.status
        checked.records[variant.name] = record
        if record.status is not Status.OK:
            checked.errors[variant.name] = runner.failure(record)
    sound = [(variant, record) for variant, record in ran if record.status is Status.OK]
    if base.itself is not None and sound:
        _compare(runner, home, checked, base, base.itself, sound, tick)
    return checked


def _compare(
    runner: Runner,
    home: Home,
    checked: Checked,
    base: Reference,
    itself: Comparison,
    ran: Sequence[tuple[Variant, RunRecord]],
    tick: Callable[[str], None],
) -> None:
    """Fill in `Checked.equality`."""
    redrawn = [
        variant.unit is not None and variant.unit.expected is Expected.RNG for variant, _ in ran
    ]
    found = runner.compare(
        base.record, [(run, may) for (_, run), may in zip(ran, redrawn, strict=True)]
    )
    shaken = None
    if any(_needs_band(v, one) for one, (v, _) in zip(found, ran, strict=True)):
        shaken = _shaken(runner, home, base, tick)
    for one, (variant, _) in zip(found, ran, strict=True):
        assert variant.unit is not None
        checked.equality[variant.name] = judged(
            one, itself, variant.unit.expected, shaken=shaken, whole=variant.kind == "version"
        )


def _needs_band(variant: Variant, found: Comparison) -> bool:
    close = variant.unit is not None and variant.unit.expected is Expected.CLOSE
    return close and found.level is Level.DIFFERENT and found.max_abs is not None


def _shaken(
    runner: Runner, home: Home, base: Reference, tick: Callable[[str], None]
) -> Comparison | None:
    """Run the original with initial weights times 1 + 2**-20: training amplifies rounding, and this
    says how much."""
    (record,) = runner.all(
        [(home, "check", {**base.run_extent.settings(), "shake": True})], 1, tick
    )
    if record is None or record.status is not Status.OK or not record.record.get("results"):
        return None
    (shaken,) = runner.compare(base.record, [(record, False)])
    return shaken
