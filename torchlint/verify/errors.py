"""Errors of a verification that end it, each with its exit code."""

from __future__ import annotations

from torchlint.base.errors import TorchlintError


class OriginalFailedError(TorchlintError):
    """The original program fails before any fix is applied, so there is nothing to compare with.

    `log` holds its last lines of output.
    """

    exit_code = 3

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log
