"""A Chromium without a window, driven over a pipe by its own protocol (DevTools): what it asks for
and complains of."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.browser import CHROMIUM, FLAGS
from tests.patience import PATIENCE

# Chromium reads its orders from descriptor 3 and answers on 4.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


class Tab:
    """One tab. `complaints` are errors in the console and uncaught exceptions, `requests` all
    addresses asked for."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders, self._answers = orders, answers
        self._buffer = b""
        self._number = 0
        self._session = ""
        self._loaded = False
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: object) -> Any:
        """Send one order and return its result."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": params}
        if self._session:
            order["sessionId"] = self._session
        os.write(self._orders, json.dumps(order).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def open(self, address: str) -> None:
        """Load a page, and wait until it is there."""
        self._loaded = False
        begun = self.ask("Page.navigate", url=address)
        assert not begun.get("errorText"), f"{address}: {begun}"
        while (
            not self._loaded and "loaderId" in begun
        ):  # another place of the same page loads nothing
            self._read()

    def run(self, script: str) -> Any:
        """Return what an expression of JavaScript gives; a promise is waited for."""
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """Return what an expression gives once that is neither false nor empty."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never came true: {script}"
            time.sleep(0.05)
        return value

    def type(self, text: str) -> None:
        """Press the keys of a text, in what has the focus."""
        for key in text:
            self.ask("Input.dispatchKeyEvent", type="keyDown", text=key, key=key)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def look(self, width: int, scheme: str) -> None:
        """Take another width, in pixels, and a preferred colour scheme."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what the tab shows, or the whole page, as PNG."""
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def _read(self) -> Any:
        while b"\0" not in self._buffer:
            assert select.select([self._answers], [], [], PATIENCE)[0], "Chromium does not answer"
            data = os.read(self._answers, 1 << 16)
            assert data, "Chromium is gone"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: Any) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["entry"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(params["args"]))


@contextmanager
def tab(profile: Path) -> Iterator[Tab]:
    """Start Chromium with a profile of its own, and end it."""
    assert CHROMIUM
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    command = [
        CHROMIUM,
        *FLAGS,
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        "about:blank",
    ]
    with subprocess.Popen(
        [sys.executable, "-c", _START, str(in_read), str(out_write), *command],
        pass_fds=(in_read, out_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile.parent)},
    ) as process:
        os.close(in_read)
        os.close(out_write)
        try:
            yield Tab(in_write, out_read)
        finally:
            with suppress(OSError):  # it may be gone
                os.write(in_write, b'{"id": 0, "method": "Browser.close"}\0')
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            os.close(in_write)
            os.close(out_read)
