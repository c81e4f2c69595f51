"""What a program would wait for and copy on a machine with a GPU, as the ledger predicts it where
there is none: counts and bytes of each step by line, never times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from torchlint.base.finding import Finding
from torchlint.base.records import frozen
from torchlint.profile.lines import extent
from torchlint.profile.sites import Sources
from torchlint.profile.virtual_run import Counted
from torchlint.program.traffic import CHOSEN, UNUSED, CountLine, count_lines

_ACCELERATOR = re.compile(r"\b(?:cuda|mps|xpu|hpu|npu|accelerator|Accelerator)\b")


@frozen
class Traffic:
    """What a step waits for and copies, on average.

    Args:
        waits: how often the host waits for the device.
        to_device, to_host: bytes that are copied.
    """

    waits: float = 0.0
    to_device: float = 0.0
    to_host: float = 0.0

    def __bool__(self) -> bool:
        """Say whether there is any."""
        return bool(self.waits or self.to_device or self.to_host)


@frozen
class LineTraffic:
    """What a line waits for and copies in each step, and what that is (``item()``)."""

    file: str
    line: int
    of: Traffic
    causes: tuple[str, ...]


@frozen
class Predicted:
    """What the ledger says of a program.

    Args:
        unavailable: why it says nothing; empty where it does.
        steps: how many were counted.
        of: what one step waits for and copies.
        each: the same by line, the most waits first.
        refused: lines that a GPU would refuse, as tensors of both sides meet there.
        notes: what a reader has to know.
    """

    unavailable: str = ""
    steps: int = 0
    of: Traffic = Traffic()
    each: tuple[LineTraffic, ...] = ()
    refused: tuple[CountLine, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return what a reader has to know: how it was counted, and where a GPU would stop."""
        refused = dict.fromkeys(
            f"{line.file}:{line.line} mixes devices{f' ({line.what})' if line.what else ''}; "
            "a real GPU stops there"
            for line in self.refused
        )
        return tuple(f"predicted: {words}" for words in (*self.notes, *refused))

    def at(self, finding: Finding) -> Traffic | None:
        """Return what the statement of a finding waits for and copies; None where that is not
        known."""
        if self.unavailable or finding.cell is not None:
            return None
        first, last = extent(finding)
        each = [
            (one.of.waits, one.of.to_device, one.of.to_host)
            for one in self.each
            if one.file == finding.filename and first <= one.line <= last
        ]
        return Traffic(*map(sum, zip(*each, strict=True)))


def predicted(found: Counted, sources: Sources) -> Predicted:
    """Return what a run under the ledger says.

    Args:
        found: what it left.
        sources: the program's files, by which lines are named.
    """
    counts, reason = found.counts, _why_not(found, sources)
    if counts is None or reason:
        return Predicted(reason)
    steps = int(counts["steps"])
    lines = tuple(_named(line, sources) for line in count_lines(counts))
    return Predicted(
        "",
        steps,
        Traffic(counts["syncs"], counts["h2d_bytes"], counts["d2h_bytes"]),
        _by_line(lines, steps),
        tuple(line for line in lines if line.kind == "mismatch"),
        tuple(counts["notes"]),
    )


def _why_not(found: Counted, sources: Sources) -> str:
    counts = found.counts
    if counts and counts["unavailable"]:
        return str(counts["unavailable"])
    if found.failed:
        return found.failed
    if not counts or not counts["steps"]:
        return "the program ended before a step was counted"
    if counts["used"]:
        return ""
    reason = UNUSED.removeprefix("nothing was predicted, as ")
    # Whether a file of the program names an accelerator.
    return (
        f"{reason}: {CHOSEN}"
        if any(
            _ACCELERATOR.search(source.text) for same in sources.by_name.values() for source in same
        )
        else reason
    )


def _named(line: CountLine, sources: Sources) -> CountLine:
    source = sources.of(line.file)
    return line if source is None else replace(line, file=source.name)


def _by_line(lines: Iterable[CountLine], steps: int) -> tuple[LineTraffic, ...]:
    found: dict[tuple[str, int], list[CountLine]] = {}
    for line in lines:
        found.setdefault((line.file, line.line), []).append(line)
    each = (
        LineTraffic(
            file,
            number,
            Traffic(
                sum(one.count for one in some if one.kind == "sync") / steps,
                sum(one.bytes for one in some if one.kind == "h2d") / steps,
                sum(one.bytes for one in some if one.kind == "d2h") / steps,
            ),
            tuple(dict.fromkeys(one.what for one in some if one.what)),
        )
        for (file, number), some in found.items()
    )
    return tuple(
        sorted(
            (one for one in each if one.of),
            key=lambda one: (-one.of.waits, -one.of.to_device - one.of.to_host, one.file, one.line),
        )
    )
