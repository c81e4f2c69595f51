"""``--show-files`` and ``--show-settings``: what a command would work on, and with which
settings."""

from __future__ import annotations

import dataclasses
import enum

from torchlint.cli.scope import Scope
from torchlint.report.kit.words import visible, visible_path
from torchlint.settings.keys import Settings
from torchlint.source.discover import SkipKind


def files(scope: Scope) -> str:
    """Return the names of the files to check, a line each."""
    return "".join(f"{visible_path(target.found.filename)}\n" for target in scope.targets)


def left_out(scope: Scope, *kinds: SkipKind) -> str:
    """Return what was left out and why, a line each."""
    return "".join(
        f"{visible_path(skip.filename)}: left out: {visible(skip.reason)}\n"
        for skip in scope.skipped
        if skip.kind in kinds
    )


def settings(found: Settings) -> str:
    """Return settings as ``key = value`` lines in the words of the configuration."""
    lines = [
        f"{spec.name.replace('_', '-')} = {_shown(getattr(found, spec.name))}\n"
        for spec in dataclasses.fields(found)
        if spec.name != "refused"
    ]
    return "".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, tuple):
        if len(value) == 2 and all(isinstance(part, int) for part in value):
            return f'"{value[0]}.{value[1]}"'
        return f"[{', '.join(map(_shown, value))}]"
    import json

    return json.dumps(value)
