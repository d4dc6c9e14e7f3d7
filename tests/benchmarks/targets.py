#!/usr/bin/env python3
"""Judge a result file against the targets: medians of ratios taken within one round.

targets.py results/latest.json
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass

#: CPU per unit of work, whatever a workload calls it.
CPU = ("cpu_s_per_gib", "cpu_us", "cpu_s")


@dataclass(frozen=True)
class Target:
    workload: str
    metric: str  # a column of the result file, or "cpu"
    peer: str  # contestant to divide by; "" for the figure itself
    kind: str  # "max" or "min" of the quotient
    bound: float
    pick: str = "median"  # of the rounds


TARGETS = (
    Target("upload", "cpu", "nginx", "max", 0.75),
    Target("upload", "gibps", "nginx", "min", 1.2),
    Target("upload", "gibps", "asgi", "min", 4),
    Target("upload", "gibps", "ref:cp", "min", 0.8),
    Target("upload", "gibps", "ass", "min", 12),
    Target("upload", "cpu", "ass", "max", 0.08),
    Target("upload", "grow_mb", "", "max", 4),
    Target("upload_copying", "cpu", "nginx", "max", 0.9),
    Target("download", "cpu", "nginx", "max", 1.1),
    Target("download", "gibps", "nginx", "min", 0.8),
    Target("download", "gibps", "asgi", "min", 2.5),
    Target("download", "gibps", "ass", "min", 15),
    Target("download", "grow_mb", "", "max", 4),
    Target("small_up_seq", "rps", "ass", "min", 2.5),
    Target("small_up_seq", "rps", "asgi", "min", 1.1),
    Target("small_up_c16", "cpu", "ass", "max", 0.3),
    Target("small_up_c16", "rps", "ass", "min", 3),
    Target("small_down_c16", "cpu", "ass", "max", 0.1),
    Target("small_down_seq", "rps", "ass", "min", 6),
    Target("small_down_c16", "rps", "ass", "min", 12),
    *(
        target
        for load in ("health", "stat")
        for connections in (1, 16, 64, 256)
        for target in (
            Target(f"{load}_c{connections}", "cpu", "ass", "max", 0.12),
            Target(f"{load}_c{connections}", "cpu", "asgi", "max", 1.0),
            Target(f"{load}_c{connections}", "rps", "ass", "min", 8),
        )
    ),
    Target("list100k", "cpu", "ass", "max", 0.085),
    Target("list100k", "cpu", "ref:find-stat", "max", 2.0),
    Target("list100k", "ttfb", "", "max", 0.2),
    Target("list100k_unsorted", "ttfb", "", "max", 0.02),
    Target("search100k", "cpu", "ass", "max", 0.8),
    Target("search100k", "cpu", "ref:find-name", "max", 1.5),
    Target("archive10k", "cpu", "ass", "max", 0.6),
    Target("archive10k_stored", "cpu", "ass", "max", 0.25),
    Target("archive10k_tar", "cpu", "ass", "max", 0.25),
    *(
        target
        for form in ("archive10k", "archive10k_stored", "archive10k_tar")
        for target in (Target(form, "ttfb", "", "max", 0.05), Target(form, "grow_mb", "", "max", 4))
    ),
    *(
        target
        for kind in ("idle500", "idle500_run", "idle500_follow")
        for target in (
            Target(kind, "mb", "", "max", 8),
            Target(kind, "idle_cpu", "", "max", 0),
            Target(kind, "p50_ratio", "", "max", 1.3),
        )
    ),
    Target("run_true", "p50", "ass", "max", 0.7),
    Target("run_true", "cpu", "ass", "max", 0.8),
    Target("stream_ttfb", "p50", "ass", "max", 0.6),
    Target("out200m", "cpu", "ass", "max", 0.1),
    Target("out200m", "mibps", "ass", "min", 8),
    Target("out200m", "grow_mb", "", "max", 2),
    Target("out100klines", "mibps", "ass", "min", 20),
    Target("coldstart", "s", "ass", "max", 0.75, "min"),
)


@dataclass(frozen=True)
class Limit:
    """What the machine itself can do of a workload: a figure of some contestant, as it is shown beside ours."""

    metric: str
    peer: str
    words: str
    unit: str
    workload: str = ""  # where it was measured; "" for in the same workload


LIMITS = {
    "upload": Limit("gibps", "ref:cp", "`cp`", "GiB/s"),
    **{name: Limit("gibps", "nginx", "nginx", "GiB/s") for name in ("upload_copying", "download")},
    **{name: Limit("rps", "nginx", "nginx", "a second") for name in ("small_up_seq", "small_up_c16")},
    **{name: Limit("rps", "nginx", "nginx", "a second") for name in ("small_down_seq", "small_down_c16")},
    **{f"health_c{n}": Limit("rps", "nginx", "nginx", "a second") for n in (1, 16, 64, 256)},
    **{
        f"stat_c{n}": Limit("rps", "nginx", "nginx answering /health", "a second", f"health_c{n}")
        for n in (1, 16, 64, 256)
    },
    "list100k": Limit("s", "ref:find-stat", "`find -printf`", "s"),
    "list100k_unsorted": Limit("s", "ref:find-stat", "`find -printf`", "s", "list100k"),
    "search100k": Limit("s", "ref:find-name", "`find -name`", "s"),
    "archive10k": Limit("s", "ref:tar-gzip1", "`tar \\| gzip -1`", "s"),
    "archive10k_stored": Limit("s", "ref:tar", "`tar`", "s", "archive10k"),
    "archive10k_tar": Limit("s", "ref:tar", "`tar`", "s", "archive10k"),
    "run_true": Limit("p50", "ref:posix_spawn", "`posix_spawn` and `waitpid`", "s"),
    "stream_ttfb": Limit("p50", "ref:pipe", "`Popen` and one read", "s"),
    "out200m": Limit("mibps", "ref:pipe", "a pipe, read to its end", "MiB/s"),
    "out100klines": Limit("mibps", "ref:pipe", "a pipe, read to its end", "MiB/s"),
    "coldstart": Limit("s", "ref:python", "`python -c pass`", "s"),
}


def beside_the_limit(data: dict, workload: str) -> str:
    """Our median and that of the machine's limit, both as measured."""
    limit = LIMITS.get(workload)
    if limit is None:
        return ""
    ours = _median(data.get(workload, {}).get("ours", []), limit.metric)
    most = _median(data.get(limit.workload or workload, {}).get(limit.peer, []), limit.metric)
    return f"{_short(ours)}; {limit.words} {_short(most)} {limit.unit}" if ours and most else ""


