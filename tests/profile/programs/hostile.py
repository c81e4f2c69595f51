#!/usr/bin/env python
"""A module that looks at itself: marks must not be seen."""

# ruff: noqa
# fmt: off

from __future__ import annotations

import asyncio
import doctest
import inspect
import pickle
import sys
import traceback
import types
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, singledispatch

COUNT = 0
table: dict[str, int] = {"a": 1}
GRID = [[row * column for column in range(3)] for row in range(3)]


class Kind(Enum):
    ONE = len("a")
    TWO = ONE + 1


@dataclass
class Point:
    """A point."""

    x: int
    y: int = 2 + 1
    tags: list[str] = field(default_factory=list)

    def moved(self, by: int) -> Point:
        """Move it.

        >>> Point(1).moved(2).x
        3
        """
        found = Point(self.x + by, self.y)
        return found


class Base:
    def __init_subclass__(cls) -> None:
        cls.seen = getattr(cls, "seen", ()) + (cls.__name__,)

    def name(self):
        return "base" + type(self).__name__

    @classmethod
    def made(cls):
        return cls()

    @property
    def long(self):
        return len(self.name())


class Derived(Base):
    __slots__ = ("__hidden",)

    def __init__(self):
        super().__init__()
        self.__hidden = 1 + 1

    def name(self):
        found = super().name() + __class__.__name__
        return found + str(self.__hidden)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name.upper()


def counted():
    global COUNT
    COUNT += 1
    if COUNT > 1:
        global LATER
        LATER = COUNT * 2
    return COUNT


def closures():
    total = 0
    steps = []

    def add(amount):
        nonlocal total
        total += amount
        steps.append(lambda: total + amount)
        return total

    add(1), add(2)
    return total, [step() for step in steps]


def flow(items):
    found = []
    for item in items:
        if item == 1:
            continue
        if item == 5:
            break
        try:
            found.append(10 // item)
        except ZeroDivisionError as error:
            found.append(str(error))
        else:
            found.append("fine")
        finally:
            found.append("done")
    else:
        found.append("no break")
    while True:
        if len(found) > 3:
            break
        found.append(None)
    return found


def returns(value):
    with suppress(ValueError):
        try:
            return int(value)
        finally:
            counted()
    return "no number"


def named(a, *rest, b=3, **more):
    c = a + b
    for d in rest:
        e = c * d
    known = sorted(locals())
    del c
    try:
        c
    except UnboundLocalError as error:
        return known, sorted(locals()), type(error).__name__, e


def generates(count):
    got = None
    for number in range(count):
        got = yield number if got is None else number * got
        number += 1
    return "end"


def delegates():
    end = yield from generates(2)
    yield end.upper()


async def awaits():
    async def one(value):
        await asyncio.sleep(0)
        return value + 1

    total = 0
    for value in range(3):
        total += await one(value)
    async for value in agenerates():
        total += value
    if (half := total // 2) > 1:
        total += half
    return total, [await one(each) for each in range(2)]


async def agenerates():
    for value in range(2):
        await asyncio.sleep(0)
        yield value * 2


@contextmanager
def swallowing(seen):
    try:
        yield seen.append("in")
    except KeyError as error:
        seen.append(repr(error))


def managed():
    seen = []
    with swallowing(seen), swallowing(seen) as nothing:
        seen.append(nothing)
        raise KeyError("key")
    return seen


def matched(value):
    match value:
        case {"a": [first, *_]} if first > 0:
            return f"mapping {first}"
        case Point(x=1) | Point(x=2):
            return "point"
        case str() as text:
            return text.upper()
        case _:
            return None


def deep(depth):
    """Fail at the end of a recursion."""
    if depth == 0:
        raise RuntimeError(
            "deep"
        )
    return (
        1
        + deep(depth - 1)
    )


def fails():
    for _ in bad_iterator():
        pass


def bad_iterator():
    yield 1
    raise OSError("iterator")


def bad_test():
    if [][
        1
    ]:
        return 1


class Truth:
    asked = 0

    def __bool__(self):
        type(self).asked += 1
        return type(self).asked % 2 == 1


def truths():
    one = Truth()
    found = ["yes" if one else "no"]
    if one:
        found.append(1)
    elif one:
        found.append(2)
    while one:
        found.append(3)
    assert one or not one
    return found, Truth.asked


def lines(function, *args):
    try:
        function(*args)
    except Exception:
        return [
            (frame.name, frame.lineno)
            for frame in traceback.extract_tb(sys.exc_info()[2])
            if frame.filename == __file__
        ]


def warned():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("here", stacklevel=1)
    return [(each.lineno, str(each.message)) for each in caught]


@cache
def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@singledispatch
def shown(value):
    return repr(value)


@shown.register
def _(value: int):
    return hex(value)


def annotated():
    x: int = 1 + 1
    y: str
    (z): int = x * 2
    return x, z, annotated.__annotations__


def where():
    return sys._getframe().f_lineno, sys._getframe(1).f_code.co_name


def stars():
    first, *rest = [each for each in range(4)]
    merged = {"a": 1, "b": [*rest, first]}
    print(*rest, sep="", end="", file=types.SimpleNamespace(write=lambda text: None))
    return merged


def drawn(generator):
    found = [next(generator)]
    try:
        while True:
            found.append(generator.send(3))
    except StopIteration as stop:
        found.append(stop.value)
    return found


def results():
    """All that can be told from inside."""
    module = sys.modules[__name__]
    return {
        "names": sorted(name for name in vars(module) if not name.startswith("__")),
        "doc": (__doc__, Point.__doc__, Point.moved.__doc__, deep.__doc__),
        "annotations": module.__dict__.get("__annotations__"),
        "enum": [(each.name, each.value) for each in Kind],
        "class": (Derived.seen, Derived.made().name(), Derived().long, Derived().other),
        "global": [counted(), counted(), LATER],
        "closures": closures(),
        "flow": [flow([0, 1, 2, 5, 7]), flow([3])],
        "returns": [returns("3"), returns("x"), COUNT],
        "named": named(1, 2, 3, b=4, f=5),
        "generators": [drawn(generates(3)), list(delegates())],
        "async": asyncio.run(awaits()),
        "managed": managed(),
        "matched": [matched(each) for each in ({"a": [1, 2]}, Point(2), "x", 3)],
        "lines": [lines(deep, 3), lines(fails), lines(bad_test)],
        "truths": truths(),
        "warned": warned(),
        "fib": (fib(30), fib.cache_info().misses),
        "dispatch": [shown(255), shown("a")],
        "annotated": annotated(),
        "where": where(),
        "stars": stars(),
        "source": [inspect.getsource(each) for each in (deep, Derived, closures, fib, Kind)],
        "signature": [str(inspect.signature(each)) for each in (named, Point, Point.moved)],
        "generator": [inspect.isgeneratorfunction(generates), inspect.iscoroutinefunction(awaits)],
        "pickle": pickle.loads(pickle.dumps([Point(1), Kind.ONE, deep, Derived])) is not None,
        "doctest": doctest.testmod(module)[:],
        "locals": (
            deep.__code__.co_varnames,
            named.__code__.co_varnames,
            closures.__code__.co_cellvars,
        ),
        "firstlines": [each.__code__.co_firstlineno for each in (deep, fails, where)],
    }
