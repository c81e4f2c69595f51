"""A contract of no waits: in which code the host must not wait for the device, and which waits are
listed."""

from __future__ import annotations

from typing import NamedTuple

NO_WAITS = "TL115"
"""The rule that holds code to the contract; ``# torchlint: allow-wait[owner] reason`` silences it
alone."""

GONE = "is gone: nothing waits"
"""What is said of a wait that is listed and that nothing makes."""


class Allowed(NamedTuple):
    """A wait that the configuration lists: it stands in any line of a function that holds a text.

    Args:
        at: ``path:function``, the path relative to the project's root; no function for the file's
            own lines.
        line: a part of the statement's text.
        owner: who answers for it.
        reason: why it stays.
    """

    at: str
    line: str
    owner: str
    reason: str


class Contract(NamedTuple):
    """What the table ``no-waits`` of a configuration says; plain, so that it can be cached.

    Args:
        functions: globs of qualified names.
        files: globs of paths.
        decorators: names of decorators.
        allow: the waits that are listed.
    """

    functions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ("no_waits",)
    allow: tuple[Allowed, ...] = ()


UNSAID = Contract()
"""That of a configuration that says nothing of it."""
