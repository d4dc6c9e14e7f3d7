"""One WebSocket on a terminal: shows what was and what comes, types what it is told.

It pulls from the replay buffer whenever the peer has taken the last piece, so a slow or stalled peer holds up nobody:
at worst it misses a part, which an event tells.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import select
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any

from .. import websocket
from ..messages import quoted
from ..process.wake import Wake
from ..websocket import Event
from .session import Session, is_size
from .wire import LAST_SECONDS, Wire

#: The peer has been dismissed because another viewer took the terminal over.
TAKEN_OVER = 4009
_TAKEN_OVER_BY = "another viewer has taken the terminal over"
#: The most that one output message carries.
_PIECE_BYTES = 4096
#: Where a viewer that has missed something goes on: so many bytes before the present.
_CATCH_UP_BYTES = 64 << 10
#: Input that the terminal has no room for; beyond it the peer is not listened to.
_MOST_INPUT = 64 << 10
_LONG = 3600.0
_SIGNALS: Mapping[str, int] = {
    name: getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT")
}
_UTF8 = codecs.getincrementaldecoder("utf-8")


class SocketViewer:
    """Made on a connection that speaks WebSocket already; `run` has it until it is over, on one thread.

    `wake` is the caller's, to be closed afterwards.
    """

    def __init__(self, session: Session, sock: socket.socket, first: bytes, wake: Wake) -> None:
        self._session = session
        self._wire = Wire(sock, first)
        self._wake = wake
        self._utf8 = _UTF8("replace")
        self._input = bytearray()
        self._dismissed: tuple[int, str] | None = None
        self.position = 0

    @property
    def code(self) -> int:
        """How the WebSocket was closed, and why."""
        return self._wire.code

    @property
    def reason(self) -> str:
        return self._wire.reason

    def rouse(self) -> None:
        self._wake.set()

    def dismiss(self, code: int, reason: str) -> None:
        self._dismissed = (code, reason)
        self._wake.set()

    def run(self, *, take_over: bool = False) -> None:
        session, wire = self._session, self._wire
        session.attach(self)
        try:
            if take_over:
                session.dismiss_others(self, TAKEN_OVER, _TAKEN_OVER_BY)
            self._event("started", pid=session.pid)
            while not wire.over:
                self._wake.clear()
                if self._dismissed and not wire.closing:
                    wire.close(*self._dismissed, at_once=True)
                self._show()
                self._type()
                for event in wire.turn(self._others(), _LONG, listen=len(self._input) < _MOST_INPUT):
                    self._obey(event)
        finally:
            session.detach(self)

    def _others(self) -> dict[int, int]:
        """What else is waited for: news, and room in the terminal for what was typed."""
        others = {self._wake.fileno(): select.POLLIN}
        if self._input and (master := self._session.master) >= 0:
            others[master] = select.POLLOUT
        return others

    def _show(self) -> None:
        """Queue output as long as the peer takes it; at the end, say so and goodbye."""
        session, wire = self._session, self._wire
        while wire.hungry:
            over = session.exit is not None  # asked first: what comes before the end is then in the buffer
            first, data = session.replay.read(self.position, _PIECE_BYTES)
            if first > self.position and self.position:
                first, data = session.replay.read(session.replay.recent(_CATCH_UP_BYTES), _PIECE_BYTES)
                self._event("skipped", bytes=first - self.position)
                self._utf8.reset()
            self.position = first + len(data)
            if data:
                self._output(self._utf8.decode(data))
            elif not over:
                break
            else:
                self._tell_end()
        session.moved()

    def _output(self, text: str) -> None:
        if text:
            self._wire.send(websocket.text_frame(_plain_json({"type": "output", "data": text})))

    def _tell_end(self) -> None:
        exit = self._session.exit
        assert exit is not None
        self._output(self._utf8.decode(b"", final=True))
        reason = self._session.reason
        more = {"reason": reason} if reason else {}
        self._event("exited", exit_code=exit.code, signal=exit.signal, **more)
        why = {"": "the shell has ended", "idle": "nobody used the terminal for too long"}.get(reason, "it was closed")
        if reason == "shutdown":
            self._wire.close(websocket.GOING_AWAY, why, seconds=LAST_SECONDS)
        else:
            self._wire.close(websocket.NORMAL, why)

    def _event(self, name: str, **facts: Any) -> None:
        message = {"type": "event", "event": name, "session_id": self._session.id, **facts}
        self._wire.send(websocket.text_frame(_json(message)))

    def _complain(self, message: str) -> None:
        if not self._wire.hungry:
            return  # a peer that reads nothing is told nothing, or its mistakes would fill the memory
        error = {"type": "error", "error": message, "code": "invalid_argument"}
        self._wire.send(websocket.text_frame(_json(error)))

    def _type(self) -> None:
        if self._input:
            del self._input[: self._session.write(self._input)]

    def _obey(self, event: Event) -> None:
        """One message of the peer. What is wrong with it is told, and nothing else happens."""
        try:
            message = json.loads(event.data.decode())  # left to itself, json would guess the encoding
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._complain("a message is a JSON object")
            return
        act = _ACTIONS.get(message["type"]) if isinstance(message.get("type"), str) else None
        if act is None:
            self._complain(f'"type" must be one of {", ".join(_ACTIONS)}')
        else:
            act(self, message)

    def _on_input(self, message: Mapping[str, Any]) -> None:
        data = message.get("data")
        if not isinstance(data, str):
            self._complain('"data" must be text')
            return
        try:
            self._input += data.encode()
        except UnicodeEncodeError:
            self._complain('"data" holds a lone surrogate escape, which is no character')
        else:
            self._type()

    def _on_resize(self, message: Mapping[str, Any]) -> None:
        size = message.get("cols", self._session.cols), message.get("rows", self._session.rows)
        if is_size(*size):
            self._session.resize(*size)
        else:
            self._complain('"cols" and "rows" must be whole numbers from 1 to 1000')

    def _on_signal(self, message: Mapping[str, Any]) -> None:
        name = message.get("signal", "SIGINT")
        number = _SIGNALS.get(name) if isinstance(name, str) else None
        if number is None:
            self._complain(f'signal {quoted(name, 64)} cannot be sent; "signal" must be one of {", ".join(_SIGNALS)}')
        else:
            with contextlib.suppress(OSError):  # of a program that changed its user
                self._session.signal(number)

    def _on_takeover(self, message: Mapping[str, Any]) -> None:
        self._session.dismiss_others(self, TAKEN_OVER, _TAKEN_OVER_BY)


_ACTIONS: Mapping[str, Callable[[SocketViewer, Mapping[str, Any]], None]] = {
    "input": SocketViewer._on_input,
    "resize": SocketViewer._on_resize,
    "signal": SocketViewer._on_signal,
    "takeover": SocketViewer._on_takeover,
}

_json = json.JSONEncoder(separators=(",", ":")).encode
_plain_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
