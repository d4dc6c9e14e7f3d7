"""How quick the widgets are in a real JupyterLab, and the extension to load.

python tests/benchmarks/widgets.py [--only load,lag,flood,stop,upload]

Needs what the browser's tests need, the `dev` extra and a Chromium, and a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.chromium import Chromium
from tests.browser.lab import Lab, Page, browse, until
from tests.browser.test_upload_picker import CHOOSE, PHASES, PICK, random_file
from tests.support.memory import MIB, peak, reset_peak

Row = tuple[str, float, float, str]  # what, measured, target, unit

START = "%load_ext sandbox_notebook\nsb = %sandbox start\nfrom sandbox_notebook.widgets.process import ProcessPane"
# Each line tells when it was written; the page tells when it was to be seen.
STEADY = """program = r'''
import time
began = time.time()
for batch in range({seconds} * 50):
    time.sleep(max(0, began + batch / 50 - time.time()))
    now = "\\x1b[32m%.0f\\x1b[0m" % (time.time() * 1000)
    lines = (f"{{now}} line {{batch * {each} + n}}, as long as those of a log" for n in range({each}))
    print("\\n".join(lines), flush=True)
time.sleep(600)
'''
pane = ProcessPane(sb.process.start(["python3", "-c", program]), title="steady")
pane.show()"""
FLOOD = "pane = ProcessPane(sb.process.start(['yes']), title='flood')\npane.show()"
# Answers with when the process was no more, asking often and from outside.
DEATH = "import time\nwhile sb.process.list(): time.sleep(0.005)\nprint(time.time() * 1000)"

LOAD = """import time; began = time.perf_counter()
get_ipython().run_line_magic("load_ext", "sandbox_sdk")
print((time.perf_counter() - began) * 1000)"""

# The time between two frames, and of each frame the age of the newest line that it shows.
WATCH = """() => {
  const seen = window.seen = { gaps: [], ages: [], on: true };
  let before = performance.now();
  const frame = (now) => {
    seen.gaps.push(now - before);
    before = now;
    const newest = document.querySelector('.nsb-lines')?.lastElementChild;
    const written = newest && /^(\\d{13}) /.exec(newest.textContent);
    if (written) seen.ages.push(Date.now() - Number(written[1]));
    if (seen.on) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
WATCHED = "() => { window.seen.on = false; return window.seen; }"
CLICK = """() => {
  const stops = [...document.querySelectorAll('.nsb-stop')].filter((button) => !button.hidden);
  stops.at(-1).click();
  return Date.now();
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="load,lag,flood,stop,upload")
    chosen = parser.parse_args().only.split(",")
    print("| what | measured | target | |\n| --- | --- | --- | --- |")
    held = True
    if "load" in chosen:
        held &= told([("`%load_ext sandbox_sdk`, median of 9 new kernels", loading(9), 150, "ms")])
    if set(chosen) - {"load"}:
        with tempfile.TemporaryDirectory() as directory:
            lab = Lab(Path(directory, "lab"))
            try:
                for name, measure in (("lag", lag), ("flood", flood), ("stop", stop), ("upload", upload)):
                    if name in chosen:
                        held &= told(measure(lab))
                        lab.end_kernels()
            finally:
                lab.close()
    return int(not held)


def told(rows: list[Row]) -> bool:
    """Whether all targets are held, which are printed as they are measured."""
    for what, measured, target, unit in rows:
        verdict = "ok" if measured < target else "**missed**"
        print(f"| {what} | {measured:.0f} {unit} | < {target:.0f} {unit} | {verdict} |", flush=True)
    return all(measured < target for _, measured, target, _ in rows)


def loading(rounds: int) -> float:
    """Milliseconds of the one line as a kernel's first; the compiled files are there already."""
    from jupyter_client.manager import start_new_kernel

    taken: list[str] = []
    for _ in range(rounds + 1):
        manager, client = start_new_kernel(stderr=subprocess.DEVNULL)
        try:
            client.execute_interactive(
                LOAD, output_hook=lambda message: taken.append(message["content"].get("text", ""))
            )
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    return statistics.median([float(text) for text in taken if text][1:])


def lag(lab: Lab, rate: int = 5000, seconds: int = 8) -> list[Row]:
    """A process that writes steadily: how old the newest line in the page is."""
    with opened(lab, STEADY.format(seconds=seconds, each=rate // 50)) as page:
        until(lambda: page.page.locator(".nsb-block").count(), 30, "no output came")
        seen = watch(page, seconds - 2)
        ages = sorted(seen["ages"])
        shown = str(page.page.locator(".nsb-lines").evaluate("(e) => e.lastElementChild.textContent"))
        print(f"lag: {len(ages)} frames, last shown: {shown[14:40]}…", file=sys.stderr)
        return [
            (f"age of the newest line at {rate:,} coloured lines/s, median", statistics.median(ages), 300, "ms"),
            ("the same, p99", at(ages, 0.99), 300, "ms"),
            ("gap between frames meanwhile, p99", at(seen["gaps"], 0.99), 150, "ms"),
        ]


def flood(lab: Lab, seconds: int = 10) -> list[Row]:
    """`yes`, which writes as fast as it can: how long the page does nothing else."""
    with opened(lab, FLOOD) as page:
        until(lambda: page.page.locator(".nsb-block").count(), 30, "no output came")
        seen = watch(page, seconds)
        gaps = seen["gaps"]
        print(f"flood: {len(gaps)} frames in {seconds} s, longest gap {max(gaps):.0f} ms", file=sys.stderr)
        return [(f"gap between frames while `yes` runs for {seconds} s, p99", at(gaps, 0.99), 150, "ms")]


def stop(lab: Lab, rounds: int = 5) -> list[Row]:
    """From the click to the end of the process in the sandbox, a process that ends when asked, and a flood."""
    taken = []
    with opened(lab, FLOOD, *[DEATH, FLOOD] * rounds) as page:
        for number in range(rounds):
            until(lambda: page.page.locator(".nsb-block").count(), 30, "no output came")
            page.page.wait_for_timeout(500)
            page.run(2 + 2 * number, wait=False)
            until(lambda number=number: "*" in page.cells()[2 + 2 * number]["prompt"], 10, "the cell did not begin")
            clicked = page.page.evaluate(CLICK)
            until(lambda number=number: page.cells()[2 + 2 * number]["outputs"], 30, "it did not end")
            taken.append(float(page.cells()[2 + 2 * number]["outputs"][0]["text"]) - clicked)
            page.run(3 + 2 * number)
    return [(f"■ to the death of `yes`, beside a busy cell, longest of {rounds}", max(taken), 1000, "ms")]


def upload(lab: Lab, size: int = 500_000_000) -> list[Row]:
    """One file through the picker: what the kernel's memory grows by, and for how long it takes."""
    file, digest = random_file(lab.directory, "large.bin", size)
    cells = ("import os\nprint(os.getpid())", PICK, "print(picker.receipts[0].sha256)")
    name = lab.write(f"measured-{time.time_ns()}.ipynb", START, *cells)
    chromium = Chromium(lab.directory / "profile")
    try:
        with chromium.watched(lab, name) as page:
            _, printed, _ = (page.run(cell) for cell in range(3))
            kernel = int(printed["outputs"][0]["text"])
        with chromium.unwatched() as tools:
            before, began = reset_peak(kernel), time.monotonic()
            tools.choose(CHOOSE, file)
            until(lambda: tools.evaluate(PHASES) == ["done"], 300, "the upload did not come through")
            seconds = time.monotonic() - began
            grown = (peak(kernel) - before) / MIB
        with chromium.watched(lab, name) as page:
            assert page.run(3)["outputs"][0]["text"].strip() == digest
    finally:
        chromium.close()
    return [
        (f"growth of the kernel by an upload of {size // 10**6} MB", grown, 40, "MiB"),
        (f"the same upload, in all ({size / 1e6 / seconds:.0f} MB/s)", seconds, size / 50e6, "s"),
    ]


@contextlib.contextmanager
def opened(lab: Lab, *cells: str) -> Iterator[Page]:
    """A notebook of these cells, of which the first has been run."""
    with browse(lab, lab.write(f"measured-{time.time_ns()}.ipynb", START, *cells)) as page:
        page.run(0)
        page.run(1)
        yield page


def watch(page: Page, seconds: float) -> dict[str, list[float]]:
    page.page.wait_for_timeout(1000)
    page.page.evaluate(WATCH)
    page.page.wait_for_timeout(seconds * 1000)
    seen: dict[str, list[float]] = page.page.evaluate(WATCHED)
    return seen


def at(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


if __name__ == "__main__":
    raise SystemExit(main())
