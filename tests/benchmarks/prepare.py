#!/usr/bin/env python3
"""Make the data set of bench.py under $BENCH_WORK/root (idempotent)."""

import base64
import os
import random

from contestants import ROOT, WORK

M = 1 << 20


def big(path, block_of):
    if os.path.exists(path) and os.path.getsize(path) == 1024 * M:
        return
    with open(path, "wb") as f:
        for i in range(1024):
            f.write(block_of(i))


def files(folder, names, data_of=lambda i: b""):
    os.makedirs(folder, exist_ok=True)
    if len(os.listdir(folder)) >= len(names):
        return
    for i, n in enumerate(names):
        with open(os.path.join(folder, n), "wb") as f:
            f.write(data_of(i))


def main():
    for d in ("empty", "up4k"):
        os.makedirs(f"{ROOT}/{d}", exist_ok=True)
    for d in ("results",):
        os.makedirs(f"{WORK}/{d}", exist_ok=True)
    big(f"{ROOT}/big.bin", lambda i: os.urandom(M))
    line = b"abcdefghijklmnopqrstuvwxyz0123456789 the quick brown fox jumps over the lazy dog " * 13
    line = line[:1023] + b"\n"
    big(f"{ROOT}/big.txt", lambda i: line * 1024)
    if not os.path.exists(f"{WORK}/big.b64"):
        with open(f"{ROOT}/big.bin", "rb") as f, open(f"{WORK}/big.b64", "wb") as g:
            while d := f.read(3 * M):
                g.write(base64.b64encode(d))
    with open(f"{ROOT}/s4k.txt", "wb") as f:
        f.write(b"x" * 4095 + b"\n")
    files(f"{ROOT}/d10k", [f"file_{i:06d}.txt" for i in range(10_000)])
    files(f"{ROOT}/d100k", [f"file_{i:06d}.txt" for i in range(100_000)])
    for d in range(100):
        names = [f"needle_{d}.txt" if i == 500 and d % 10 == 3 else f"file_{i:06d}.txt" for i in range(1000)]
        files(f"{ROOT}/tree/d{d % 10}/s{d:03d}", names)
    files(
        f"{ROOT}/small",
        [f"f{i:03d}.txt" for i in range(200)],
        lambda i: (b"%04d the quick brown fox\n" % i * 400)[:4096],
    )
    rnd = random.Random(1)
    words = [bytes(rnd.choices(b"abcdefghijklmnopqrstuvwxyz", k=rnd.randint(3, 9))) for _ in range(2000)]
    for d in range(10):
        files(
            f"{ROOT}/arch/d{d}",
            [f"f{i:04d}.txt" for i in range(1000)],
            lambda i: b" ".join(rnd.choices(words, k=700))[:4096],
        )


if __name__ == "__main__":
    main()
