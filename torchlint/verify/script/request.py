"""What script mode is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchlint.api import Document
from torchlint.base.records import frozen
from torchlint.program.command import Command
from torchlint.program.machine.doctor import Doctor
from torchlint.verify.fixes import FixUnit
from torchlint.verify.options import Options
from torchlint.verify.script.versions import Versions
from torchlint.verify.variants import Variant


@frozen
class Request:
    """What is to be verified.

    Args:
        root: the project, which is copied.
        cwd: where the program is run, in the project.
        command: the program.
        units: the fixes.
        documents: the files that they change, by posix path under `root`.
        skipped: fixes that are left out, in words.
        options: how.
        doctor: the interpreter and the machine.
        proving: whether to judge each fix alone, and then the program with all that are proved.
        versions: the whole versions that are compared; None where fixes are.
    """

    root: Path
    cwd: Path
    command: Command
    units: tuple[FixUnit, ...]
    documents: Mapping[str, Document]
    skipped: tuple[str, ...]
    options: Options
    doctor: Doctor
    proving: bool = False
    versions: Versions | None = None

    def source(self, variant: Variant) -> Path:
        """Return what a variant's copy is made from."""
        if self.versions is None:
            return self.root
        return self.versions.folders[variant.unit is not None]

    @property
    def device(self) -> str:
        """Where the program runs: "cuda" or "cpu"; counts alone are taken from a CPU."""
        wanted = self.options.device
        return (
            ("cuda" if self.doctor.gpus else "cpu")
            if wanted == "auto"
            else "cpu"
            if wanted != "cuda"
            else wanted
        )
