"""Events as the profiler wrote them, on their way into columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from torchlint.trace.columns import NONE, Columns, Floats, Ints, Memory, Trace

Number = int | float | str | None
T = TypeVar("T")
Shape = tuple[bytes, bytes, bytes, bytes]
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading an event that is no JSON, or says impossible things, raises."""
_NO_JSON = msgspec.Raw()
_FARTHEST = 9.2e15
"""Microseconds: a later time does not fit into 64 bits of nanoseconds."""


class Args(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "seq": "Sequence number",
        "forward": "Fwd thread id",
        "pyid": "Python id",
        "parent": "Python parent id",
        "bw": "memory bandwidth (GB/s)",
        "stack": "Call stack",
        "nbytes": "bytes",
        "corr": "correlation",
        "changed": "Bytes",
        "kind": "Device Type",
        "address": "Addr",
        "dims": "Input Dims",
        "types": "Input type",
        "strides": "Input Strides",
        "values": "Concrete Inputs",
    },
):
    """What is read of the arguments of an event; the rest is stepped over."""

    corr: Number = NONE
    stream: Number = NONE
    seq: Number = NONE
    forward: Number = NONE
    pyid: Number = NONE
    parent: Number = NONE
    nbytes: Number = NONE
    bw: Number = None
    stack: str | None = None
    name: Number = None
    changed: Number = NONE
    kind: Number = NONE
    address: Number = NONE
    dims: msgspec.Raw = _NO_JSON
    types: msgspec.Raw = _NO_JSON
    strides: msgspec.Raw = _NO_JSON
    values: msgspec.Raw = _NO_JSON


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event; times in microseconds."""

    ph: str = ""
    name: str = ""
    cat: str | None = None
    pid: Number = None
    tid: Number = None
    ts: float | None = None
    dur: float | None = None
    args: Args | None = None


EVENTS = msgspec.json.Decoder(list[Event])
EVENT = msgspec.json.Decoder(Event)
_NO_ARGS = Args()
_SHAPE = {"Input Dims", "Input type", "Input Strides", "Concrete Inputs"}
_MEMORY = "[memory]"
"""What the profiler calls a change of memory."""


def converted(value: object) -> Event:
    """Return an event that another parser has read, without its shapes.

    Raises:
        msgspec.ValidationError: it is none.
    """
    args = value.get("args") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(args, dict):
        value = {**value, "args": {name: args[name] for name in args if name not in _SHAPE}}
    return msgspec.convert(value, Event)


class Tables:
    """Collects events; names are kept once each."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.cats: dict[str, int] = {}
        self.threads: dict[tuple[Number, Number], int] = {}
        self.stacks: dict[str, int] = {}
        self.shapes: dict[Shape, int] = {}
        self.thread_names: dict[int, str] = {}
        self.parts: list[Columns] = []
        self.memory: list[Memory] = []

    def add(self, events: Sequence[Event]) -> int:
        """Take up events; return how many of them say impossible things, and are left out."""
        timed = [event for event in events if event.ph == "X" and event.cat != "Trace"]
        for event in events:
            if event.ph == "M" and event.name == "thread_name":
                name = (event.args or _NO_ARGS).name
                if isinstance(name, str):
                    place = _placed([(event.pid, event.tid)], self.threads)[0]
                    self.thread_names[int(place)] = name
        changes = [event for event in events if event.ph == "i" and event.name == _MEMORY]
        if changes:
            self.memory.append(self._changes(changes))
        sound = [event for event in timed if _possible(event.ts, event.dur)]
        if sound:
            self.parts.append(self._columns(sound))
        return len(timed) - len(sound)

    def _changes(self, events: Sequence[Event]) -> Memory:
        sound = [event for event in events if _possible(event.ts, 0)]
        args = [event.args or _NO_ARGS for event in sound]
        return Memory(
            _nanoseconds([event.ts for event in sound]),
            _placed([(event.pid, event.tid) for event in sound], self.threads),
            _integers([each.changed for each in args]),
            _integers([each.kind for each in args]),
            _integers([each.address for each in args]),
        )

    def _columns(self, events: Sequence[Event]) -> Columns:
        args = [event.args or _NO_ARGS for event in events]
        ts = _nanoseconds([event.ts for event in events])
        dur = _nanoseconds([event.dur for event in events])
        stacks = [each.stack or None for each in args]
        return Columns(
            ts=ts,
            dur=dur,
            name=_placed([event.name for event in events], self.names),
            cat=_placed([event.cat or "" for event in events], self.cats),
            thread=_placed([(event.pid, event.tid) for event in events], self.threads),
            corr=_integers([each.corr for each in args]),
            stream=_integers([each.stream for each in args]),
            seq=_integers([each.seq for each in args]),
            forward=_integers([each.forward for each in args]),
            pyid=_integers([each.pyid for each in args]),
            parent=_integers([NONE if each.parent is None else each.parent for each in args]),
            nbytes=_integers([each.nbytes for each in args]),
            bw=_floats([each.bw for each in args]),
            stack=_placed(stacks, self.stacks)
            if any(stacks)
            else np.full(len(events), NONE, np.int64),
            shape=_placed([_shape(each) for each in args], self.shapes),
        )

    def trace(
        self, path: str, meta: dict[str, Any], *, lost: int, repaired: int, cut_off: str
    ) -> Trace:
        """Return all that was taken up."""
        columns = _concatenated(Columns, self.parts or [self._columns([])])
        memory = _concatenated(Memory, self.memory) if self.memory else None
        self.parts, self.memory = [], []
        return Trace(
            path,
            meta,
            list(self.names),
            list(self.cats),
            [(_words(pid), _words(tid)) for pid, tid in self.threads],
            list(self.stacks),
            columns,
            lost,
            repaired,
            cut_off,
            self.thread_names,
            memory,
            shapes=[
                tuple(text.decode("utf-8", "replace") for text in shape) for shape in self.shapes
            ],
        )


