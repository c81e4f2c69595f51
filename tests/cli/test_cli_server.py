"""``torchlint server``: what is said where it cannot serve. What it does is tested in tests/lsp and
tests/faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.cli.main import run

TORCHLINT = os.path.join(os.path.dirname(sys.executable), "torchlint")


@pytest.mark.parametrize("missing", ["pygls", "lsprotocol"])
def test_without_the_extra_the_message_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == missing else find(name)
    )
    assert run(["server"]) == 2
    assert "python -m pip install '.[lsp]' in a clone" in capsys.readouterr().err


@pytest.mark.slow
def test_arguments_that_clients_add_are_taken_and_others_refused(tmp_path: Path) -> None:
    words = [TORCHLINT, "server"]
    done = subprocess.run(
        [*words, "--stdio", "--clientProcessId=1"], cwd=tmp_path, input=b"", capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b""), (
        "the client went away without a word"
    )
    done = subprocess.run([*words, "--tcp"], cwd=tmp_path, input=b"", capture_output=True)
    assert done.returncode == 2
    assert b"--tcp" in done.stderr
