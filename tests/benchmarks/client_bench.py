#!/usr/bin/env python3
"""Client-side throughput: what an httpx-based SDK can reach, against raw sockets and others.

Run with a Python that has httpx, aiohttp, requests, niquests, httpx2, pycurl, ...:
  /tmp/peers/client/bin/python client_bench.py [--mib 512] [-r 5] [-m name,name] -o out.json

The server is nginx (download, sendfile) and a sink that discards bodies in the kernel with
MSG_TRUNC (upload), so that the client is what is measured.  Methods are interleaved.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import http.client
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import threading
import time

from contestants import ROOT, WORK, Nginx

M = 1 << 20
DEST = f"{WORK}/client.out"


def sink(port: int) -> None:
    """Child process: accept PUTs, drop the body inside the kernel, answer 200."""
    ls = socket.socket()
    ls.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ls.bind(("127.0.0.1", port))
    ls.listen(64)

    def conn(s):
        big = bytearray(M)
        with s:
            buf = b""
            while True:
                while b"\r\n\r\n" not in buf:
                    d = s.recv(65536)
                    if not d:
                        return
                    buf += d
                head, _, buf = buf.partition(b"\r\n\r\n")
                low = head.lower()
                if b"expect: 100" in low:
                    s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                m = re.search(rb"content-length: *(\d+)", low)
                if m:
                    left = int(m.group(1)) - len(buf)
                    buf = b""
                    while left > 0:
                        n = s.recv_into(big, min(left, M), socket.MSG_TRUNC)
                        if not n:
                            return
                        left -= n
                else:  # chunked: drain until the last chunk
                    tail = buf[-5:]
                    while tail != b"0\r\n\r\n":
                        n = s.recv_into(big)
                        if not n:
                            return
                        tail = (tail + bytes(big[max(0, n - 5) : n]))[-5:]
                    buf = b""
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    while True:
        s, _ = ls.accept()
        threading.Thread(target=conn, args=(s,), daemon=True).start()


# ------------------------------------------------------------------ downloads -> file


def raw_head(port, target):
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    d = b""
    while b"\r\n\r\n" not in d:
        d += s.recv(65536)
    head, _, rest = d.partition(b"\r\n\r\n")
    return s, int(re.search(rb"Content-Length: (\d+)", head).group(1)), rest


def d_raw_discard(u):
    s, n, rest = raw_head(u.port, u.target)
    n -= len(rest)
    buf = bytearray(M)
    while n:
        n -= s.recv_into(buf)


def d_raw_file(u, size=M):
    s, n, rest = raw_head(u.port, u.target)
    fd = os.open(DEST, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, rest)
    n -= len(rest)
    buf = memoryview(bytearray(size))
    while n:
        r = s.recv_into(buf)
        os.write(fd, buf[:r])
        n -= r
    os.close(fd)


def d_raw_splice(u):
    s, n, rest = raw_head(u.port, u.target)
    fd = os.open(DEST, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, rest)
    n -= len(rest)
    r, w = os.pipe()
    import fcntl

    fcntl.fcntl(w, 1031, M)
    while n:
        k = os.splice(s.fileno(), w, min(n, M))
        n -= k
        while k:
            k -= os.splice(r, fd, k)
    for x in (r, w, fd):
        os.close(x)


def _write_iter(it):
    with open(DEST, "wb", buffering=0) as f:
        for c in it:
            f.write(c)


def d_http_client(u):
    c = http.client.HTTPConnection("127.0.0.1", u.port)
    c.request("GET", u.target)
    r = c.getresponse()
    buf = memoryview(bytearray(M))
    with open(DEST, "wb", buffering=0) as f:
        while n := r.readinto(buf):
            f.write(buf[:n])


def d_httpx(u, chunk=None, mod="httpx", raw=True, buffered=False):
    httpx = __import__(mod)
    with httpx.Client() as c, c.stream("GET", u.url) as r:
        it = r.iter_raw(chunk) if raw else r.iter_bytes(chunk)
        if buffered:
            with open(DEST, "wb") as f:
                for x in it:
                    f.write(x)
        else:
            _write_iter(it)


def _patch_read(size):
    import httpcore._async.http11 as a
    import httpcore._sync.http11 as s

    old = s.HTTP11Connection.READ_NUM_BYTES
    s.HTTP11Connection.READ_NUM_BYTES = a.AsyncHTTP11Connection.READ_NUM_BYTES = size
    return old


def d_httpx_bigread(u, size=M):
    old = _patch_read(size)
    try:
        d_httpx(u)
    finally:
        _patch_read(old)


def d_httpx_netstream(u):
    """Public extension: take the socket after the head and read it directly."""
    import httpx

    with httpx.Client() as c, c.stream("GET", u.url) as r:
        left = int(r.headers["content-length"])
        sock = r.extensions["network_stream"].get_extra_info("socket")
        with open(DEST, "wb", buffering=0) as f:
            it = r.iter_raw()
            first = next(it)  # whatever h11 has already buffered
            f.write(first)
            left -= len(first)
            sock.settimeout(30)
            buf = memoryview(bytearray(M))
            while left:
                n = sock.recv_into(buf)
                if not n:
                    raise EOFError
                f.write(buf[:n])
                left -= n


class FastStream:
    """Response stream over a raw socket; iterates 256 KiB bytes or hands out readinto."""

    def __init__(self, sock, left, rest):
        self.sock, self.left, self.rest = sock, left, rest

    def __iter__(self):
        if self.rest:
            self.left -= len(self.rest)
            yield self.rest
        while self.left:
            d = self.sock.recv(min(self.left, 1 << 18))
            if not d:
                raise EOFError
            self.left -= len(d)
            yield d

    def close(self):
        self.sock.close()


def fast_transport():
    import httpx

    class S(FastStream, httpx.SyncByteStream):
        pass

    class T(httpx.BaseTransport):
        def handle_request(self, req):
            s = socket.create_connection((req.url.host, req.url.port))
            head = b"%s %s HTTP/1.1\r\n" % (req.method.encode(), req.url.raw_path)
            head += b"".join(b"%s: %s\r\n" % kv for kv in req.headers.raw) + b"\r\n"
            s.sendall(head, socket.MSG_MORE)
            f = getattr(req.stream, "sendfile", None)
            if f:
                s.sendfile(f)
            else:
                for c in req.stream:
                    s.sendall(c)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            d = b""
            while b"\r\n\r\n" not in d:
                d += s.recv(65536)
            h, _, rest = d.partition(b"\r\n\r\n")
            lines = h.split(b"\r\n")
            hs = [tuple(x.strip() for x in ln.split(b":", 1)) for ln in lines[1:]]
            n = next(int(v) for k, v in hs if k.lower() == b"content-length")
            return httpx.Response(int(lines[0][9:12]), headers=hs, stream=S(s, n, rest))

    return T()


def d_httpx_transport(u):
    import httpx

    with httpx.Client(transport=fast_transport()) as c, c.stream("GET", u.url) as r:
        _write_iter(r.iter_raw())


async def _aw(it):
    with open(DEST, "wb", buffering=0) as f:
        async for c in it:
            f.write(c)


def d_httpx_async(u, chunk=None, loop=None, mod="httpx"):
    httpx = __import__(mod)

    async def go():
        async with httpx.AsyncClient() as c, c.stream("GET", u.url) as r:
            await _aw(r.aiter_raw(chunk))

    _arun(go, loop)


def _arun(go, loop):
    if loop == "uvloop":
        import uvloop

        uvloop.run(go())
    else:
        asyncio.run(go())


def d_httpx_async_bigread(u, loop=None):
    old = _patch_read(M)
    try:
        d_httpx_async(u, loop=loop)
    finally:
        _patch_read(old)


def d_httpx_async_to_thread(u):
    """Async API, sync client and file writes on one worker thread."""
    asyncio.run(asyncio.to_thread(d_httpx_bigread, u))


def d_httpx_aiohttp(u):
    import httpx
    from httpx_aiohttp import AiohttpTransport

    async def go():
        async with httpx.AsyncClient(transport=AiohttpTransport()) as c, c.stream("GET", u.url) as r:
            await _aw(r.aiter_raw())

    asyncio.run(go())


def d_aiohttp(u, bufsize=65536, loop=None):
    import aiohttp

    async def go():
        async with aiohttp.ClientSession(read_bufsize=bufsize) as c, c.get(u.url) as r:
            await _aw(r.content.iter_any())

    _arun(go, loop)


def d_requests(u, mod="requests"):
    rq = __import__(mod)
    with rq.get(u.url, stream=True) as r:
        _write_iter(r.iter_content(M))


def d_urllib3(u):
    import urllib3

    r = urllib3.PoolManager().request("GET", u.url, preload_content=False)
    buf = memoryview(bytearray(M))
    with open(DEST, "wb", buffering=0) as f:
        while n := r.readinto(buf):
            f.write(buf[:n])


def d_pycurl(u):
    import pycurl

    c = pycurl.Curl()
    with open(DEST, "wb", buffering=0) as f:
        c.setopt(c.URL, u.url)
        c.setopt(c.BUFFERSIZE, 1 << 19)
        c.setopt(c.WRITEFUNCTION, f.write)
        c.perform()
    c.close()


def d_curl(u):
    subprocess.run(["curl", "-sf", "-o", DEST, u.url], check=True)


def d_pyreqwest(u):
    from pyreqwest.client import SyncClientBuilder

    with SyncClientBuilder().build() as c, c.get(u.url).build_streamed() as r, open(DEST, "wb", buffering=0) as f:
        while x := r.body_reader.read(M):
            f.write(x)


# ------------------------------------------------------------------ uploads (to the sink)


def put_head(s, target, n):
    s.sendall(f"PUT {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n\r\n".encode())


def u_raw_sendfile(u):
    s = socket.create_connection(("127.0.0.1", u.sink))
    put_head(s, "/x", u.size)
    with open(u.path, "rb") as f:
        s.sendfile(f)
    s.recv(4096)


def u_raw_read_send(u):
    s = socket.create_connection(("127.0.0.1", u.sink))
    put_head(s, "/x", u.size)
    buf = memoryview(bytearray(1 << 18))
    with open(u.path, "rb", buffering=0) as f:
        while n := f.readinto(buf):
            s.sendall(buf[:n])
    s.recv(4096)


def chunks(path, size):
    with open(path, "rb", buffering=0) as f:
        while d := f.read(size):
            yield d


async def achunks(path, size):
    with open(path, "rb", buffering=0) as f:
        while d := f.read(size):
            yield d


def u_httpx_file(u, mod="httpx"):
    httpx = __import__(mod)
    with open(u.path, "rb") as f, httpx.Client() as c:
        assert c.put(u.surl, content=f).status_code == 200


def u_httpx_gen(u, size=1 << 18, mod="httpx"):
    httpx = __import__(mod)
    with httpx.Client() as c:
        r = c.put(u.surl, content=chunks(u.path, size), headers={"Content-Length": str(u.size)})
        assert r.status_code == 200


def u_httpx_bytes(u):
    import httpx

    with open(u.path, "rb") as f:
        data = f.read()
    with httpx.Client() as c:
        assert c.put(u.surl, content=data).status_code == 200


def u_httpx_multipart(u):
    import httpx

    with open(u.path, "rb") as f, httpx.Client() as c:
        assert c.put(u.surl, files={"file": f}).status_code == 200


def u_httpx_async(u, size=1 << 18, loop=None):
    import httpx

    async def go():
        async with httpx.AsyncClient() as c:
            r = await c.put(u.surl, content=achunks(u.path, size), headers={"Content-Length": str(u.size)})
            assert r.status_code == 200

    _arun(go, loop)


def u_httpx_transport(u):
    """Custom transport that sends a file body with sendfile."""
    import httpx

    class Body(httpx.SyncByteStream):
        def __init__(self, f):
            self.sendfile = f

        def __iter__(self):
            return iter(())

    with open(u.path, "rb") as f, httpx.Client(transport=fast_transport()) as c:
        r = c.send(
            httpx.Request("PUT", u.surl, headers={"Content-Length": str(u.size)}, stream=Body(f))
        )  # content= would wrap the stream
        assert r.status_code == 200


def u_aiohttp(u):
    import aiohttp

    async def go():
        async with aiohttp.ClientSession() as c:
            with open(u.path, "rb") as f:
                async with c.put(u.surl, data=f) as r:
                    assert r.status == 200

    asyncio.run(go())


def u_aiohttp_gen(u):
    import aiohttp

    async def go():
        async with (
            aiohttp.ClientSession() as c,
            c.put(u.surl, data=achunks(u.path, 1 << 18), headers={"Content-Length": str(u.size)}) as r,
        ):
            assert r.status == 200

    asyncio.run(go())


def u_requests(u, mod="requests"):
    rq = __import__(mod)
    with open(u.path, "rb") as f:
        assert rq.put(u.surl, data=f).status_code == 200


def u_http_client(u, blocksize=1 << 18):
    c = http.client.HTTPConnection("127.0.0.1", u.sink, blocksize=blocksize)
    with open(u.path, "rb", buffering=0) as f:
        c.request("PUT", "/x", f, {"Content-Length": str(u.size)})
        c.getresponse().read()


def u_curl(u):
    subprocess.run(["curl", "-sf", "-o", "/dev/null", "-H", "Expect:", "-T", u.path, u.surl], check=True)


DOWN = {
    "raw recv_into, discard": d_raw_discard,
    "raw recv_into 1M -> write": d_raw_file,
    "raw recv_into 256K -> write": lambda u: d_raw_file(u, 1 << 18),
    "raw splice -> file": d_raw_splice,
    "http.client readinto 1M": d_http_client,
    "httpx iter_raw()": d_httpx,
    "httpx iter_raw(64K)": lambda u: d_httpx(u, 65536),
    "httpx iter_raw(1M)": lambda u: d_httpx(u, M),
    "httpx iter_bytes()": lambda u: d_httpx(u, raw=False),
    "httpx iter_bytes(1M), buffered file": lambda u: d_httpx(u, M, raw=False, buffered=True),
    "httpx READ_NUM_BYTES=256K": lambda u: d_httpx_bigread(u, 1 << 18),
    "httpx READ_NUM_BYTES=1M": d_httpx_bigread,
    "httpx + network_stream socket": d_httpx_netstream,
    "httpx + own transport": d_httpx_transport,
    "httpx async aiter_raw()": d_httpx_async,
    "httpx async aiter_raw(1M)": lambda u: d_httpx_async(u, M),
    "httpx async READ=1M": d_httpx_async_bigread,
    "httpx async, uvloop": lambda u: d_httpx_async(u, loop="uvloop"),
    "httpx async READ=1M, uvloop": lambda u: d_httpx_async_bigread(u, "uvloop"),
    "async to_thread(sync READ=1M)": d_httpx_async_to_thread,
    "httpx-aiohttp": d_httpx_aiohttp,
    "aiohttp iter_any": d_aiohttp,
    "aiohttp read_bufsize=1M": lambda u: d_aiohttp(u, M),
    "requests iter_content(1M)": d_requests,
    "urllib3 readinto 1M": d_urllib3,
    "niquests iter_content(1M)": lambda u: d_requests(u, "niquests"),
    "httpx2 iter_raw()": lambda u: d_httpx(u, mod="httpx2"),
    "httpx2 async aiter_raw()": lambda u: d_httpx_async(u, mod="httpx2"),
    "pyreqwest sync": d_pyreqwest,
    "pycurl": d_pycurl,
    "curl -o": d_curl,
}
UP = {
    "raw sendfile": u_raw_sendfile,
    "raw readinto 256K + sendall": u_raw_read_send,
    "http.client blocksize=256K": u_http_client,
    "httpx content=file": u_httpx_file,
    "httpx gen 64K": lambda u: u_httpx_gen(u, 65536),
    "httpx gen 256K": u_httpx_gen,
    "httpx gen 1M": lambda u: u_httpx_gen(u, M),
    "httpx gen 4M": lambda u: u_httpx_gen(u, 4 * M),
    "httpx content=bytes": u_httpx_bytes,
    "httpx files=multipart": u_httpx_multipart,
    "httpx + own transport (sendfile)": u_httpx_transport,
    "httpx async gen 64K": lambda u: u_httpx_async(u, 65536),
    "httpx async gen 256K": u_httpx_async,
    "httpx async gen 1M": lambda u: u_httpx_async(u, M),
    "httpx async gen 256K, uvloop": lambda u: u_httpx_async(u, loop="uvloop"),
    "aiohttp data=file": u_aiohttp,
    "aiohttp gen 256K": u_aiohttp_gen,
    "requests data=file": u_requests,
    "niquests data=file": lambda u: u_requests(u, "niquests"),
    "httpx2 gen 256K": lambda u: u_httpx_gen(u, mod="httpx2"),
    "curl -T": u_curl,
}


class U:
    pass


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--mib", type=int, default=512)
    ap.add_argument("-r", type=int, default=3)
    ap.add_argument("-m", default="")
    ap.add_argument("-o", default=f"{WORK}/results/client.json")
    a = ap.parse_args()
    u = U()
    u.port, u.sink, u.size = 7207, 7208, a.mib * M
    u.path = f"{ROOT}/client_{a.mib}.bin"
    if not os.path.exists(u.path):
        with open(f"{ROOT}/big.bin", "rb") as f, open(u.path, "wb") as g:
            g.write(f.read(u.size))
    u.target = f"/files/client_{a.mib}.bin"
    u.url = f"http://127.0.0.1:{u.port}{u.target}"
    u.surl = f"http://127.0.0.1:{u.sink}/x"
    pid = os.fork()
    if not pid:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9)  # die with the parent
        try:
            sink(u.sink)
        finally:
            os._exit(0)
    ng = Nginx(u.port)
    ng.start()
    time.sleep(0.3)
    res = {}
    want = [x for x in a.m.split(",") if x]

    def cpu():
        s, c = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return s.ru_utime + s.ru_stime + c.ru_utime + c.ru_stime

    try:
        for rnd in range(a.r + 1):  # round 0 warms up (imports)
            for kind, table in (("down", DOWN), ("up", UP)):
                for name, fn in table.items():
                    key = f"{kind}: {name}"
                    if want and not any(w in key for w in want) or res.get(key) == "failed":
                        continue
                    try:
                        if not rnd:
                            faulthandler.dump_traceback_later(60, exit=True)
                        c0, t0 = cpu(), time.perf_counter()
                        fn(u)
                        faulthandler.cancel_dump_traceback_later()
                        t, c = time.perf_counter() - t0, cpu() - c0
                        if kind == "down" and "discard" not in name:
                            assert os.path.getsize(DEST) == u.size
                            os.unlink(DEST)
                    except Exception as e:
                        print("!", key, type(e).__name__, e, flush=True)
                        res[key] = "failed"
                        continue
                    if rnd:
                        res.setdefault(key, []).append((t, c))
        g = u.size / (1 << 30)
        for k, v in res.items():
            if v != "failed":
                print(
                    f"{k:48s} {g / statistics.median(t for t, _ in v):6.2f} GiB/s   "
                    f"cpu {statistics.median(c for _, c in v) / g:5.2f} s/GiB"
                )
        with open(a.o, "w") as f:
            json.dump(res, f)
    finally:
        ng.stop()
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        if os.path.exists(DEST):
            os.unlink(DEST)


if __name__ == "__main__":
    main()
