"""Waiting for a new server: its socket answers, or its supervisor tells why it never will."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass, field
from typing import IO

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HEALTHY = b"HTTP/1.1 200 "
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.005
ANSWER_SECONDS = 5.0


def is_healthy(path: str) -> bool:
    """True when a server answers on this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(path)
            connection.sendall(HEALTH)
            return connection.recv(64).startswith(HEALTHY)
        except OSError:
            return False


@dataclass(slots=True)
class Report:
    """What the supervisor has said so far."""

    level: str = ""
    refused: list[str] = field(default_factory=list)  # why a level is not to be had, in the words of its program
    exit_code: int | None = None
    log: str = ""

    def take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "level":
            self.level = rest
        elif word == "unavailable":
            self.refused.append(rest)
        elif word == "exited":
            self.exit_code = int(rest)


def wait_until_ready(path: str, reports: IO[bytes], seconds: float) -> tuple[bool, Report]:
    """Poll the socket and listen to the supervisor. False when it will never be ready, or `seconds` have passed."""
    report, deadline, pause = Report(), time.monotonic() + seconds, FIRST_PAUSE
    while time.monotonic() < deadline:
        if select.select([reports], [], [], pause)[0]:
            line = reports.readline().decode(errors="replace").rstrip("\n")
            if not line:
                return False, report  # the supervisor is gone
            report.take(line)
            if report.exit_code is not None:
                report.log = reports.read().decode(errors="replace").strip()
                return False, report
        elif report.level and is_healthy(path):
            return True, report
        else:
            pause = min(pause * 1.3, LONGEST_PAUSE)
    return False, report
