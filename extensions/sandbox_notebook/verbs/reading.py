"""``cat``, ``head``: what text files hold."""

from __future__ import annotations

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..session import Entry

_LARGEST = 32 << 20
_PIECE, _MOST_OF_HEAD = 64 << 10, 8 << 20


def cat(call: Invocation) -> Outcome:
    entry = call.entry()
    texts = [_whole(entry, path) for path in call.parsed.many("path")]
    out = call.live(call.front.out)
    for text in texts:
        out.feed(text)
    out.close()
    return Outcome("".join(texts))


def head(call: Invocation) -> Outcome:
    text = _beginning(call.entry(), call.parsed.text("path"), call.parsed.count("lines", 10))
    call.front.out.write(text)
    return Outcome(text)


def _whole(entry: Entry, path: str) -> str:
    from sandbox_sdk import PayloadTooLargeError

    try:
        return _text(path, entry.sandbox.files.read(path, limit=_LARGEST))
    except PayloadTooLargeError as error:
        raise Mistake(
            f'"{path}" is too large to be shown whole',
            f"%sandbox head {quote(path)} shows its beginning, %sandbox download {quote(path)} brings it here",
        ) from error


def _beginning(entry: Entry, path: str, lines: int) -> str:
    """As many pieces as it takes, and no more."""
    data, piece = b"", _PIECE
    while True:
        more = entry.sandbox.files.read(path, offset=len(data), length=piece)
        data += more
        over = len(more) < piece or len(data) >= _MOST_OF_HEAD
        if over or data.count(b"\n") >= lines:
            break
        piece = min(len(data), _MOST_OF_HEAD - len(data))
    kept = data.split(b"\n", lines)
    found = b"\n".join(kept[:lines]) + (b"\n" if len(kept) > lines else b"")
    return _text(path, found, cut=len(kept) <= lines and len(data) >= _MOST_OF_HEAD)


def _text(path: str, data: bytes, cut: bool = False) -> str:
    """What it says; a file that says nothing to people is named with what can be done with it."""
    try:
        if b"\0" in data:
            raise ValueError
        return data.decode("utf-8", "replace" if cut else "strict")
    except ValueError:
        raise Mistake(f'"{path}" is no text', f"%sandbox download {quote(path)} brings it here") from None
