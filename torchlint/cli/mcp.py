"""``torchlint mcp``: the commands for coding agents as tools of the Model Context Protocol.

Each tool runs the command as a process, so that an agent that speaks the protocol and one with a
shell see the same words; what a tool is told never becomes an option.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import click

from torchlint import __version__
from torchlint.base.errors import UsageError, extra
from torchlint.cli.agents import SKILL
from torchlint.report.kit.tokens import DEFAULT

Words = list[str]
_COMMAND = (
    "import sys; sys.path = [place for place in sys.path if place]; "
    "from torchlint.__main__ import program; program()"
)
"""The command, whatever the working folder holds by the name of a module of ours."""
_AGENT = ("--output-format", "agent")


@click.command("mcp")
def mcp_command() -> int:
    """Serve a coding agent by the Model Context Protocol, on standard input and output.

    Tools: check, explain, fix (shows a patch; writes where it is asked to) and verify (runs the
    program in copies). Paths are those of the folder that the client starts it in.

    Exit code: 0 the client went away, 2 wrong usage, 130 interrupted.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError(f"torchlint mcp needs mcp: {extra('mcp')}")
    _server().run()
    return 0


def _server() -> Any:
    from mcp.server import MCPServer

    page = (SKILL / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)[2].strip()
    server = MCPServer("torchlint", version=__version__, instructions=page, log_level="WARNING")
    for tool in (check, explain, fix, verify):
        server.tool(structured_output=False)(tool)
    return server


def check(
    paths: Words | None = None,
    select: Words | None = None,
    max_tokens: int = DEFAULT,
    skip: int = 0,
) -> str:
    """Find PyTorch code in files or folders that wastes a GPU: place, why, patch, proof. `select`
    names rules; `skip` leaves out findings that were read before."""
    shown = ["--max-tokens", str(max_tokens), "--skip", str(skip)]
    return _printed("check", *_AGENT, *shown, *_chosen(select), "--", *(paths or ["."]))


def explain(subject: str) -> str:
    """Say why a line (train.py:88) is flagged or silent, or print the manual of a rule (TL101)."""
    line = subject.rpartition(":")[2].isdigit()
    return _printed(*(["check", "--explain"] if line else ["rule"]), "--", subject)


def fix(
    paths: Words | None = None,
    select: Words | None = None,
    unsafe: bool = False,
    apply: bool = False,
) -> str:
    """Show fixes as a patch; `unsafe` shows those too that may change results. With `apply`
    files are written: verify first."""
    options = ["--unsafe-fixes"] * unsafe + ["--apply"] * apply
    return _printed("fix", *options, *_chosen(select), "--", *(paths or ["."]))


def verify(
    program: Words,
    paths: Words | None = None,
    select: Words | None = None,
    unsafe: bool = False,
    apply: bool = False,
    device: str = "auto",
    seconds: int = 300,
    max_tokens: int = DEFAULT,
) -> str:
    """Run a program (["train.py", "--epochs", "1"]) in copies with and without its fixes, compare
    speed, results and transfers. `apply` writes what is proved. Without a GPU, `device`
    virtual-cuda predicts waits and copies."""
    options = [f"--device={device}", f"--budget={seconds}s", f"--max-tokens={max_tokens}"]
    options += ["--unsafe-fixes"] * unsafe + ["--apply"] * apply
    where = paths or ["."]
    if wrong := next((path for path in where if path.startswith("-")), None):
        return f"torchlint: error: {wrong} is no path\nexit code 2\n"
    return _printed("verify", *_AGENT, *options, *_chosen(select), *where, "--", *program)


def _chosen(select: Sequence[str] | None) -> list[str]:
    return [f"--select={','.join(select)}"] if select else []


def _printed(*words: str) -> str:
    """Run a command and return what it printed, errors and exit code too: 1 means findings."""
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    return f"{done.stdout}{done.stderr}exit code {done.returncode}\n"
