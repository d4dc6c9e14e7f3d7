"""Terminals: sessions over REST, bytes over a WebSocket."""

from __future__ import annotations

from .model import Endpoint, Field

_ID = Field("id", "text", "path", "Session id.")
_USE = ("terminal:use",)


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("pty_create_session", "POST", "/pty/sessions", "terminal", "Opens a terminal.", _USE,
                 (
                     Field("shell", "text", "body", "Path of the shell.", "/bin/bash"),
                     Field("cols", "int", "body", "Columns.", 80),
                     Field("rows", "int", "body", "Rows.", 24),
                     Field("env", "env", "body", "Variables added to the environment.", None),
                     Field("cwd", "path", "body", "Working directory.", None, op="exec"),
                 ), {"max_sessions": 10, "idle_seconds": 1800}, ("shells", "env_deny"), takes_paths=True),
        Endpoint("pty_list_sessions", "GET", "/pty/sessions", "terminal", "Open terminals.", _USE),
        Endpoint("pty_detail", "GET", "/pty/sessions/{id}", "terminal", "One terminal.", _USE, (_ID,)),
        Endpoint("pty_resize", "POST", "/pty/sessions/{id}/resize", "terminal", "Changes its size.", _USE,
                 (
                     _ID,
                     Field("cols", "int", "body", "Columns, 1 to 1000."),
                     Field("rows", "int", "body", "Rows, 1 to 1000."),
                 )),
        Endpoint("pty_delete_session", "DELETE", "/pty/sessions/{id}", "terminal", "Closes a terminal.", _USE, (_ID,)),
        Endpoint("pty_connect", "WS", "/pty", "terminal", "Attaches to a terminal.", _USE,
                 (
                     Field("session_id", "text", "query", "Session id.", ""),
                     Field("token", "text", "query", "A credential; looked at only when no header carries one.", ""),
                     Field("takeover", "bool", "query", "Close everybody else's connection to it.", False),
                 ),
                 streaming=True, virtual=True),
    )  # fmt: skip
