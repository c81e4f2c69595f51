"""What the blocks of all launches show: the ratio of each version to the original, and the verdict
on it."""

from __future__ import annotations

import math
import statistics as numbers
from collections.abc import Sequence
from dataclasses import dataclass, field

from torchlint.verify import statistics
from torchlint.verify.model import NullControl, Ratio, Speed, Status
from torchlint.verify.options import Options
from torchlint.verify.session.timing import Block, Lane
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.variants import NULL, ORIGINAL

NO_TIME = "no time was left for it (--budget)"
INTERRUPTED = "interrupted before that"

Pair = tuple[Block, Block]
"""The same round's block of the original and of the variant."""


@dataclass(slots=True)
class Times:
    """What was measured, by the name of the version.

    Args:
        launches: the pairs of each launch, or of each making of the versions.
        failures: why a version gave no more blocks; of kind "done" where its program simply came to
            its end.
        peaks: the peaks of memory in bytes, one a launch, with what they were read from.
        block_steps: steps of a block in the last launch.
        length: steps of the program, where it came to its end; 0 where that is not known.
        level: the error that the last look may spend.
        left_out: why a version was not timed, in words.
        cut: whether there was no time for all that was planned.
        interrupted: whether an interrupt came before all that was planned.
        remade: whether each of `launches` is a making, so that ratios are those of makings.
        device, device_name: what the programs used, as far as they say.
    """

    launches: dict[str, list[list[Pair]]] = field(default_factory=dict)
    failures: dict[str, ProgramError] = field(default_factory=dict)
    peaks: dict[str, list[int]] = field(default_factory=dict)
    basis: str = "vmhwm"
    retries: dict[str, int] = field(default_factory=dict)
    block_steps: int = 0
    length: int = 0
    level: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    interrupted: bool = False
    remade: bool = False
    device: str = ""
    device_name: str | None = None

    @property
    def ended(self) -> str:
        """Why there is no more, as `Report.cut` says it."""
        return "interrupted" if self.interrupted else "spent" if self.cut else ""

    def add(self, lanes: Sequence[Lane]) -> None:
        """Take one launch; the first lane is the original."""
        for lane in lanes:
            if lane.failure is not None:
                self.failures[lane.name] = lane.failure
        for lane in lanes[1:]:
            pairs = list(zip(lanes[0].blocks, lane.blocks, strict=False))
            self.launches.setdefault(lane.name, []).append(pairs)

    def merge(self, other: Times) -> None:
        """Add what a later pass measured."""
        for name, launches in other.launches.items():
            self.launches.setdefault(name, []).extend(launches)
        for name, peaks in other.peaks.items():
            self.peaks.setdefault(name, []).extend(peaks)
        self.failures.update(other.failures)
        self.retries.update(other.retries)
        self.level.update(other.level)
        self.left_out.update(other.left_out)
        self.cut |= other.cut
        if other.peaks:
            self.basis = other.basis
        self.block_steps = other.block_steps or self.block_steps
        self.length = other.length or self.length

    def failed(self) -> dict[str, ProgramError]:
        """Return the versions that crashed or hung."""
        return {
            name: error for name, error in self.failures.items() if error.status is not Status.OK
        }

    def pairs(self, name: str) -> list[Pair]:
        """Return all pairs of a version."""
        return [pair for launch in self.launches.get(name, []) for pair in launch]

    def blocks_ns(self, name: str) -> tuple[tuple[float, float], ...]:
        """Return the wall nanoseconds of each pair."""
        return tuple((one.wall, two.wall) for one, two in self.pairs(name))

    def ratio(self, name: str, clock: str = "wall") -> Ratio | None:
        """Return a version's ratio by wall or CPU time, or None where there is no pair."""
        found = _ratio(self.pairs(name), clock)
        if not self.remade or found is None or clock != "wall":
            return found
        return statistics.of_makings(found, self._logs(name))

    def samples(self, name: str) -> statistics.Samples:
        """Return what each launch or making of a version reads, and each of the null control.

        One that was broken off before half as many pairs as the longest is no sample.
        """
        kind = statistics.Makings if self.remade else statistics.Samples
        return kind(self._logs(name), self._logs(NULL))

    def _logs(self, name: str) -> tuple[float, ...]:
        launches = self.launches.get(name, [])
        most = max(map(len, launches), default=0)
        found = (_ratio(one, "wall") for one in launches if 2 * len(one) >= most)
        return tuple(math.log(one.estimate) for one in found if one is not None)

    def milliseconds(self, name: str, side: int) -> float | None:
        """Return the median milliseconds per step of the original (side 0) or the version (1)."""
        values = [pair[side].wall for pair in self.pairs(name)]
        return numbers.median(values) / 1e6 if values else None

    def peak(self, name: str) -> int | None:
        """Return the median peak of memory in bytes."""
        values = self.peaks.get(name)
        return int(numbers.median(values)) if values else None

    def null_control(self) -> NullControl | None:
        """Return what a second copy of the original reads, or None where it was not timed."""
        pairs = self.blocks_ns(NULL)
        if not pairs:
            return None
        before, after = zip(*pairs, strict=True)
        return statistics.null_control(before, after, self.ratio(NULL))

    def speed(
        self,
        name: str,
        options: Options,
        null: NullControl | None,
        *,
        cpu_time: bool,
        remedy: str,
        exercised: bool | None = None,
        adjusted_p: float | None = None,
    ) -> Speed:
        """Return what the times of a version say; the other arguments are those of
        `statistics.verdict`.

        Args:
            cpu_time: whether the program works on the CPU, so that its CPU time says something.
        """
        ratio, cpu = self.ratio(name), self.ratio(name, "cpu") if cpu_time else None
        events = self.ratio(name, "events")
        launches = [_ratio(launch, "wall") for launch in self.launches.get(name, [])]
        verdict, why = statistics.verdict(
            ratio,
            min_effect=options.min_effect,
            exercised=exercised,
            null=null,
            adjusted_p=adjusted_p,
            cpu=cpu if options.threads == 1 else None,
            events=events,
            launches=[
                each for each in launches if each is not None and each.n >= statistics.LAUNCH_PAIRS
            ],
            samples=self.samples(name),
            level=self.level.get(name, statistics.ALPHA),
            remedy=remedy,
        )
        return Speed(
            verdict,
            ratio,
            self.milliseconds(name, 0),
            self.milliseconds(name, 1),
            None if cpu is None else cpu.estimate,
            why,
            None if events is None else events.estimate,
        )

    def why_lost(self, name: str) -> ProgramError | None:
        """Return why a version, or else the original, gave no more blocks."""
        return self.failures.get(name) or self.failures.get(ORIGINAL)


def _ratio(pairs: Sequence[Pair], clock: str) -> Ratio | None:
    before = [getattr(pair[0], clock) for pair in pairs]
    after = [getattr(pair[1], clock) for pair in pairs]
    if not pairs or min(before + after) <= 0:
        return None
    return statistics.ratio(before, after)
