"""What a rule's example cost, in a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torchlint.base.errors import CatalogError
from torchlint.catalog.rules import load_catalog
from torchlint.manual.measurements import cost, read_costs
from torchlint.manual.pages import costs


def entry(
    device: str,
    verdict: str = "faster",
    ratio: float | None = 2.0,
    syncs: object = None,
    basis: str = "virtual-cuda",
) -> dict[str, Any]:
    counts = {"syncs": syncs, "basis": basis} if syncs else None
    return {"device": device, "verdict": verdict, "ratio": ratio, "counts": counts}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry("cpu"), entry("cuda", ratio=31.46)], "31.5x faster on a GPU"),
        ([entry("cpu"), entry("cuda", "inconclusive")], "2.00x faster on a CPU"),
        (
            [entry("cpu", "slower", 0.9, [32.0, 2.0])],
            "saves 30 of 32 waits for the device, predicted",
        ),
        (
            [entry("cuda", "slower", 0.9, [3.0, 2.0], "cuda")],
            "saves 1 of 3 waits for the device, observed",
        ),
        ([entry("cpu", "inconclusive", 1.1, [2.0, 2.0])], ""),
        ([entry("cpu", "faster", None)], ""),
        ([], ""),
    ],
)
def test_cost(entries: list[dict[str, Any]], words: str) -> None:
    """What a GPU showed counts before what a CPU did, and that before what is predicted; no gain is
    no words."""
    assert cost(entries) == words


def test_costs_of_the_rules_are_read() -> None:
    assert set(costs()) <= {info.code for info in load_catalog().rules}
    assert any(costs().values())


def test_no_file_and_a_damaged_one(tmp_path: Path) -> None:
    assert read_costs(tmp_path / "none.json") == {}
    (tmp_path / "bad.json").write_text('{"TL101": [{}]}')
    with pytest.raises(CatalogError, match=r"bad\.json"):
        read_costs(tmp_path / "bad.json")
