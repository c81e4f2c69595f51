"""What an interpreter and its torch are, asked of a process that imports torch anyway: an import of
its own would take seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from torchlint.base.errors import TorchlintError
from torchlint.program.machine.interpreter import Asked
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.session.workers import Zygote


class WarmFacts:
    """Answers as `Asked` does, which is started where no zygote gets so far: it says why.

    Args:
        python: a path or a name on PATH.
        zygote: returns one that has imported torch by a time (`time.monotonic`), or raises; None
            where there is none.
        cold: whether that is known already.
    """

    def __init__(
        self, python: str, zygote: Callable[[float], Zygote | None], *, cold: bool
    ) -> None:
        self._python = python
        self._zygote = zygote
        self._asked = Asked(python) if cold else None

    def __enter__(self) -> WarmFacts:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._asked is not None:
            self._asked.__exit__(*raised)

    def answer(self, timeout: float) -> tuple[dict[int, dict[str, Any]], str]:
        """See `interpreter.Answers`."""
        if self._asked is None:
            with contextlib.suppress(TorchlintError, ProgramError, TimeoutError):
                zygote = self._zygote(time.monotonic() + timeout)
                if zygote is not None:
                    with zygote.fork() as worker:
                        facts = worker.ask(facts=True)
                    return {1: facts["python"], 2: facts["torch"]}, ""
            self._asked = Asked(self._python)
        return self._asked.answer(timeout)
