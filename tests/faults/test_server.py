"""Faults N05, N06 and H01 for ``torchlint server``: clients that send too much, too late, nonsense,
or nothing more."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import GOOD, GOOD_CODE, TORCHLINT, Fault
from tests.faults.test_hostile import MODULES
from tests.faults.test_processes import STUCK, cpu_seconds, tag, tagged, until
from tests.patience import PATIENCE

__all__ = ["tag"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="needs /proc to look at processes"
    ),
]
ALIVE = "textDocument/publishDiagnostics"


class Raw:
    """A client that sends bytes, well formed or not, to a server of its own."""

    def __init__(self, fault: Fault, tag: str = "") -> None:
        self.fault = fault
        self.process = subprocess.Popen(
            [TORCHLINT, "server"],
            cwd=fault.folder,
            env={**os.environ, "TORCHLINT_CASE": tag},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.heard: queue.Queue[dict[str, Any]] = queue.Queue()
        self.count = 0
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def end(self) -> None:
        """Kill what is left, and let go of its pipes."""
        self.process.kill()
        self.process.wait()
        self.listener.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            with contextlib.suppress(OSError):  # what was never read
                stream.close()

    def _listen(self) -> None:
        assert self.process.stdout
        while line := self.process.stdout.readline():
            length = int(line.split(b":")[1])
            while self.process.stdout.readline().strip():
                pass
            self.heard.put(json.loads(self.process.stdout.read(length)))

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def body(self, data: bytes) -> None:
        self.send(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))

    def notify(self, method: str, params: object = None) -> None:
        self.body(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def ask(self, method: str, params: object = None) -> dict[str, Any]:
        """Send a request, and return the answer, with ``result`` or ``error``."""
        self.count += 1
        number = self.count
        self.body(
            json.dumps(
                {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            ).encode()
        )
        return self.until(lambda message: message.get("id") == number and "method" not in message)

    def until(self, wanted: Any) -> dict[str, Any]:
        """Return the first message that is wanted; the others are dropped."""
        while True:
            try:
                message = self.heard.get(timeout=PATIENCE)
            except queue.Empty:
                self.fault.holds("I5", False, f"no answer; exit code {self.process.poll()}")
                raise
            if wanted(message):
                return message

    def hello(self, process: int | None = None) -> None:
        """Initialize."""
        root = self.fault.folder.as_uri()
        self.ask("initialize", {"processId": process, "rootUri": root, "capabilities": {}})
        self.notify("initialized", {})

    def open(self, name: str, text: str, version: int = 1) -> str:
        uri = (self.fault.folder / name).as_uri()
        item = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, version: Any, text: str) -> None:
        identifier = {"uri": uri, "version": version}
        self.notify(
            "textDocument/didChange",
            {"textDocument": identifier, "contentChanges": [{"text": text}]},
        )

    def shown(self, uri: str, version: int = 1) -> list[dict[str, Any]]:
        """Return the diagnostics of a version of a document."""
        found = self.until(
            lambda message: (
                message.get("method") == ALIVE
                and message["params"]["uri"] == uri
                and message["params"].get("version") == version
            )
        )
        diagnostics: list[dict[str, Any]] = found["params"]["diagnostics"]
        return diagnostics

    def alive(self) -> None:
        """Check I2: the server still finds what the control file holds."""
        codes = [each["code"] for each in self.shown(self.open("good.py", GOOD, 77), 77)]
        self.fault.holds("I2", codes == [GOOD_CODE], codes)

    def left(self) -> int:
        """Wait for the end of the process; check I1 and I5, and return the exit code."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.fault.holds("I5", False, "the server goes on without a client")
            raise
        assert self.process.stderr
        words = self.process.stderr.read()
        self.fault.holds("I1", b"Traceback" not in words and code >= 0, f"{code} {words!r}")
        return code


@pytest.fixture
def client(fault: Fault, tag: str) -> Iterator[Raw]:
    """Return a client whose server is ended at the end, if it is not before."""
    raw = Raw(fault, tag)
    yield raw
    raw.end()
    fault.holds("I5", until(lambda: not tagged(tag), PATIENCE), "a worker is left")


