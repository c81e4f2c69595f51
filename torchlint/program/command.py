"""The command that a user typed behind ``--``, as what is run in a copy of the project."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchlint.base.errors import UsageError

LAUNCHERS = {
    "torchrun": "torch.distributed.run",
    "accelerate": "accelerate.commands.accelerate_cli",
}
"""Console scripts that start training programs, and the modules behind them."""


_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
_PORTS = {
    **dict.fromkeys(_TORCHRUN, ("--master-port", "--master_port")),
    "accelerate.commands.accelerate_cli": ("--main_process_port", "--main-process-port"),
}
"""By launcher, the option that says on which port the ranks meet."""
_MEETING = frozenset(
    {
        "--standalone",
        "--rdzv-endpoint",
        "--rdzv_endpoint",
        "--rdzv-backend",
        "--rdzv_backend",
        "--nnodes",
        "--master-addr",
    }
)
"""Options after which the ranks find each other in another way."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is run: arguments for the interpreter; those that are paths into the project are marked.

    Args:
        typed: as the user typed it.
        arguments: for the interpreter: ``("-m", "pkg.train", "--epochs", "1")``.
        script: the index of the script's path in `arguments`, or None.
    """

    typed: tuple[str, ...]
    arguments: tuple[str, ...]
    script: int | None

    def in_copy(self, original: Path, copy: Path, port: int) -> list[str]:
        """Return the arguments for one copy: an absolute script path moved into it, and a port of
        its own.

        Args:
            original: the project.
            copy: of it.
            port: where the ranks of this run meet; several variants are resident at the same time.
        """
        found = _with_port(list(self.arguments), port)
        if self.script is not None and os.path.isabs(found[self.script]):
            path = Path(found[self.script]).resolve()
            if path.is_relative_to(original):
                found[self.script] = str(copy / path.relative_to(original))
        return found


def parse(typed: Sequence[str], cwd: Path, root: Path, asked: str = "verify") -> Command:
    """Understand a command.

    Args:
        typed: ``["train.py", "--epochs", "1"]``, ``["-m", "pkg.train"]``, ``["torchrun", …]``,
            ``["python", …]``.
        cwd: where it would be run.
        root: the project that is copied.
        asked: the command of torchlint, for its examples.

    Raises:
        UsageError: there is none, it names no such file, it lies outside the project, or it is no
            Python program.
    """
    words = list(typed)
    if words and _is_python(words[0]):
        words = words[1:]
    if not words:
        raise UsageError(f"name the program behind --: torchlint {asked} . -- train.py --epochs 1")
    if words[0] == "-m":
        if len(words) < 2:
            raise UsageError(f"-- -m needs a module: torchlint {asked} . -- -m pkg.train")
        return Command(tuple(typed), tuple(words), None)
    if words[0] in LAUNCHERS:
        return Command(tuple(typed), ("-m", LAUNCHERS[words[0]], *words[1:]), None)
    script = cwd / words[0]
    if words[0].startswith("-"):
        raise UsageError(
            f"cannot run {words[0]}: name a Python script, -m and a module, or torchrun"
        )
    if script.is_dir():
        raise UsageError(
            f"cannot run {words[0]}: it is a folder; name a Python script, -m and a module, or "
            "torchrun"
        )
    if not script.is_file():
        hint = "" if words[0].endswith(".py") else " (name a script, -m and a module, or torchrun)"
        raise UsageError(f"cannot run {words[0]}: there is no such file in {cwd}{hint}")
    if not words[0].endswith(".py"):
        raise UsageError(
            f"cannot run {words[0]}: name a Python script, -m and a module, or torchrun"
        )
    if not script.resolve().is_relative_to(root):
        raise UsageError(
            f"{words[0]} lies outside {root}, the project that would be copied; name its folder "
            "instead"
        )
    return Command(tuple(typed), tuple(words), 0)


def _with_port(words: list[str], port: int) -> list[str]:
    """Give a launcher's ranks a port of their own, unless the user has chosen how they meet."""
    if words[:1] != ["-m"] or words[1] not in _PORTS:
        return words
    names = _PORTS[words[1]]
    found: list[str] = []
    given = False
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name not in names:
            found.append(word)
            continue
        given = True
        found.append(f"{name}={port}")
        if not equals:
            next(rest, None)
    own = words[1] in _TORCHRUN and not any(word.partition("=")[0] in _MEETING for word in words)
    if own and not given:
        found.insert(2, f"{names[0]}={port}")
    return found


def free_port() -> int:
    """Return a TCP port of this machine that nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _is_python(word: str) -> bool:
    name = Path(word).name
    return name.rstrip("0123456789.") == "python"
