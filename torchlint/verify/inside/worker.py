"""A resident worker: loads one program, times blocks of it on demand, and writes what it computes
to a file.

Words of the parent, one answer each; an answer with ``error`` says in one line what the program
raised:

    {"load": {...}}                       do what is not timed; {"device": ..., "device_name": ...}
    {"calibrate": ns}                     {"reps": runs in a block of at least that time, "ns": of one run}
    {"warm": reps, "seconds": s}          {"ns": of one run}, once blocks take even times
    {"block": reps, "before": n}          {"wall_ns": ..., "cpu_ns": ..., "events_ns": ...}; n runs before are not timed
    {"check": path, "seed": n}            run once from a seeded start, save a snapshot
    {"count": true}                       {"counts": the virtual-CUDA ledger's summary of one run}
    {"find": [packages]}                  {"absent": those that cannot be imported}
    {"facts": true}                       {"python": ..., "torch": ...}: as of `program.inside.probe`
    {"compare": [a, b], "how": {...}}     `equality.compare_files` of two snapshots
"""  # noqa: E501

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
from typing import Any

import torch

from ...program.inside import probe
from . import channel, clock, example, function
from .equality import compare_files
from .program import Program, described
from .snapshot import seed


def become(address: str, settings: dict[str, Any]) -> None:
    """Serve the parent, in a process that was just forked; never returns.

    Args:
        address: path of the parent's socket.
        settings: ``id``, ``log`` (file for what the program prints), ``threads``, ``cwd``.
    """
    code = 1
    try:
        parent = channel.connect(address)
        try:
            os.setpgid(0, 0)
            log = settings["log"]
            null, file = (
                os.open(os.devnull, os.O_RDONLY),
                os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            )
            os.dup2(null, 0)
            os.dup2(file, 1)
            os.dup2(file, 2)
            os.close(null)
            os.close(file)
            os.chdir(settings["cwd"])
            torch.set_num_threads(int(settings["threads"]))
        except Exception as error:
            parent.send(described(error))
            raise
        os.register_at_fork(after_in_child=parent.close)
        parent.send({"worker": settings["id"]})
        Service(parent).serve()
        code = 0
    except (BrokenPipeError, ConnectionError):
        pass  # the parent is gone
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


class Service:
    """Answers the parent's words with one program."""

    def __init__(self, parent: channel.Channel) -> None:
        self.parent = parent
        self.program: Program | None = None

    def serve(self) -> None:
        """Answer until the parent hangs up."""
        while (message := self.parent.receive()) is not None:
            try:
                answer = self.answer(message)
            except BaseException as error:  # SystemExit and KeyboardInterrupt of the program too
                answer = described(error)
            self.parent.send(answer)

    def answer(self, message: channel.Message) -> channel.Message:
        """Do what one message asks."""
        if "load" in message:
            return self._load(message["load"])
        if "find" in message:
            return {
                "absent": [
                    name for name in message["find"] if importlib.util.find_spec(name) is None
                ]
            }
        if "facts" in message:
            return {"python": probe.python_facts(), "torch": probe.build_facts(torch)}
        if "compare" in message:
            return compare_files(*message["compare"], **message["how"])
        assert self.program is not None
        if "calibrate" in message:
            return clock.calibrate(self.program, int(message["calibrate"]))
        if "warm" in message:
            return clock.warm_up(self.program, int(message["warm"]), float(message["seconds"]))
        if "block" in message:
            if message.get("before"):
                self.program.run(int(message["before"]))
            wall, cpu, events = self.program.run(int(message["block"]))
            return {"wall_ns": wall, "cpu_ns": cpu, "events_ns": events}
        if "check" in message:
            return self.program.check(message["check"], int(message["seed"]))
        return {"counts": self.program.count()}

    def _load(self, settings: dict[str, Any]) -> channel.Message:
        seed(int(settings["seed"]))
        made: Program = (example.Example if settings["kind"] == "example" else function.Function)(
            settings
        )
        made.load()
        self.program = made
        cuda = clock.uses_cuda()
        return {
            "device": "cuda" if cuda else "cpu",
            "device_name": torch.cuda.get_device_name() if cuda else None,
        }
