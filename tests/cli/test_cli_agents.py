"""What coding agents are given: a page whose commands run, reports that name the program, and tools
of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import torchlint
from tests.verify.reports import CAT, CUDA, DIFFERENT, SCRIPT, SLOWER, changed, only
from torchlint.cli.agents import SKILL
from torchlint.cli.commands import COMMANDS
from torchlint.cli.main import run
from torchlint.program.traffic import UNUSED
from torchlint.verify.model import Counts, Judged, Proof
from torchlint.verify.output.agent import render

PAGE = (SKILL / "SKILL.md").read_text(encoding="utf-8")
STEPS = [
    line
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
"""The commands of the page; the lines that name one in a sentence are none."""
TRAIN = """\
import torch
from torch import nn


def train(device, steps=600):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = 0.0
    for step in range(steps):
        x = torch.randn(32, 64, device=device)
        noise = torch.zeros(32, 64).to(device)
        loss = model(x + noise).square().mean()
        loss.backward()
        total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
    return total / steps


if __name__ == "__main__":
    torch.manual_seed(0)
    print(train(torch.device("cuda" if torch.cuda.is_available() else "cpu")))
"""
AGENT = ("--output-format", "agent")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two findings in its program, under git."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "begun"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run torchlint in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "torchlint", *words], cwd=folder, capture_output=True, text=True
    )


# The page


def test_the_page_is_a_skill_in_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agents"]) == 0
    assert capsys.readouterr().out == PAGE
    assert run(["agents", "--path"]) == 0
    assert capsys.readouterr().out == f"{SKILL}\n"
    front = re.match(r"---\nname: (\S+)\ndescription: (.+)\n---\n", PAGE)
    assert front is not None
    assert front[1] == SKILL.name
    assert len(front[2]) <= 1024
    assert len(PAGE) // 4 < 2000, "an agent reads it whole"


@pytest.mark.slow
def test_the_skill_folder_is_in_the_wheel(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent.parent
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps"]
    subprocess.run([*pip, "-w", str(tmp_path), str(root)], check=True)
    (wheel,) = tmp_path.glob("torchlint-*.whl")
    inside = SKILL.relative_to(Path(torchlint.__file__).parent.parent).as_posix()
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read(f"{inside}/SKILL.md").decode() == PAGE


def test_the_page_names_commands_in_their_order() -> None:
    commands = [shlex.split(step)[1] for step in STEPS]
    order = ["check", "rule", "check", "fix", "verify", "verify", "verify", "verify", "profile"]
    assert commands == order
    assert set(commands) <= set(COMMANDS)


@pytest.mark.parametrize("step", STEPS[:4])
def test_a_command_of_the_page_that_reads_code(step: str, project: Path) -> None:
    done = ran(project, *shlex.split(step)[1:])
    finds = step.startswith(("torchlint check --output", "torchlint fix"))
    assert done.returncode == int(finds), done.stderr
    assert "TL101" in done.stdout
    assert (project / "train.py").read_text(encoding="utf-8") == TRAIN


@pytest.mark.slow
def test_the_commands_of_the_page_that_run_the_program(project: Path) -> None:
    """In the order of the page: nothing is written before ``--apply``."""
    prove, apply, predict, by_hand, profile = (shlex.split(step)[1:] for step in STEPS[4:])
    assert [apply[3], predict[3], by_hand[4]] == ["--apply", "--device", "--against"]
    predicted = ran(project, *predict)
    assert predicted.returncode == 0, predicted.stderr
    assert "syncs/step (predicted) 2 -> 1" in predicted.stdout
    proved = ran(project, *prove)
    assert proved.returncode == 0, proved.stderr
    assert "results (on this CPU) weights and loss bitwise" in proved.stdout
    assert (project / "train.py").read_text(encoding="utf-8") == TRAIN
    following = re.search(r"^next: torchlint (.*)$", proved.stdout, re.MULTILINE)
    assert following is not None
    assert sorted(shlex.split(following[1])) == sorted(apply)
    applied = ran(project, *apply)
    assert applied.returncode in (0, 5), applied.stderr  # 5: this machine was too noisy
    assert "\nwritten: " in applied.stdout
    written = "loss.item()" not in (project / "train.py").read_text(encoding="utf-8")
    assert written == (applied.returncode == 0)
    (project / "train.py").write_text(TRAIN.replace("torch.zeros(32, 64).to(device)", "0.0"))
    compared = ran(project, *by_hand)
    assert compared.returncode == 0, compared.stderr
    assert "\nnext: keep the change; measure it on a GPU" in compared.stdout
    profiled = ran(project, *profile)
    assert profiled.returncode == 0, profiled.stderr
    assert profiled.stdout.startswith("step: A step takes ")
    assert "\nnext: torchlint verify --output-format agent . --select TL101 -- train.py\n" in (
        profiled.stdout
    )


# The reports


def test_the_program_that_runs_a_file_is_named(ours) -> None:
    model = "import torch\n\ndef step(model, x):\n    return torch.zeros(3).to(x.device)\n"
    ours.write("lib/__init__.py", "")
    ours.write("lib/model.py", model)
    ours.write("alone.py", model)
    ours.write("tests/test_it.py", "from lib.model import step\n\nstep()\n")
    ours.write("bench.py", "from lib.model import step\n\nprint(step(None, None))\n")
    loop = "for x in []:\n    step(x, x).backward()\n"
    ours.write("lib/between.py", "from lib.model import step\n")
    ours.write("train.py", f"from lib.between import step\n\nexec(open('c.py').read())\n{loop}")
    text = ours("check", *AGENT, "--select", "TL102", ".", code=1).stdout
    assert re.search(r"alone\.py --select TL102 .*-- SCRIPT\.py\n", text)
    assert re.search(r"lib/model\.py --select TL102 .*-- train\.py\n", text)


def test_a_proof_of_launches_says_that_it_needs_a_gpu(ours) -> None:
    ours.write(
        "train.py",
        "import torch\n\n\ndef train(loader, fast, slow, optimizer):\n"
        "    for x in loader:\n"
        "        noise = torch.zeros(3).to(x.device)\n"
        "        loss = fast(x + noise).mean()\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "        for a, b in zip(slow.parameters(), fast.parameters()):\n"
        "            a.data.mul_(0.9).add_(b.data, alpha=0.1)\n",
    )
    text = ours("check", *AGENT, "--select", "TL102,TL510", ".", code=1).stdout
    proofs = re.findall(r"^  prove: .*?(TL102|HEAD) .*?( # needs a GPU.*)?$", text, re.MULTILINE)
    assert [(what, bool(gpu)) for what, gpu in proofs] == [("TL102", False), ("HEAD", True)]


def test_the_next_portion_is_one_command(cli, source) -> None:
    cli.write("a.py", source("slow", "odd", "hint"))
    first = cli("check", *AGENT, "--max-tokens", "1", "a.py", code=1).stdout
    command = "torchlint check --skip 1 --output-format agent --max-tokens 1 a.py\n"
    assert f"left out: 2 of 3 findings; next: {command}" in first
    second = cli(*shlex.split(command)[1:], code=1).stdout
    assert "TL102" in first
    assert "TL102" not in second
    assert "--skip 2" in second
    again = cli("check", *AGENT, "-o", "out", "--max-tokens=1", "a.py", code=1)
    assert (cli.cwd / "out").read_text() == first.partition("Found 3")[0].replace(
        "--max-tokens 1", "--max-tokens=1"
    )
    assert again.stdout == "Found 3 findings (1 error, 1 warning, 1 info) in 1 file.\n"


TYPED = ("verify", "--device", "virtual-cuda", ".", "--", "train.py", "--epochs", "1")
APPLY = "next: torchlint verify --apply . -- train.py --epochs 1  # the program must run without"


@pytest.mark.parametrize(
    ("report", "last"),
    [
        (SCRIPT, APPLY),
        (only(SLOWER), "next: apply none of these; read why, or take another finding"),
        (only(DIFFERENT), "next: apply none of these; read why, or take another finding"),
        (
            changed(versions=("HEAD", "the working tree")),
            "next: keep the change; measure it on a GPU",
        ),
        (
            changed(only(SLOWER), versions=("HEAD", "the working tree")),
            "next: take the change back, or measure longer",
        ),
        (changed(proof=Proof((Judged("TL603@a.py:1", False, (), "slow"),))), "next: nothing was"),
        (
            changed(proof=Proof((), written=("TL603@a.py:1",))),
            "next: run the project's tests, then torchlint check again",
        ),
        (
            changed(CUDA, proof=Proof((), written=("TL603@a.py:1",))),
            "next: torchlint profile --output-format agent . -- train.py --epochs 1",
        ),
        (
            only(CAT, counts=Counts("virtual-cuda", unavailable=UNUSED)),
            "next: run this again with a program that uses a GPU if torch.cuda.is_available()",
        ),
    ],
)
def test_a_verification_ends_with_what_to_do(report, last: str) -> None:
    lines = render(report, TYPED, 8000).splitlines()
    assert lines[1].startswith("verdict: ")
    assert lines[-1].startswith(last)


def test_a_verification_has_its_figures_and_a_budget() -> None:
    text = render(SCRIPT, TYPED, 8000)
    assert "; speed on CPU (95 % interval) 2.51x [2.32, 2.68]; verdict faster; " in text
    short = render(SCRIPT, TYPED, 150)
    assert short.splitlines()[:3] == text.splitlines()[:3]
    assert re.search(r"\nleft out: \d+ of \d+ lines; --max-tokens N allows more\n", short)
    assert short.splitlines()[-1].startswith(APPLY)
    assert len(short) < 900


# The Model Context Protocol


def test_without_the_extra_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "mcp" else find(name)
    )
    assert run(["mcp"]) == 2
    assert "python -m pip install '.[mcp]' in a clone" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs the extra mcp")
def test_a_real_client_of_mcp(project: Path) -> None:
    """It meets the tools over standard input and output; what they are told is no option."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    words = StdioServerParameters(
        command=sys.executable, args=["-m", "torchlint", "mcp"], cwd=project, env=dict(os.environ)
    )

    async def talk() -> None:
        async with Client(words) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"check", "explain", "fix", "verify"}

            async def said(tool: str, **arguments: object) -> str:
                result = await client.call_tool(tool, arguments)
                return "".join(part.text for part in result.content)

            shell = ran(project, "check", *AGENT, "--", ".")
            found = await said("check")
            assert found.endswith("exit code 1\n")
            assert found.split("\n\n")[:2] == shell.stdout.split("\n\n")[:2]
            assert "TL101" not in await said("check", select=["TL102"])
            assert "flagged" in await said("explain", subject="train.py:14")
            assert "sync-scalar-read-in-loop" in await said("explain", subject="TL101")
            assert "+    total = float(total)" in await said("fix", select=["TL101"])
            assert "exit code 1" in await said("check", paths=["--fix"])
            assert "is no path" in await said("verify", program=["train.py"], paths=["--apply"])
            assert (project / "train.py").read_text(encoding="utf-8") == TRAIN
            predicted = await said(
                "verify", program=["train.py"], select=["TL101"], device="virtual-cuda"
            )
            assert "syncs/step (predicted) 2 -> 1" in predicted
            await said("fix", select=["TL101"], apply=True)
            assert "loss.item()" not in (project / "train.py").read_text(encoding="utf-8")

    asyncio.run(talk())
