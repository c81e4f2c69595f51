"""Ctrl-C and requests to end wait until what must not be left half done is done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_HELD = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold back Ctrl-C and requests to end; what came meanwhile is raised behind it.

    Raises:
        KeyboardInterrupt: on leaving, where such a request came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = [getattr(signal, name) for name in _HELD if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt
