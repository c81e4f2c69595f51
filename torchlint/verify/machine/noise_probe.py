"""How uneven equal work is on this machine now, so that it can be said beforehand what times can
show."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from torchlint.verify.signed_rank import hodges_lehmann, signed_rank_interval

PAIRS = 12
BLOCK_SECONDS = 0.02
HOPELESS = 0.25
"""A half-width of the interval from which no change that a fix brings will be shown."""


def half_width(blocks: Sequence[tuple[float, float]], pairs: int) -> float:
    """Return how wide the interval of a ratio would be, to each side, as a share: 0.05 for 5 %.

    Args:
        blocks: times of equal work, two by two.
        pairs: the number of pairs that is planned; the width goes with the root of their number.
    """
    logs = [math.log(one) - math.log(two) for one, two in blocks]
    low, high = signed_rank_interval([each - hodges_lehmann(logs) for each in logs], 0.99)
    return math.expm1((high - low) / 2 * math.sqrt(len(logs) / pairs))


def probe(clock: Callable[[], float] = time.perf_counter) -> list[tuple[float, float]]:
    """Time equal work two by two, for about half a second."""
    amount = 1000
    while _work(amount, clock) < BLOCK_SECONDS:
        amount *= 2
    return [(_work(amount, clock), _work(amount, clock)) for _ in range(PAIRS)]


def _work(amount: int, clock: Callable[[], float]) -> float:
    start = clock()
    total = 0
    for number in range(amount):
        total += number & 7
    return max(clock() - start, 1e-9)


def words(width: float, pairs: int) -> str:
    """Say what times can show where equal work differs so much."""
    if width >= HOPELESS:
        return (
            "equal work differs so much here that times will hardly answer (an interval of "
            f"+-{width * 100:.0f} % "
            f"after {pairs} pairs); results, waits and bytes do not depend on it and come first"
        )
    return (
        f"this machine lets times show changes of about {max(width, 0.001) * 100:.2g} % and more "
        f"after {pairs} pairs of blocks, if the program's own steps are as even; the interval in "
        "the report tells what they did show"
    )
