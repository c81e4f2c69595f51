"""Every error that torchlint raises for a user to read, each with the exit code it leads to."""

from __future__ import annotations


def extra(name: str) -> str:
    """Return the command that brings an extra of torchlint: no package index has torchlint, so that
    pip takes it from a clone."""
    return f"python -m pip install '.[{name}]' in a clone of torchlint"


class TorchlintError(Exception):
    """Base of all errors whose message is meant for the user: one clear line, no traceback."""

    exit_code = 2


class UsageError(TorchlintError):
    """A command-line argument that cannot be used."""


class ConfigError(TorchlintError):
    """A configuration file or value that cannot be used; the message names file and key."""


class CatalogError(TorchlintError):
    """A rule file, ours or a plugin's, that breaks the contract of a rule."""


class SourceError(TorchlintError):
    """A file that cannot be read as Python source text (missing, unreadable, undecodable).

    `place` is the 1-based row and column of the fault in the file, where there is one.
    """

    exit_code = 1

    def __init__(self, message: str, place: tuple[int, int] = (1, 1)) -> None:
        super().__init__(message)
        self.place = place


class TooLargeError(SourceError):
    """A file over the size limit: left out with a note, which does not fail the run."""


class WriteError(TorchlintError):
    """A file that could not be written, or that changed meanwhile.

    Of a file that was to be fixed it becomes a note, which fails the run as findings do.
    """


class OutputError(TorchlintError):
    """The report could not be written to where the user asked."""


class TraceError(TorchlintError):
    """A profiler's trace that cannot be read, or that is none; the message names the file."""
