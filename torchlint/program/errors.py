"""Errors of what runs programs, each with its exit code."""

from __future__ import annotations

from torchlint.base.errors import TorchlintError


class NoTorchError(TorchlintError):
    """The interpreter that is to run the program is missing, is no Python, or has no usable
    torch."""

    exit_code = 4


class ProgramFailedError(TorchlintError):
    """The program fails by itself, so there is nothing to measure.

    `log` holds its last lines of output.
    """

    exit_code = 3

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log