@pytest.mark.fault("N05")
def test_n05_half_typed_code_that_hangs_the_parser(client: Raw, fault: Fault) -> None:
    client.hello()
    uri = client.open("bad.py", GOOD)
    client.shown(uri)
    client.change(uri, 2, "import torch\nmatch x:\n    case (" + "(" * 40)
    (found,) = client.shown(uri, 2)
    fault.holds("I3", found["code"] == "invalid-syntax", found)
    client.change(uri, 3, STUCK)
    (found,) = client.shown(uri, 3)
    fault.holds(
        "I3",
        found["code"] == "not-analysed" and "took more than 5 s of CPU time" in found["message"],
        found,
    )
    client.change(uri, 4, GOOD)
    fault.holds("I3", [each["code"] for each in client.shown(uri, 4)] == [GOOD_CODE])


@pytest.mark.fault("N05")
def test_n05_work_on_an_old_version_is_cancelled(client: Raw, fault: Fault, tag: str) -> None:
    client.hello()
    uri = client.open("bad.py", STUCK)
    fault.holds("I5", until(lambda: len(tagged(tag)) > 1, PATIENCE), "no worker")
    client.change(uri, 2, GOOD)
    found = client.until(lambda message: message.get("method") == ALIVE)
    fault.holds(
        "I3", found["params"]["version"] == 2 and len(found["params"]["diagnostics"]) == 1, found
    )


@pytest.mark.fault("N05")
def test_n05_a_change_of_ten_megabytes(client: Raw, fault: Fault) -> None:
    client.hello()
    uri = client.open("big.py", GOOD)
    client.change(uri, 2, GOOD + "# " + "x" * 10_000_000)
    (found,) = client.shown(uri, 2)
    fault.holds("I3", "larger than 1000000 bytes" in found["message"], found)
    client.alive()


@pytest.mark.fault("N05")
def test_n05_a_thousand_edits_at_once(client: Raw, fault: Fault) -> None:
    client.hello()
    uri = client.open("fast.py", "")
    for at, letter in enumerate(GOOD):
        row, column = GOOD.count("\n", 0, at), at - GOOD.rfind("\n", 0, at) - 1
        place = {"line": row, "character": column}
        change = {"range": {"start": place, "end": place}, "text": letter}
        identifier = {"uri": uri, "version": at + 2}
        client.notify(
            "textDocument/didChange", {"textDocument": identifier, "contentChanges": [change]}
        )
    for version in range(len(GOOD) + 2, 1002):
        client.change(uri, version, GOOD)
    fault.holds("I3", [each["code"] for each in client.shown(uri, 1001)] == [GOOD_CODE])
    client.alive()


@pytest.mark.fault("N05")
def test_n05_names_and_versions(client: Raw, fault: Fault) -> None:
    client.hello()
    uri = client.open("with space%.py", GOOD, 5)
    fault.holds("I3", len(client.shown(uri, 5)) == 1)
    for version in (4, 5, -1, 2**31 - 1):
        client.change(uri, version, GOOD)
        fault.holds("I3", len(client.shown(uri, version)) == 1, version)
    for version in (None, "x", 1.5, 2**40, []):
        client.change(uri, version, GOOD)
    for other in (
        "untitled:Untitled-1",
        "vscode-notebook-cell:/a.ipynb#W1",
        "foo:bar",
        "",
        "file:///%00",
        "http://[",
    ):
        item = {"uri": other, "languageId": "python", "version": 1, "text": GOOD}
        client.notify("textDocument/didOpen", {"textDocument": item})
        found = client.shown(other)
        fault.holds("I3", len(found) == other.startswith("untitled"), (other, found))
    client.alive()


