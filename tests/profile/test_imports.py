"""Which modules came from the user's own tree, in a run inside of a copy."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from torchlint.program.inside.imports import leaked


def test_what_is_built_in_came_from_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = os.path.realpath(tmp_path)
    module = types.ModuleType("its_own")
    module.__file__ = os.path.join(root, "its_own.py")
    monkeypatch.setitem(sys.modules, "its_own", module)
    other = types.ModuleType("made_by_another")
    other.__file__ = "_ops.py"  # as that of torch.ops
    monkeypatch.setitem(sys.modules, "made_by_another", other)
    monkeypatch.chdir(root)
    assert leaked(root, os.path.join(root, "copy")) == {"its_own": module.__file__}