def _median(rows: list[dict], metric: str) -> float | None:
    values = [row[metric] for row in rows if row.get(metric) is not None]
    return statistics.median(values) if values else None


def _short(value: float | None) -> str:
    return f"{value:,.0f}" if value and value >= 1000 else f"{value:.3g}"


def figure(row: dict, metric: str) -> float | None:
    if metric == "cpu":
        return next((row[name] for name in CPU if row.get(name) is not None), None)
    return row.get(metric)


def measure(data: dict, target: Target) -> list[float]:
    """One figure per round: ours, or ours divided by the peer's of the same round."""
    rows = data.get(target.workload, {})
    ours = [r for r in rows.get("ours", []) if "error" not in r]
    if not target.peer:
        return [value for r in ours if (value := figure(r, target.metric)) is not None]
    peers = [r for r in rows.get(target.peer, []) if "error" not in r]
    if target.pick == "min":  # the best of all rounds on each side
        sides = [[v for r in side if (v := figure(r, target.metric))] for side in (ours, peers)]
        return [min(sides[0]) / min(sides[1])] if all(sides) else []
    by_round = {r["round"]: r for r in peers}
    pairs = [
        (figure(r, target.metric), figure(by_round[r["round"]], target.metric)) for r in ours if r["round"] in by_round
    ]
    return [a / b for a, b in pairs if a is not None and b]


def main() -> int:
    with open(sys.argv[1]) as file:
        data = json.load(file)
    missed = 0
    shown: set[str] = set()
    print("| workload | figure | target | measured (range) | | ours; the physical limit |")
    print("| --- | --- | --- | --- | --- | --- |")
    for target in TARGETS:
        values = measure(data, target)
        if not values:
            continue
        middle = statistics.median(values)
        held = middle <= target.bound if target.kind == "max" else middle >= target.bound
        missed += not held
        beside = f"{target.metric} / {target.peer}" if target.peer else target.metric
        sign = "≤" if target.kind == "max" else "≥"
        span = f" ({min(values):.3g}–{max(values):.3g})" if len(values) > 1 else ""
        verdict = "ok" if held else "**missed**"
        limit = "" if target.workload in shown else beside_the_limit(data, target.workload)
        shown.add(target.workload)
        print(f"| {target.workload} | {beside} | {sign} {target.bound} | {middle:.3g}{span} | {verdict} | {limit} |")
    print(f"\n{missed} target(s) missed" if missed else "\nall targets held")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
