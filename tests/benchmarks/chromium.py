"""A Chromium of our own, which playwright may leave for a while.

While it is attached, playwright is told every message of every websocket, as Base64 in JSON, and cannot be asked not to
be. An upload of 500 MB took twice to three times as long for it, so what a page sends is measured without.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

from tests.browser.lab import CHROMIUM, FLAGS, Lab, Page, until


class Chromium:
    """One browser with one page."""

    def __init__(self, profile: Path) -> None:
        self._process = subprocess.Popen(
            [CHROMIUM, *FLAGS, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        told = profile / "DevToolsActivePort"
        until(lambda: told.exists() and "\n" in told.read_text(), 30, "Chromium did not start")
        self._address = f"http://127.0.0.1:{int(told.read_text().split()[0])}"

    @contextlib.contextmanager
    def watched(self, lab: Lab, name: str) -> Iterator[Page]:
        """The page as in the browser's tests, until the end of the block; it stays as it is then."""
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            browser = playwright.chromium.connect_over_cdp(self._address)
            tab = browser.contexts[0].pages[0]
            if name not in tab.url:
                tab.goto(lab.address(name))
            page = Page(tab, name)
            page.wait_ready()
            yield page
            browser.close()  # lets go of it

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[Tools]:
        """The page with nobody looking but whoever is given this."""
        with urllib.request.urlopen(f"{self._address}/json", timeout=30) as answer:
            tab = next(tab for tab in json.load(answer) if tab["type"] == "page")
        line = websocket.create_connection(tab["webSocketDebuggerUrl"], suppress_origin=True, timeout=30)
        try:
            yield Tools(line)
        finally:
            line.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)


class Tools:
    """Two of the developer's tools of a page, none of which hears what the page sends."""

    def __init__(self, line: websocket.WebSocket) -> None:
        self._line = line
        self._numbers = itertools.count(1)

    def choose(self, label: str, file: Path) -> None:
        """Choose a file, in the input that has this label."""
        script = f"document.querySelector({json.dumps(f'input[aria-label={json.dumps(label)}]')})"
        found = self._ask("Runtime.evaluate", expression=script)["result"]
        self._ask("DOM.setFileInputFiles", files=[str(file)], objectId=found["objectId"])

    def evaluate(self, script: str) -> Any:
        """What a function without arguments answers there."""
        return self._ask("Runtime.evaluate", expression=f"({script})()", returnByValue=True)["result"].get("value")

    def _ask(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._line.send(json.dumps({"id": number, "method": method, "params": params}))
        while (answer := json.loads(self._line.recv())).get("id") != number:
            pass
        if "result" not in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]
