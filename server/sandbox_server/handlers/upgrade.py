"""From a request to a WebSocket: the opening handshake (RFC 6455, section 4.2), and refusals once it is agreed on."""

from __future__ import annotations

import socket

from .. import websocket
from ..messages import Refusal, Request, Response
from ..terminal.wire import Wire

#: What a caller gets to read who is known, but may not do this.
DENIED = 4003
_POLICY_CODES = frozenset({"endpoint_disabled", "rate_limited", "concurrency_limited"})
_PATIENCE = 60.0


def handshake(request: Request) -> list[tuple[str, str]]:
    """The header fields that agree to the change. Raises `Refusal` when this is no proper opening handshake.

    No extension and no subprotocol is chosen, whatever was offered. Host and Origin have been judged before.
    """
    headers = request.headers
    upgrades, options = _tokens(request, "upgrade"), _tokens(request, "connection")
    if request.method != "GET" or "websocket" not in upgrades or "upgrade" not in options:
        raise _wanted('this is a WebSocket; connect with a WebSocket client, which sends "Upgrade: websocket"')
    if headers.all("sec-websocket-version") != [websocket.VERSION]:
        raise _wanted(f"only version {websocket.VERSION} of the protocol is spoken here")
    keys = headers.all("sec-websocket-key")
    accepted = websocket.accept_key(keys[0]) if len(keys) == 1 else None
    if accepted is None:
        raise Refusal("bad_request", "Sec-WebSocket-Key must be there once, and be the base64 text of 16 bytes")
    return [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accepted)]


def refused(request: Request, refusal: Refusal) -> Response | None:
    """A refusal as a WebSocket that is closed at once, with code and reason; None when no WebSocket was asked for."""
    try:
        headers = handshake(request)
    except Refusal:
        return None

    def say_why(sock: socket.socket, first: bytes) -> None:
        wire = Wire(sock, first)
        wire.close(_close_code(refusal), f"{refusal.code}: {refusal.message}")
        while not wire.over:
            wire.turn({}, _PATIENCE)

    return Response(101, headers=headers, upgrade=say_why)


def _close_code(refusal: Refusal) -> int:
    if refusal.reason.type == "PolicyDenied" or refusal.code in _POLICY_CODES:
        return DENIED
    if refusal.status == 503:
        return websocket.LATER
    return websocket.FAILED if refusal.status >= 500 else websocket.REFUSED


def _tokens(request: Request, name: str) -> set[str]:
    return {token.strip().lower() for token in request.headers.get(name, "").split(",")}


def _wanted(message: str) -> Refusal:
    refusal = Refusal("upgrade_required", message)
    refusal.headers += [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", websocket.VERSION),
    ]
    return refusal
