"""A headless Chromium over its DevTools pipe: enough to open a page from disk, press keys and hear its console."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATH = next(filter(None, map(shutil.which, NAMES)), None)
needs_browser = pytest.mark.skipif(
    PATH is None,
    reason=f"no browser: none of {', '.join(NAMES)} is on PATH (Debian: apt-get install chromium)",
)
FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab. `complaints` holds console errors and warnings, exceptions, violations of the policy, and requests that
    left the disk.
    """

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = os.fdopen(requests, "wb"), os.fdopen(answers, "rb")
        self._buffer, self._count, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")

    @property
    def complaints(self) -> list[str]:
        found = []
        for event in self.events:
            method, told = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(told["exceptionDetails"])[:500])
            elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(told["args"])[:500])
            elif method == "Log.entryAdded":
                found.append(f"{told['entry']['level']}: {told['entry']['text']}")
            elif method == "Page.javascriptDialogOpening":
                found.append(f"dialog: {told['message']}")
            elif method == "Network.requestWillBeSent" and not told["request"]["url"].startswith("file:"):
                found.append(f"request: {told['request']['url'][:200]}")
        return found

    def open(
        self, path: Path, anchor: str = "", *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        """Loads a file at a window size; returns when it has loaded."""
        # A page that differs in its anchor only would not load again.
        self._send("Page.navigate", url="about:blank")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.events.clear()
        self._send("Page.navigate", url=path.resolve().as_uri() + (f"#{anchor}" if anchor else ""))
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; the page's policy does not bind it."""
        told = self._send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise AssertionError(told["exceptionDetails"])
        return told["result"].get("value")

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self._send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        told = self._send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))

    def close(self) -> None:
        with suppress(BrokenPipeError, AssertionError):
            self._session = ""
            self._send("Browser.close")
        self._requests.close()
        self._answers.close()

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        call: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            call["sessionId"] = self._session
        self._requests.write(json.dumps(call).encode() + b"\0")
        self._requests.flush()
        while True:
            message = self._read()
            if message.get("id") == self._count:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return dict(message["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._answers.fileno(), 1 << 16)
            if not more:
                raise AssertionError("the browser ended")
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def browsing() -> Iterator[Browser]:
    """Starts a browser with an empty profile and ends it."""
    assert PATH is not None
    to_browser, requests = os.pipe()
    answers, from_browser = os.pipe()

    def as_three_and_four() -> None:
        # Where Chromium looks for the pipe; first out of the way, one of them may be 3 or 4 already.
        read, write = os.dup(to_browser), os.dup(from_browser)
        while read in (3, 4):
            read = os.dup(read)
        while write in (3, 4):
            write = os.dup(write)
        os.dup2(read, 3)
        os.dup2(write, 4)

    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [PATH, *FLAGS, f"--user-data-dir={profile}"],
            close_fds=False,
            preexec_fn=as_three_and_four,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            browser = Browser(requests, answers)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
