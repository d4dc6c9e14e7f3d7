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
# A colleague sent `draw_year.py`. Nobody here has read it, which is fine: it goes into the sandbox, where it can read the
# measurements and write a file, and that is all it can do.

# %%
# %sandbox upload data/draw_year.py

# %%
# %sandbox run python3 draw_year.py in/station.csv out/plot.svg

# %% [markdown]
# What it wrote stays in the sandbox until you fetch it. (A file of yours is never replaced by accident; `--overwrite`,
# because you will run this page more than once.)

# %%
# %sandbox download out/plot.svg --overwrite

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
[file.name for file in files]

# %%
# answer = %sandbox run --quiet python3 -c "print(6 * 7)"
int(answer.stdout)

# %%
# sandbox = %sandbox use local
sandbox.files.read_text("in/station.csv").splitlines()[0]

# %% [markdown]
# ## Stop
#
# Both sandboxes and everything in them are gone after this; what you downloaded stays.

# %%
# %sandbox stop --all

# %% [markdown]
# `%sandbox` alone lists everything else, `%sandbox help run` explains one of them, and Tab completes names of
# subcommands, options, endpoints and files on both sides.
