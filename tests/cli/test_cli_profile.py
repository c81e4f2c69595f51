"""``torchlint profile`` on traces."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.trace.program import Machine, steps, written
from torchlint.cli import verify
from torchlint.cli.main import run
from torchlint.cli.session import Session
from torchlint.profile.output import json_report
from torchlint.profile.output.csv_tables import tables

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
    for words in ("rank 0", "step ", "(3 steps", "the GPU computing", "idle", "gemm"):
        assert words in out
    assert out.count("without the last step") == 1


def test_json_keeps_its_schema(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "--trace", trace, "--output-format", "json"]) == 0
    found = loaded(capsys.readouterr().out)
    temporal = found["figures"]["temporal"]
    parts = [temporal[name] for name in ("idle_ns", "compute_ns", "rest_ns")]
    assert temporal["total_ns"] == sum(parts)
    assert [step["number"] for step in found["steps"]] == [0, 1, 2]
    assert temporal["total_ns"] == found["window"]["span_ns"] == found["waits"]["span_ns"]


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
    assert [step["number"] for step in found["common_steps"]] == [0]  # again.json has two
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
        ([], "name a program to run: torchlint profile . -- train.py, or a trace to read: "),
        (["--trace", "missing.json"], "missing.json"),
        (["--trace", "{folder}"], "holds no .json"),
        (["--trace", "{}", "--source-map", "/ci"], "is no OLD=NEW"),
        (["--trace", "{}", "--source-map", "/ci=/nowhere"], "there is no such file or folder"),
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


def test_a_report_goes_to_a_file(trace: str, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    assert run(["profile", "--trace", trace, "--output-format", "json", "-o", str(target)]) == 0
    loaded(target.read_text())


def test_a_missing_package_is_named(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert run(["profile", "--trace", trace]) == 4
    assert "python -m pip install '.[profile]' in a clone" in capsys.readouterr().err


def test_names_cannot_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = steps(1)
    machine.launch(1_000, name="bad\x1b[2Jname")
    assert run(["profile", "--trace", written(tmp_path / "t.json", machine.events)]) == 0
    assert "\x1b" not in capsys.readouterr().out


PROGRAM = """import torch

def train(model, loader, optimizer):
    total = 0.0
    for batch, target in loader:
        optimizer.zero_grad()
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total