@pytest.mark.fault("N05")
def test_n05_messages_out_of_order(client: Raw, fault: Fault) -> None:
    uri = (fault.folder / "never.py").as_uri()
    refused = client.ask(
        "textDocument/hover",
        {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}},
    )
    fault.holds("I3", refused["error"]["code"] == -32002, refused)
    client.open("early.py", GOOD)
    client.hello()
    refused = client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    fault.holds("I3", refused["error"]["code"] == -32600, refused)
    client.change(uri, 2, GOOD)
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    for _ in range(2):
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    answer = client.ask("textDocument/codeAction", _everywhere(uri))
    fault.holds("I3", answer["result"] == [], answer)
    answer = client.ask("codeAction/resolve", {"title": "x", "data": {"key": uri, "version": 3}})
    fault.holds("I3", "error" in answer, answer)
    client.alive()
    client.notify("$/cancelRequest", {"id": 12345})
    client.notify("textDocument/unheardOf", {})
    answer = client.ask("workspace/unheardOf", {})
    fault.holds("I3", answer["error"]["code"] == -32601, answer)


def _everywhere(uri: str) -> dict[str, Any]:
    place = {"line": 0, "character": 0}
    span = {"start": place, "end": {"line": 999, "character": 0}}
    return {"textDocument": {"uri": uri}, "range": span, "context": {"diagnostics": []}}


@pytest.mark.fault("N06")
@pytest.mark.parametrize("said", [True, False])
def test_n06_the_end_as_it_should_be_and_not(
    client: Raw, fault: Fault, tag: str, said: bool
) -> None:
    client.hello()
    client.alive()
    if said:
        fault.holds("I3", client.ask("shutdown")["result"] is None)
        for method in ("shutdown", "textDocument/hover", "workspace/unheardOf"):
            refused = client.ask(method)
            fault.holds("I3", refused["error"]["code"] == -32600, refused)
        client.open("late.py", GOOD)
    client.notify("exit")
    fault.holds("I1", client.left() == (0 if said else 1))
    fault.holds("I5", not tagged(tag), "a worker is left")


@pytest.mark.fault("N06")
@pytest.mark.parametrize("busy", [False, True])
def test_n06_the_client_closes_the_pipe(client: Raw, fault: Fault, tag: str, busy: bool) -> None:
    client.hello()
    client.alive()
    if busy:
        client.open("bad.py", STUCK)
    assert client.process.stdin
    client.process.stdin.close()
    fault.holds("I1", client.left() == 1)
    fault.holds("I5", not tagged(tag), "a worker is left")


