"""Commands in the background: start, look, signal, feed."""

from __future__ import annotations

import os
import signal as signals
from collections.abc import Mapping
from typing import Any

from ..call import Call
from ..guards.commands import Command
from ..guards.paths import Location
from ..messages import Refusal, Response, json_response, quoted
from ..process.background import Background
from ..process.table import CEILING
from .starting import launching

_SIGNALS = (2, 9, 15, 18, 20)
_RING_BYTES = 1 << 20
#: How long a write waits for a process that does not read.
_STDIN_PATIENCE = 30.0


def process_start(
    call: Call,
    *,
    command: Command,
    cwd: Location | None,
    env: Mapping[str, str] | None,
    capture_output: bool,
    stdin: bool,
) -> Response:
    """It runs until it ends by itself, is signalled, or the server stops; only a policy bounds its time."""
    grant = call.grant
    limit, capacity = grant.size("max_processes"), grant.size("max_output_bytes")
    with launching(call, command, cwd, env, stdin=stdin, capture=capture_output) as launch:
        record = call.services.processes.start(
            launch,
            owner=grant.identity.id,
            command=command.text,
            capacity=_RING_BYTES if capacity is None else capacity,
            limit=CEILING if limit is None else limit,
            timeout=grant.seconds("timeout_seconds"),
        )
    return json_response({"id": record.id, "pid": record.pid, "command": record.command})


def process_list(call: Call, *, all: bool) -> Response:
    records = call.services.processes.records(call.grant.identity.id)
    return json_response({"processes": [_described(record, ended=all) for record in records if all or record.running]})


def process_detail(call: Call, *, pid: str) -> Response:
    return json_response(_described(_own(call, pid), ended=True))


def process_signal(call: Call, *, pid: str, signal: int) -> Response:
    """To the whole group. SIGKILL goes further: to everything that descends from the command."""
    if signal not in _SIGNALS:
        expected = ", ".join(map(str, _SIGNALS))
        raise Refusal("invalid_argument", f"signal {signal} cannot be sent; expected one of {expected}", field="signal")
    allowed = call.grant.params.get("allowed_signals")
    if allowed is not None and signal not in allowed:
        call.deny(Refusal("signal_not_allowed", f"the policy does not allow signal {signal}"))
    if pid in ("1", str(os.getpid())):
        raise Refusal("forbidden", "the server and the first process are not signalled")
    record = _own(call, pid)
    if not _deliver(record, signal):
        raise Refusal("process_not_found", f"process {quoted(pid)} has ended{_how(record)}")
    return json_response({"id": record.id, "pid": record.pid, "signal": signal})


def process_stdin(call: Call, *, pid: str, data: str | None, data_base64: bytes | None, eof: bool) -> Response:
    if data is None and data_base64 is None and not eof:
        raise Refusal("invalid_argument", 'nothing to write; send "data", "data_base64" or "eof"', field="data")
    record = _own(call, pid)
    if record.inlet is None:
        raise Refusal("conflict", f'process {quoted(pid)} has no standard input; start it with "stdin": true')
    payload = data_base64 if data_base64 is not None else (data or "").encode()
    record.inlet.write(payload, eof=eof, peer=call.request.peer, patience=_STDIN_PATIENCE)
    return json_response({"id": record.id, "pid": record.pid, "written": len(payload), "closed": eof})


def _own(call: Call, pid: str) -> Background:
    return call.services.processes.find(pid, call.grant.identity.id)


def _deliver(record: Background, number: int) -> bool:
    """False when nobody is left to be signalled."""
    if number == signals.SIGKILL:
        anybody = record.running or bool(record.child.family())
        record.child.kill()
        return anybody
    if number == signals.SIGTSTP:
        # A group without a terminal ignores the terminal's stop; what the caller wants is that it stops.
        number = signals.SIGSTOP
    return record.child.signal(number)


def _how(record: Background) -> str:
    """How it ended; nothing where the status is not known, or its last output is still being read."""
    exit = record.exit
    if exit is None or exit.code is None:
        return ""
    return f" with exit code {exit.code}" if exit.signal is None else f" by signal {exit.signal}"


def _described(record: Background, *, ended: bool) -> dict[str, Any]:
    exit = record.exit
    about = {
        "id": record.id,
        "pid": record.pid,
        "command": record.command,
        "state": "running" if exit is None else "exited",
        "started_at": record.started_at,
    }
    if ended:
        about["exit_code"] = exit.code if exit else None
        about["signal"] = exit.signal if exit else None
        about["ended_at"] = record.ended_at if exit else None
        about["reason"] = record.child.cause if exit else None
    return about
