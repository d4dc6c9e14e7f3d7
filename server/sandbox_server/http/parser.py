"""Request heads, from bytes to values: RFC 9112 read strictly. What is not exactly right is refused, never repaired.

Pure functions. Sender and receiver of a repaired head may disagree about where a request ends; a refused one is closed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ..messages import Headers, Refusal, quoted
from .bounds import HEADER_BYTES, HEADER_FIELDS, REQUEST_LINE_BYTES

Query = tuple[tuple[str, str], ...]

# All but control characters; CR and LF are counted apart. Bytes above 0x7f are obs-text and pass in values.
_PLAIN = bytes(c for c in range(256) if c in b"\t\r\n" or (c >= 0x20 and c != 0x7F))
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSION = re.compile(r"HTTP/[0-9]\.[0-9]")
# Method, path, query, minor version. The target is in origin-form: visible ASCII without a fragment.
_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (/[!-\"$->@-~]*)(?:\?([!-\"$-~]*))? HTTP/1\.([01])")
_ESCAPE = re.compile(r"[0-9A-Fa-f]{2}")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[!$&'()*+,;=%._~0-9A-Za-z-]*)(?::[0-9]{0,5})?")
_NAME_LENGTH = 256
_LENGTH_DIGITS = 19  # 10**19 bytes are more than any file; int() of endless digits is slow


class RequestLine(NamedTuple):
    method: str
    path: str
    query: Query
    minor: int  # of HTTP/1.x


class Fields(NamedTuple):
    """A header section and what it says about framing."""

    headers: Headers
    length: int
    host: str | None
    close: bool
    keep: bool
    expects: bool  # 100-continue


def parse_request_line(line: bytes) -> RequestLine:
    """Read `line`, without its CRLF."""
    if len(line) > REQUEST_LINE_BYTES:
        raise too_long()
    match = _LINE.fullmatch(line.decode("latin-1"))
    if match is None:
        raise _explain(line.decode("latin-1"))
    method, path, query, minor = match.groups()
    return RequestLine(method, path, parse_query(query) if query else (), 1 if minor == "1" else 0)


def _explain(line: str) -> Refusal:
    """Say what is wrong with a request line that is not right."""
    parts = line.split(" ")
    if len(parts) != 3:
        return _bad("the request line is not method, target and version with one space between")
    method, _, version = parts
    if not _VERSION.fullmatch(version):
        return _bad("the request line does not end in an HTTP version")
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        return Refusal("version_not_supported", f"{quoted(version)} is not supported; use HTTP/1.1")
    if not _TOKEN.fullmatch(method):
        return _bad("the method is not a token")
    return _bad("the request target is not a path with an optional query in visible ASCII")


def parse_query(text: str) -> Query:
    """Decode a query once, in order; blank values and repeated names are kept for the application to judge.

    Paths are bytes on POSIX, so bytes that are not UTF-8 become surrogate escapes and `os.fsencode` restores them.
    """
    pairs = []
    for item in text.split("&"):
        if item:
            name, _, value = item.partition("=")
            pairs.append((_decode(name), _decode(value)))
    return tuple(pairs)


def _decode(text: str) -> str:
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    plain, *escaped = text.split("%")
    pieces = [plain.encode("ascii")]
    for piece in escaped:
        pieces.append(_byte(piece[:2]))
        pieces.append(piece[2:].encode("ascii"))
    return b"".join(pieces).decode("utf-8", "surrogateescape")


@lru_cache(maxsize=512)
def _byte(digits: str) -> bytes:
    if not _ESCAPE.fullmatch(digits):
        raise _bad('the query holds a "%" that two hexadecimal digits do not follow')
    return bytes.fromhex(digits)


def parse_fields(section: bytes, minor: int) -> Fields:
    """Read a header section: the bytes between the request line and the empty line, without the last CRLF."""
    if len(section) > HEADER_BYTES:
        raise too_large()
    ends = section.count(b"\r\n")
    if ends >= HEADER_FIELDS:
        raise Refusal("headers_too_large", f"more than {HEADER_FIELDS} header fields")
    if section.count(b"\r") != ends or section.count(b"\n") != ends or section.translate(None, _PLAIN):
        raise _bad("the header section holds control characters")
    lines = []
    if section:
        for line in section.decode("latin-1").split("\r\n"):
            name, colon, value = line.partition(":")
            if not colon:
                raise _bad("a header line has no colon")
            lines.append((_field_name(name), value.strip(" \t")))
    headers = Headers(lines)
    if "transfer-encoding" in headers:
        raise Refusal("unsupported_encoding", "Transfer-Encoding is not accepted; send Content-Length")
    connection = headers["connection"].lower() if "connection" in headers else ""
    tokens = [token.strip(" \t") for token in connection.split(",")] if connection else []
    return Fields(
        headers,
        _length(headers.all("content-length")),
        _host(headers.all("host"), minor),
        "close" in tokens,
        "keep-alive" in tokens,
        minor > 0 and headers.get("expect", "").lower() == "100-continue",
    )


# Names repeat endlessly and few are distinct; a refused name raises, so only good ones are remembered.
@lru_cache(maxsize=256)
def _field_name(name: str) -> str:
    if len(name) > _NAME_LENGTH:
        raise Refusal("headers_too_large", f"a header name is longer than {_NAME_LENGTH} bytes")
    if not _TOKEN.fullmatch(name):
        raise _bad("a header name is not a token, or a space stands before its colon")
    return name.lower()


def _length(values: list[str]) -> int:
    if not values:
        return 0
    digits = values[0]
    if any(value != digits for value in values):
        raise _bad("Content-Length is given twice with different values")
    if not (digits.isascii() and digits.isdigit()):
        raise _bad("Content-Length is not a whole number in decimal digits")
    digits = digits.lstrip("0")
    if len(digits) > _LENGTH_DIGITS:
        raise Refusal("payload_too_large", f"Content-Length has more than {_LENGTH_DIGITS} digits")
    return int(digits or "0")


def _host(values: list[str], minor: int) -> str | None:
    if len(values) > 1:
        raise _bad("Host is given more than once")
    if not values:
        if minor > 0:
            raise _bad("Host is missing")
        return None
    if not _HOST.fullmatch(values[0]):
        raise _bad("Host is not a name or an address with an optional port")
    return values[0]


def check_incomplete(head: bytes) -> None:
    """Refuse an unfinished head that no further byte can save; else the peer would wait for its deadline."""
    line, end, section = head.partition(b"\r\n")
    if end:
        parse_request_line(line)
        if len(section) > HEADER_BYTES + 3:
            raise too_large()
    elif len(line) > REQUEST_LINE_BYTES + 1:
        raise too_long()
    settled = head[:-1] if head.endswith(b"\r") else head
    ends = settled.count(b"\r\n")
    if settled.count(b"\r") != ends or settled.count(b"\n") != ends or settled.translate(None, _PLAIN):
        raise _bad("the request head holds control characters")


def too_long() -> Refusal:
    return Refusal("target_too_long", f"the request line is longer than {REQUEST_LINE_BYTES} bytes")


def too_large() -> Refusal:
    return Refusal("headers_too_large", f"the header section is longer than {HEADER_BYTES} bytes")


def _bad(message: str) -> Refusal:
    return Refusal("bad_request", message)
