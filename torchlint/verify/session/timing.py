"""Runs blocks of all versions in turns: the one timer of all modes.

Block i of the original and block i of a variant lie in one round, so they share the machine's
state. The order is random in every round, as a fixed forward and reverse order has once biased the
null control by 7 %.
"""

from __future__ import annotations

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from torchlint.base.records import frozen
from torchlint.verify.session.wire import ProgramError


@frozen
class Block:
    """One measured block of one version, per step or call: nanoseconds of wall time, CPU time,
    waiting for data, and between events of CUDA (0 where that is not asked)."""

    wall: float
    cpu: float
    wait: float = 0.0
    events: float = 0.0


class Lane(ABC):
    """One version in one launch: gives blocks until it fails; `failure` then says why."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.blocks: list[Block] = []
        self.failure: ProgramError | None = None

    @abstractmethod
    def block(self) -> Block:
        """Run one block, while all other lanes rest.

        Raises:
            ProgramError: the program gives no more.
        """


def take_turns(
    lanes: Sequence[Lane],
    rounds: int,
    rng: random.Random,
    *,
    end: float = math.inf,
    tick: Callable[[int], None] = lambda done: None,
) -> None:
    """Run one block of each lane in every round, in random order.

    A lane that fails is left out from then on. All is over where the original fails, and its last
    round is dropped, or where nothing is left to compare it with.

    Args:
        lanes: the first is the original.
        rounds: how many.
        rng: for the order.
        end: the time (`time.monotonic`) at which no further round is begun; one is run in any case.
        tick: called with the number of complete rounds.
    """
    going = [lane for lane in lanes if lane.failure is None]
    for number in range(rounds):
        if lanes[0].failure is not None or len(going) < 2 or (number and time.monotonic() > end):
            return
        order = list(going)
        rng.shuffle(order)
        taken = {lane.name: block for lane in order if (block := trial(lane)) is not None}
        going = [lane for lane in going if lane.failure is None]
        if lanes[0].failure is None:
            for lane in going:
                lane.blocks.append(taken[lane.name])
            tick(number + 1)


def trial(lane: Lane) -> Block | None:
    """Run a block of a lane; None where it fails, which the lane then says."""
    try:
        return lane.block()
    except ProgramError as error:
        lane.failure = error
        return None
