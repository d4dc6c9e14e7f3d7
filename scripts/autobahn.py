"""Judge the WebSocket by the Autobahn suite: its fuzzing client against an echo server on our own upgrade path.

The client needs Python 2.7 and its package index; both are looked for once, and kept in ``out/autobahn``. ``PYTHON27``
names another interpreter, ``WSTEST`` an installed client. Anything but OK, NON-STRICT or INFORMATIONAL is a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox_server import websocket
from sandbox_server.handlers.upgrade import handshake
from sandbox_server.http.reactor import Reactor
from sandbox_server.messages import Refusal, Request, Response, json_response
from sandbox_server.terminal.wire import Wire

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "out" / "autobahn"
GROUPS = ("1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*")  # 12 and 13 are compression
GOOD = ("OK", "NON-STRICT", "INFORMATIONAL")
#: The last that runs under Python 2.7.
VIRTUALENV = "virtualenv==20.15.1"
MOST_BYTES = 64 << 20
LONG = 3600.0


class Echo:
    """Sends every message back. What is wrong with a handshake is refused as the server refuses it."""

    def quick(self, method: str, path: str) -> bool:
        return False

    def handle(self, request: Request, *, inline: bool = False) -> Response:
        try:
            return Response(101, headers=handshake(request), upgrade=echo)
        except Refusal as refusal:
            return json_response(refusal.body(), refusal.status)

    def refuse(self, refusal: Refusal, *, client: str, method: str = "", path: str = "", id: str = "") -> Response:
        return json_response(refusal.body(), refusal.status)


def echo(sock: socket.socket, first: bytes) -> None:
    wire = Wire(sock, first, most_bytes=MOST_BYTES)
    while not wire.over:
        for event in wire.turn({}, LONG, listen=wire.hungry):
            wire.send(websocket.text_frame(event.text) if event.kind == "text" else websocket.binary_frame(event.data))


def client() -> str:
    """The path of ``wstest``, installed when it is not there yet."""
    given = os.environ.get("WSTEST")
    if given:
        return given
    installed = WORK / "python2.7" / "bin" / "wstest"
    if not installed.exists():
        python = os.environ.get("PYTHON27") or shutil.which("python2.7")
        if python is None:
            sys.exit("Autobahn's client runs under Python 2.7 only; install one, or name it by PYTHON27=PATH")
        tool = WORK / "virtualenv"
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", tool, VIRTUALENV], check=True)
        environment = {**os.environ, "PYTHONPATH": str(tool)}
        subprocess.run([python, "-m", "virtualenv", "--quiet", WORK / "python2.7"], check=True, env=environment)
        subprocess.run([WORK / "python2.7" / "bin" / "pip", "install", "--quiet", "autobahntestsuite"], check=True)
    return str(installed)


def run(cases: list[str]) -> Mapping[str, Any]:
    """The report of the client: case -> what it saw."""
    program = client()
    listener = socket.create_server(("127.0.0.1", 0))
    reactor = Reactor(Echo(), [listener])
    thread = threading.Thread(target=reactor.run, daemon=True)
    thread.start()
    specification = {
        "outdir": str(WORK / "report"),
        "servers": [{"agent": "sandbox", "url": f"ws://127.0.0.1:{listener.getsockname()[1]}"}],
        "cases": cases,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    }
    WORK.mkdir(parents=True, exist_ok=True)
    file = WORK / "fuzzingclient.json"
    file.write_text(json.dumps(specification))
    try:
        subprocess.run([program, "-m", "fuzzingclient", "-s", file], check=True, stdout=subprocess.DEVNULL, cwd=WORK)
    finally:
        reactor.stop(0)
        thread.join()
    report: dict[str, dict[str, Any]] = json.loads((WORK / "report" / "index.json").read_text())
    return report["sandbox"]


def main() -> int:
    report = run(sys.argv[1:] or list(GROUPS))
    bad = {
        case: seen for case, seen in report.items() if seen["behavior"] not in GOOD or seen["behaviorClose"] not in GOOD
    }
    for case, seen in sorted(bad.items()):
        print(f"{case}: {seen['behavior']}, close {seen['behaviorClose']} ({seen['reportfile']})")
    counts = Counter(seen["behavior"] for seen in report.values())
    told = ", ".join(f"{count} {behaviour}" for behaviour, count in sorted(counts.items()))
    print(f"{len(report)} cases: {told}; {len(bad)} failed; report in {WORK / 'report'}")
    return 1 if bad or not report else 0


if __name__ == "__main__":
    sys.exit(main())
