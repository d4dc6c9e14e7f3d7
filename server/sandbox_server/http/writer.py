"""Responses on their way out: one write for a small answer, sendfile for files, chunks for what has no length yet."""

from __future__ import annotations

import errno
import math
import os
import re
import select
import socket
import time
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus

from ..messages import Aborted, FileSlice, Response, Wait
from . import faults
from .bounds import ONE_PIECE
from .peer import WirePeer

_LINE_END = re.compile(r"[\r\n]")
_BODILESS = frozenset((204, 304))
_DEFAULTS = {
    "X-Content-Type-Options": "X-Content-Type-Options: nosniff\r\n",
    "Cache-Control": "Cache-Control: no-store\r\n",
}
_ALL_DEFAULTS = "".join(_DEFAULTS.values())
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
    text += defaults
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
    if isinstance(body, bytes):
        head = render_head(response, close=close)
        return head if bodiless else head + body
    if isinstance(body, FileSlice) and body.length <= ONE_PIECE:
        data = bytearray(body.length)
        try:
            count = os.preadv(body.descriptor, [data], body.offset, os.RWF_NOWAIT)
        except OSError:
            return None  # not cached, or the file system cannot tell
        if count == body.length:
            head = render_head(response, close=close)
            return head if bodiless else head + data
    return None


def send(sock: socket.socket, response: Response, *, close: bool, chunked: bool, bodiless: bool) -> None:
    """Send all of it on a blocking socket; raise `Aborted` when the peer does not take it, or the source fails.

    ``bodiless`` answers a HEAD. The socket's send timeout is the time without progress that is tolerated.
    """
    body = response.body
    if not isinstance(body, (bytes, FileSlice)):
        _send_all(sock, render_head(response, close=close, chunked=chunked))
        if not bodiless:
            _send_stream(sock, body, chunked)
        return
    content = body if isinstance(body, bytes) else b""
    if isinstance(body, FileSlice) and body.length <= ONE_PIECE:
        content = _read(body)
        body.length = len(content)  # the file may have shrunk meanwhile; nothing is announced that does not come
    head = render_head(response, close=close)
    if bodiless:
        _send_all(sock, head)
    elif isinstance(body, FileSlice) and body.length > ONE_PIECE:
        _send_all(sock, head, socket.MSG_MORE)
        _send_file(sock, body)
    elif len(content) > ONE_PIECE:
        _send_all(sock, head, socket.MSG_MORE)
        _send_all(sock, content)
    else:
        _send_all(sock, head + content)


def finish(response: Response) -> None:
    """Let go of everything a response holds, whatever became of it."""
    body = response.body
    if isinstance(body, FileSlice):
        os.close(body.descriptor)
    elif not isinstance(body, bytes):
        _close(body)
    response.body = b""
    try:
        response.close()
    except Exception:
        faults.report("closing a response")


def _close(body: Iterable[bytes | Wait]) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        try:
            close()
        except Exception:
            faults.report("closing a stream")


def _send_all(sock: socket.socket, data: bytes, flags: int = 0) -> None:
    try:
        sock.sendall(data, flags)
    except OSError as fault:
        raise Aborted from fault


def _read(part: FileSlice) -> bytes:
    try:
        return os.pread(part.descriptor, part.length, part.offset)
    except OSError as fault:
        raise Aborted from fault


def _send_file(sock: socket.socket, part: FileSlice) -> None:
    out, offset, left = sock.fileno(), part.offset, part.length
    while left:
        try:
            count = os.sendfile(out, part.descriptor, offset, left)
        except OSError as fault:
            if fault.errno not in _NO_SENDFILE:
                raise Aborted from fault
            data = _read(FileSlice(part.descriptor, offset, min(left, ONE_PIECE)))
            _send_all(sock, data)
            count = len(data)
        if not count:
            raise Aborted  # the file has shrunk; the peer sees that bytes are missing
        offset += count
        left -= count


def _send_stream(sock: socket.socket, body: Iterable[bytes | Wait], chunked: bool) -> None:
    iterator = iter(body)
    try:
        for data in iterator:
            if isinstance(data, Wait):
                _wait(sock, data)
            elif data:  # an empty chunk would be the end
                _send_patiently(sock, b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
    except Aborted:
        raise
    except Exception as fault:
        faults.report("a streamed response")
        raise Aborted from fault
    finally:
        if iterator is not body:
            _close(iterator)
    if chunked:
        _send_patiently(sock, b"0\r\n\r\n")


def _wait(sock: socket.socket, wait: Wait) -> None:
    """Until there may be something to send; a peer that has gone raises."""
    poll = select.poll()
    for descriptor in wait.descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.register(sock, select.POLLRDHUP)
    seconds = wait.until - time.monotonic()
    events = poll.poll(None if seconds == math.inf else max(0.0, seconds * 1000))
    if any(descriptor == sock.fileno() for descriptor, _ in events):
        peer = WirePeer(sock)
        if peer.gone():
            raise Aborted
        poll.unregister(sock)  # it has only ended its own side
        poll.poll(None if seconds == math.inf else max(0.0, (wait.until - time.monotonic()) * 1000))


def _send_patiently(sock: socket.socket, data: bytes) -> None:
    """Wait for a slow reader as long as its TCP answers: a stream must neither lose nor hoard."""
    view = memoryview(data)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            continue
        except OSError as fault:
            raise Aborted from fault
