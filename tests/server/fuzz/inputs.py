"""Requests for every endpoint of the catalogue, good, odd and broken. The same `Random` makes the same ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote

from sandbox_server.catalogue import Endpoint, Field, builtin
from sandbox_server.handlers import HANDLERS
from tests.server.fuzz.pools import (
    BAD_HEADERS,
    CONDITIONS,
    DIGITS,
    GOOD,
    HEADERS,
    IDS,
    KINDS,
    LAST_ID,
    METHODS,
    NEVER_ODD,
    ODD,
    PIECES,
    TEXTS,
    broken_json,
    broken_pairs,
    broken_targets,
)

ENDPOINTS = [endpoint for endpoint in builtin().values() if not endpoint.virtual]
BUILT = [endpoint for endpoint in ENDPOINTS if endpoint.id in HANDLERS]


@dataclass(frozen=True)
class Attempt:
    """One request as bytes. `whole`: its framing is right, so exactly one answer comes and nothing is left over."""

    data: bytes
    whole: bool
    bodiless: bool = False
    cut: int = 0  # so many bytes go out first, and the rest by itself


def attempt(random: Random) -> Attempt:
    """A request for some endpoint; some have a wrong framing, or a wrong first line."""
    endpoint = random.choice(BUILT if random.random() < 0.93 else ENDPOINTS)
    method = endpoint.method if random.random() < 0.95 else random.choice(METHODS)
    raw = bool(endpoint.raw_types) and random.random() < 0.6
    target = _path(endpoint, random) + _query(endpoint, random, raw)
    body, kind = _body(endpoint, random, raw)
    lines = [f"Host: {random.choice(('localhost', '127.0.0.1:9000', '[::1]', 'LOCALHOST.'))}"]
    if kind:
        lines.append(f"Content-Type: {kind}")
    if endpoint.id == "files_download_stream" and random.random() < 0.7:
        lines += ["Accept: application/octet-stream", *random.sample(CONDITIONS, random.choice((0, 1, 2)))]
    lines += random.sample(HEADERS, random.choice((0, 0, 0, 1, 2, 4)))
    whole = _plain(method + target) and "Expect: 100-continue" not in lines
    length, version = len(body), "HTTP/1.1"
    match random.randrange(30):
        case 0 | 1:
            lines.insert(random.randrange(len(lines) + 1), random.choice(BAD_HEADERS))
            whole = False
        case 2 if body:
            length = max(0, length + random.choice((-1, 1, 7, 10**6, 10**12, 10**18)))
            whole = False
        case 3:
            lines += [f"X-{number}: y" for number in range(120)]
            whole = False
        case 4:
            version = random.choice(("HTTP/1.0", "HTTP/1.2", "HTTP/2", "http/1.1", "", "HTTP/1.1 "))
            whole = False
    if body or random.random() < 0.1:
        lines.append(f"Content-Length: {length}")
    head = "\r\n".join([f"{method} {target} {version}", *lines, "", ""])
    data = head.encode("latin-1", "replace") + body
    return Attempt(data, whole, method == "HEAD", random.randrange(len(data)) if random.random() < 0.1 else 0)


def simple(random: Random) -> bytes:
    """A plain request, most of the time a good one."""
    endpoint = random.choice(BUILT)
    raw = bool(endpoint.raw_types) and random.random() < 0.5
    body, kind = _body(endpoint, random, raw)
    fields = [f"Content-Type: {kind}", f"Content-Length: {len(body)}"] if body else []
    line = f"{endpoint.method} {_path(endpoint, random)}{_query(endpoint, random, raw)} HTTP/1.1"
    return "\r\n".join([line, "Host: localhost", *fields, "", ""]).encode("latin-1", "replace") + body


def mutated(data: bytes, random: Random) -> bytes:
    """The request with one to four things done to its bytes."""
    for _ in range(random.choice((1, 1, 2, 4))):
        at, size = random.randrange(len(data) + 1), random.choice((1, 2, 8, 64, 512))
        before, part, after = data[:at], data[at : at + size], data[at + size :]
        match random.randrange(8):
            case 0 if after:
                data = before + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
            case 1:
                data = before + after
            case 2:
                data = before + part * random.choice((2, 3, 20)) + after
            case 3:
                data = before + random.choice(PIECES) + data[at:]
            case 4:
                data = before
            case 5:
                data = before + random.randbytes(size) + after
            case 6 if digits := [place for place, byte in enumerate(data) if 48 <= byte <= 57]:
                place = random.choice(digits)
                data = data[:place] + random.choice(DIGITS) + data[place + 1 :]
            case _:
                other = random.randrange(len(data) + 1)
                data = before + data[other : other + size] + data[at:]
    return data


def _plain(text: str) -> bool:
    """No byte that a request line may not hold; else the line is refused and the connection closed."""
    return text.isascii() and text.isprintable() and not set(text) & set(" #") and len(text) < 8000


def _path(endpoint: Endpoint, random: Random) -> str:
    path = endpoint.path
    for name in ("{pid}", "{id}", "{name}"):
        path = path.replace(name, LAST_ID if random.random() < 0.6 else random.choice(IDS))
    return path if random.random() < 0.95 else random.choice(broken_targets(path))


def _query(endpoint: Endpoint, random: Random, raw: bool) -> str:
    pairs = [
        f"{quote(field.name)}={_quoted(_value(field, random))}"
        for field in endpoint.fields
        if (field.place == "query" or raw) and random.random() < (0.95 if field.required else 0.5)
    ]
    if random.random() < 0.08:
        pairs.append(random.choice(broken_pairs(pairs)))
    return "?" + "&".join(pairs) if pairs else ""


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _body(endpoint: Endpoint, random: Random, raw: bool) -> tuple[bytes, str]:
    """The body and its content type."""
    if raw:
        return random.randbytes(random.choice((0, 0, 1, 100, 5000, 70_000))), "application/octet-stream"
    if endpoint.method != "POST":
        return (random.randbytes(random.choice((1, 100, 70_000))), "") if random.random() < 0.05 else (b"", "")
    sent = {
        field.name: _value(field, random)
        for field in endpoint.fields
        if field.place == "body" and random.random() < (0.95 if field.required else 0.4)
    }
    if random.random() < 0.05:
        sent[random.choice(("", "extra", "path", "__class__"))] = random.choice(TEXTS)
    body = json.dumps(sent, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    if random.random() < 0.1:
        body = random.choice(broken_json(body))
    return body, "application/json" if random.random() < 0.95 else random.choice(KINDS)


def _value(field: Field, random: Random) -> Any:
    if field.name in NEVER_ODD or random.random() < 0.8:
        return random.choice(GOOD.get(field.name) or GOOD.get(field.kind) or ("x",))
    return random.choice(ODD.get(field.kind, TEXTS))
