"""``torchlint profile`` on traces."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.trace.program import steps, written
from torchlint.cli.main import run
from torchlint.profile.output import json_report

SCHEMA = json.loads(
    Path(json_report.__file__).with_name("profile-report.schema.json").read_text(encoding="utf-8")
)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def loaded(text: str) -> Any:
    """Return a report as a strict parser reads it, once its schema holds."""
    found = json.loads(text, parse_constant=_no_constant)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return written(tmp_path / "t.json", steps(4).events)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_text_says_where_the_time_went(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "--trace", trace]) == 0
    out = capsys.readouterr().out
    for words in ("rank 0", "step ", "(4 steps", "GPU, first to last work", "idle", "gemm"):
        assert words in out
    assert "the last step is left out" in out


def test_json_keeps_its_schema(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "--trace", trace, "--output-format", "json"]) == 0
    found = loaded(capsys.readouterr().out)
    temporal = found["figures"]["temporal"]
    parts = [temporal[name] for name in ("idle_ns", "compute_ns", "rest_ns")]
    assert temporal["total_ns"] == sum(parts)
    assert [step["number"] for step in found["steps"]] == [0, 1, 2, 3]


def test_without_a_device_figures_are_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1.5, "dur": 2.25}
    path = written(tmp_path / "cpu.json", [event])
    assert run(["profile", "--trace", path, "--output-format", "json"]) == 0
    found = loaded(capsys.readouterr().out)
    assert found["figures"]["temporal"] is None
    assert found["figures"]["launches"] is None
    assert any("no device worked" in note for note in found["notes"])
    assert run(["profile", "--trace", path]) == 0
    assert "GPU     –" in capsys.readouterr().out


def test_ranks_of_a_folder_stand_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank, count in ((0, 4), (1, 5), (3, 4)):
        info = {"rank": rank, "world_size": 4}
        events = steps(count, rank=rank).events
        written(tmp_path / f"r{rank}.json", events, distributedInfo=info)
    written(tmp_path / "again.json", steps(2).events, distributedInfo={"rank": 3})
    (tmp_path / "note.json").write_text("<html>")
    assert run(["profile", "--trace", str(tmp_path), "--output-format", "json"]) == 0
    found = loaded(capsys.readouterr().out)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1, 3]
    assert [step["number"] for step in found["common_steps"]] == [0, 1]  # again.json has two
    notes = "\n".join(found["notes"])
    for words in ("is HTML", "as", "1 of 4 ranks have no trace: 2", "unequal numbers of steps"):
        assert words in notes
    assert run(["profile", "--trace", str(tmp_path), "--rank", "1"]) == 0
    out = capsys.readouterr().out
    assert "rank 1 of 4" in out
    assert "waits in collectives" in out
    assert run(["profile", "--trace", str(tmp_path), "--rank", "2"]) == 2
    assert "the traces are of 0, 1, 3" in capsys.readouterr().err


def test_an_older_trace_stands_beside(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = written(tmp_path / "old.json", steps(4, work=300_000).events)
    assert run(["profile", "--trace", trace, "--against", old]) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("gemm"))
    assert line.split("  ")[0] == "gemm"
    assert "900 us" in line
    assert "2.70 ms" in line
    assert run(["profile", "--trace", trace, "--against", old, "--output-format", "json"]) == 0
    assert loaded(capsys.readouterr().out)["against"]["figures"]["kernels"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a trace"),
        (["--trace", "missing.json"], "missing.json"),
        (["--trace", "{}", "--idle-threshold", "soon"], "is no time"),
        (["--trace", "{folder}"], "holds no .json"),
        (["--trace", "{}", "-o", "{}"], "one of the files"),
    ],
)
def test_wrong_usage_is_one_line(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    filled = [each.format(trace, folder=tmp_path / "empty") for each in arguments]
    assert run(["profile", *filled]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert words in found.err
    assert found.err.count("\n") == 1


def test_limits_have_units(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--delay-cutoff", "1us", "--runtime-cutoff", "0.5us", "--idle-threshold", "200ns"]
    assert run(["profile", "--trace", trace, "--output-format", "json", *limits]) == 0
    launches = loaded(capsys.readouterr().out)["figures"]["launches"]
    assert launches["slow_calls"] == launches["long_delays"] == launches["count"] == 15


def test_a_report_goes_to_a_file(trace: str, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    assert run(["profile", "--trace", trace, "--output-format", "json", "-o", str(target)]) == 0
    loaded(target.read_text())


def test_a_missing_package_is_named(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert run(["profile", "--trace", trace]) == 4
    assert "pip install 'torchlint[profile]'" in capsys.readouterr().err


def test_names_cannot_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = steps(1)
    machine.launch(1_000, name="bad\x1b[2Jname")
    assert run(["profile", "--trace", written(tmp_path / "t.json", machine.events)]) == 0
    assert "\x1b" not in capsys.readouterr().out
