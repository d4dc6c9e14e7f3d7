"""One function for each endpoint of terminals."""

from __future__ import annotations

from collections.abc import Mapping

from . import _wire as wire
from ._call import Call, call, each, nothing
from ._pty_models import TerminalInfo


def create(shell: str | None, *, cols: int, rows: int, env: Mapping[str, str] | None, cwd: str | None) -> Call[str]:
    variables = None if env is None else dict(env)
    return call(
        "pty_create_session",
        lambda data: wire.text(data, "session_id"),
        shell=shell,
        cols=cols,
        rows=rows,
        env=variables,
        cwd=cwd,
    )


def sessions() -> Call[list[TerminalInfo]]:
    return call("pty_list_sessions", each("sessions", TerminalInfo.from_wire))


def session(id: str) -> Call[TerminalInfo]:
    return call("pty_detail", TerminalInfo.from_wire, id=id)


def resize(id: str, cols: int, rows: int) -> Call[TerminalInfo]:
    return call("pty_resize", TerminalInfo.from_wire, id=id, cols=cols, rows=rows)


def delete(id: str) -> Call[None]:
    return call("pty_delete_session", nothing, id=id)


def connect(id: str, takeover: bool) -> Call[None]:
    """Its target is that of a WebSocket."""
    return call("pty_connect", nothing, session_id=id, takeover=takeover or None)
