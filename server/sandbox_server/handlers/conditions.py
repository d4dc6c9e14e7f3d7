"""Conditional requests, ranges and digests: header fields of RFC 9110 and RFC 9530 as plain answers."""

from __future__ import annotations

import base64
import re

from ..messages import Headers, Refusal, quoted

_TAG = re.compile(r'(?:W/)?"[^"]*"|[^\s,]+')  # a comma or a star between quotes is part of the tag
_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)")
_BEYOND = 1 << 62  # larger than any file


def tags(value: str) -> tuple[str, ...]:
    """The entity tags of a list; ``W/`` stays, so that a weak tag never equals a strong one."""
    return tuple(_TAG.findall(value))


def demand_match(headers: Headers, etag: str | None) -> None:
    """``If-Match``: the file must exist and be one of the versions named."""
    if "if-match" not in headers:
        return
    wanted = tags(headers["if-match"])
    if etag is None or ("*" not in wanted and etag not in wanted):
        raise Refusal(
            "precondition_failed", "the file is not the version that If-Match names; read it again", etag=etag
        )


def unmodified_since(headers: Headers, seconds: int) -> bool:
    """``If-Unmodified-Since``, which counts only without ``If-Match``: False when the file is younger."""
    if "if-match" in headers:
        return True
    moment = _moment(headers.get("if-unmodified-since", ""))
    return moment is None or seconds <= moment


def modified_since(headers: Headers, seconds: int) -> bool:
    """``If-Modified-Since``, which counts only without ``If-None-Match``: False when the file is no younger."""
    if "if-none-match" in headers:
        return True
    moment = _moment(headers.get("if-modified-since", ""))
    return moment is None or seconds > moment


def _moment(text: str) -> int | None:
    """An HTTP date as Unix seconds; None for anything else, which counts as absent."""
    if not text:
        return None
    from email.utils import parsedate_to_datetime  # for those who compare dates only

    try:
        return int(parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def matches_none(headers: Headers, etag: str | None) -> bool:
    """``If-None-Match``: False when the file exists as one of the versions named. Weak comparison."""
    if etag is None or "if-none-match" not in headers:
        return True
    wanted = {tag.removeprefix("W/") for tag in tags(headers["if-none-match"])}
    return "*" not in wanted and etag not in wanted


def demands_absence(headers: Headers) -> bool:
    """``If-None-Match: *``: whoever asked wants a new file, or none."""
    return "*" in tags(headers.get("if-none-match", ""))


def byte_range(headers: Headers, etag: str, size: int) -> tuple[int, int] | None:
    """The (first, length) of the one range asked for; None means the whole file.

    Several ranges, malformed ones and an `If-Range` that names another version all mean the whole file, as RFC 9110
    allows. So does any range of an empty file: it has no byte to satisfy one with, and the caller gets all there is.
    """
    if "range" not in headers:
        return None
    asked = headers["range"].strip()
    match = _RANGE.fullmatch(asked)
    if match is None or match.groups() == ("", "") or size == 0:
        return None
    if "if-range" in headers and headers["if-range"].strip() != etag:
        return None
    first_text, last_text = match.groups()
    if not first_text:
        length = min(_position(last_text), size)
        first = size - length
    else:
        first, last = _position(first_text), _position(last_text) if last_text else _BEYOND
        if last < first:
            return None
        length = min(last, size - 1) - first + 1
    if length <= 0:
        refusal = Refusal(
            "range_not_satisfiable", f"range {quoted(asked, 64)} lies outside the {size} bytes of the file"
        )
        refusal.headers.append(("Content-Range", f"bytes */{size}"))
        raise refusal
    return first, length


def _position(digits: str) -> int:
    return int(digits) if len(digits) <= 18 else _BEYOND


def wants_sha256(headers: Headers) -> bool:
    """True when ``Want-Repr-Digest`` names SHA-256 with a weight other than 0."""
    if "want-repr-digest" not in headers:
        return False
    for wish in headers["want-repr-digest"].split(","):
        name, _, weight = wish.partition(";")[0].partition("=")
        if name.strip().lower() == "sha-256" and weight.strip() != "0":
            return True
    return False


_DIGEST = re.compile(r"sha-256\s*=\s*:([A-Za-z0-9+/]{43}=):(?:;.*)?", re.IGNORECASE)


def expected_sha256(headers: Headers) -> bytes | None:
    """The SHA-256 that ``Repr-Digest`` of a request promises; None when it names none."""
    for item in headers.get("repr-digest", "").split(","):
        if match := _DIGEST.fullmatch(item.strip()):
            return base64.b64decode(match[1])
    return None


def repr_digest(digest: bytes) -> tuple[str, str]:
    """The ``Repr-Digest`` header line of a SHA-256 digest."""
    return "Repr-Digest", f"sha-256=:{base64.b64encode(digest).decode()}:"
