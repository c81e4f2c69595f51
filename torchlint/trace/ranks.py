"""Several ranks of one run: who waits for whom in what they do together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import Columns, Ints, Trace
from torchlint.trace.kinds import COMMUNICATION


@frozen
class Collectives:
    """The collectives of one stream of a rank, one after the other.

    `names` has each name once, `order` the place in it of each collective's, and `took` their
    nanoseconds.
    """

    names: tuple[str, ...]
    order: tuple[int, ...]
    took: tuple[int, ...]

    def spelled(self) -> Iterator[str]:
        """Yield the name of each."""
        return (self.names[at] for at in self.order)


@frozen
class Waiting:
    """How long ranks waited for others in collectives, in nanoseconds by rank.

    `matched` is how many collectives all ranks have in common; where streams do not match, 0.
    """

    matched: int
    by_rank: Mapping[int, int]


def collectives(trace: Trace, work: Columns, kind: Ints) -> tuple[Collectives, ...]:
    """Return the collectives of a rank, in the order of its streams and of time.

    Args:
        trace: holds the names.
        work: what the device did.
        kind: its kinds.
    """
    talk = work.where(kind == COMMUNICATION)
    found = []
    for stream in np.unique(talk.stream).tolist():
        on = talk.where(talk.stream == stream)
        on = on.where(np.argsort(on.ts, kind="stable"))
        named, order = np.unique(on.name, return_inverse=True)
        names = tuple(trace.names[name] for name in named.tolist())
        found.append(Collectives(names, tuple(order.tolist()), tuple(on.dur.tolist())))
    return tuple(found)


def waiting(ranks: Mapping[int, Sequence[Collectives]]) -> Waiting:
    """Match collectives by their order in each stream.

    The rank that came last ran the shortest; what the others ran longer they waited. Streams of
    which the ranks do not name the same kernels are matched as far as the names agree.
    """
    streams = min((len(of) for of in ranks.values()), default=0)
    waited = dict.fromkeys(ranks, 0)
    matched = 0
    for at in range(streams if len(ranks) > 1 else 0):
        # How many collectives from the first on all ranks name alike.
        names = [of[at].spelled() for of in ranks.values()]
        common = 0
        for together in zip(*names, strict=False):
            if len(set(together)) > 1:
                break
            common += 1
        if common:
            took = np.array([of[at].took[:common] for of in ranks.values()])
            for rank, extra in zip(ranks, (took - took.min(axis=0)).sum(axis=1), strict=True):
                waited[rank] += int(extra)
            matched += common
    return Waiting(matched, waited)
