# %% [markdown]
# # Your first sandbox
#
# Code that you did not write yourself (a colleague's script, an answer of a language model, a package nobody has
# looked at) should not run where your files and passwords are. A **sandbox** is a closed place on this machine: its own
# directory, no network, no view of your home. You hand in what the code needs, watch it run, and take out what it made.
#
# This page does that once from start to end, with a year of measurements from a small weather station. It takes about
# ten seconds. Run the cells in order, and change them as you like.

# %%
# %load_ext sandbox_sdk

# %% [markdown]
# ## Start
#
# One line. The sandbox lives as long as this notebook's kernel, and its files go with it unless you ask to keep them.
# The *policy* says what may be done in it, the *isolation* who enforces that: with `bubblewrap` the code sees the
# system and its own directory and nothing else; where that is impossible the next best is taken, and named here.

# %%
# %sandbox start

# %% [markdown]
# ## Bring data in
#
# `data/station.csv` has one row per day: temperatures, sunshine on a square metre, the yield of a solar roof and what the
# house below it used. As with every real station some readings are missing.

# %%
# %sandbox upload data/station.csv --to in

# %%
# %sandbox ls -l in

# %% [markdown]
# Any command can be run there. No shell reads the line, so nothing in it is expanded or reinterpreted:

# %%
# %sandbox run head -n 4 in/station.csv

# %% [markdown]
# ## Run code
#
# `%%sandbox run` sends the body of the cell into the sandbox, byte for byte, and shows what it prints while it runs. The
# stop button ■ ends it there too. Here the standard library is enough:

# %%
# %%sandbox run --lang python
import csv
from collections import defaultdict
from statistics import correlation, fmean

with open("in/station.csv") as file:
    days = list(csv.DictReader(file))

gaps = {name: [day["date"] for day in days if not day[name]] for name in days[0]}
print(f"{len(days)} days, {sum(map(len, gaps.values()))} readings missing")
print("nothing at all on", ", ".join(gaps["t_mean_c"]), "\n")

months = defaultdict(list)
for day in days:
    if all(day.values()):
        months[day["date"][:7]].append({name: float(day[name]) for name in day if name != "date"})

print("month     temp °C   solar kWh   used kWh   solar share")
for month, rows in months.items():
    temperature, solar, used = (fmean(row[name] for row in rows) for name in ("t_mean_c", "pv_kwh", "load_kwh"))
    print(f"{month}  {temperature:8.1f}  {solar:10.1f}  {used:9.1f}  {min(solar / used, 9.99):12.0%}")

whole = [row for rows in months.values() for row in rows]
cold = [row for row in whole if row["t_mean_c"] < 12]
pair = [row["t_mean_c"] for row in cold], [row["load_kwh"] for row in cold]
print(f"\nbelow 12 °C use follows temperature with r = {correlation(*pair):.2f}")

# %% [markdown]
# ## Make a picture
#
# What the code writes stays in the sandbox. This cell draws the year as an SVG file.

# %%
# %%sandbox run
import csv, datetime, os

with open("in/station.csv") as file:
    days = [{k: v if k == "date" else float(v) if v else None for k, v in row.items()} for row in csv.DictReader(file)]

LEFT, WIDTH, TOP, HIGH, BARS = 56, 800, 64, 190, 310
INK, SOFT, RED, SUN, USE = "#1f2933", "#7b8794", "#c2410c", "#e3a008", "#64748b"


def x(index):
    return LEFT + WIDTH * index / (len(days) - 1)


def y(celsius):
    return TOP + HIGH * (32 - celsius) / 44


