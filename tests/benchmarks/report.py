#!/usr/bin/env python3
"""Medians and within-round ratios of bench.py result files.

  report.py results/main.json [more.json ...] [--base ass] [--md]
Rows: contestants.  Ratio columns compare with --base in the same round (median of the
per-round quotients; > 1 means better than the base).
"""

import argparse
import json
import statistics

HIGHER = {"gibps", "rps", "mibps"}
SHOW = {  # workload prefix -> (main metric, further metrics)
    "upload": ("gibps", ["cpu_s_per_gib", "peak_mb"]),
    "download": ("gibps", ["cpu_s_per_gib", "peak_mb", "ttfb"]),
    "small": ("rps", ["p50", "p99", "cpu_us"]),
    "health": ("rps", ["p50", "p99", "cpu_us"]),
    "stat": ("rps", ["p50", "p99", "cpu_us"]),
    "list": ("s", ["cpu_s", "ttfb", "wire", "grow_mb"]),
    "search": ("s", ["cpu_s"]),
    "run": ("p50", ["p99", "cpu_us"]),
    "stream": ("p50", ["p99"]),
    "out": ("mibps", ["ttfb", "cpu_s", "wire", "grow_mb", "live", "truncated"]),
    "archive": ("s", ["cpu_s", "ttfb", "wire", "grow_mb"]),
    "idle": ("p50", ["p99", "p50_before", "mb", "threads", "idle_cpu", "streams"]),
    "coldstart": ("s", ["rss_mb", "threads"]),
    "import": ("s", ["bare"]),
}


def fmt(v):
    if v is None:
        return "-"
    if isinstance(v, bool):
        return "yes" if v else "no"
    if v == 0:
        return "0"
    if abs(v) >= 1000:
        return f"{v:.0f}"
    return f"{v:.3g}"


def med(rs, k):
    xs = [r[k] for r in rs if r.get(k) is not None]
    return statistics.median(xs) if xs else None


def ratio(q):
    """Median quotient with the range over rounds: the range is the honest part."""
    if not q:
        return "-"
    return f"{fmt(statistics.median(q))} ({fmt(min(q))}-{fmt(max(q))})" if len(q) > 1 else fmt(q[0])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("files", nargs="+")
    ap.add_argument("--base", default="ass")
    ap.add_argument("--md", action="store_true")
    a = ap.parse_args()
    data = {}
    for f in a.files:
        with open(f) as fh:
            for w, d in json.load(fh).items():
                for n, rs in d.items():
                    data.setdefault(w, {})[n] = rs  # a later file replaces
    for w, d in data.items():
        key, (main_, extra) = next((k, v) for k, v in SHOW.items() if w.startswith(k))
        base = {r["round"]: r for r in d.get(a.base, []) if "error" not in r}
        cols = ["contestant", main_, f"x {a.base}", *extra, "n"]
        rows = []
        for n, rs in d.items():
            good = [r for r in rs if "error" not in r]
            if not good:
                rows.append([n, "FAILED: " + rs[0]["error"][:90]])
                continue
            q = [
                (r[main_] / base[r["round"]][main_]) ** (1 if main_ in HIGHER else -1)
                for r in good
                if r["round"] in base and r.get(main_) and base[r["round"]].get(main_)
            ]
            rows.append([n, fmt(med(good, main_)), ratio(q), *(fmt(med(good, k)) for k in extra), str(len(good))])
        print(f"\n### {w}\n" if a.md else f"\n== {w}")
        if a.md:
            print("| " + " | ".join(cols) + " |\n|" + " --- |" * len(cols))
            for r in rows:
                print("| " + " | ".join(r) + " |")
        else:
            wid = [max(len(str(r[i])) if i < len(r) else 0 for r in [cols, *rows]) for i in range(len(cols))]
            wid = [min(x, 26) for x in wid]
            for r in [cols, *rows]:
                print("  ".join(str(x).ljust(wid[i]) for i, x in enumerate(r)))


if __name__ == "__main__":
    main()