def _shape(args: Args) -> Shape | None:
    """Return what an operator was given, where the profiler wrote it."""
    dims = bytes(args.dims)
    if not dims:
        return None
    return dims, bytes(args.types), bytes(args.strides), bytes(args.values)


def _concatenated(kind: type[T], parts: Sequence[T]) -> T:
    """Return columns behind each other."""
    slots: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]
    return kind(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in slots})


def _possible(ts: float | None, dur: float | None) -> bool:
    return (
        ts is not None and dur is not None and abs(ts) < _FARTHEST and 0 <= dur < _FARTHEST
    )  # no comparison holds of NaN


def _nanoseconds(times: Sequence[float | None]) -> Ints:
    """Return microseconds as nanoseconds: 64 bits of float lose 256 ns in a time of the epoch times
    1,000."""
    micros = np.array(times, dtype=np.float64)
    whole = np.floor(micros)
    part = np.rint((micros - whole) * 1000.0)
    return whole.astype(np.int64) * 1000 + part.astype(np.int64)


def _placed(values: Iterable[T | None], table: dict[T, int]) -> Ints:
    """Return the places of values in a table, which grows by the new ones; `NONE` for None."""
    places = [NONE if value is None else table.setdefault(value, len(table)) for value in values]
    return np.array(places, dtype=np.int64)


def _integers(values: Sequence[Number]) -> Ints:
    try:
        found = np.array(values, dtype=np.int64)
    except (ValueError, TypeError, OverflowError):
        return np.array([_guarded(int, value, NONE) for value in values], dtype=np.int64)
    return found


def _floats(values: Sequence[Number]) -> Floats:
    try:
        return np.array(values, dtype=np.float64)  # None becomes NaN
    except (ValueError, TypeError, OverflowError):
        return np.array([_guarded(float, value, math.nan) for value in values])


def _guarded(kind: Callable[[Any], Any], value: Number, otherwise: float) -> Any:
    try:
        found = kind(value)
    except (ValueError, TypeError, OverflowError):
        return otherwise
    return found if abs(found) < 2**62 or found != found else otherwise


def _words(value: Number) -> str:
    return "" if value is None else str(value)
