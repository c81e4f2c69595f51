"""Errors of a verification that end it, each with its exit code."""

from __future__ import annotations

from torchlint.program.errors import ProgramFailedError


class OriginalFailedError(ProgramFailedError):
    """The original program fails before any fix is applied, so there is nothing to compare with."""