model = torch.nn.Linear(8, 8).cuda()
loader = torch.utils.data.DataLoader(torch.randn(64, 8), pin_memory=True)
train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
"""


def waiting(path: Path, *, frames: bool = True, first: int = 3) -> str:
    """Write a trace of PROGRAM: steps that read the loss, the GPU late by then."""
    machine = Machine()
    begun = machine.now
    for number in range(4):
        start = machine.now
        machine.host(300_000)
        machine.launch(500_000)
        read = machine.now
        machine.item("read")
        if frames:
            name = "<built-in method item of Tensor object at 0x7f>"
            machine.event("python_function", name, read - 10, machine.now - read + 20)
        machine.host(1_000)
        machine.step(number, start)
    if frames:
        name = f"train.py({first}): train"
        machine.event("python_function", name, begun - 100, machine.now - begun + 200)
        machine.event(
            "python_function", "train.py(1): <module>", begun - 500, machine.now - begun + 900
        )
    return written(path, machine.events)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def test_a_finding_stands_beside_the_wait_at_its_line(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = waiting(program / "t.json")
    arguments = ["profile", "train.py", "--isolated", "--trace", trace]
    assert run([*arguments, "--output-format", "json"]) == 0
    found = loaded(capsys.readouterr().out)
    (place,) = found["waits"]["places"]
    assert (place["file"], place["line"], place["certainty"]) == ("train.py", 10, "unique")
    assert place["calls"] == 3  # without the last step
    assert 0 < place["alone_ns"] <= place["waited_ns"] + 50_000
    assert found["waits"]["joint_ns"] >= place["alone_ns"]
    first = found["findings"][0]
    assert (first["line"], first["wait"]) == (10, place)
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert "train.py:10, in train" in out
    assert re.search(r"at most .*  train\.py:10: TL101 .*\n  without its waits; it waits", out)
    assert first["bound"]["alone_ns"] == pytest.approx(place["alone_ns"], rel=0.1)
    assert first["bound"]["share"] == pytest.approx(
        first["bound"]["alone_ns"] / found["bounds"]["span_ns"]
    )
    assert found["bounds"]["joint_ns"] >= first["bound"]["alone_ns"]
    assert (first["effect"], first["seen"], first["why"]) == ("wait", True, None)
    assert first["cost"]["line"] == 10


def test_a_finding_that_was_there_before_is_no_step_that_takes_longer(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile", "-q", "train.py", "--trace", waiting(program / "t.json")]
    assert run([*arguments, "--fail-above", "2.5%"]) == 1
    older = ["--against", waiting(program / "old.json"), "--all-steps"]
    capsys.readouterr()
    assert run([*arguments, *older, "--fail-above", "2.5%"]) == 0
    found = capsys.readouterr()
    assert re.search(r"before, .* now, under the profiler\): (no change|inconclusive)", found.out)
    assert found.err == ""


def test_a_finding_above_the_limit_fails(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["profile", "-q", "train.py", "--isolated", "--trace", waiting(program / "t.json")]
    assert run([*arguments, "--fail-above", "60%"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*arguments, "--fail-above", "2.5 %"]) == 1
    err = capsys.readouterr().err
    assert err == (
        "torchlint: fixing TL101 at train.py:10 could save more than 2.5 % of the time\n"
    )
    for wrong in ("5", "much", "200%"):
        assert run([*arguments, "--fail-above", wrong]) == 2
        assert "is no share; write 5%" in capsys.readouterr().err
    assert run(["profile", "--trace", waiting(program / "t.json"), "--fail-above", "5%"]) == 2
    assert "name the program's files" in capsys.readouterr().err


def test_markdown_is_a_table_of_findings(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = waiting(program / "t.json")
    arguments = ["profile", "-q", "train.py", "--isolated", "--trace", trace]
    assert run([*arguments, "--output-format", "markdown", "--against", trace]) == 0
    out = capsys.readouterr().out
    assert re.search(r"\| at most [\d.]+ us \([\d.]+ %\) \| `train.py:10` \*\*TL101\*\* ", out)
    assert "| figure | now | before |" in out
    for table in out.split("\n\n"):
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) <= 1


def test_without_frames_findings_have_no_cost(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = waiting(program / "t.json", frames=False)
    assert run(["profile", ".", "--isolated", "--trace", trace]) == 0
    out = capsys.readouterr().out
    assert "without a bound: the trace names no lines" in out
    assert "cudaStreamSynchronize" in out
    assert "record with with_stack=True" in out


def test_a_source_that_differs_gets_no_line(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = waiting(program / "t.json", first=4)
    assert run(["profile", ".", "--isolated", "--trace", trace, "--output-format", "json"]) == 0
    found = loaded(capsys.readouterr().out)
    (place,) = found["waits"]["places"]
    assert (place["line"], place["source_differs"]) == (None, True)
    assert all(finding["wait"] is None for finding in found["findings"])
    assert run(["profile", ".", "--isolated", "--trace", trace]) == 0
    assert "source differs from the trace" in capsys.readouterr().out


def test_a_path_that_is_not_there_is_one_line(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", "no.py", "--trace", waiting(program / "t.json")]) == 2
    assert "no.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["profile", "--trace", "t.json"], {"torch", "libcst", "pandas"}),
        (["check", "--isolated", "--no-cache", "train.py"], {"torch", "numpy", "msgspec"}),
    ],
)
def test_what_reads_traces_is_imported_by_this_command_alone(
    program: Path, arguments: list[str], absent: set[str]
) -> None:
    waiting(program / "t.json")
    code = "import sys\nfrom torchlint.cli.main import run\nrun(sys.argv[1:])\nprint(*sys.modules)"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=program, capture_output=True, text=True, check=True)
    assert absent.isdisjoint(done.stdout.splitlines()[-1].split())


def test_check_shows_what_a_profile_measured_and_gates_as_before(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, cost = waiting(program / "t.json"), str(program / "cost.json")
    profile = ["profile", "-q", "train.py", "--isolated", "--trace", trace]
    assert run([*profile, "--output-format", "json", "-o", cost]) == 0
    check = ["check", "train.py", "--isolated"]
    code = run(check)
    plain = capsys.readouterr().out
    for _ in range(2):  # the cache has it no second time either
        assert run([*check, "--profile", cost]) == code == 1
        out = capsys.readouterr().out
        assert re.search(r"TL101 .*\n?.*\(fixing saves at most [\d.]+ %\)", out)
        assert run(check) == code
        assert capsys.readouterr().out == plain
    first, *_ = plain.split("\n\n")
    assert "TL103" in first  # line 7 stands before line 10
    assert out.index("TL101") < out.index("TL103")
    assert run([*check, "--profile", cost, "--output-format", "json"]) == 1
    found = {entry["code"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert 0.1 < found["TL101"]["measured"]["share"] < 1
    assert found["TL103"]["measured"]["negligible"] is True
    assert run([*check, "--profile", cost, "--exit-zero"]) == 0


@pytest.mark.parametrize("arguments", [["--explain"], ["--diff"], ["--statistics"]])
def test_a_profile_has_nothing_to_say_there(
    program: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(["check", "train.py", "--profile", "x.json", *arguments]) == 2
    assert "--profile and" in capsys.readouterr().err


def test_a_profile_that_is_none_is_refused_before_any_work(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, words in (("{}", "is no report of torchlint profile"), (None, "No such file")):
        if text is not None:
            (program / "x.json").write_text(text)
        name = "x.json" if text is not None else "no.json"
        for command in (["check", "train.py"], ["server"]):
            assert run([*command, "--profile", name]) == 2
            found = capsys.readouterr()
            assert found.out == ""
            assert found.err.count("\n") == 1
            assert words in found.err


@pytest.mark.parametrize("named", ["--config", "TORCHLINT_CONFIG"])
def test_a_configuration_that_is_not_there_is_refused_without_paths_too(
    named: str,
    trace: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    option = ["--config", "nope.toml"] if named == "--config" else []
    if not option:
        monkeypatch.setenv(named, "nope.toml")
    for reading in (["--trace", trace], ["--merge", trace], ["--snapshot", trace]):
        assert run(["profile", *reading, *option]) == 2
        assert "nope.toml" in capsys.readouterr().err
    summary = ["--summary", str(tmp_path / "s.json")]
    assert run(["profile", "--trace", trace, *summary, *option]) == 2


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_what_check_found_is_not_looked_for_again(
    folder: str,
    program: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TORCHLINT_NO_CACHE", raising=False)
    if folder:
        monkeypatch.setenv("TORCHLINT_CACHE_DIR", str(program / folder))
    trace = waiting(program / "t.json")
    arguments = ["profile", ".", "--trace", trace, "--output-format", "json"]
    assert run(arguments) == 0
    first = loaded(capsys.readouterr().out)["findings"]
    assert first
    assert run(["check", "."]) == 1
    capsys.readouterr()

    def none(*_: object) -> None:
        raise AssertionError("a file was analysed")

    monkeypatch.setattr(Session, "_analyse", none)
    assert run(arguments) == 0
    assert loaded(capsys.readouterr().out)["findings"] == first
    given = verify.verify_command.make_context("verify", ["."]).params
    findings, _, _ = verify._findings(verify._scope(given, (".",)), given)
    assert [one.fingerprint for one in findings["train.py"]] == [
        one["fingerprint"] for one in sorted(first, key=lambda one: (one["line"], one["column"]))
    ]
    monkeypatch.setenv("TORCHLINT_NO_CACHE", "true")
    with pytest.raises(AssertionError, match="a file was analysed"):
        run(arguments)


# CSV


def test_each_table_is_written_as_csv_under_its_name_in_json(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "tables"
    options = ["--output-format", "json", "--csv", str(folder)]
    assert run(["profile", "--trace", trace, *options]) == 0
    found = loaded(capsys.readouterr().out)
    written_ = {
        path.stem: list(csv.DictReader(path.read_text().splitlines(keepends=True)))
        for path in folder.iterdir()
    }
    assert {path.suffix for path in folder.iterdir()} == {".csv"}
    assert len(written_["steps"]) == len(found["steps"]) == 3
    assert [int(row["time_ns"]) for row in written_["steps"]] == [
        step["time_ns"] for step in found["steps"]
    ]
    assert [row["name"] for row in written_["figures.kernels"]] == [
        kernel["name"] for kernel in found["figures"]["kernels"]
    ]
    (temporal,) = written_["figures.temporal"]
    assert int(temporal["idle_ns"]) == found["figures"]["temporal"]["idle_ns"]
    (rank,) = written_["ranks"]
    assert int(rank["temporal.total_ns"]) == found["ranks"][0]["temporal"]["total_ns"]
    assert rank["world_size"] == ""  # null
    assert [row["notes"] for row in written_["notes"]] == found["notes"]
    assert "modules" not in written_  # nothing is known of them


def test_cells_are_quoted_where_they_hold_commas_quotes_and_lines() -> None:
    rows = [{"name": 'a, "b"\nc', "parts": ["x", "y"], "of": {"ns": 1, "why": None}}]
    ((name, text),) = tables({"rows": rows})
    assert name == "rows"
    (row,) = csv.DictReader(text.splitlines(keepends=True))
    assert row == {"name": 'a, "b"\nc', "parts": "x; y", "of.ns": "1", "of.why": ""}


def test_csv_goes_into_a_folder_and_not_with_what_writes_no_report(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, words in ((trace, trace), (f"{trace}/tables", f"{trace}/tables"), ("", "''")):
        for command in (["--trace", trace], ["--", "there_is_none.py"]):  # nothing is run
            assert run(["profile", "--csv", folder, *command]) == 2
            assert f"--csv {words}: name a folder" in capsys.readouterr().err
    summary = str(tmp_path / "s.json")
    assert run(["profile", "--trace", trace, "--csv", str(tmp_path), "--summary", summary]) == 2
    assert "--csv" in capsys.readouterr().err
    assert run(["profile", "--snapshot", trace, "--csv", str(tmp_path)]) == 2
    assert "--snapshot and --csv cannot be used together" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["-o", "--keep-trace"])
def test_what_cannot_be_written_is_refused_before_a_program_is_run(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "none" / "x.json")
    assert run(["profile", option, path, "--", "there_is_none.py"]) == 2
    assert "its directory does not exist" in capsys.readouterr().err
    assert run(["profile", "--against", path, "--", "there_is_none.py"]) == 2
    assert f"{path}: No such file or directory" in capsys.readouterr().err


def test_tables_of_an_earlier_report_are_named(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tables"
    for shown in ("old.csv, operators.csv", ""):
        folder.mkdir(exist_ok=True)
        for name in filter(None, shown.split(", ")):
            (folder / name).write_text("name\n")
        assert run(["profile", "--trace", trace, "--csv", str(folder)]) == 0
        told = f"--csv {folder}: not of this report: {shown}\n"
        assert (told in capsys.readouterr().err) == bool(shown)
        for path in folder.iterdir():
            path.unlink()


# Modules and operators


def modelled() -> Machine:
    """Return what ran a module of two layers on an H100, with shapes."""
    machine = Machine()
    shapes = {"Input Dims": [[8192, 8192], [8192, 8192]], "Input type": ["c10::BFloat16"] * 2}
    whole = machine.now
    for layer in (0, 1):
        begun = machine.now
        machine.host(1_000)
        machine.launch(1_500_000)
        machine.event("cpu_op", "aten::mm", begun + 500, machine.now - begun - 500, **shapes)
        name = f"nn.Module: Linear_{layer}"
        machine.event("python_function", name, begun, machine.now - begun)
    machine.event("python_function", "nn.Module: Net_0", whole, machine.now - whole)
    return machine


def stepped(count: int) -> list[dict[str, Any]]:
    """Return what ran some steps in one function: a module, an operator, a batch and a wait."""
    machine = Machine()
    shapes = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float"] * 2}
    for number in range(count):
        begun = machine.now
        machine.batch(20_000, 1_000)
        entered = machine.now
        machine.host(1_000)
        machine.launch(150_000)
        machine.event("cpu_op", "aten::mm", entered, machine.now - entered, **shapes)
        machine.event("python_function", "nn.Module: Linear_0", entered, machine.now - entered)
        machine.sync()
        machine.step(number, begun)
    whole = {"Python id": 1, "Python parent id": None}
    start = machine.events[0]["ts"] * 1000
    name = "train.py(1): <module>"
    machine.event("python_function", name, int(start), machine.now - int(start), **whole)
    return machine.events


def test_everything_is_told_of_one_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(count: int, *options: str) -> dict[str, Any]:
        path = written(tmp_path / "t.json", stepped(count))
        assert run(["profile", "--trace", path, "--output-format", "json", *options]) == 0
        found: dict[str, Any] = loaded(capsys.readouterr().out)
        del found["command"], found["notes"], found["window"]["events"]
        return found

    assert told(4) == told(3, "--all-steps") != told(4, "--all-steps")
    (wait,) = told(4)["waits"]["places"]
    others = [told(4)[name][0]["calls"] for name in ("modules", "operators")]
    assert [wait["calls"], *others] == [3, 3, 3]


def test_each_share_of_a_trace_says_of_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "t.json", stepped(3))
    assert run(["profile", "--trace", path]) == 0
    out = capsys.readouterr().out
    whole = re.search(r"^span +(.*)$", out, re.MULTILINE)
    assert whole is not None
    assert f"the GPU computes for 88.8 % of {whole[1]} and is idle for 11.2 %; " in out
    assert f"6.5 % of {whole[1]} is waiting for data." in out
    assert re.search(r"^  the GPU computing +300 us \(88.8 %\)$", out, re.MULTILINE)
    assert re.search(r"^waiting for data +22.0 us \(6.5 %\) for 2 batches$", out, re.MULTILINE)
    assert f"without all of them {whole[1]} would be shorter" in out
    one = written(tmp_path / "one.json", stepped(1))
    assert run(["profile", "--trace", one]) == 0
    assert " us (1 step)\n" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "markdown", "html", "agent"])
def test_each_form_has_modules_and_what_limits_operators(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = [{"name": "NVIDIA H100 80GB HBM3"}]
    path = written(tmp_path / "t.json", modelled().events, deviceProperties=properties)
    assert run(["profile", "--trace", path, "--output-format", form]) == 0
    out = " ".join(re.findall(r"[\w.]+", re.sub(r"<[^>]+>", " ", capsys.readouterr().out)))
    assert "3.00 ms 99.8 0 10.0 us 0.3 2 1 x Net_0" in out
    assert "3.00 ms 99.8 3.00 ms 99.8 10.0 us 0.3 2 2 x Linear_ 2 of them" in out
    assert "2 x 733 268 arithmetic 74.1 aten mm 8192x8192 8192x8192 bfloat16" in out


def test_a_trace_with_modules_and_operators_keeps_its_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "t.json", modelled().events)
    assert run(["profile", "--trace", path, "--output-format", "json"]) == 0
    found = loaded(capsys.readouterr().out)
    assert [module["name"] for module in found["modules"]] == ["", "Linear_0", "Linear_1"]
    (product,) = found["operators"]
    assert (product["flops"], product["limit"]) == (2 * 2 * 8192**3, None)
    assert product["why"] == "peak rates of the device are not known"
    assert not any("no shapes" in note for note in found["notes"])


def test_operators_of_a_cpu_are_all_told_and_with_digits_that_mean_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float"] * 2}
    machine = Machine()
    for name, time in (("aten::mm", 100_000), ("aten::max_pool2d_with_indices", 60_000)):
        machine.event("cpu_op", name, machine.now, time, **shapes)
        machine.host(time)
    path, tables_ = written(tmp_path / "t.json", machine.events), tmp_path / "tables"
    assert run(["profile", "--trace", path, "--csv", str(tables_)]) == 0
    out = capsys.readouterr().out
    assert "of the 160 us of operators; peak rates of a CPU are not known; –: it has no" in out
    assert re.search(r"GFLOP/s +GB/s +operator\n100 us \(62.5 %\) +1 x +5.24 +0.49 +aten::mm ", out)
    assert re.search(r"60.0 us \(37.5 %\) +1 x +– +– +aten::max_pool2d_with_indices 64x64", out)
    product, pool = csv.DictReader((tables_ / "operators.csv").read_text().splitlines())
    assert [product["flops"], product["limit"]] == [str(2 * 64**3), ""]
    assert [pool[name] for name in ("flops", "limit", "why")] == ["", "", "not known"]


def test_a_gpu_without_shapes_is_told_how_to_get_them(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", "--trace", trace]) == 0
    assert "no shapes were recorded" in capsys.readouterr().out
