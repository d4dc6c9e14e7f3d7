"""Terminals: open, list, look at, resize, close, and attach over a WebSocket."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any

from ..call import Call
from ..guards.paths import Location
from ..messages import Refusal, Response, json_response, quoted
from ..process.wake import Wake
from ..terminal.session import Session, is_size
from ..terminal.table import MOST_VIEWERS
from ..terminal.viewer import SocketViewer
from .starting import launching
from .upgrade import handshake

_SHELLS = ("/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash", "/usr/bin/zsh")
#: A caller's values for these are dropped without a word, as the older server of this contract does.
_DROPPED = frozenset({"LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"})
_TERM = "xterm-256color"
_LOCALE = "C.UTF-8"
_UTF8 = re.compile("utf-?8", re.IGNORECASE)
_PORT = re.compile(r":\d*\Z")


def pty_create_session(
    call: Call, *, shell: str, cols: int, rows: int, env: Mapping[str, str] | None, cwd: Location | None
) -> Response:
    """It runs until its shell ends, somebody closes it, or nobody and nothing uses it for `idle_seconds`."""
    grant, services = call.grant, call.services
    call.program = shell
    if shell not in _SHELLS:
        raise Refusal("invalid_argument", f'"shell" must be one of {", ".join(_SHELLS)}', field="shell")
    _check_size(cols, rows)
    command = services.command_guard(grant).admit([shell], shell, None)
    allowed = grant.params.get("shells")
    if allowed is not None and shell not in allowed:
        call.deny(Refusal("shell_not_allowed", f"the policy allows only {', '.join(allowed) or 'no shell'}"))
    for name in env or {}:
        if name in grant.params.get("env_deny", ()):
            call.deny(Refusal("env_var_not_allowed", f"{quoted(name)} may not be set in a terminal"))
    given = {name: value for name, value in (env or {}).items() if name not in _DROPPED}
    with launching(call, command, cwd, given) as launch:
        variables = {"HOME": launch.cwd_path, **launch.env, "SHELL": shell}
        session = services.terminals.open(
            # By the name that was judged, not by the file behind it: one file may hold several shells.
            launch._replace(program=shell, env={**variables, **_display(variables), **given}),
            owner=grant.identity.id,
            size=(cols, rows),
            limit=grant.size("max_sessions"),
            idle_seconds=grant.seconds("idle_seconds"),
        )
    path = f"/pty?session_id={session.id}"
    return json_response(
        {"session_id": session.id, "ws_url": f"ws://{_authority(call)}{path}", "path": path, "pid": session.pid}
    )


def pty_list_sessions(call: Call) -> Response:
    sessions = call.services.terminals.sessions(call.grant.identity.id)
    return json_response({"sessions": [_described(session) for session in sessions]})


def pty_detail(call: Call, *, id: str) -> Response:
    """Also of one that has ended by itself, for a while."""
    return json_response(_described(_own(call, id)))


def pty_resize(call: Call, *, id: str, cols: int, rows: int) -> Response:
    session = _own(call, id)
    _check_size(cols, rows)
    session.resize(cols, rows)
    return json_response(_described(session))


def pty_delete_session(call: Call, *, id: str) -> Response:
    """The shell and everything that descends from it: SIGHUP, a grace, SIGKILL."""
    session = _own(call, id)
    call.services.terminals.close(session)
    return json_response({"status": "closed", "session_id": session.id})


def pty_connect(call: Call, *, session_id: str, token: str, takeover: bool) -> Response:
    """The connection becomes a WebSocket. `token` has been looked at by whoever asked who is calling."""
    headers = handshake(call.request)
    session = _own(call, session_id)
    if session.viewers >= MOST_VIEWERS:
        raise Refusal("busy", f"{MOST_VIEWERS} viewers look at this terminal already; close one and try again")
    wake = Wake()  # before the connection changes: without descriptors it is still refused in HTTP's words
    call.defer(wake.close)
    call.audited.update(event="open", session=session.id)

    def look(sock: socket.socket, first: bytes) -> None:
        viewer = SocketViewer(session, sock, first, wake)
        try:
            viewer.run(take_over=takeover)
        finally:
            call.audited.update(event="close", close_code=viewer.code, reason=viewer.reason)

    return Response(101, headers=headers, upgrade=look)


def _own(call: Call, id: str) -> Session:
    return call.services.terminals.find(id, call.grant.identity.id)


def _check_size(cols: int, rows: int) -> None:
    for name, number in (("cols", cols), ("rows", rows)):
        if not is_size(number):
            raise Refusal("invalid_argument", f'"{name}" must be a whole number from 1 to 1000', field=name)


def _display(variables: Mapping[str, str]) -> dict[str, str]:
    """What programs must know to draw and to write: the kind of terminal, and that text is UTF-8."""
    locale = variables.get("LC_ALL") or variables.get("LC_CTYPE") or variables.get("LANG") or ""
    if _UTF8.search(locale) or variables.get("LC_ALL"):
        return {"TERM": _TERM}
    return {"TERM": _TERM, "LC_CTYPE" if locale else "LANG": _LOCALE}


def _authority(call: Call) -> str:
    """Where the caller can connect to: the name that it used, with the terminals' own port where there is one."""
    host = call.request.headers.get("host") or "localhost"
    port = call.services.terminals.port
    return host if port is None else f"{_PORT.sub('', host)}:{port}"


def _described(session: Session) -> dict[str, Any]:
    about: dict[str, Any] = {
        "id": session.id,
        "pid": session.pid,
        "created_at": session.created_at,
        "cols": session.cols,
        "rows": session.rows,
        "alive": session.alive,
    }
    if session.exit is not None:
        about["exit_code"] = session.exit.code
        about["signal"] = session.exit.signal
        about["ended_at"] = session.ended_at
        about["reason"] = session.reason or "exit"
    return about
