"""The ledger's golden counts, construct by construct, and what it promises of values, tags and
gaps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks import ledger_vs_cuda  # noqa: E402
from tests.verify.ledger_cases import CASES, PINNED, PLAIN, TRAINING, Case, Row  # noqa: E402
from tests.verify.ledger_cases import X as FIRST  # noqa: E402
from tests.verify.ledger_written import WRITTEN  # noqa: E402
from tests.verify.ledgers import virtual_cuda  # noqa: E402
from torchlint.program.inside.ledger import costs, modes  # noqa: E402
from torchlint.program.inside.ledger.tags import is_cuda  # noqa: E402


def run(folder: Path, text: str, name: str = "case.py") -> dict[str, Any]:
    """Execute a program below the folder and return its names."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, str(path), "exec"), names)  # noqa: S102
    return names


def rows(summary: dict[str, Any], name: str = "case.py") -> tuple[Row, ...]:
    """The summary's lines, all of which must be in the file."""
    assert {line["file"] for line in summary["lines"]} <= {name}
    return tuple(
        (line["kind"], line["line"], line["count"], line["bytes"], line["what"])
        for line in summary["lines"]
    )


OBSERVED = json.loads(Path(__file__).with_name("ledger_observed.json").read_text(encoding="utf-8"))
SEEN = {
    f"{name}, {run_['gpu']}, torch {run_['torch']}": (name, run_["torch"], seen)
    for run_ in OBSERVED
    for name, seen in run_["programs"].items()
}


def release(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Let the ledger count as for another release of torch."""
    monkeypatch.setattr(costs, "_RELEASE", tuple(int(part) for part in version.split(".")[:2]))


@pytest.mark.parametrize("case", [*CASES, *WRITTEN], ids=lambda case: case.name)
def test_construct(case: Case, tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        run(tmp_path, case.text)
    summary = ledger.summary(0)
    assert summary["unavailable"] == ""
    assert rows(summary) == case.rows


OVERWRITTEN = """
import torch

net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).cuda()
{optimizer}
x = torch.ones(2, 4, device="cuda")
first, second = net(x).mean(), net(x).pow(2).mean()
first.backward()
{step}
second.backward()
"""


@pytest.mark.parametrize(
    ("optimizer", "step"),
    [
        ("optimizer = torch.optim.Adam(net.parameters())", "optimizer.step()"),
        ("optimizer = torch.optim.SGD(net.parameters(), 0.1, foreach=False)", "optimizer.step()"),
        ("held = [p.detach() for p in net.parameters()]", "torch._foreach_mul_(held, 0.5)"),
    ],
)
def test_a_backward_pass_through_what_was_overwritten_fails_as_it_does_without_the_ledger(
    tmp_path: Path, optimizer: str, step: str
) -> None:
    text = OVERWRITTEN.format(optimizer=optimizer, step=step)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run(tmp_path, text.replace(".cuda()", "").replace('"cuda"', '"cpu"'))
    with (
        virtual_cuda(str(tmp_path)),
        pytest.raises(RuntimeError, match="modified by an inplace operation"),
    ):
        run(tmp_path, text)


def test_lists_without_a_version_or_outside_of_the_graph_are_written_as_ever(
    tmp_path: Path,
) -> None:
    text = """
import torch

with torch.inference_mode():
    held = [torch.ones(2, device="cuda"), torch.ones(2, device="cuda")]
    torch._foreach_mul_(held, 0.5)
net = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(2, 4, device="cuda")).mean().backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
"""
    with virtual_cuda(str(tmp_path)):
        names = run(tmp_path, text)
    assert [each.tolist() for each in names["held"]] == [[0.5, 0.5]] * 2
    assert names["net"].weight._version > 3


@pytest.mark.parametrize(("name", "version", "seen"), SEEN.values(), ids=SEEN)
def test_the_ledger_says_what_a_gpu_did(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    version: str,
    seen: dict[str, Any],
) -> None:
    """Waits line by line, bytes and copies without a wait. A program that is changed here was not
    seen: it then needs another run on a GPU."""
    assert ledger_vs_cuda.programs()[name] == seen["text"]
    release(monkeypatch, version)
    with virtual_cuda(str(tmp_path)) as ledger:
        run(tmp_path, seen["text"])
    lines = [
        {"kind": "sync", "line": int(line), "count": count} for line, count in seen["syncs"].items()
    ]
    result = ledger_vs_cuda.compare(ledger.summary(0), {**seen, "lines": lines})
    assert result["agrees"], result


def test_a_difference_of_one_line_or_one_byte_is_told() -> None:
    totals = {"h2d_bytes": 0.0, "d2h_bytes": 8.0, "staged": 0.0}
    lines = [
        {"kind": "sync", "line": 3, "count": 2, "what": "item()"},
        {"kind": "sync", "line": 4, "count": 1, "what": "copy to pageable memory"},
        {"kind": "d2h", "line": 3, "count": 2, "what": "item()"},
    ]
    predicted = {**totals, "lines": lines}
    observed = {**totals, "lines": [{"kind": "sync", "line": 3, "count": 2}]}
    assert ledger_vs_cuda.compare(predicted, observed)["agrees"]
    worse = {**totals, "lines": [{"kind": "sync", "line": 3, "count": 1}], "d2h_bytes": 4.0}
    result = ledger_vs_cuda.compare(predicted, worse)
    assert not result["agrees"]
    assert result["syncs"] == {"3": {"predicted": 2, "observed": 1}}
    assert result["bytes"]["d2h_bytes"] == {"predicted": 8.0, "observed": 4.0}
    assert ledger_vs_cuda.compare({**predicted, "staged": 1.0}, {**observed, "staged": None})[
        "agrees"
    ]


def test_what_a_function_checks_on_the_host_alone_is_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``quantile`` did up to torch 2.12, by ``equal``: here ``equal`` itself stands for it."""
    text = "import torch\nx = torch.ones(2, device='cuda')\ntorch.equal(x, x + 0)\nx.sum().item()"
    found = []
    for functions in (frozenset(), frozenset({torch.equal})):
        monkeypatch.setattr(modes, "_HOST_CHECKS", functions)
        with virtual_cuda(str(tmp_path)) as ledger:
            run(tmp_path, text)
        found.append([row[:4] for row in rows(ledger.summary(0)) if row[0] == "sync"])
    assert found == [[("sync", 3, 1, 0), ("sync", 4, 1, 0)], [("sync", 4, 1, 0)]]


