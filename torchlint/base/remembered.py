"""Methods whose answers are remembered with their object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
Method = Callable[Concatenate[S, P], R]

TEXTS = 5_000
"""Files of a project of which it is remembered what they hold, or say: as many as it may have, for
of fewer each would be forgotten before it is asked for again."""


def remembered(decide: Method[S, P, R]) -> Method[S, P, R]:
    """Ask a method once for the same arguments, which are given by their positions."""
    place = f"{decide.__name__} answered"

    def ask(self: Any, *args: Any) -> Any:
        try:
            return self.__dict__[place][args]
        except KeyError:
            pass
        found: Any = cast(Any, decide)(self, *args)
        self.__dict__.setdefault(place, {})[args] = found
        return found

    return cast(Method[S, P, R], functools.update_wrapper(ask, decide))
