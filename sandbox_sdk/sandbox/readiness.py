"""Waiting for a new server: it answers, or its supervisor tells why it never will."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass, field
from typing import IO

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HEALTHY = b"HTTP/1.1 200 "
ANSWER_SECONDS = 5.0


def is_healthy(path: str) -> bool:
    """True when a server answers on this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        return ask(connection, path) and is_answered(connection)


def ask(connection: socket.socket, path: str) -> bool:
    """Send the question. The server need not run yet; False when nobody listens."""
    try:
        connection.connect(path)
        connection.sendall(HEALTH)
    except OSError:
        return False
    return True


def is_answered(connection: socket.socket) -> bool:
    try:
        return connection.recv(64).startswith(HEALTHY)
    except OSError:
        return False


@dataclass(slots=True)
class Report:
    """What the supervisor has said so far."""

    level: str = ""
    refused: list[str] = field(default_factory=list)  # why a level is not to be had, in the words of its program
    exit_code: int | None = None
    ended: bool = False  # it says nothing any more
    log: str = ""

    def read(self, reports: IO[bytes]) -> None:
        """The next line; with the last one comes the end of the server's log."""
        line = reports.readline().decode(errors="replace")
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "level":
            self.level = rest
        elif word == "unavailable":
            self.refused.append(rest)
            self.level = ""
        else:
            self.ended = True
            self.exit_code = int(rest) if word == "exited" else None
            more = reports.read().decode(errors="replace")
            self.log = (more if word in ("exited", "ended") else line + more).strip()


def wait_until_ready(path: str, reports: IO[bytes], seconds: float) -> tuple[bool, Report]:
    """Ask the server and listen to the supervisor. False when it will never answer, or `seconds` have passed."""
    report, deadline, answered = Report(), time.monotonic() + seconds, False
    poller = select.poll()
    poller.register(reports, select.POLLIN)
    with socket.socket(socket.AF_UNIX) as connection:
        if ask(connection, path):
            poller.register(connection, select.POLLIN)
        while not (answered and report.level) and not report.ended:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            ready = {descriptor for descriptor, _ in poller.poll(left * 1000)}
            if reports.fileno() in ready:  # first, as it may be about an earlier way than the one that answers
                report.read(reports)
            elif ready:
                answered = is_answered(connection)
                poller.unregister(connection)  # one that ends without an answer has a reason; the supervisor tells it
    return answered and not report.ended, report