def test_what_a_gpu_did_is_kept_as_the_tests_read_it(tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    path.write_bytes(ledger_vs_cuda.OBSERVED.read_bytes())
    known = json.loads(path.read_text())
    h100 = known[0]
    totals = {"h2d_bytes": 0.0, "d2h_bytes": 4.0, "staged": 0.0}
    line = {"kind": "sync", "file": "case.py", "line": 3, "count": 1, "bytes": 0, "what": "s"}
    item = {"text": "t", "observed": {**totals, "unavailable": "", "lines": [line, line]}}
    failed = {"text": "t", "observed": {"unavailable": "it broke", "lines": []}}
    head = dict.fromkeys(("gpu", "driver", "torch", "python", "date"), "made")
    results = {**head, "stages": {"ledger": {"items": {"item": item, "bad": failed}}}}
    assert [ledger_vs_cuda.keep(results, path) for _ in range(2)] == [1, 1]
    *first, made = json.loads(path.read_text())
    assert first == known
    assert made["programs"] == {"item": {"text": "t", "syncs": {"3": 2}, **totals}}
    again = {**h100, "stages": {"ledger": {"items": {}}}}
    ledger_vs_cuda.keep(again, path)
    others = [run["gpu"] for run in known[1:]]
    assert [run["gpu"] for run in json.loads(path.read_text())] == [*others, "made", h100["gpu"]]


def test_what_a_run_on_a_gpu_needs_works_without_one() -> None:
    def failing() -> None:
        raise ValueError("no")

    assert ledger_vs_cuda.forked(lambda: [1, "a"]) == [1, "a"]
    assert ledger_vs_cuda.forked(failing) == {"unavailable": "ValueError: no"}
    slow = ledger_vs_cuda.forked(lambda: time.sleep(60), limit=0.1)
    assert slow == {"unavailable": "ended without an answer (status 9)"}
    text = FIRST + "v = x.sum().item()"
    found = ledger_vs_cuda.forked(
        lambda: ledger_vs_cuda.measure("import torch\n" + text, "virtual-cuda")
    )
    assert (found["syncs"], found["d2h_bytes"], found["steps"]) == (1.0, 4.0, 1)


def training(folder: Path, prepare: str, virtual: bool) -> tuple[list[float], dict[str, Any]]:
    text = TRAINING.replace("PREPARE", prepare)
    if not virtual:
        return run(folder, text)["losses"], {}
    with virtual_cuda(str(folder)) as ledger:
        losses = run(folder, text)["losses"]
    return losses, ledger.summary(0)


def test_training_script_is_counted_line_by_line_and_computes_the_same(tmp_path: Path) -> None:
    losses, summary = training(tmp_path, PLAIN, virtual=True)
    assert losses == training(tmp_path, PLAIN, virtual=False)[0]
    assert rows(summary) == (
        ("h2d", 12, 8, 16384, "copy to device"),
        ("sync", 12, 8, 0, "copy to device"),
        ("d2h", 13, 8, 8, "item()"),
        ("sync", 13, 8, 0, "item()"),
        ("h2d", 20, 4, 9640, "copy to device"),
        ("sync", 20, 4, 0, "copy to device"),
        ("h2d", 25, 16, 16896, "copy to device"),
        ("sync", 25, 16, 0, "copy to device"),
        ("d2h", 31, 8, 32, "item()"),
        ("sync", 31, 8, 0, "item()"),
        ("d2h", 32, 8, 32, "boolean index"),
        ("sync", 32, 8, 0, "boolean index"),
    )
    assert (summary["syncs"], summary["h2d_bytes"], summary["d2h_bytes"], summary["staged"]) == (
        52,
        42920,
        72,
        0,
    )


def test_pinning_removes_the_syncs_of_the_copies_and_keeps_their_bytes(tmp_path: Path) -> None:
    losses, summary = training(tmp_path, PINNED, virtual=True)
    assert losses == training(tmp_path, PLAIN, virtual=False)[0]
    assert [row for row in rows(summary) if row[1] == 25] == [
        ("h2d", 25, 16, 16896, "copy to device")
    ]
    assert summary["syncs"] == 36


def test_steps_before_the_first_and_after_the_last_mark_are_left_out(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        x = torch.ones(3, device="cuda")
        for count in (5, 2, 4, 7):
            for _ in range(count):
                x.sum().item()
            if count != 7:
                ledger.mark_step()
    summary = ledger.summary(1)
    assert (summary["steps"], summary["syncs"], summary["d2h_bytes"]) == (2, 3.0, 12.0)
    assert [line["count"] for line in summary["lines"]] == [6, 6]
    assert ledger.summary(3)["unavailable"] == "only 3 steps ran; counting starts at 3"
    assert ledger.summary(3)["syncs"] is None


def test_events_of_other_folders_go_to_the_nearest_project_line_or_to_the_library(
    tmp_path: Path,
) -> None:
    project, library = tmp_path / "project", tmp_path / "lib"
    for folder in (project, library):
        folder.mkdir()
    with virtual_cuda(str(project)) as ledger:
        read = run(library, "def read(x):\n    return x.item()\n", "lib.py")["read"]
        x = torch.ones((), device="cuda")
        read(x)
        (project / "case.py").write_text("")
        exec(compile("\n\nread(x)", str(project / "case.py"), "exec"), {"read": read, "x": x})  # noqa: S102
    places = {(line["file"], line["line"]) for line in ledger.summary(0)["lines"]}
    assert places == {("<library>", 0), ("case.py", 3)}


def test_a_project_reached_through_a_link_is_the_project(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "part.py").write_text("def read(x):\n    return x.item()\n")
    (tmp_path / "real" / "part.py").symlink_to(tmp_path / "part.py")
    for root, folder in (("link", "link"), ("link", "real"), ("real", "real")):
        with virtual_cuda(str(tmp_path / root)) as ledger:
            path = tmp_path / folder / "part.py"
            names: dict[str, Any] = {}
            exec(compile(path.read_text(), str(path), "exec"), names)  # noqa: S102
            if folder == root:
                names["read"](torch.ones((), device="cuda"))
            run(tmp_path / folder, "import torch\ntorch.ones((), device='cuda').item()")
        assert {line["file"] for line in ledger.summary(0)["lines"]} <= {"part.py", "case.py"}


def test_installed_packages_inside_the_project_are_library(tmp_path: Path) -> None:
    folder = tmp_path / "venv" / "site-packages"
    folder.mkdir(parents=True)
    with virtual_cuda(str(tmp_path)) as ledger:
        run(folder, "import torch\ntorch.ones((), device='cuda').item()")
    assert {line["file"] for line in ledger.summary(0)["lines"]} == {"<library>"}


def test_a_new_tensor_at_a_freed_address_is_not_on_the_device(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)):
        places: dict[bool, set[int]] = {True: set(), False: set()}
        for cuda in [True, False] * 50:
            x = torch.ones(1000, device="cuda" if cuda else "cpu")
            places[cuda].add(x.data_ptr())
            assert x.is_cuda == cuda
            del x
        assert places[True] & places[False]


def test_views_share_the_device_and_copies_do_not(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)):
        x = torch.ones(4, 3, device="cuda")
        for view in (
            x[1:],
            x.t(),
            x.view(12),
            x.detach(),
            x.data,
            x.expand(2, 4, 3),
            torch.nn.Parameter(x),
        ):
            assert view.device == torch.device("cuda:0")
        host = x.cpu()
        host.zero_()
        assert not host.is_cuda
        assert x.sum().item() == 12


