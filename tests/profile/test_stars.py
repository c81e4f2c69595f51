"""What the profiler's tutorial teaches, on a program of our own: a mask in double precision goes to
the host, NumPy searches it, and what it found comes back.

``profile`` names the lines, ``check`` finds them, and ``verify`` shows what the fix does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checking import check
from tests.profile.test_live import Profiled, laboratory
from tests.verify.prepared import Prepared

STARS = Path(__file__).parents[2] / "fixtures" / "projects" / "stars"
FILES = {path.stem: path.read_text(encoding="utf-8") for path in STARS.glob("*.py")}


def row(name: str, start: str) -> int:
    """Return the line of a file that begins so."""
    lines = FILES[name].splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(start))


SEARCH = row("finder", "bright = np.argwhere")
BACK = row("finder", "bright = torch.from_numpy")
DOUBLE = row("train", "chart = torch.from_numpy")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepared) -> Iterator[Profiled]:
    pytest.importorskip("torch")
    for made in laboratory(tmp_path / "project", monkeypatch, prepared):
        made.write(**FILES)
        yield made


def test_check_finds_the_trip_and_the_double_precision() -> None:
    found = {
        (name, finding.code, finding.start.row)
        for name, text in FILES.items()
        for finding in check(text, name=f"{name}.py").findings
    }
    assert found >= {("finder", "TL104", SEARCH), ("train", "TL402", DOUBLE)}


@pytest.mark.slow
def test_profile_names_the_search_and_what_a_gpu_would_wait_for(lab: Profiled) -> None:
    ran = lab.profile(".", "--output-format", "json", "--", "train.py")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    hot = {(line["file"], line["line"]) for line in report["lines"]}
    assert {("finder.py", SEARCH), ("finder.py", BACK)} <= hot
    found = {one["code"]: one for one in report["findings"]}
    proof = "torchlint verify . --select TL104 --unsafe-fixes "
    assert found["TL104"]["proof"].startswith(proof)
    chart = 8 * 32 * 64 * 64
    assert found["TL104"]["predicted"] == {
        "waits": 1.0, "to_device_bytes": 0.0, "to_host_bytes": chart
    }  # fmt: skip
    assert found["TL101"]["predicted"]["to_host_bytes"] == 4
    predicted = report["predicted"]
    assert (predicted["unavailable"], predicted["per_step"]["waits"]) == (None, 3.0)
    lines = {(line["file"], line["line"]): line for line in predicted["lines"]}
    assert set(lines) == {("finder.py", row) for row in (SEARCH - 1, SEARCH, BACK)}
    assert lines["finder.py", BACK]["causes"] == ["copy to device"]


@pytest.mark.slow
def test_verify_shows_what_the_fix_does(lab: Profiled) -> None:
    options = ("--select", "TL104", "--unsafe-fixes", "--device", "virtual-cuda")
    ran = lab.verify(".", *options, "--output-format", "json", "--", "train.py")
    assert ran.code == 0, ran.err
    (fix,) = (one for one in json.loads(ran.out)["variants"] if one["kind"] == "single")
    assert fix["equivalence"]["level"] == "bitwise"
    counts = fix["counts"]
    before, after = counts["syncs"]
    assert (before, after) == (3, 2)
    chart, places = 8 * 32 * 64 * 64, 8 * 3
    assert counts["d2h_bytes"][0] > chart > 1000 * counts["d2h_bytes"][1]
    assert counts["h2d_bytes"][0] > places
    assert counts["h2d_bytes"][1] == 0
