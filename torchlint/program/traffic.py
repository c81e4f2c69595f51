"""What a ledger says of a program's host-device traffic (`inside.ledger`), line by line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UNUSED = (
    "nothing was predicted, as the program stayed on the CPU though a CUDA device was offered to it"
)
CHOSEN = (
    "it chooses its device by something else than torch.cuda (a default of its own, a setting, "
    "another process)"
)
"""Why a program that knows of accelerators stays on the CPU."""
SKIPPED_STEPS = 2
"""Steps before counting begins: lazy initialisation is not what a step costs."""


@dataclass(frozen=True, slots=True)
class CountLine:
    """What one source line does over the counted steps. kind: "sync", "h2d", "d2h", "staged" or
    "mismatch"."""

    kind: str
    file: str
    line: int
    count: int
    bytes: int
    what: str = ""


def count_lines(counts: Mapping[str, Any], copy: str = "") -> tuple[CountLine, ...]:
    """Return the lines of a ledger's summary.

    Args:
        counts: the summary.
        copy: the folder that the program ran in, with which paths of lines may begin.
    """
    prefix = f"{copy}/" if copy else ""
    return tuple(
        CountLine(
            kind=str(line["kind"]),
            file=str(line["file"]).removeprefix(prefix),
            line=int(line["line"]),
            count=int(line["count"]),
            bytes=int(line["bytes"]),
            what=str(line.get("what", "")),
        )
        for line in counts.get("lines", ())
    )