def test_programs_see_a_gpu(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)):
        x = torch.ones(2, 3, device="cuda")
        assert torch.cuda.is_available()
        assert x.is_cuda
        assert not x.is_cpu
        assert x.get_device() == 0
        assert x.device.type == "cuda"
        assert x.device == torch.nn.Linear(2, 2).cuda().weight.device
        assert x.type() == "torch.cuda.FloatTensor"
        assert isinstance(x, torch.cuda.FloatTensor)
        assert not isinstance(x.cpu(), torch.cuda.FloatTensor)
        assert repr(x).endswith("device='cuda:0')")
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            x.numpy()
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            x.to("cuda:64")


def test_everything_is_as_before_afterwards(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)):
        x = torch.ones(3, device="cuda")
    assert x.device.type == "cpu"
    assert not torch.cuda.is_available()
    assert "device" not in vars(torch.Tensor)
    assert torch.Generator is torch._C.Generator
    assert "TORCHDYNAMO_DISABLE" not in os.environ
    assert (
        torch.overrides.has_torch_function.__module__ != "torchlint.program.inside.ledger.methods"
    )
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ones(3, device="cuda")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("y = x + torch.ones(3)", "add"),
        ("y = torch.cat([x, torch.ones(4, 3)])", "cat"),
        ("y = torch.stack([x[0, 0], torch.tensor(1.0)])", "stack"),
        ("y = torch.nn.Linear(3, 3)(x)", "addmm"),
        ("y = torch.ones(4)[x[:, 0] > 0]", "index"),
        ("y = torch.ones(4); y[x[:, 0] > 9] = 1.0", "index_put_"),
        ("x[torch.arange(2)] = torch.ones(2, 3)", "index_put_"),
    ],
)
def test_mixed_devices_are_noted(tmp_path: Path, text: str, what: str) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        run(tmp_path, f"import torch\nx = torch.ones(4, 3, device='cuda')\n{text}")
    assert [row for row in rows(ledger.summary(0)) if row[0] == "mismatch"] == [
        ("mismatch", 3, 1, 0, what)
    ]


def test_printing_reads_the_tensor_and_says_so(tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)) as ledger:
        run(tmp_path, "import torch\nx = torch.ones(3, device='cuda')\ntext = f'{x}'")
    found = rows(ledger.summary(0))
    assert {(kind, line, what) for kind, line, _, _, what in found} == {
        ("d2h", 3, "print"),
        ("sync", 3, "print"),
    }


