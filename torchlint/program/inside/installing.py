"""Loading the recorder that the variables of a process ask for, before the user's program runs."""

from __future__ import annotations

import importlib
import os


def install_recorder() -> None:
    """Load and install it; what fails is noted, and the program runs without."""
    settings = os.environ.get("TORCHLINT_RECORD")
    if not settings:
        return
    try:
        recorder = importlib.import_module(f"torchlint_inside.{os.environ['TORCHLINT_RECORDER']}")
        recorder.install(settings)
    except Exception as error:
        with open(f"{settings}.disabled", "a", encoding="utf-8") as note:  # noqa: PTH123 - before anything else
            note.write(f"recorder disabled: {type(error).__name__}: {error}\n")
