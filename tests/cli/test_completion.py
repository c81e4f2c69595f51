"""``torchlint completion``: a real shell completes commands, options and values."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

Cli = Any
SCRIPTS = {
    "bash": """
eval "$(torchlint completion bash)"
complete -p torchlint
COMP_WORDS=({words}) COMP_CWORD={at}
_torchlint_completion torchlint
echo "${{COMPREPLY[@]}}"
""",
    "zsh": (
        'autoload -Uz compinit; compinit -u; eval "$(torchlint completion zsh)"; print '
        "${{_comps[torchlint]}}"
    ),
    "fish": "torchlint completion fish | source; complete -C '{line}'",
}


def run(shell: str, line: str, folder: Path) -> str:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = SCRIPTS[shell].format(words=quoted, at=len(words) - 1, line=line)
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder), "ZDOTDIR": str(folder)}
    done = subprocess.run(
        [shell, "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torchlint ch", "check"),
        ("torchlint comp", "completion"),
        ("torchlint check --write-b", "--write-baseline"),
        ("torchlint check --output-format sar", "sarif"),
        ("torchlint completion f", "fish"),
        ("torchlint rule TL90", "TL909"),
        ("torchlint rule blocking", "blocking-batch-copy"),
        ("torchlint check --select TL101,TL90", "TL101,TL909"),
        ("torchlint check --select TL101,mem", "TL101,memory"),
        ("torchlint check --ignore inf", "info"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_shell_completes(shell: str, line: str, expected: str, tmp_path: Path) -> None:
    if shell == "fish" and not shutil.which("fish"):
        pytest.skip("fish is not installed")
    assert run(shell, line, tmp_path).split()[-1] == expected


@pytest.mark.slow
def test_zsh_takes_the_script(tmp_path: Path) -> None:
    assert run("zsh", "torchlint ch", tmp_path).strip() == "_torchlint_completion"


@pytest.mark.slow
@pytest.mark.skipif(
    os.name == "nt" or shutil.which("bash") is None, reason="needs bash on a terminal"
)
def test_the_tab_key_in_bash(tmp_path: Path) -> None:
    import pty

    shown = tmp_path / "done"
    (tmp_path / "rc").write_text(
        f'PATH="{os.path.dirname(sys.executable)}:$PATH"\neval "$(torchlint completion bash)"\n'
    )
    main, other = pty.openpty()
    command = ["bash", "--noprofile", "--rcfile", str(tmp_path / "rc"), "-i"]
    environment = {**os.environ, "TERM": "dumb", "INPUTRC": os.devnull, "HISTFILE": os.devnull}
    with subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, cwd=tmp_path, env=environment
    ) as shell:
        os.close(other)
        os.write(main, f"torchlint ch\t--help > {shown}; exit\n".encode())
        while True:
            try:
                if not os.read(main, 4096):
                    break
            except OSError:  # the shell is gone
                break
        shell.wait(120)
    os.close(main)
    assert "Usage: torchlint check " in shown.read_text()


def test_help_has_a_line_for_each_shell(cli: Cli) -> None:
    lines = [
        line.split(":")[0].strip()
        for line in cli("completion", "--help", code=0).stdout.splitlines()
    ]
    assert {"bash", "zsh", "fish"} <= set(lines)


def test_another_shell(cli: Cli) -> None:
    done = cli("completion", "tcsh", code=2)
    assert "'tcsh' is not one of" in done.stderr
