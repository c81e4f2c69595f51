"""Host-device traffic before and after, put together from two summaries of a ledger
(`inside.ledger`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchlint.program.traffic import count_lines
from torchlint.verify.model import Counts


def side_by_side(
    basis: str, one: Mapping[str, Any], two: Mapping[str, Any], copies: tuple[str, str] = ("", "")
) -> Counts:
    """Return both summaries as one value.

    Args:
        basis: "virtual-cuda" or "cuda".
        one, two: of the original and of the variant.
        copies: the folders that either ran in, with which paths of lines may begin.
    """
    return Counts(
        basis=basis,
        steps=min(int(one["steps"]), int(two["steps"])),
        syncs=(one["syncs"], two["syncs"]),
        h2d_bytes=(one["h2d_bytes"], two["h2d_bytes"]),
        d2h_bytes=(one["d2h_bytes"], two["d2h_bytes"]),
        staged=(one["staged"], two["staged"]),
        before=count_lines(one, copies[0]),
        after=count_lines(two, copies[1]),
    )