@pytest.mark.fault("N06")
def test_n06_the_client_dies_and_others_hold_the_pipe(client: Raw, fault: Fault, tag: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as editor:
        client.hello(editor.pid)
        client.alive()
        # The server looks now and then; it has to have seen the process before it can miss it.
        for _ in range(2):
            threading.Event().wait(2.2)
        editor.kill()
    fault.holds("I1", client.left() == 1)
    fault.holds("I5", not tagged(tag), "a worker is left")


@pytest.mark.fault("N06")
def test_n06_a_client_that_lives_where_we_cannot_see_it(client: Raw, fault: Fault) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
        client.hello(gone.pid)
    threading.Event().wait(4.5)
    client.alive()


@pytest.mark.fault("N06")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_n06_signals(client: Raw, fault: Fault, tag: str, number: signal.Signals) -> None:
    client.hello()
    client.alive()
    client.open("bad.py", STUCK)
    client.process.send_signal(number)
    if number is signal.SIGKILL:
        client.process.wait(PATIENCE)
        fault.holds("I5", until(lambda: not tagged(tag), PATIENCE), "a worker outlives the server")
    else:
        fault.holds("I1", client.left() == 130)
        fault.holds("I5", not tagged(tag), "a worker is left")


@pytest.mark.fault("N06")
def test_n06_frames_that_are_none(client: Raw, fault: Fault) -> None:
    client.hello()
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\xff\xfe\x00\r\n")
    client.send(b"Content-Length: x\r\n\r\nContent-Length: -5\r\n\r\n")
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b"3",
        b"[" * 100_000,
        b'{"jsonrpc": "1.0"}',
        b"\xff",
        b'"\\ud800"',
    ):
        client.body(body)
    client.body(json.dumps({"jsonrpc": "2.0", "method": 3}).encode())
    client.body(
        json.dumps({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": 3}).encode()
    )
    client.body(json.dumps({"jsonrpc": "2.0", "id": 99, "result": None}).encode())
    client.body(json.dumps({"jsonrpc": "2.0", "id": {}, "error": 3}).encode())
    answer = client.ask("textDocument/hover", {"textDocument": 3})
    fault.holds("I3", answer["error"]["code"] == -32602, answer)
    client.alive()


@pytest.mark.fault("N06")
def test_n06_names_of_messages_that_are_none(client: Raw, fault: Fault) -> None:
    client.hello()
    for name in ({}, [], {"x": 1}, [1], 1.5, None, "none", 10**30):
        client.body(
            json.dumps(
                {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": name}}
            ).encode()
        )
        if not isinstance(name, str | int | None):
            client.body(
                json.dumps({"jsonrpc": "2.0", "id": name, "method": "textDocument/hover"}).encode()
            )
            client.body(json.dumps({"jsonrpc": "2.0", "id": name, "result": None}).encode())
    for params in (None, [], 3, {}):
        client.body(
            json.dumps({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params}).encode()
        )
    seen: list[dict[str, Any]] = []
    client.body(
        json.dumps({"jsonrpc": "2.0", "id": "last", "method": "textDocument/hover"}).encode()
    )
    client.until(lambda message: seen.append(message) or message.get("id") == "last")
    logged = [
        each["params"]["message"] for each in seen if each.get("method") == "window/logMessage"
    ]
    fault.holds(
        "I3",
        sum("an id is neither a string nor a whole number" in words for words in logged) == 15,
        logged,
    )
    fault.holds(
        "I3",
        not any("internal error" in words or "unhashable" in words for words in logged),
        logged,
    )
    client.alive()
    client.ask("shutdown")
    client.notify("exit")
    fault.holds("I1", client.left() == 0)


@pytest.mark.fault("N06")
def test_n06_a_worker_that_dies_costs_its_request(client: Raw, fault: Fault, tag: str) -> None:
    client.hello()
    client.alive()
    before = {worker: cpu_seconds(worker) for worker in tagged(tag)}
    uri = client.open("one.py", STUCK)

    def stuck() -> list[int]:
        workers = [worker for worker in tagged(tag) if worker != client.process.pid]
        return [worker for worker in workers if cpu_seconds(worker) > before.get(worker, 60) + 0.2]

    fault.holds("I5", until(stuck, PATIENCE), "no worker")
    os.kill(stuck()[0], signal.SIGKILL)
    (found,) = client.shown(uri)
    fault.holds("I3", found["code"] == "not-analysed" and "SIGKILL" in found["message"], found)
    client.alive()


@pytest.mark.fault("N06")
def test_n06_a_worker_that_dies_idle_costs_nothing(client: Raw, fault: Fault, tag: str) -> None:
    client.hello()
    client.alive()
    workers = [worker for worker in tagged(tag) if worker != client.process.pid]
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    fault.holds("I5", until(lambda: not set(workers) & set(tagged(tag)), PATIENCE), "it lives")
    threading.Event().wait(0.5)  # the server hears of it
    client.alive()


@pytest.mark.fault("H01")
def test_h01_the_server_imports_and_runs_nothing_of_the_tree(fault: Fault, tag: str) -> None:
    marker = fault.folder.parent / "marker"
    evil = f"open({str(marker)!r}, 'a').write(__file__ + '\\n')\n"
    for name in (
        *MODULES,
        "pygls/__init__.py",
        "lsprotocol/__init__.py",
        "cattrs.py",
        "attrs.py",
        "asyncio.py",
    ):
        fault.write(name, evil + GOOD)
    fault.write("pyproject.toml", "[tool.torchlint]\n")
    client = Raw(fault, tag)
    client.hello()
    shown = client.shown(client.open("torch/__init__.py", evil + GOOD))
    fault.holds("I3", [each["code"] for each in shown] == [GOOD_CODE], shown)
    client.alive()
    homes = {os.readlink(f"/proc/{process}/cwd") for process in tagged(tag)}
    fault.holds(
        "I3",
        str(fault.folder) not in homes and len(homes) == 1,
        f"there a new interpreter looks: {homes}",
    )
    client.notify("exit")
    client.left()
    client.end()
    fault.holds("I3", not marker.exists(), lambda: marker.read_text())
