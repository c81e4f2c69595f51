"""Memory that grows from step to step, in words and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torchlint.profile.growth import Growth
from torchlint.profile.output.source import place
from torchlint.report.kit.words import size, visible

_PLACES = 3
"""So many places are named."""


def sentences(found: Sequence[Growth] | None) -> Iterator[str]:
    """Yield a sentence for each kind of device whose memory grows."""
    for each in found or ():
        named = [f"{visible(place(kept.site))} ({size(kept.nbytes)})" for kept in each.kept]
        more = len(named) - _PLACES
        places = "; ".join(named[:_PLACES]) + (f"; and {more} more" if more > 0 else "")
        yield (
            f"memory of the {each.device} grows by {size(each.nbytes)} in each of {each.steps} "
            f"steps; what stays alive was allocated at {places}"
        )


def document(found: Sequence[Growth] | None) -> list[dict[str, Any]] | None:
    """Return the same as plain values; None where changes of memory were not recorded."""
    if found is None:
        return None
    return [
        {
            "device": each.device,
            "bytes_per_step": each.nbytes,
            "steps": each.steps,
            "places": [
                {
                    "file": kept.site.file or None,
                    "line": kept.site.line or None,
                    "function": kept.site.function,
                    "certainty": kept.site.certainty,
                    "bytes_per_step": kept.nbytes,
                }
                for kept in each.kept
            ],
        }
        for each in found
    ]
