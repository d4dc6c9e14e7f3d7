"""Raw-socket HTTP/1.1 client used as load generator.

It is built not to be the bottleneck: request bodies leave through ``sendfile``,
response bodies arrive through ``recv_into`` into one reused buffer and are only
counted.  No HTTP library is involved.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from dataclasses import dataclass, field

BUF = 1 << 20


@dataclass
class Slice:
    """A byte range of a file, sent with sendfile."""

    path: str
    offset: int = 0
    count: int = -1

    def __len__(self) -> int:
        return self.count if self.count >= 0 else os.path.getsize(self.path) - self.offset


@dataclass
class Req:
    method: str
    target: str
    headers: dict = field(default_factory=dict)
    body: list = field(default_factory=list)  # bytes | Slice

    def head(self) -> bytes:
        h = {"Host": "127.0.0.1", **self.headers}
        if self.body or self.method in ("PUT", "POST"):
            h["Content-Length"] = str(sum(len(p) for p in self.body))
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{k}: {v}" for k, v in h.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def raw(self) -> bytes:
        """The whole request as bytes (small bodies only; used to feed wrk)."""
        out = [self.head()]
        for p in self.body:
            if isinstance(p, Slice):
                with open(p.path, "rb") as f:
                    f.seek(p.offset)
                    p = f.read(len(p))
            out.append(p)
        return b"".join(out)


@dataclass
class Resp:
    status: int
    head: bytes
    nbytes: int  # body bytes on the wire (chunk framing included)
    body: bytes
    t_send: float  # seconds until the request was fully written
    t_head: float  # ... until the first response byte
    t_mark: float  # ... until ``mark`` was seen in the body (0 if never)
    t_done: float  # ... until the response was complete


class Conn:
    """One keep-alive connection; reconnects by itself when the server closes."""

    def __init__(self, port: int, timeout: float = 180.0):
        self.port, self.timeout = port, timeout
        self.sock: socket.socket | None = None
        self.buf = bytearray(BUF)
        self.view = memoryview(self.buf)

    def connect(self) -> None:
        self.sock = socket.create_connection(("127.0.0.1", self.port), self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        if self.sock:
            self.sock.close()
        self.sock = None

    def _send(self, req: Req) -> None:
        first = req.head()
        parts = list(req.body)
        if parts and isinstance(parts[0], bytes):  # head and small body in one segment
            first += parts.pop(0)
        self.sock.sendall(first)
        for p in parts:
            if isinstance(p, bytes):
                self.sock.sendall(p)
            else:
                with open(p.path, "rb") as f:
                    self.sock.sendfile(f, p.offset, len(p))

    def request(self, req: Req, keep: bool = False, mark: bytes = b"") -> Resp:
        t0 = time.perf_counter()
        fresh = self.sock is None
        if fresh:
            self.connect()
        try:
            self._send(req)
            t_send = time.perf_counter() - t0
            return self._read(req, t0, t_send, keep, mark)
        except (ConnectionResetError, BrokenPipeError, EOFError):
            self.close()
            if fresh:
                raise
            return self.request(req, keep, mark)  # stale keep-alive connection

    def _read(self, req, t0, t_send, keep, mark) -> Resp:
        data = b""
        t_head = 0.0
        while True:
            i = data.find(b"\r\n\r\n")
            if i >= 0:
                if data[9:12] == b"100":  # 100 Continue
                    data = data[i + 4 :]
                    continue
                break
            chunk = self.sock.recv(65536)
            if not chunk:
                raise EOFError("closed before response head")
            if not t_head:
                t_head = time.perf_counter() - t0
            data += chunk
        head, rest = data[:i], data[i + 4 :]
        status = int(head[9:12])
        low = head.lower()
        m = re.search(rb"\r\ncontent-length:\s*(\d+)", low)
        chunked = b"\r\ntransfer-encoding: chunked" in low
        close = b"\r\nconnection: close" in low or (
            low.startswith(b"http/1.0") and b"\r\nconnection: keep-alive" not in low
        )
        want = 0 if req.method == "HEAD" or status in (204, 304) else (int(m.group(1)) if m and not chunked else -1)
        kept = [rest] if keep else []
        n = len(rest)
        t_mark = time.perf_counter() - t0 if mark and mark in rest else 0.0
        tail = rest[-7:]
        while n != want and not (chunked and tail.endswith(b"0\r\n\r\n")):
            r = self.sock.recv_into(self.buf)
            if not r:
                if want >= 0 or chunked:
                    raise ConnectionError(f"short body: {n} of {want}")
                break
            n += r
            if keep:
                kept.append(bytes(self.view[:r]))
            if mark and not t_mark and mark in bytes(self.view[:r]):
                t_mark = time.perf_counter() - t0
            if chunked:
                tail = (tail + bytes(self.view[max(0, r - 7) : r]))[-7:]
        t_done = time.perf_counter() - t0
        if close or want < 0 and not chunked:
            self.close()
        body = b"".join(kept)
        if chunked and keep:
            body = dechunk(body)
        return Resp(status, head, n, body, t_send, t_head, t_mark, t_done)


def dechunk(raw: bytes) -> bytes:
    out, i = [], 0
    while True:
        j = raw.index(b"\r\n", i)
        size = int(raw[i:j].split(b";")[0], 16)
        if not size:
            return b"".join(out)
        out.append(raw[j + 2 : j + 2 + size])
        i = j + 4 + size


# --------------------------------------------------------------------------- wrk


def _lua(raw: bytes) -> str:
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03d}" for b in raw) + '"'


def _unit(text: str) -> float:
    m = re.match(r"([\d.]+)(us|ms|s|m)", text)
    return float(m.group(1)) * {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}[m.group(2)]


def wrk(port: int, reqs: list[Req], conns: int, seconds: float, tmp: str) -> dict:
    """Run wrk over a rotating list of prepared requests."""
    script = os.path.join(tmp, "wrk.lua")
    with open(script, "w") as f:
        f.write("local r = {{{}}}\nlocal i = 0\n".format(",\n".join(_lua(q.raw()) for q in reqs)))
        f.write(f"request = function() i = i % {len(reqs)} + 1; return r[i] end\n")
    out = subprocess.run(
        [
            "wrk",
            "-t1",
            f"-c{conns}",
            f"-d{max(1, round(seconds))}s",
            "--timeout",
            "20s",
            "--latency",
            "-s",
            script,
            f"http://127.0.0.1:{port}/",
        ],
        capture_output=True,
        text=True,
    ).stdout
    m = re.search(r"Requests/sec:\s+([\d.]+)", out)
    res = {"rps": float(m.group(1)) if m else 0.0}
    m = re.search(r"(\d+) requests in", out)
    res["n"] = int(m.group(1)) if m else 0
    for p in ("50%", "99%"):
        m = re.search(rf"\s{p}\s+(\S+)", out)
        res["p" + p[:-1]] = _unit(m.group(1)) if m else None
    m = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    res["bad"] = int(m.group(1)) if m else 0
    m = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    res["sockerr"] = [int(x) for x in m.groups()] if m else [0, 0, 0, 0]
    return res


# --------------------------------------------------------------------- accounting

TICK = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """pid and all its live descendants."""
    kids: dict[int, list[int]] = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open(f"/proc/{d}/stat") as f:
                    ppid = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            kids.setdefault(ppid, []).append(int(d))
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        out.append(p)
        todo += kids.get(p, [])
    return out


def cpu(pid: int, children: bool = True) -> float:
    """CPU seconds of the tree (reaped children included)."""
    total = 0
    for p in tree(pid):
        try:
            with open(f"/proc/{p}/stat") as f:
                s = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(x) for x in s[11 : 15 if children else 13])
    return total / TICK


def _status(pid: int, key: str) -> int:
    try:
        with open(f"/proc/{pid}/status") as f:
            m = re.search(rf"^{key}:\s+(\d+)", f.read(), re.M)
        return int(m.group(1)) if m else 0
    except OSError:
        return 0


def reset_peak(pid: int) -> None:
    for p in tree(pid):
        try:
            with open(f"/proc/{p}/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass


def peak_mb(pid: int) -> float:
    return sum(_status(p, "VmHWM") for p in tree(pid)) / 1024


def rss_mb(pid: int, alone: bool = False) -> float:
    return sum(_status(p, "VmRSS") for p in ([pid] if alone else tree(pid))) / 1024


def threads(pid: int, alone: bool = False) -> int:
    return sum(_status(p, "Threads") for p in ([pid] if alone else tree(pid)))
