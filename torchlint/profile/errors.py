"""What `torchlint profile` cannot do here."""

from __future__ import annotations

from torchlint.base.errors import TorchlintError, extra


class NoExtraError(TorchlintError):
    """The packages that read a trace are not installed."""

    exit_code = 4


def demand() -> None:
    """Check that traces can be read.

    Raises:
        NoExtraError: msgspec or numpy is missing.
    """
    try:
        import msgspec  # noqa: F401
        import numpy as np  # noqa: F401
    except ImportError as error:
        words = f"torchlint profile needs {error.name}: {extra('profile')}"
        raise NoExtraError(words) from error
