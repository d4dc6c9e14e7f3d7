# %% [markdown]
# # Files, in and out
#
# A sandbox has two doors: what you put in, and what you take out. Both deserve care. A file arrives whole or not at all, nothing
# of yours is replaced by accident, and nobody has to fetch a file in order to look at it.
#
# This page goes through all of it with a small project: a year of measurements from a weather station, and two scripts. (The
# [quickstart](01_quickstart.ipynb) shows a sandbox from start to end; here it is files only.)

# %%
# %load_ext sandbox_sdk

# %%
# %sandbox start

# %% [markdown]
# ## In
#
# A file, a folder or a pattern goes up. `--to` names the directory that takes it in; if it is missing, it is made.

# %%
# %sandbox upload data --to project

# %% [markdown]
# In JupyterLab, `%sandbox upload` without a path shows a box to drop files into, with a bar for each of them. Two gigabytes
# arrive there as calmly as two kilobytes, and go on where they were when the connection has been away.
#
# An assignment gets the receipt instead of showing it. `--verify` compares SHA-256 on both sides.

# %%
# receipt = %sandbox upload data/station.csv --verify
receipt.path, receipt.bytes

# %% [markdown]
# ## Look around
#
# The words are those of a shell. Only what is shown crosses over, however large the files are.

# %%
# %sandbox tree

# %%
# %sandbox head -n 4 station.csv

# %%
# %sandbox find "*.py"

# %% [markdown]
# `grep` searches over there as well. On which days did the station measure nothing at all? Those are the lines that end in six
# commas:

# %%
# %sandbox grep -E ",{6}$" station.csv

# %% [markdown]
# Everything that is shown is also an object, and a list of objects becomes a table of pandas when you want one:

# %%
# hits = %sandbox grep --name "*.py" "def " project
hits.to_pandas()[["name", "line", "text"]].head(4)

# %% [markdown]
# In JupyterLab, `%sandbox browse` shows the sandbox as a folder, with previews, and with marks where the policy says no:
#
# ![The file browser: folders, a preview of a table, marks on what is read only](../docs/images/file-browser.png)
#
# ## Change a file where it is
#
# To change one line, nobody should send a file back and forth. Say which text stands there and what shall stand there instead.
# `--dry-run` only shows what would become of it:

# %%
# %sandbox edit project/data/draw_year.py --old "MOST_KWH = 48" --new "MOST_KWH = 60" --dry-run

# %% [markdown]
# The old text must stand there exactly once. Otherwise the sandbox would have to guess which one you mean, and it does not guess:

# %% tags=["raises-exception"]
# %sandbox edit project/data/draw_year.py --old MOST_KWH --new HIGHEST

# %%
# %sandbox edit project/data/draw_year.py --old MOST_KWH --new HIGHEST --all

# %% [markdown]
# Several lines are easier to write as a cell. The body takes the place of line 1:

# %%
# %%sandbox edit project/data/draw_year.py --lines 1:1
"""Draw a year of measurements as an SVG file.

Use it as: python3 draw_year.py station.csv plot.svg
"""

# %% [markdown]
# ## Tidy up

# %%
# %sandbox mkdir in out

# %%
# %sandbox mv station.csv in

# %%
# %sandbox rm project/data/make_station.py

# %%
# %sandbox tree

# %% [markdown]
# ## Be told
#
# When a program writes files, there is no need to look again and again. `%sandbox watch out` tells each change while it happens,
# until the stop button ■ ends it. In a program the same is a loop. Here a job writes three reports, the way careful programs do:
# first beside, then moved to their place when they are whole.

# %%
# %%sandbox run --quiet tee reports.py
import os, time

for month in ("2025-01", "2025-02", "2025-03"):
    with open("report.part", "w") as file:
        file.write(f"In {month} all went well.\n")
    os.rename("report.part", f"out/{month}.txt")
    time.sleep(0.5)

# %%
# sandbox = %sandbox use local

with sandbox.files.watch("out") as changes:
    sandbox.process.start("python3 reports.py")
    for change in changes:
        print(change.type, change.path)
        if change.path.endswith("2025-03.txt"):
            break

# %% [markdown]
# ## Nothing is replaced by accident
#
# What you have sent and nobody has touched since, you may send again. But here somebody in the sandbox has worked on the file:

# %%
# %%sandbox run
with open("in/station.csv", "a") as file:
    print("2026-01-01,-1.0,2.0,5.1,0.80,5.40,31.90", file=file)

# %% tags=["raises-exception"]
# %sandbox upload data/station.csv --to in

# %% [markdown]
# If you mean it, say `--overwrite`. It is the same in the other direction: `download` replaces what an earlier download wrote,
# and no other file of yours.

# %%
# %sandbox upload data/station.csv --to in --overwrite

# %% [markdown]
# ## Large files, and files that grow
#
# Above 64 MiB a file goes up in parts by itself, and what has arrived is never sent again. If your program *makes* the data, it
# can send the parts as they come. Halfway through, this one loses its source:

# %%
def simulation(start=0):
    """Eight blocks of one MiB, from a machine that is not reliable."""
    for number in range(start, 8):
        if number == 5 and start == 0:
            raise ConnectionError("the machine that simulates is gone")
        yield bytes([number]) * 2**20


upload = sandbox.files.begin_upload("in/simulation.bin", verify="sha256")
try:
    for block in simulation():
        upload.append(block)
except ConnectionError as error:
    print(error)

# %% [markdown]
# Nothing is lost, and nobody in the sandbox sees half a file. `resume` asks how much has arrived, and the rest follows:

# %%
arrived = upload.resume()
print(f"{arrived / 2**20:g} MiB have arrived, visible: {sandbox.files.exists('in/simulation.bin')}")

for block in simulation(start=arrived // 2**20):
    upload.append(block)
receipt = upload.finish()
print(f"{receipt.bytes / 2**20:g} MiB are there,  visible: {sandbox.files.exists('in/simulation.bin')}")

# %% [markdown]
# To read a few bytes of a large file, ask for these bytes:

# %%
sandbox.files.read("in/simulation.bin", offset=7 * 2**20 - 3, length=6)

# %% [markdown]
# ## Out
#
# One file comes back by `download`, and so does a folder. `archive` packs as many as you like into one file, while they are read.

# %%
# %sandbox download out --to results --overwrite

# %%
# packed = %sandbox archive project out --to results/project.zip --overwrite

from zipfile import ZipFile

ZipFile("results/project.zip").namelist()

# %% [markdown]
# The way back in is `unpack`. It is all or nothing: an archive with a member that leads out of its directory is refused whole,
# before anything has been written.

# %%
# %sandbox unpack results/project.zip --to copy

# %%
with ZipFile("results/bad.zip", "w") as archive:
    archive.writestr("harmless.txt", "hello")
    archive.writestr("../../etc/passwd", "root::0:0::/:/bin/sh")

# %% tags=["raises-exception"]
# %sandbox unpack results/bad.zip --to copy

# %% [markdown]
# ## What stays closed
#
# Paths lead nowhere else, by whatever spelling. And the usual policy knows names that hold secrets: they do not come out,
# even from the sandbox's own directory.

# %%
# %sandbox check files_download_stream in/../../etc/shadow

# %%
# %sandbox check files_download_stream project/.env

# %% [markdown]
# How such rules are written is on the page about [policies](04_policies.ipynb).
#
# ## Stop
#
# The sandbox and its files go. What was downloaded stays, unless you remove it, as this page does with its own:

# %%
# %sandbox stop

# %%
import shutil

shutil.rmtree("results")
