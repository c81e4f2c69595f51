"""Damaged fixtures: whatever a file looks like, the engine reports and never fails; what it writes still parses."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.checking import fixed
from tests.test_fixtures import RULE_FILES, SEEDS, name_of
from torchlint.base.finding import NoteKind

MUTATIONS = 8


def mutated(lines: list[str], chance: random.Random) -> str:
    """Return the lines cut short, or with one deleted, doubled, moved, or dedented."""
    kind = chance.randrange(5)
    at = chance.randrange(len(lines))
    if kind == 0:
        return "\n".join(lines)[: chance.randrange(1, sum(map(len, lines)))]
    out = list(lines)
    if kind == 1:
        del out[at]
    elif kind == 2:
        out.insert(at, out[at])
    elif kind == 3:
        out.insert(chance.randrange(len(out)), out.pop(at))
    else:
        out[at] = out[at].removeprefix("    ")
    return "\n".join(out)


@pytest.mark.parametrize("path", [*RULE_FILES, *SEEDS], ids=name_of)
def test_damaged_files(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    chance = random.Random(path.stem)
    for _ in range(MUTATIONS):
        source = mutated(lines, chance)
        report = fixed(source, "unsafe", name="src/train.py")
        assert not [note for note in report.notes if note.kind is NoteKind.FAILED]
        if report.after:
            ast.parse(report.after)
