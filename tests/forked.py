"""torchlint as a process that starts in no time: a fork of one that has imported all of it, and
checked nothing.

Such a run is a process like any other: it has its own state, folder, environment, streams, workers
and exit code, and ends by signals. What differs is how it comes to be, so whatever is said about
starting up (the import path, variables that the interpreter reads, what is imported when) and about
Ctrl-C before our own code runs takes a process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

AVAILABLE = sys.platform == "linux"
_LENGTH = 8
"""Bytes that say how long a message is."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended.

    Args:
        code: exit code, or minus a signal's number.
        out: standard output.
        err: standard error.
        cpu: the CPU seconds that it and its workers took.
        peak: the most KiB of memory that one of them had.
    """

    code: int
    out: bytes
    err: bytes
    cpu: float
    peak: int


class Origin:
    """The process that runs are forks of.

    Args:
        path: folder that holds the package, in front of the import path.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.environment = {**os.environ, "PYTHONPATH": self.path}
        self.folder = tempfile.TemporaryDirectory(prefix="torchlint-origin-")
        self.address = os.path.join(self.folder.name, "socket")
        # Its standard input tells it when nobody is left to ask for runs.
        self.process = subprocess.Popen(
            [sys.executable, __file__, self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
            cwd=self.folder.name,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n", "torchlint cannot be imported"

    def close(self) -> None:
        """End the process; runs that are under way go on."""
        self.process.communicate()
        self.folder.cleanup()

    def takes(self, environment: Mapping[str, str]) -> bool:
        """Say whether a run may have this environment: what the interpreter reads as it starts is
        as it was."""
        mine = self.environment
        names = {
            name for name in (*environment, *mine) if name.startswith(("PYTHON", "LC_", "LANG"))
        }
        return all(environment.get(name) == mine.get(name) for name in names - {"PYTHONPATH"})

    def run(
        self,
        words: Sequence[str | bytes],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes,
        timeout: float,
        before: str = "",
    ) -> Ended:
        """Run ``torchlint`` with these arguments to the end; as `subprocess.run`.

        Args:
            words: the arguments.
            cwd: where to run.
            env: all variables of the environment.
            stdin: standard input.
            timeout: seconds after which it is killed.
            before: code that the process runs first.

        Raises:
            subprocess.TimeoutExpired: it did not end in time; it is killed.
        """
        (inner, feed), (out, outer), (err, other) = (os.pipe() for _ in range(3))
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout)
            line.connect(self.address)
            order = pickle.dumps(
                ([os.fsencode(word) for word in words], os.fsencode(cwd), dict(env), before)
            )
            socket.send_fds(line, [len(order).to_bytes(_LENGTH, "big")], [inner, outer, other])
            line.sendall(order)
            for descriptor in (inner, outer, other):
                os.close(descriptor)
            heard: dict[int, bytes] = {}
            threads = [
                threading.Thread(target=_feed, args=(feed, stdin)),
                *(threading.Thread(target=_hear, args=(stream, heard)) for stream in (out, err)),
            ]
            for thread in threads:
                thread.start()
            try:
                code, cpu, peak = pickle.loads(_received(line))
            except TimeoutError:
                raise subprocess.TimeoutExpired(["torchlint", *words], timeout) from None
            finally:
                line.close()  # which ends a run that is still there
                for thread in threads:
                    thread.join()
        return Ended(code, heard[out], heard[err], cpu, peak)


@contextlib.contextmanager
def origin(path: Path) -> Iterator[Origin | None]:
    """Give the origin of runs of the package in a folder; None where this system does not fork
    well."""
    if not AVAILABLE:
        yield None
        return
    found = Origin(path)
    try:
        yield found
    finally:
        found.close()


def _feed(stream: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(stream, "wb") as file:
        file.write(data)


def _hear(stream: int, heard: dict[int, bytes]) -> None:
    with os.fdopen(stream, "rb") as file:
        heard[stream] = file.read()


def _received(line: socket.socket) -> bytes:
    """Return the next message."""
    return _exactly(line, int.from_bytes(_exactly(line, _LENGTH), "big"))


def _exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = line.recv(count - len(data))
        if not chunk:
            raise EOFError("the origin of runs has died")
        data += chunk
    return data


# What follows runs in the process that runs are forks of.


def _serve(address: str) -> None:
    """Fork a run for each order, and tell how it ended; end when nobody is left to ask for one."""
    import gc
    import select

    _import_everything()
    _prepare()
    base = list(sys.path)
    gc.collect()
    gc.freeze()
    runs: dict[int, tuple[int, socket.socket]] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        os.write(1, b"ready\n")
        open_ = True
        while open_ or runs:
            asked = [0, listener] if open_ else []
            lines = [line for _, line in runs.values()]
            readable = select.select([*asked, *runs, *lines], [], [])[0]
            for ended in [each for each in runs if {each, runs[each][1]} & {*readable}]:
                _tell(ended, *runs.pop(ended), gone=ended not in readable)
            if listener in readable:
                line = listener.accept()[0]
                run = _start(line, base, (listener, *lines), runs)
                runs[os.pidfd_open(run)] = run, line
            open_ = open_ and 0 not in readable


def _start(
    line: socket.socket,
    base: Sequence[str],
    others: Sequence[socket.socket],
    ends: Collection[int],
) -> int:
    """Start the run that is ordered on a line, without what is open for `others`; return its
    process."""
    data, streams, _, _ = socket.recv_fds(line, _LENGTH, 3)
    assert len(data) == _LENGTH
    words, cwd, environment, before = pickle.loads(_exactly(line, int.from_bytes(data, "big")))
    run = os.fork()
    if not run:
        for each in (line, *others):
            each.close()
        for end in ends:
            os.close(end)
        _become(streams, words, cwd, environment, base, before)
    for stream in streams:
        os.close(stream)
    return run


def _tell(ended: int, run: int, line: socket.socket, *, gone: bool) -> None:
    """Tell how a run ended; kill it when nobody wants to know any more."""
    import signal

    if gone:
        os.kill(run, signal.SIGKILL)
    _, status, used = os.wait4(run, 0)
    os.close(ended)
    answer = pickle.dumps(
        (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss)
    )
    with line, contextlib.suppress(BrokenPipeError):
        line.sendall(len(answer).to_bytes(_LENGTH, "big") + answer)


def _become(
    streams: Sequence[int],
    words: Sequence[bytes],
    cwd: bytes,
    environment: Mapping[str, str],
    base: Sequence[str],
    before: str,
) -> NoReturn:
    """Be the program, in a process that is as if it had just started."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*(entry for entry in added if entry and entry not in base), *base]
    sys.argv = ["torchlint", *map(os.fsdecode, words)]
    from torchlint.__main__ import program

    exec(before, {})  # noqa: S102 - a test's own code
    code: object = 0
    try:
        program()
    except SystemExit as error:
        code = error.code
    _leave(code if isinstance(code, int) else 1)


def _leave(code: int) -> NoReturn:
    """End as the interpreter does, but take apart none of all the modules: that costs more than
    most runs."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    os._exit(code)


def _import_everything() -> None:
    """Import all of torchlint but what runs inside of programs and what serves editors, which need
    much more."""
    import ast
    import importlib

    import torchlint

    folder = Path(torchlint.__path__[0])
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if not {"inside", "lsp", "template", "__main__"} & set(parts):
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
    from torchlint.engine.syntax import exactly, parse

    parse("", ast.parse(""))
    exactly(
        " " * 10_000
    )  # what the first parse makes for libcst's classes takes half of a short run


def _prepare() -> None:
    """Compile the patterns, and read the rules' files: most of what a short run takes. Plugins are
    looked for by each run."""
    from functools import lru_cache

    from torchlint.base.regex import LatePattern
    from torchlint.catalog import rules

    for module in list(sys.modules.values()):
        if module.__name__.startswith("torchlint."):
            for value in list(vars(module).values()):
                if isinstance(value, LatePattern):
                    value.flags  # noqa: B018 - asking compiles it
    walk = rules._walk
    rules._walk = lru_cache(lambda *root, **how: list(walk(*root, **how)))  # type: ignore[assignment]
    rules.load_catalog()
    rules._installed_catalog.cache_clear()


if __name__ == "__main__":
    del sys.path[0]
    _serve(sys.argv[1])
