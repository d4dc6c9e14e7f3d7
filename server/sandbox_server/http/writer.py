"""Responses on their way out: the head of all, one write for a small answer, sendfile for files."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import socket
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus

from ..messages import Aborted, FileSlice, Response
from . import faults
from .bounds import ONE_PIECE
from .streaming import close_body

_LINE_END = re.compile(r"[\r\n]")
_SIOCOUTQ = 0x5411
_BODILESS = frozenset((101, 204, 304))
_DEFAULTS = {
    "X-Content-Type-Options": "X-Content-Type-Options: nosniff\r\n",
    "Cache-Control": "Cache-Control: no-store\r\n",
}
_ALL_DEFAULTS = "".join(_DEFAULTS.values())
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# What sendfile answers for files that it cannot read from.
_NO_SENDFILE = frozenset((errno.EINVAL, errno.ENOSYS, errno.EOVERFLOW))


def render_head(response: Response, *, close: bool, chunked: bool = True) -> bytes:
    """The status line and the fields, ready to send; `chunked` tells whether the peer understands chunks."""
    text = _status_line(response.status)
    defaults = _ALL_DEFAULTS
    for name, value in response.headers:
        text += f"{name}: {value}\r\n"
        if name in _DEFAULTS:
            defaults = defaults.replace(_DEFAULTS[name], "")
    count = len(response.headers) + 1
    if text.count("\n") != count or text.count("\r") != count:
        # Somebody's text carries a line end; sent, it would become a field or a body of their making.
        response.headers = [field for field in response.headers if not _LINE_END.search("".join(field))]
        return render_head(response, close=close, chunked=chunked)
    text += defaults + _date(int(time.time()))
    body = response.body
    if isinstance(body, bytes):
        if response.status not in _BODILESS:
            text += f"Content-Length: {len(body)}\r\n"
    elif isinstance(body, FileSlice):
        text += f"Content-Length: {body.length}\r\n"
    else:
        text += "Transfer-Encoding: chunked\r\nX-Accel-Buffering: no\r\n" if chunked else "X-Accel-Buffering: no\r\n"
    text += "Connection: close\r\n\r\n" if close else "\r\n"
    return text.encode("latin-1", "replace")


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    """RFC 9110, section 5.6.7: English names, whatever the locale."""
    year, month, day, hour, minute, rest, weekday, *_ = time.gmtime(second)
    return f"Date: {_WEEKDAYS[weekday]}, {day:02} {_MONTHS[month - 1]} {year} {hour:02}:{minute:02}:{rest:02} GMT\r\n"


@lru_cache(maxsize=64)
def _status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n"


def one_piece(response: Response, *, close: bool, bodiless: bool) -> bytes | None:
    """The whole answer as bytes, where getting them cannot block; else None.

    Small files count when they are in the page cache. Read on the selector thread they cost a third of what a change
    of threads does, and much less when many threads want the interpreter.
    """
    body = response.body
    if response.upgrade is not None:
        return None
    if isinstance(body, bytes):
        head = render_head(response, close=close)
        response.before_end()
        return head if bodiless else head + body
    if isinstance(body, FileSlice) and body.length <= ONE_PIECE:
        data = bytearray(body.length)
        try:
            count = os.preadv(body.descriptor, [data], body.offset, os.RWF_NOWAIT)
        except OSError:
            return None  # not cached, or the file system cannot tell
        if count == body.length:
            head = render_head(response, close=close)
            response.before_end()
            return head if bodiless else head + data
    return None


def send(sock: socket.socket, response: Response, *, close: bool, bodiless: bool, patience: float) -> None:
    """Send bytes or a file on a blocking socket; raise `Aborted` when the peer does not take it, or the file fails.

    ``bodiless`` answers a HEAD. Without progress for `patience` seconds, and a little, the peer is given up.
    """
    body = response.body
    content = body if isinstance(body, bytes) else b""
    if isinstance(body, FileSlice) and body.length <= ONE_PIECE:
        content = _read(body)
        body.length = len(content)  # the file may have shrunk meanwhile; nothing is announced that does not come
    head = render_head(response, close=close)
    if bodiless:
        response.before_end()
        send_all(sock, head, patience)
    elif isinstance(body, FileSlice) and body.length > ONE_PIECE:
        send_all(sock, head, patience, socket.MSG_MORE)
        _send_file(sock, body, response.before_end, patience)
    elif len(content) > ONE_PIECE:
        send_all(sock, head, patience, socket.MSG_MORE)
        send_all(sock, memoryview(content)[:-ONE_PIECE], patience, socket.MSG_MORE)
        response.before_end()
        send_all(sock, content[-ONE_PIECE:], patience)
    else:
        response.before_end()
        send_all(sock, head + content, patience)


def finish(response: Response) -> None:
    """Let go of everything a response holds, whatever became of it."""
    body = response.body
    if isinstance(body, FileSlice):
        os.close(body.descriptor)
    elif not isinstance(body, bytes):
        close_body(body)
    response.body = b""
    try:
        response.close()
    except Exception:
        faults.report("closing a response")


def send_all(sock: socket.socket, data: bytes | memoryview, patience: float, flags: int = 0) -> None:
    """Send `data` on a blocking socket; raise `Aborted` when the peer takes none of it for `patience` seconds."""
    while data:
        try:
            count = sock.send(data, flags)
        except BlockingIOError:
            count = 0
        except OSError as fault:
            raise Aborted from fault
        if count == len(data):
            return
        _await_room(sock, patience)
        data = memoryview(data)[count:]


def _await_room(sock: socket.socket, patience: float) -> None:
    """Wait until the socket takes more; `Aborted` when the peer has taken nothing for `patience` seconds.

    A socket takes more once a third of its buffer is free: what a slow reader needs for that may well exceed
    `patience`. The kernel's own timeouts are of no use for this, since it may wait for several of them.
    """
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    untaken, deadline = _untaken(sock), time.monotonic() + patience
    while not poll.poll(patience * 100):
        left = _untaken(sock)
        if left < untaken:
            untaken, deadline = left, time.monotonic() + patience
        elif time.monotonic() >= deadline:
            raise Aborted


def _untaken(sock: socket.socket) -> int:
    """Bytes that were sent and that the other end has not taken in."""
    try:
        return int.from_bytes(fcntl.ioctl(sock, _SIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def _read(part: FileSlice) -> bytes:
    try:
        return os.pread(part.descriptor, part.length, part.offset)
    except OSError as fault:
        raise Aborted from fault


def _send_file(sock: socket.socket, part: FileSlice, before_end: Callable[[], None], patience: float) -> None:
    out, offset, left = sock.fileno(), part.offset, part.length
    while left:
        if left <= ONE_PIECE:
            before_end()
        wanted = left - ONE_PIECE if left > ONE_PIECE else left
        try:
            count = os.sendfile(out, part.descriptor, offset, wanted)
        except BlockingIOError:
            _await_room(sock, patience)
            continue
        except OSError as fault:
            if fault.errno not in _NO_SENDFILE:
                raise Aborted from fault
            data = _read(FileSlice(part.descriptor, offset, min(left, ONE_PIECE)))
            send_all(sock, data, patience)
            count = len(data)
        if not count:
            raise Aborted  # the file has shrunk; the peer sees that bytes are missing
        offset += count
        left -= count
