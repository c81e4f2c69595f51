"""Errors of what runs programs, each with its exit code."""

from __future__ import annotations

from torchlint.base.errors import TorchlintError


class NoTorchError(TorchlintError):
    """The interpreter that is to run the program is missing, is no Python, or has no usable
    torch."""

    exit_code = 4
