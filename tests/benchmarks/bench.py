#!/usr/bin/env python3
"""Black-box benchmark: every workload is run in rounds, contestants interleaved A B C A B C.

  bench.py -w upload,download -c ass,nginx,asgi -r 5 -o /tmp/bench/results/x.json
  bench.py --list

Each repetition is stored raw; report.py turns files into medians and ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

from contestants import ALL, ROOT, WORK, Contestant, Ours, OursByCopying
from loadgen import Conn, Slice, cpu, peak_mb, reset_peak, rss_mb, threads, wrk

GIB = 1 << 30
SMALL = [f"small/f{i:03d}.txt" for i in range(200)]


def pct(xs, p):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(len(xs) * p))]


class Meter:
    """Server CPU and peak memory around a block."""

    def __init__(self, c: Contestant):
        self.pid = c.proc.pid

    def __enter__(self):
        reset_peak(self.pid)
        self.base = rss_mb(self.pid)
        self.c0 = cpu(self.pid)
        self.t0 = time.perf_counter()
        return self

    def __exit__(self, *exc):
        self.s = time.perf_counter() - self.t0
        self.cpu = cpu(self.pid) - self.c0
        self.peak = peak_mb(self.pid)

    def out(self) -> dict:
        return {"s": self.s, "cpu_s": self.cpu, "peak_mb": self.peak, "grow_mb": self.peak - self.base}


def ok(resp):
    if not 200 <= resp.status < 300:
        raise RuntimeError(f"status {resp.status}: {resp.head[:200]!r} {resp.body[:200]!r}")
    return resp


# ------------------------------------------------------------------ workloads


def upload(c, rnd):
    reqs = c.upload_big(f"up_{c.name}.bin")
    if not reqs:
        return None
    dest = f"{ROOT}/up_{c.name}.bin"
    conn = Conn(c.port)
    try:
        with Meter(c) as m:
            for r in reqs:
                ok(conn.request(r))
        size = os.path.getsize(dest)
        if size != os.path.getsize(f"{ROOT}/big.bin"):
            raise RuntimeError(f"wrong size {size}")
        if rnd == 0 and subprocess.run(["cmp", "-s", dest, f"{ROOT}/big.bin"]).returncode:
            raise RuntimeError("content differs")
    finally:
        conn.close()
        if os.path.exists(dest):
            os.unlink(dest)
    return {**m.out(), "gibps": size / GIB / m.s, "cpu_s_per_gib": m.cpu / (size / GIB)}


def upload_copying(c, rnd):
    """Uploads beside those of nginx, by a server of ours that copies every byte."""
    if c.name == "nginx":
        return upload(c, rnd)
    if c.name != "ours":
        return None
    copying = OursByCopying(c.port + 10)
    copying.start()
    try:
        upload(copying, -1)  # with the first one a server loads what it takes
        return upload(copying, rnd)
    finally:
        copying.stop()


def download(c, rnd):
    r = c.download(c.big_source)
    if not r:
        return None
    conn = Conn(c.port)
    with Meter(c) as m:
        resp = ok(conn.request(r))
    conn.close()
    size = os.path.getsize(f"{ROOT}/{c.big_source}")
    if resp.nbytes < size:
        raise RuntimeError(f"short: {resp.nbytes}")
    return {
        **m.out(),
        "gibps": size / GIB / m.s,
        "cpu_s_per_gib": m.cpu / (size / GIB),
        "ttfb": resp.t_head,
        "wire": resp.nbytes,
    }


def _seq(c, reqs):
    conn = Conn(c.port)
    ok(conn.request(c.health()))
    lat = []
    with Meter(c) as m:
        for r in reqs:
            lat.append(ok(conn.request(r)).t_done)
    conn.close()
    return {
        **m.out(),
        "rps": len(reqs) / m.s,
        "p50": pct(lat, 0.5),
        "p99": pct(lat, 0.99),
        "cpu_us": m.cpu / len(reqs) * 1e6,
    }


def small_down_seq(c, rnd):
    return _seq(c, [c.download(p) for p in SMALL]) if c.download("x") else None


def _small_up(c):
    os.makedirs(f"{ROOT}/up4k", exist_ok=True)
    return [
        r for i, p in enumerate(SMALL) for r in (c.upload(f"up4k/{c.name}_{i:03d}.txt", Slice(f"{ROOT}/{p}")) or [])
    ]


def small_up_seq(c, rnd):
    reqs = _small_up(c)
    return _seq(c, reqs) if reqs else None


def _wrk(c, reqs, conns, secs=None):
    with Meter(c) as m:
        r = wrk(c.port, reqs, conns, secs or ARGS.wrk, WORK)
    if not r["n"]:
        raise RuntimeError(f"wrk: {r}")
    if r["bad"] > r["n"] * 0.01:
        raise RuntimeError(f"wrk errors: {r}")
    return {**r, **m.out(), "cpu_us": m.cpu / r["n"] * 1e6}


def small_down_c16(c, rnd):
    return _wrk(c, [c.download(p) for p in SMALL], 16) if c.download("x") else None


def small_up_c16(c, rnd):
    reqs = _small_up(c)
    return _wrk(c, reqs, 16) if reqs else None


def _health(n):
    return lambda c, rnd: _wrk(c, [c.health()], n)


def _stat(n):
    return lambda c, rnd: _wrk(c, [c.stat(p) for p in SMALL[:20]], n) if c.stat("x") else None


def _one(c, req, mult=1):
    if req is None:
        return None
    conn = Conn(c.port)
    with Meter(c) as m:
        r = ok(conn.request(req))
    conn.close()
    return {**m.out(), "ttfb": r.t_head, "wire": r.nbytes}


def _list(d):
    return lambda c, rnd: _one(c, c.list(d))


def list100k_unsorted(c, rnd):
    return _one(c, c.list_unsorted("d100k"))


def search100k(c, rnd):
    return _one(c, c.search("tree", "*needle*"))


def _archive(form, level=None):
    return lambda c, rnd: _one(c, c.archive("arch", form, level))


def run_true(c, rnd):
    r = c.run(["true"])
    return _seq(c, [r] * 100) if r else None


def run_echo(c, rnd):
    r = c.run(["echo", "hi"])
    return _seq(c, [r] * 100) if r else None


def stream_ttfb(c, rnd):
    r = c.stream(["sh", "-c", "echo hi; sleep 0.05"])
    if not r:
        return None
    conn, lat = Conn(c.port), []
    with Meter(c) as m:
        for _ in range(30):
            x = ok(conn.request(r, mark=b"hi"))
            lat.append(x.t_mark)
    conn.close()
    return {**m.out(), "p50": pct(lat, 0.5), "p99": pct(lat, 0.99)}


OUTPUT = ["head", "-c", str(200 << 20), f"{ROOT}/big.txt"]
LINES = ["seq", "100000"]


def _output(argv, payload):
    def w(c, rnd):
        r = c.stream(argv)
        live = r is not None
        r = r or c.run(argv)
        if not r:
            return None
        conn = Conn(c.port)
        with Meter(c) as m:
            x = ok(conn.request(r))
        conn.close()
        return {
            **m.out(),
            "live": live,
            "mibps": payload / (1 << 20) / m.s,
            "wire": x.nbytes,
            "truncated": x.nbytes < payload,
        }

    return w


def _idle(kind, n=500):
    """n open streams (or, without streams, n silent connections): memory and threads of the server, latency."""

    def w(c, rnd):
        req = c.idle(kind)
        if kind and not req:
            return None
        base_rss, base_thr = rss_mb(c.proc.pid, alone=True), threads(c.proc.pid, alone=True)
        conn = Conn(c.port)
        before = [ok(conn.request(c.health())).t_done for _ in range(200)]
        socks = []
        try:
            for _ in range(n):
                s = socket.create_connection(("127.0.0.1", c.port), 30)
                socks.append(s)
                if req:
                    s.sendall(req.raw())
            if req:
                for s in socks:
                    if s.recv(4096)[8:13] != b" 200 ":
                        raise RuntimeError("closed or refused")
            time.sleep(1.0)
            with Meter(c) as m:
                lat = [ok(conn.request(c.health())).t_done for _ in range(200)]
            c0, t0 = cpu(c.proc.pid), time.perf_counter()
            time.sleep(2.0)
            idle_cpu = (cpu(c.proc.pid) - c0) / (time.perf_counter() - t0)
            return {
                **m.out(),
                "streams": bool(req),
                "mb": rss_mb(c.proc.pid, alone=True) - base_rss,
                "threads": threads(c.proc.pid, alone=True) - base_thr,
                "p50": pct(lat, 0.5),
                "p99": pct(lat, 0.99),
                "p50_before": pct(before, 0.5),
                "p99_before": pct(before, 0.99),
                "p50_ratio": pct(lat, 0.5) / pct(before, 0.5),
                "idle_cpu": idle_cpu,
            }
        finally:
            for s in socks:
                s.close()
            conn.close()

    return w


def coldstart(c, rnd):
    c.stop()
    s = c.start()
    return {"s": s, "rss_mb": rss_mb(c.proc.pid), "threads": threads(c.proc.pid)}


def import_time(c, rnd):
    if not c.imports:
        return None
    py, mod = c.imports
    t = []
    for code in ("pass", f"import {mod}"):
        t0 = time.perf_counter()
        subprocess.run([py, "-c", code], check=True, cwd=WORK, capture_output=True, env={**os.environ, **c.env()})
        t.append(time.perf_counter() - t0)
    return {"s": t[1] - t[0], "bare": t[0]}


WORKLOADS = {
    "upload": upload,
    "upload_copying": upload_copying,
    "download": download,
    "small_up_seq": small_up_seq,
    "small_down_seq": small_down_seq,
    "small_up_c16": small_up_c16,
    "small_down_c16": small_down_c16,
    **{f"health_c{n}": _health(n) for n in (1, 16, 64, 256)},
    **{f"stat_c{n}": _stat(n) for n in (1, 16, 64, 256)},
    "list10k": _list("d10k"),
    "list100k": _list("d100k"),
    "list100k_unsorted": list100k_unsorted,
    "search100k": search100k,
    "run_true": run_true,
    "run_echo": run_echo,
    "stream_ttfb": stream_ttfb,
    "out200m": _output(OUTPUT, 200 << 20),
    "out100klines": _output(LINES, 588895),
    "archive10k": _archive("zip"),
    "archive10k_stored": _archive("zip", 0),
    "archive10k_tar": _archive("tar"),
    "idle500": _idle(""),
    "idle500_run": _idle("run"),
    "idle500_follow": _idle("follow"),
    "coldstart": coldstart,
    "import": import_time,
}


def machine() -> dict:
    with open("/proc/loadavg") as f:
        return {"t": time.time(), "load": f.read().split()[0]}


# Reference jobs that run inside the same rounds (not servers).
def _cp():
    t0 = time.perf_counter()
    subprocess.run(["cp", "--reflink=never", f"{ROOT}/big.bin", f"{ROOT}/up_cp.bin"], check=True)
    s = time.perf_counter() - t0
    os.unlink(f"{ROOT}/up_cp.bin")
    return {"s": s, "gibps": os.path.getsize(f"{ROOT}/big.bin") / GIB / s}


def _cmd(*argv):
    def f():
        c0, t0 = os.times(), time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        c1 = os.times()
        return {
            "s": time.perf_counter() - t0,
            "cpu_s": c1.children_user + c1.children_system - c0.children_user - c0.children_system,
        }

    return f


def _spawn100():
    lat = []
    for _ in range(100):
        t0 = time.perf_counter()
        subprocess.run(["true"], capture_output=True, stdin=subprocess.DEVNULL)
        lat.append(time.perf_counter() - t0)
    return {"p50": pct(lat, 0.5), "p99": pct(lat, 0.99), "rps": 100 / sum(lat)}


def _posix100():
    lat = []
    for _ in range(100):
        t0 = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
        lat.append(time.perf_counter() - t0)
    return {"p50": pct(lat, 0.5), "p99": pct(lat, 0.99), "rps": 100 / sum(lat)}


def _pipe_first():
    """Start the command of `stream_ttfb` and read the first bytes that come through a pipe."""
    lat = []
    for _ in range(30):
        t0 = time.perf_counter()
        with subprocess.Popen(["sh", "-c", "echo hi; sleep 0.05"], stdout=subprocess.PIPE, bufsize=0) as process:
            process.stdout.read(2)
            lat.append(time.perf_counter() - t0)
    return {"p50": pct(lat, 0.5), "p99": pct(lat, 0.99)}


def _pipe_all(argv, payload):
    """Read all output of a command through a pipe, as nobody could without that."""

    def f():
        t0 = time.perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0) as process:
            while process.stdout.read(1 << 16):
                pass
        return {"mibps": payload / (1 << 20) / (time.perf_counter() - t0)}

    return f


def _python():
    t0 = time.perf_counter()
    subprocess.run([Ours.python, "-c", "pass"], check=True)
    return {"s": time.perf_counter() - t0}


REFS = {
    "upload": {"ref:cp": _cp},
    "list10k": {"ref:find-stat": _cmd("find", f"{ROOT}/d10k", "-printf", "%f %s %T@\\n")},
    "list100k": {
        "ref:find-stat": _cmd("find", f"{ROOT}/d100k", "-printf", "%f %s %T@\\n"),
        "ref:ls-U": _cmd("ls", "-U", "-f", f"{ROOT}/d100k"),
    },
    "search100k": {"ref:find-name": _cmd("find", f"{ROOT}/tree", "-name", "*needle*")},
    "archive10k": {
        "ref:tar": _cmd("sh", "-c", f"tar cf - -C {ROOT} arch | cat"),
        "ref:tar-gzip1": _cmd("sh", "-c", f"tar cf - -C {ROOT} arch | gzip -1"),
        "ref:zip-1": _cmd("sh", "-c", f"command -v zip >/dev/null && cd {ROOT} && zip -1qr - arch || true"),
    },
    "run_true": {"ref:subprocess": _spawn100, "ref:posix_spawn": _posix100},
    "stream_ttfb": {"ref:pipe": _pipe_first},
    "out200m": {"ref:pipe": _pipe_all(OUTPUT, 200 << 20)},
    "out100klines": {"ref:pipe": _pipe_all(LINES, 588895)},
    "coldstart": {"ref:python": _python},
}

ARGS: argparse.Namespace


def main() -> None:
    global ARGS
    ap = argparse.ArgumentParser()
    ap.add_argument("-w", "--workloads", default="")
    ap.add_argument("-c", "--contestants", default="")
    ap.add_argument("-r", "--rounds", type=int, default=3)
    ap.add_argument("-o", "--out", default="")
    ap.add_argument("--wrk", type=int, default=2, help="seconds per wrk run")
    ap.add_argument("--list", action="store_true")
    ARGS = ap.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers get stopped
    cs = ALL()
    if ARGS.list:
        print("workloads:", *WORKLOADS)
        print("contestants:", *cs)
        return
    names = [n for n in ARGS.contestants.split(",") if n] or list(cs)
    loads = [w for w in ARGS.workloads.split(",") if w] or list(WORKLOADS)
    res: dict = {w: {} for w in loads}
    skip: set = set()
    out = ARGS.out or f"{WORK}/results/{int(time.time())}.json"
    os.makedirs(os.path.dirname(out), exist_ok=True)
    live = {}
    for n in names:
        live[n] = cs[n]
        print(f"start {n}: {cs[n].start():.2f} s", flush=True)
    try:
        for w in loads:
            for rnd in range(ARGS.rounds):
                for n, f in REFS.get(w, {}).items():
                    res[w].setdefault(n, []).append({**f(), **machine(), "round": rnd})
                for n, c in live.items():
                    if (w, n) in skip:
                        continue
                    try:
                        r = WORKLOADS[w](c, rnd)
                    except Exception as e:
                        r = {"error": f"{type(e).__name__}: {e}"[:300]}
                        print(f"  ! {w} {n}: {r['error']}", flush=True)
                        skip.add((w, n))
                        c.stop()
                        c.start()
                    if r is None:
                        skip.add((w, n))
                        continue
                    res[w].setdefault(n, []).append({**r, **machine(), "round": rnd})
            line = []
            for n, rs in res[w].items():
                good = [r for r in rs if "error" not in r]
                if good:
                    k = next(k for k in ("gibps", "rps", "mibps", "p50", "s") if k in good[0])
                    line.append(f"{n} {statistics.median(r[k] for r in good):.4g}")
            print(f"{w}: " + ", ".join(line), flush=True)
            with open(out, "w") as f:
                json.dump(res, f)
    finally:
        for c in live.values():
            c.stop()
    print(out)


if __name__ == "__main__":
    main()
