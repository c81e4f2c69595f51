"""Replacing attributes of PyTorch, and putting all of them back."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """A list of replaced attributes; `undo` restores them in reverse order."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any]] = []
        self.originals: dict[Any, Any] = {}
        """By replacing function, the function it replaces."""

    def set(self, owner: Any, name: str, value: Any, *, new: bool = False) -> None:
        """Set an attribute. Where the owner does not have it, nothing is done unless it is to be
        new."""
        if not new and not hasattr(owner, name):
            return
        own = vars(owner) if hasattr(owner, "__dict__") else {}
        self._done.append((owner, name, own.get(name, _ABSENT)))
        if callable(value) and hasattr(owner, name):
            self.originals[value] = getattr(owner, name)
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back as it was."""
        while self._done:
            owner, name, value = self._done.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
