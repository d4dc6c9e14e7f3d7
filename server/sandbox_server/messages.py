"""Requests, responses and refusals as values. No sockets, no policy."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

JSON_TYPE = "application/json; charset=utf-8"
OCTETS_TYPE = "application/octet-stream"
SSE_TYPE = "text/event-stream"
FRAMES_TYPE = "application/vnd.docker.multiplexed-stream"


class Headers(Mapping[str, str]):
    """Header fields of one message: names lower-cased, every line kept.

    ``headers["x"]`` joins repeated lines with ``", "`` (RFC 9110, section 5.3); ``all`` keeps them apart.
    `caller` is for who judges them: a connection whose requests repeat the same fields has one `Headers` for all.
    """

    __slots__ = ("_lines", "caller")

    def __init__(self, lines: Iterable[tuple[str, str]] = ()) -> None:
        self.caller: object = None
        self._lines: dict[str, list[str]] = {}
        for name, value in lines:
            self._lines.setdefault(name.lower(), []).append(value)

    def all(self, name: str) -> list[str]:
        return self._lines.get(name, [])

    def __getitem__(self, name: str) -> str:
        lines = self._lines[name]
        return lines[0] if len(lines) == 1 else ", ".join(lines)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._lines else default  # asked often; the mixin's way is slow

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


class Body(Protocol):
    """The request body, still on the wire. Reading it sends ``100 Continue`` when that was asked for.

    A peer that vanishes raises `Aborted`; one that stops short (`CutShort`) or is too slow is refused, since it can
    read that.
    """

    @property
    def length(self) -> int:
        """The declared ``Content-Length`` in bytes; 0 when there is none."""

    def inform(self, status: int, phrase: str, fields: list[tuple[str, str]]) -> bool:
        """Send an interim response (1xx) before reading; False where none is understood or no body is on its way."""

    def read(self) -> bytes:
        """All of it. The caller has compared `length` with its limit."""

    def copy_to(self, descriptor: int) -> int:
        """Move all of it to an open file (splice where possible); answers the bytes moved."""

    def chunks(self) -> Iterator[bytes]:
        """It piece by piece, for whoever must look at the bytes."""

    def break_off(self) -> None:
        """From another thread: whoever reads it gets `Aborted`, now; nothing when all of it has come."""


class Peer(Protocol):
    """The other end of the connection, for work that must stop when nobody listens any more."""

    def fileno(self) -> int:
        """A descriptor to poll for ``POLLRDHUP | POLLHUP | POLLERR``, then ask `gone`; -1 when there is none."""

    def gone(self) -> bool:
        """True once nobody reads an answer any more. A peer that has only ended its own side still does."""


class Aborted(Exception):
    """The peer vanished or stalled in mid-message; there is nobody left to answer."""


class Request(NamedTuple):
    """One request whose head has been read. The body is read only when somebody asks."""

    method: str
    path: str  # as on the wire, without the query; never percent-decoded
    query: tuple[tuple[str, str], ...]  # decoded once, in order, blank values kept
    headers: Headers
    body: Body
    peer: Peer
    client: str = ""  # "127.0.0.1:40312", or "unix"
    id: str = ""  # goes out as X-Request-Id and into the audit line

    @property
    def media_type(self) -> str:
        """What the body calls itself, without parameters."""
        text: str = self.headers.get("content-type", "")
        return text.partition(";")[0].strip().lower()


class FileSlice:
    """Part of an open file as a response body; closing the response closes the descriptor."""

    __slots__ = ("descriptor", "length", "offset")

    def __init__(self, descriptor: int, offset: int, length: int) -> None:
        self.descriptor = descriptor
        self.offset = offset
        self.length = length


class Wait(NamedTuple):
    """What a streamed body yields when it has nothing to send yet. No thread waits meanwhile.

    The body is asked again once one of `descriptors` is readable or `until` (of `time.monotonic`) has passed. When the
    peer has gone it is closed instead.
    """

    descriptors: tuple[int, ...] = ()
    until: float = math.inf


def _nothing() -> None:
    pass


class Response:
    """One answer. ``body`` is whole (bytes), a file slice, or an iterable that may be endless.

    Whoever sends it must call `close`, which runs ``on_close`` in reverse order, once. With `upgrade` (RFC 9110,
    section 7.8) the answer has no body: once its head is sent, the connection speaks another protocol, and `upgrade` is
    called with the socket, which blocks, and the bytes that came after the request. It owns both until it returns.
    """

    __slots__ = ("before_end", "body", "close_connection", "headers", "on_close", "status", "upgrade")

    def __init__(
        self,
        status: int,
        body: bytes | FileSlice | Iterable[bytes | Wait] = b"",
        headers: list[tuple[str, str]] | None = None,
        on_close: list[Callable[[], None]] | None = None,
        close_connection: bool = False,
        before_end: Callable[[], None] = _nothing,
        upgrade: Callable[[socket.socket, bytes], None] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.headers = [] if headers is None else headers
        self.on_close = [] if on_close is None else on_close
        self.close_connection = close_connection
        self.before_end = before_end  # called when all but the last bytes of a whole body are sent
        self.upgrade = upgrade

    def close(self) -> None:
        run_all(self.on_close)


def run_all(actions: list[Callable[[], None]]) -> None:
    """Call and remove each, the last first. One that fails does not keep the others from running."""
    try:
        while actions:
            actions.pop()()
    finally:
        if actions:
            run_all(actions)


#: JSON without blanks. (`json.dumps` would build an encoder for every call.)
compact = json.JSONEncoder(separators=(",", ":")).encode


def json_response(value: Mapping[str, Any], status: int = 200) -> Response:
    payload = compact(value).encode("ascii")
    return Response(status, payload, [("Content-Type", JSON_TYPE)])


def quoted(value: object, most: int = 200) -> str:
    """An untrusted value as a refusal shows it: in double quotes, cut where it is longer than `most` characters."""
    text = str(value)
    return f'"{text}"' if len(text) <= most else f'"{text[:most]}…"'


class Reason(NamedTuple):
    """What a refusal code stands for on the wire."""

    status: int
    type: str  # the class-like label of the ``type`` key
    doc: str


class Refusal(Exception):
    """The one way to say no. Every code is in `REFUSALS`; `facts` become keys of the error body."""

    def __init__(self, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.facts = facts
        self.reason = REFUSALS[code]
        self.headers: list[tuple[str, str]] = []

    @property
    def status(self) -> int:
        return self.reason.status

    def body(self) -> dict[str, Any]:
        return {"error": self.message, "type": self.reason.type, "code": self.code, **self.facts}


class CutShort(Refusal):
    """The peer ended its side in the middle of its body. Most have left, but one that reads on is told why."""

    def __init__(self, received: int, length: int) -> None:
        super().__init__("bad_request", f"the body ended after {received} of {length} bytes")


#: code -> status, type and meaning. The client maps codes to exception classes; the docs print it.
REFUSALS: dict[str, Reason] = {
    "bad_request": Reason(400, "ValueError", "the request line or a header field is malformed"),
    "bad_body": Reason(400, "ValueError", "the body is not a JSON object, or is malformed"),
    "invalid_argument": Reason(400, "ValueError", "a field is missing or malformed"),
    "duplicate_parameter": Reason(400, "ValueError", "a query parameter is given twice"),
    "unsupported_encoding": Reason(400, "ValueError", "Transfer-Encoding is not accepted"),
    "ambiguous_credentials": Reason(400, "ValueError", "two different credentials in one request"),
    "invalid_path": Reason(400, "ValueError", "not a path: empty, NUL byte or over 4096 characters"),
    "command_invalid": Reason(400, "ValueError", "the command cannot be split or is too large"),
    "process_invalid": Reason(400, "ValueError", "the command names no program"),
    "env_invalid": Reason(400, "ValueError", "not a map of variable names to text"),
    "bad_archive": Reason(400, "ValueError", "the archive is damaged, or holds what may not be unpacked"),
    "script_failed": Reason(400, "ValueError", "the script failed in the page"),
    "url_invalid": Reason(400, "ValueError", "not an absolute http or https URL"),
    "wrong_type": Reason(400, "TypeError", "an argument of a custom command has the wrong type"),
    "git_error": Reason(400, "GitError", "git cannot read what lies there"),
    "unauthorized": Reason(401, "AuthError", "no credential, or none that is known"),
    "missing_scope": Reason(403, "PolicyDenied", "the identity lacks a scope"),
    "path_not_allowed": Reason(403, "PolicyDenied", "the path lies outside the allowed directories"),
    "path_denied": Reason(403, "PolicyDenied", "the path matches a deny pattern"),
    "read_only": Reason(403, "PolicyDenied", "the rule allows reading only"),
    "symlink_denied": Reason(403, "PolicyDenied", "the rule forbids symbolic links"),
    "hardlink_denied": Reason(403, "PolicyDenied", "the rule forbids files with several links"),
    "extension_not_allowed": Reason(403, "PolicyDenied", "the file name extension is not allowed"),
    "command_not_allowed": Reason(403, "PolicyDenied", "the command is not allowed"),
    "process_denied": Reason(403, "PolicyDenied", "the program lies in a forbidden place"),
    "env_var_denied": Reason(403, "PolicyDenied", "the variable name is reserved"),
    "env_var_not_allowed": Reason(403, "PolicyDenied", "the variable is protected"),
    "signal_not_allowed": Reason(403, "PolicyDenied", "the signal is not allowed"),
    "shell_not_allowed": Reason(403, "PolicyDenied", "the shell is not allowed"),
    "language_not_allowed": Reason(403, "PolicyDenied", "the language is not allowed"),
    "url_denied": Reason(403, "PolicyDenied", "the address is private or reserved"),
    "url_not_allowed": Reason(403, "PolicyDenied", "the URL is not allowed"),
    "forbidden": Reason(403, "PermissionError", "the operating system or the server refuses"),
    "origin_not_allowed": Reason(403, "PolicyDenied", "the request comes from another web page"),
    "unknown_route": Reason(404, "ValueError", "no endpoint at this path"),
    "endpoint_disabled": Reason(404, "ValueError", "the policy switches the endpoint off"),
    "not_found": Reason(404, "FileNotFoundError", "no such file or directory, or the wrong kind"),
    "process_not_found": Reason(404, "NotFoundError", "no such process of this identity"),
    "command_not_found": Reason(404, "ValueError", "no custom command of this name"),
    "session_not_found": Reason(404, "ValueError", "no such terminal of this identity"),
    "context_not_found": Reason(404, "NotFoundError", "no such code context of this identity"),
    "element_not_found": Reason(404, "ValueError", "nothing on the page matches the selector"),
    "method_not_allowed": Reason(405, "ValueError", "the path exists with another method"),
    "timeout": Reason(408, "TimeoutError", "the work took longer than allowed"),
    "file_exists": Reason(409, "FileExistsError", "the target exists"),
    "conflict": Reason(409, "ConflictError", "the target is in a state that forbids this"),
    "not_text": Reason(409, "ValueError", "the file is not UTF-8 text"),
    "edit_mismatch": Reason(409, "ConflictError", "what an edit replaces is not there, or there more than once"),
    "precondition_failed": Reason(412, "ConflictError", "the file is not the expected version"),
    "payload_too_large": Reason(413, "ValueError", "more bytes than the limit"),
    "target_too_long": Reason(414, "ValueError", "the request target is too long"),
    "unsupported_media_type": Reason(415, "ValueError", "the content type is not accepted here"),
    "range_not_satisfiable": Reason(416, "ValueError", "the range lies outside the file"),
    "host_not_allowed": Reason(421, "PolicyDenied", "the Host header names another server"),
    "upgrade_required": Reason(426, "ValueError", "only a WebSocket is served here"),
    "rate_limited": Reason(429, "RateLimited", "too many requests in this minute"),
    "concurrency_limited": Reason(429, "RateLimited", "too many requests at once"),
    "too_many_processes": Reason(429, "ResourceError", "the process table is full"),
    "too_many_sessions": Reason(429, "RuntimeError", "too many terminals or code contexts are open"),
    "headers_too_large": Reason(431, "ValueError", "the header section is too large"),
    "command_failed": Reason(500, "RuntimeError", "a custom command failed; `type` is the class of its exception"),
    "internal_error": Reason(500, "InternalError", "a fault of the server; see its log"),
    "not_implemented": Reason(501, "NotImplementedError", "this server does not offer it yet"),
    "browser_failed": Reason(502, "RuntimeError", "the page cannot be reached, or the browser gave up"),
    "busy": Reason(503, "ResourceError", "out of descriptors, memory or connections; try again"),
    "browser_unavailable": Reason(503, "RuntimeError", "no browser is installed, or it does not start"),
    "version_not_supported": Reason(505, "ValueError", "the HTTP version is not supported"),
    "no_space": Reason(507, "OSError", "no space left on the device"),
}
