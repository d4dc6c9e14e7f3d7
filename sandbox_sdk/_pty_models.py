"""What the server tells about terminals, as values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from . import _wire as wire
from ._display.shown import Listing, Shown
from ._errors import ConflictError, SandboxError, StreamInterruptedError
from ._public import public
from ._refusals import error_from_response
from ._sockets import Closed
from ._wire import Json

CONNECT = "pty_connect"
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT")
_TAKEN_OVER = 4009
#: WebSocket close code -> what HTTP would have answered.
_STATUS = {1008: 404, 1011: 500, 1013: 503, 4001: 401, 4003: 403}
_STATUS_OF_CODE = {"endpoint_disabled": 404, "rate_limited": 429, "concurrency_limited": 429}


@public
@dataclass(frozen=True)
class TerminalInfo(Shown):
    """How a terminal is. One that has ended tells how: ``exit_code``, and the signal if one ended it."""

    id: str
    pid: int
    cols: int
    rows: int
    alive: bool
    created_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""  # ``exit``, or what the server ended it for: ``closed``, ``idle``, ``shutdown``

    @classmethod
    def from_wire(cls, data: Json) -> TerminalInfo:
        return cls(
            id=wire.text(data, "id"),
            pid=wire.whole(data, "pid"),
            cols=wire.whole(data, "cols"),
            rows=wire.whole(data, "rows"),
            alive=wire.flag(data, "alive"),
            created_at=wire.moment(data, "created_at"),
            exit_code=wire.whole_or_none(data, "exit_code"),
            signal=wire.whole_or_none(data, "signal"),
            reason=wire.text(data, "reason"),
        )


@public
class TerminalList(Listing[TerminalInfo]):
    """Terminals: a list with `to_pandas`."""


def message(received: str | bytes) -> Json:
    """One message of the server; what is no JSON object says nothing."""
    try:
        value = json.loads(received)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def error_from_close(closed: Closed, address: str) -> SandboxError:
    """The exception for a WebSocket that was closed before the terminal's end was told."""
    code, _, text = closed.reason.partition(": ")
    if closed.code == _TAKEN_OVER:
        return ConflictError(
            closed.reason,
            error_code="taken_over",
            endpoint=CONNECT,
            hint="connect(id, takeover=True) takes it back",
        )
    status = _STATUS.get(closed.code)
    if status is None:
        what = closed.reason or f"close code {closed.code}"
        return StreamInterruptedError(
            f"the connection to the terminal at {address} broke: {what}",
            endpoint=CONNECT,
            hint="the shell runs on; connect(id) shows what was missed",
        )
    body: dict[str, str] = {"error": text or closed.reason, "type": "NotFoundError" if status == 404 else ""}
    if text:
        body["code"] = code
    return error_from_response(_STATUS_OF_CODE.get(code, status), {}, body, CONNECT)