def test_gradients_flow_back_to_the_host(tmp_path: Path) -> None:
    text = """\
    import torch
    w = torch.ones(3, requires_grad=True)
    y = (w.to("cuda") * 2).sum()
    y.backward()
    """
    with virtual_cuda(str(tmp_path)) as ledger:
        names = run(tmp_path, "\n".join(line.strip() for line in text.splitlines()))
        assert not is_cuda(names["w"].grad)
    assert names["w"].grad.tolist() == [2.0, 2.0, 2.0]
    assert rows(ledger.summary(0)) == (
        ("h2d", 3, 1, 12, "copy to device"),
        ("sync", 3, 1, 0, "copy to device"),
        ("d2h", 4, 1, 12, "copy to host"),
        ("sync", 4, 1, 0, "copy to host"),
    )


def test_cuda_graphs_are_a_gap_not_zeros(tmp_path: Path) -> None:
    with (
        pytest.raises(NotImplementedError, match="CUDA graphs"),
        virtual_cuda(str(tmp_path)) as ledger,
    ):
        torch.cuda.CUDAGraph()
    summary = ledger.summary(0)
    assert "CUDA graphs" in summary["unavailable"]
    assert (summary["syncs"], summary["h2d_bytes"], summary["lines"]) == (None, None, [])


MASK = "x[torch.tensor([[True] * 3] * 4)]"


@pytest.mark.parametrize(
    ("version", "call", "syncs"),
    [
        ("2.5", "x.multinomial(1)", 2),
        ("2.5", "x.multinomial(2)", 2),
        ("2.5", "x.multinomial(2, True)", 0),
        ("2.5", "x.multinomial(1, True)", 2),
        ("2.6", "x.multinomial(1)", 0),
        ("2.8", MASK, 2),
        ("2.9", MASK, 0),
        ("2.13", "torch.normal(0.0, x)", 2),
        ("2.13", "torch.normal(x, x)", 2),
        ("2.13", "torch.normal(0.0, x, out=torch.empty_like(x))", 1),
        ("2.13", "torch.normal(0.0, x[:0])", 0),
        ("2.14", "torch.normal(0.0, x)", 0),
    ],
)
def test_releases_of_torch_differ_in_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, call: str, syncs: int
) -> None:
    release(monkeypatch, version)
    with virtual_cuda(str(tmp_path)) as ledger:
        run(tmp_path, f"import torch\nx = torch.ones(4, 3, device='cuda')\n{call}")
    assert ledger.summary(0)["syncs"] == syncs


def test_a_compiler_that_is_imported_already_leaves_programs_eager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SimpleNamespace(disable=False)
    monkeypatch.setitem(sys.modules, "torch._dynamo", SimpleNamespace(config=config))
    with virtual_cuda(str(tmp_path)):
        assert config.disable
    assert not config.disable


def gap(folder: Path) -> Exception:
    """An error that a function of torch.cuda without a stand-in raises."""
    with pytest.raises((AttributeError, RuntimeError)) as caught, virtual_cuda(str(folder)):
        torch.cuda.memory.caching_allocator_alloc(16)
    return caught.value


def test_only_an_error_since_the_start_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "last_value", gap(tmp_path), raising=False)
    with virtual_cuda(str(tmp_path)) as ledger:
        pass
    assert ledger.summary(0)["unavailable"] == ""
    monkeypatch.setattr(sys, "last_value", gap(tmp_path), raising=False)
    assert ledger.summary(0)["unavailable"] != ""


@pytest.mark.slow
def test_the_compiler_is_not_imported(tmp_path: Path) -> None:
    text = (
        "import sys, torch\n"
        "from tests.verify.ledgers import Ledger\n"
        "ledger = Ledger('.')\n"
        "ledger.start()\n"
        "torch.ones(3, device='cuda').sum().item()\n"
        "ledger.stop()\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", text], cwd=root, check=True)


def test_the_programs_own_error_is_no_gap(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="size of tensor"), virtual_cuda(str(tmp_path)) as ledger:
        torch.ones(3, device="cuda") + torch.ones(4, device="cuda")
    assert ledger.summary(0)["unavailable"] == ""
