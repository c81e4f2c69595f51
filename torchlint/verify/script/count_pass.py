"""The count pass: host-device traffic per step and source line, predicted by the ledger or observed
on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torchlint.program.traffic import SKIPPED_STEPS, UNUSED
from torchlint.report.kit.words import visible
from torchlint.verify.model import Counts, Status
from torchlint.verify.script.run_extent import RunExtent
from torchlint.verify.script.runs import Home, RunRecord
from torchlint.verify.session.counts import side_by_side
from torchlint.verify.variants import ORIGINAL

_HOST_WORDS = ("cpu", "no-cuda", "no_cuda", "disable-cuda", "disable_cuda", "no-gpu", "no_gpu")
"""Parts of arguments with which programs are told to stay on the host."""


def settings(run_extent: RunExtent) -> dict[str, int]:
    """Return how far a run goes that is counted, where the others go that far."""
    return {"steps": run_extent.compared + SKIPPED_STEPS, "warmup": SKIPPED_STEPS}


def taken(
    before: RunRecord,
    records: Mapping[str, RunRecord],
    homes: Mapping[str, Home],
    gap: str,
    device: str,
) -> dict[str, Counts]:
    """Return the counts by variant from runs that were made for something else too, or why there
    are none."""
    ok = [(name, record) for name, record in records.items() if record.status is Status.OK]
    if gap:
        return {
            name: Counts("cuda" if device == "cuda" else "virtual-cuda", unavailable=gap)
            for name, _ in ok
        }
    return {
        name: paired(before, record, homes[ORIGINAL], homes[name], device) for name, record in ok
    }


def paired(before: RunRecord, after: RunRecord, home: Home, other: Home, device: str) -> Counts:
    """Return the counts of the original and a variant as one value, or why there are none."""
    basis = "cuda" if device == "cuda" else "virtual-cuda"
    one, two = before.record.get("counts"), after.record.get("counts")
    reason = gap(before, one) or gap(after, two)
    if reason or not one or not two:
        return Counts(basis, unavailable=reason or "nothing was counted")
    copies = str(home.copy), str(other.copy)
    found = side_by_side(basis, one, two, copies)
    evaluated = one.get("evaluation"), two.get("evaluation")
    if not (evaluated[0] and evaluated[1]):
        return found
    return replace(found, evaluation=side_by_side(basis, *evaluated, copies))


def gap(record: RunRecord, counts: Mapping[str, Any] | None) -> str:
    """Return why a run gives no counts: the ledger met something that it does not know, or the
    program failed."""
    if counts and counts.get("unavailable"):
        return str(counts["unavailable"])
    if record.status is not Status.OK:
        last = next((line for line in reversed(record.tail.splitlines()) if line.strip()), "")
        return (
            "the program "
            f"{record.status.value if record.status is not Status.BROKEN else 'failed'} under "
            f"it: {last}"
        )
    if not counts:
        return "; ".join(record.record.get("trouble") or []) or "nothing was counted"
    if not counts.get("steps"):
        return "the program ended before a step was counted"
    return "" if counts.get("used", True) else UNUSED


def unused_hint(typed: Sequence[str]) -> str:
    """Say how a command is told to use the GPU where it stays on the host; empty where no argument
    says so."""
    for argument in typed:
        if any(word in argument.lower() for word in _HOST_WORDS):
            return (
                f"the command says {visible(argument)}: leave it out, with --device virtual-cuda, "
                "to have what it does on a GPU predicted"
            )
    return ""