def text(x, y, words, size=12, fill=SOFT, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" {more}>{words}</text>'


svg = [text(LEFT, 32, "A year at the station", 20, INK, more='font-weight="600"')]
svg.append(text(LEFT, 52, "daily mean temperature with its range, °C; below: solar yield and use, kWh per day"))
for celsius in range(-10, 31, 10):
    svg.append(f'<path d="M{LEFT} {y(celsius):.1f}h{WIDTH}" stroke="#e4e7eb"/>')
    svg.append(text(LEFT - 10, y(celsius) + 4, celsius, anchor="end"))

runs, run = [], []  # a missing reading breaks the line
for index, day in enumerate(days):
    if day["t_mean_c"] is None:
        runs, run = runs + [run], []
    else:
        run = run + [(index, day)]
for run in filter(None, runs + [run]):
    upper = [f'{x(i):.1f},{y(day["t_max_c"]):.1f}' for i, day in run]
    lower = [f'{x(i):.1f},{y(day["t_min_c"]):.1f}' for i, day in reversed(run)]
    middle = [f'{x(i):.1f},{y(day["t_mean_c"]):.1f}' for i, day in run]
    svg.append(f'<polygon points="{" ".join(upper + lower)}" fill="{RED}" opacity=".18"/>')
    svg.append(f'<polyline points="{" ".join(middle)}" fill="none" stroke="{RED}" stroke-width="1.4"/>')

tallest = 48
for kwh in (0, 20, 40):
    height = BARS + 110 * (1 - kwh / tallest)
    svg.append(f'<path d="M{LEFT} {height:.1f}h{WIDTH}" stroke="#e4e7eb"/>' + text(LEFT - 10, height + 4, kwh, anchor="end"))
for month in range(1, 13):
    rows = [day for day in days if int(day["date"][5:7]) == month]
    middle = LEFT + WIDTH * (month - 0.5) / 12
    for offset, name, colour in ((-20, "pv_kwh", SUN), (2, "load_kwh", USE)):
        values = [day[name] for day in rows if day[name] is not None]
        height = 110 * sum(values) / len(values) / tallest
        svg.append(f'<rect x="{middle + offset:.1f}" y="{BARS + 110 - height:.1f}" width="18" height="{height:.1f}" rx="2" fill="{colour}"/>')
    svg.append(text(middle, BARS + 128, datetime.date(2025, month, 1).strftime("%b"), anchor="middle"))
for offset, words, colour in ((0, "solar yield", SUN), (100, "used", USE)):
    svg.append(f'<rect x="{LEFT + 650 + offset}" y="{BARS - 22}" width="11" height="11" rx="2" fill="{colour}"/>')
    svg.append(text(LEFT + 666 + offset, BARS - 12, words))

os.makedirs("out", exist_ok=True)
with open("out/plot.svg", "w") as file:
    file.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 460" font-family="system-ui, sans-serif">')
    file.write('<rect width="900" height="460" rx="10" fill="#fff"/>' + "\n".join(svg) + "</svg>")
print("out/plot.svg is", os.path.getsize("out/plot.svg"), "bytes")

# %% [markdown]
# Fetch it, and look at it here:

# %%
# %sandbox download out/plot.svg

# %%
from IPython.display import SVG

SVG("plot.svg")

# %% [markdown]
# ## What is allowed?
#
# Nobody has to guess: the sandbox tells what this notebook may do in it, and which rule forbids the rest.

# %%
# %sandbox caps

# %% [markdown]
# A single question gets its answer, with the reason, without doing anything:

# %%
# %sandbox check files_download_stream out/plot.svg

# %%
# %sandbox check files_download_stream /etc/passwd

# %% [markdown]
# The answer is what really happens. The next cell tries, and fails: two lines, what was refused and what to do. (The
# cell counts as failed, so *Run All* stops at a refusal. Here it is marked as expected.)

# %% tags=["raises-exception"]
# %sandbox download /etc/passwd

# %% [markdown]
# ## A narrower sandbox
#
# Often less is enough. This second sandbox can only exchange files, and gives them out from `out` alone:

# %%
# %sandbox start --name exchange --only transfer --download-from out

# %% tags=["raises-exception"]
# %sandbox run --in exchange python3 --version

# %% [markdown]
# ## In the background
#
# A long job need not block the notebook. `--bg` starts it, `ps` lists what runs, `logs -f` follows the output.

# %%
# %sandbox use local

# %%
# %%sandbox run --bg
import time

for step in range(1, 4):
    print(f"step {step} of 3")
    time.sleep(0.2)

# %%
# %sandbox logs -f

# %%
# %sandbox run --bg sleep 600

# %%
# %sandbox ps

# %%
# %sandbox kill

# %% [markdown]
# ## From Python
#
# Every magic gives its result to a variable, as ordinary objects, and `%sandbox use` hands out the sandbox itself.

# %%
# files = %sandbox ls out
[(file.name, file.size > 10_000) for file in files]

# %%
# sandbox = %sandbox use local
print(sandbox.files.read_text("in/station.csv").splitlines()[0])

# %% [markdown]
# ## Stop
#
# Both sandboxes and everything in them are gone after this; what you downloaded stays.

# %%
# %sandbox stop --all

# %% [markdown]
# `%sandbox` alone lists everything else, `%sandbox help run` explains one of them, and Tab completes names of
# subcommands, options, endpoints and files on both sides.
