#!/usr/bin/env python3
"""One command for the comparison: make the peers and the data, run the rounds, judge the targets.

run.py                                   everything, 10 rounds
run.py -w health_c16,stat_c16 -r 3       a part of it
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = {
    "ass": ["agent-sandbox-server==0.4.0a6"],
    "asgi": ["uvicorn", "starlette", "uvloop", "httptools"],
}
OURS = HERE.parent.parent / "server"
WORKLOADS = (
    "upload,upload_copying,download,small_up_seq,small_up_c16,small_down_seq,small_down_c16,"
    "health_c1,health_c16,health_c64,health_c256,"
    "stat_c1,stat_c16,stat_c64,stat_c256,list100k,list100k_unsorted,search100k,run_true,stream_ttfb,out200m,"
    "out100klines,archive10k,archive10k_stored,archive10k_tar,idle500,idle500_run,idle500_follow,coldstart"
)


def install_ours(folder: Path) -> Path:
    """The Python of an environment that holds our server and nothing else, as it is now."""
    python = folder / "ours" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "ours"], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", OURS]
    subprocess.run(install, check=True)
    return python


def make_peers(folder: Path) -> list[str]:
    """Virtual environments of the peers that can be had here; answers the contestants' names."""
    names = ["ours"]
    for name, packages in PEERS.items():
        python = folder / name / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)
            install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--pre", *packages]
            if subprocess.run(install).returncode:
                shutil.rmtree(folder / name)
                print(f"left out: {name} (its packages cannot be installed)")
                continue
        names.append(name)
    if os.path.exists("/usr/sbin/nginx"):
        names.append("nginx")
    else:
        print("left out: nginx (apt-get install nginx)")
    return names


@contextmanager
def awake() -> Iterator[None]:
    """Processors that have nothing to do wait without halting, as long as this is open (PM QoS, as `tuned` uses it)."""
    with open("/dev/cpu_dma_latency", "wb", buffering=0) as latency:
        latency.write(struct.pack("=i", 0))  # microseconds that waking up may take
        yield


@contextmanager
def beside(count: int) -> Iterator[None]:
    """So many processes that compute all the time, as on a machine that does other work too."""
    others = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-w", "--workloads", default=WORKLOADS)
    parser.add_argument("-c", "--contestants", help="default: all that can be had here")
    parser.add_argument("-r", "--rounds", default="10")
    parser.add_argument("--work", default="/var/tmp/nsb-bench", help="data, peers and results (about 4 GiB)")
    parser.add_argument("--awake", action="store_true", help="keep every processor from halting; see README.md")
    parser.add_argument("--beside", type=int, default=0, metavar="N", help="measure beside N processes that compute")
    parser.add_argument("--md", action="store_true", help="print Markdown tables too")
    options = parser.parse_args()
    work = Path(options.work)
    os.environ["BENCH_WORK"], os.environ["BENCH_PEERS"] = str(work), str(work / "peers")
    if not shutil.which("wrk"):
        print("wrk is missing: apt-get install wrk", file=sys.stderr)
        return 1
    os.environ["BENCH_OURS_PYTHON"] = str(install_ours(work / "peers"))
    names = make_peers(work / "peers")
    subprocess.run([sys.executable, HERE / "prepare.py"], check=True)
    result = work / "results" / "latest.json"
    wanted = options.contestants or ",".join(names)
    bench = [
        sys.executable,
        HERE / "bench.py",
        "-w",
        options.workloads,
        "-c",
        wanted,
        "-r",
        options.rounds,
        "-o",
        result,
    ]
    with awake() if options.awake else nullcontext(), beside(options.beside):
        subprocess.run(bench, check=True)
    if options.md:
        subprocess.run([sys.executable, HERE / "report.py", result, "--md"], check=True)
    return subprocess.run([sys.executable, HERE / "targets.py", result]).returncode


if __name__ == "__main__":
    raise SystemExit(main())
