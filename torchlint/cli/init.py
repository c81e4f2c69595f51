"""``torchlint init``: a configuration with all keys, each explained, and the lines for
pre-commit."""

from __future__ import annotations

import os
from pathlib import Path

import click

from torchlint.base.errors import ConfigError, UsageError, WriteError
from torchlint.cli.output import emit
from torchlint.report.kit.words import visible_path
from torchlint.settings.documentation import configuration
from torchlint.settings.files import NAMES, find_config, read_toml
from torchlint.source.document import Document, reason_of
from torchlint.source.write import atomically, write, write_all

PRE_COMMIT = """repos:
  - repo: local
    hooks:
      - id: torchlint
        name: torchlint
        entry: torchlint check --force-exclude
        language: system  # the torchlint that is installed
        types_or: [python, pyi, jupyter]
        require_serial: true
"""


@click.command("init")
@click.option("--pyproject", is_flag=True, help="Add [tool.torchlint] to pyproject.toml instead.")
def init_command(pyproject: bool) -> int:
    """Write torchlint.toml with every key explained, all of them commented out, and print the lines
    for pre-commit.

    Exit code: 0, or 2 where this folder has a configuration already.
    """
    found = find_config(os.curdir)
    if found is not None and os.path.dirname(found) == os.path.abspath(os.curdir):
        raise UsageError(
            f"{visible_path(os.path.basename(found))} configures torchlint already; nothing is "
            "written"
        )
    name = NAMES[2] if pyproject else NAMES[1]
    if pyproject:
        _append(name)
    else:
        if os.path.lexists(name):
            raise UsageError(f"{name} exists already; nothing is written")
        try:
            with atomically(name) as descriptor:
                write_all(descriptor, configuration().encode())
        except OSError as error:
            raise WriteError(f"{name}: cannot be written: {reason_of(error)}") from error
    more = "" if found is None else f"In this folder it takes the place of {visible_path(found)}.\n"
    emit(
        f"Wrote {name}; every key is commented out.\n{more}\nFor "
        f".pre-commit-config.yaml:\n\n{PRE_COMMIT}"
    )
    return 0


def _append(name: str) -> None:
    """Add our section to a pyproject.toml, in the newlines that it has."""
    import tomli

    if not os.path.lexists(name):
        raise UsageError(f"there is no {name} here; `torchlint init` writes torchlint.toml")
    read_toml(name)
    data = Path(name).read_bytes()
    before = data.decode("utf-8")
    newline = "\r\n" if "\r\n" in before else "\n"
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    after = before + (gap + configuration("tool.torchlint")).replace("\n", newline)
    try:
        tomli.loads(after)
    except ValueError as error:
        raise ConfigError(f"{name}: [tool.torchlint] cannot be added: {error}") from None
    write(Document(name, os.path.abspath(name), before, "utf-8", False, data), after)
