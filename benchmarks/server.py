"""How long an editor waits for ``torchlint server`` after a change, beside bare
`libcst.parse_module` of the same text.

    python benchmarks/server.py FILE ... [--rounds N] [--keep NAME]

FILE is real code of about 2,000 lines. For each round one line is put in at the file's middle,
between two definitions, and the time from the message to the diagnostics of that version is taken,
less the pause that the server makes after each change (`torchlint.lsp.analyses.PAUSE`). Right after
it, the same text is parsed here. The CPU time of the server with its workers is taken too (Linux):
on a machine with other work it says more than the clock. The server is an installed one, warm after
two changes that do not count, with the default rules and the project's files on disk. --keep writes
``benchmarks/results/NAME.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import libcst
from measuring import Row, environment, keep

from torchlint.lsp.analyses import PAUSE

TORCHLINT = Path(sys.executable).parent / "torchlint"
LIMIT = 0.35
"""Seconds after the pause in which the answer is there (issue 6)."""
UNCOUNTED = 2
_METHOD = "textDocument/publishDiagnostics"


class Client:
    """As much of an editor as is needed."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [TORCHLINT, "server"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        capabilities = {"general": {"positionEncodings": ["utf-32"]}}
        params = {"processId": None, "rootUri": folder.as_uri(), "capabilities": capabilities}
        self.send({"id": 1, "method": "initialize", "params": params})
        next(message for message in self.messages() if message.get("id") == 1)
        self.send({"method": "initialized", "params": {}})

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what the server says."""
        assert self.process.stdout
        while line := self.process.stdout.readline():
            length = int(line.partition(b":")[2])
            while self.process.stdout.readline().strip():
                pass
            yield json.loads(self.process.stdout.read(length))

    def shown(self, number: int) -> list[dict[str, Any]]:
        """Wait for the diagnostics of a version."""
        for message in self.messages():
            if message.get("method") == _METHOD and message["params"].get("version") == number:
                found: list[dict[str, Any]] = message["params"]["diagnostics"]
                return found
        raise SystemExit(f"the server ended with {self.process.wait()}")

    def cpu(self) -> float:
        """Return the CPU seconds that the server and its workers have used, in steps of a clock
        tick."""
        children = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        )
        fields = [
            Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            for process in (str(self.process.pid), *children)
        ]
        return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Say goodbye."""
        self.send({"id": 2, "method": "shutdown"})
        self.send({"method": "exit"})
        self.process.communicate()


def middle(text: str) -> int:
    """Return the 0-based line of the first definition at the margin, below an empty line, behind a
    text's middle."""
    lines = text.split("\n")
    free = (
        at
        for at in range(len(lines) // 2, len(lines))
        if not lines[at - 1] and re.match(r"(?:def|class)\b", lines[at])
    )
    return next(free, len(lines) - 1)


def measured(path: Path, rounds: int) -> tuple[tuple[Row, Row], dict[str, list[float]]]:
    """Return the rows of one file, for wall and CPU, and the seconds of the bare parses."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    at = middle(text)
    client = Client(path.parent)
    item = {"uri": path.as_uri(), "languageId": "python", "version": 0, "text": text}
    client.send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
    found = client.shown(0)
    waits, used = [], []
    bare: dict[str, list[float]] = {"bare_wall": [], "bare_cpu": []}
    for number in range(1, UNCOUNTED + rounds + 1):
        line = f"PROBE_{number} = {number}"
        lines.insert(at, line)
        place = {"line": at, "character": 0}
        change = {"range": {"start": place, "end": place}, "text": f"{line}\n"}
        identifier = {"uri": path.as_uri(), "version": number}
        params = {"textDocument": identifier, "contentChanges": [change]}
        before, start = client.cpu(), time.perf_counter()
        client.send({"method": "textDocument/didChange", "params": params})
        shown = client.shown(number)
        wait, work = time.perf_counter() - start - PAUSE, client.cpu() - before
        if len(shown) != len(found):
            raise SystemExit(
                f"{path}: {len(found)} findings before, {len(shown)} after {number} changes"
            )
        start, busy = time.perf_counter(), time.process_time()
        libcst.parse_module("\n".join(lines))
        parse, parsing = time.perf_counter() - start, time.process_time() - busy
        if number > UNCOUNTED:
            waits.append(wait)
            used.append(work)
            bare["bare_wall"].append(parse)
            bare["bare_cpu"].append(parsing)
    client.stop()
    name = f"{path.name}, {text.count(chr(10))} lines"
    wall = Row(
        "server",
        f"{name}: s after the pause",
        "<=",
        LIMIT,
        tuple(waits),
        _beside(waits, bare["bare_wall"]),
    )
    cpu = Row(
        "server",
        f"{name}: CPU s of all its processes",
        "<=",
        LIMIT,
        tuple(used),
        _beside(used, bare["bare_cpu"]),
    )
    return (wall, cpu), bare


def _beside(values: list[float], parses: list[float]) -> str:
    ratio = statistics.median(value / parse for value, parse in zip(values, parses, strict=True))
    return (
        f"bare parse {min(parses):.3f}/{statistics.median(parses):.3f}/{max(parses):.3f}, "
        f"{ratio:.2f} times that"
    )


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--keep", metavar="NAME")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    before = environment({"libcst": version("libcst")})
    for path in given.files:
        found, bare = measured(path.resolve(), given.rounds)
        for row in found:
            print(row, flush=True)
            rows.append({**row.as_json(), **bare})
    if given.keep:
        after = environment({})["load"]
        keep(
            given.keep,
            {**before, "load_after": after, "nice": os.nice(0), "pause": PAUSE, "rows": rows},
        )


if __name__ == "__main__":
    main()
