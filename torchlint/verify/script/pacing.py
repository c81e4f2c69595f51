"""How the time that is left is spent on launches: how many there can be, of how many rounds, how
long each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

from torchlint.base.records import frozen
from torchlint.verify import statistics
from torchlint.verify.options import Options
from torchlint.verify.script.lockstep import BLOCK_SECONDS, BLOCK_STEPS

ENDING_SECONDS = 0.5
"""What it takes to end the processes of a launch."""
TURN_SECONDS = 0.03
"""What it takes to let one process go on and to freeze it again."""
SHORT_SETTLE_SECONDS = 0.1
SHORT_WARMUP_SECONDS = 1.0
"""What is spent on steps that are not measured where time is short, before a block and at first."""
LEAST_WARMUP = 3
SHORT_BLOCK = 5
"""Steps of a block below which steps that are not measured are given up for measured ones."""


@frozen
class Pace:
    """What a time pass costs, by the pace of the original's runs so far.

    Args:
        step: seconds of a step.
        start: seconds from the start of a process to its first step.
        lanes: versions that are timed.
        together: how many start at the same time.
        options: pairs, launches, and the steps that are not measured.
    """

    step: float
    start: float
    lanes: int
    together: int
    options: Options

    @classmethod
    def of(cls, record: Mapping[str, float], lanes: int, together: int, options: Options) -> Pace:
        """Return that of a record: ``start_seconds``, ``step_seconds``."""
        step = max(float(record.get("step_seconds", 0.0)), 1e-6)
        return cls(step, float(record.get("start_seconds", 0.0)), lanes, together, options)

    @property
    def launch(self) -> float:
        """Seconds of a launch without its rounds; with more processes than cores they wait for each
        other."""
        return ENDING_SECONDS + self.alone * max(1.0, self.lanes / self.together)

    @property
    def alone(self) -> float:
        """Seconds until one process is warmed up."""
        return self.start + self.options.warmup * self.step

    def rounds(self, count: float, steps: int = 0) -> float:
        """Return the seconds of so many rounds; with as many steps to a block as usual, or given
        ones."""
        steps = steps or self.block
        return count * self.lanes * (TURN_SECONDS + (self.options.settle + steps) * self.step)

    @property
    def block(self) -> int:
        """Steps of a block, where there is time enough."""
        return self.options.block or max(BLOCK_STEPS, math.ceil(BLOCK_SECONDS / self.step))

    def within(self, length: int, rounds: int) -> Options:
        """Return the options of a launch whose rounds, and a block before them, fit into a program
        of `length` steps: shorter blocks, and fewer steps that are not measured where blocks would
        be shorter than `SHORT_BLOCK`."""
        usual = self.options
        for warmup, settle in ((usual.warmup, usual.settle), (LEAST_WARMUP, 1), (1, 0)):
            warmup, settle = min(warmup, usual.warmup), min(settle, usual.settle)
            block = (length - 1 - warmup) // (rounds + 1) - settle
            if block >= SHORT_BLOCK:
                break
        block = usual.block or max(1, min(block, self.block))
        return replace(usual, warmup=warmup, settle=settle, block=block)

    @property
    def expected(self) -> float:
        """Seconds of all launches that are planned."""
        return self.options.launches * self.launch + self.rounds(self.options.pairs)

    def fitted(self, left: float) -> Pace | None:
        """Return what there is time for: fewer steps that are not measured, then fewer launches,
        but two where that leaves enough pairs for a verdict; blocks and rounds get shorter and
        fewer by themselves.

        None is for not even one launch of a round, if all goes well.
        """
        found, pairs = self, self.options.pairs
        if self.needed(self.options.launches, pairs) > left:
            settle = min(self.options.settle, int(SHORT_SETTLE_SECONDS / self.step))
            warmup = max(LEAST_WARMUP, int(SHORT_WARMUP_SECONDS / self.step))
            warmup = min(self.options.warmup, warmup)
            found = replace(self, options=replace(self.options, settle=settle, warmup=warmup))
        launches = found.options.launches
        while launches > 2 and found.needed(launches, pairs) > left:
            launches -= 1
        if launches == 2 and found.needed(2, statistics.MIN_PAIRS) > left:
            launches = 1
        if launches == 1 and found.alone + found.rounds(1, 1) > left:
            return None
        return replace(found, options=replace(found.options, launches=launches))

    def needed(self, launches: int, pairs: int) -> float:
        """Return the seconds of so many launches with so many of the shortest blocks."""
        return launches * self.launch + self.rounds(pairs, 1)


def stages_of(pairs: int, launches: int) -> list[list[int]]:
    """Return the rounds of each launch, by the look that follows them: half of the launches, the
    others, and as many again for what is open then.

    A look decides nothing where there is one launch, or too few pairs: then it is left out.
    """
    ends = [pairs * number // launches for number in range(launches + 1)]
    each = [end - start for start, end in itertools.pairwise(ends) if end > start]
    if pairs < statistics.LOOKS[0]:
        return [each]
    half = len(each) // 2
    if half < 2 or sum(each[:half]) < statistics.LOOKS[0]:
        return [each, each]
    return [each[:half], each[half:], each]
