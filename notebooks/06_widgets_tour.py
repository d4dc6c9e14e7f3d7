# %% [markdown]
# # A tour of the widgets
#
# In JupyterLab a sandbox can be looked at and touched: drop files into it, browse it, watch a job and stop it, open a terminal, and
# see what is allowed while it is being refused. Each of these is one line, and the same line works everywhere: in a terminal, in an
# export, in a notebook that is opened without a kernel, it shows a plain table instead.
#
# **This page shows both.** The pictures are from JupyterLab. The outputs are what stays when nothing is live; run the cells and you
# get the live ones. No widget loads anything from the network, all follow the light or dark theme, and all can be used by keyboard.

# %%
# %load_ext sandbox_sdk

# %%
# %sandbox start

# %%
# sandbox = %sandbox use local

# %% [markdown]
# ## Bring files: UploadPicker
#
# `%sandbox upload` without a path, or `--pick`. Drop files and whole folders on it. They go straight on to the sandbox while they
# arrive, so a file of many gigabytes needs no memory here; a broken connection is taken up where it was. What the policy allows
# (size, kind, place) is said before anything is sent.
#
# ![The picker: two files have arrived, a third is under way, with a button to cancel it](../docs/images/upload-picker.png)

# %%
from sandbox_notebook import UploadPicker

picker = UploadPicker(sandbox, to="in")
picker

# %% [markdown]
# What has arrived is at hand as `picker.receipts`. In a program, or here, where nobody drops anything, the same is a line:

# %%
# %sandbox upload data/station.csv data/draw_year.py --to in

# %% [markdown]
# ## Look around: FileBrowser
#
# `%sandbox browse` is a folder with a preview: text, pictures, tables, notebooks. Rename, delete, make folders, take several at
# once, download a folder as one archive. It changes by itself when something in the sandbox changes, and marks what the policy
# does not allow *before* you try.
#
# ![The file browser: folders, a preview of a table, marks on what is read only](../docs/images/file-browser.png)

# %%
from sandbox_notebook import FileBrowser

FileBrowser(sandbox, "in")

# %% [markdown]
# ## Watch a job: ProcessPane
#
# `%sandbox run --bg` shows one, `%sandbox attach` brings it back, also after the page was reloaded or the kernel restarted. Colours
# and progress bars look as in a terminal; there is a search, a line to type into, and *Stop*, which works while the notebook is
# busy. When the job has ended, the pane gives way to a plain picture of its output, which the notebook keeps.
#
# ![A pane: a job's output in colours, its progress bar, a button that stops it](../docs/images/process-pane.png)

# %%
command = "python3 in/draw_year.py in/station.csv out/plot.svg"
job = sandbox.process.start(command)
job.wait(timeout=30)

# %% [markdown]
# Here the job has ended, so this is the picture that stays:

# %%
# %sandbox attach

# %% [markdown]
# ## Type: a terminal
#
# `%sandbox term` opens one. It goes through the notebook's own connection, so the page never sees an address or a token. Reload the
# page, and it is still there, with what was on the screen.
#
# ![A terminal in the sandbox, below a notebook's cell](../docs/images/terminal.png)

# %%
# %sandbox term

# %% [markdown]
# ## What may I do: CapabilityTable
#
# What this notebook may do, as a table: filter it, open a row to see its limits and the rule that decided, try a path in it. When a
# call is refused, from whichever cell, its row lights up.
#
# ![The table of capabilities: allowed, limited, denied, and why](../docs/images/capability-table.png)
#
# `%sandbox caps` shows the same as text, and this the limits of one call:

# %%
# %sandbox caps files_upload_stream

# %% [markdown]
# ## Who may do what: PolicyMatrix
#
# Policies side by side, or all identities of one. In JupyterLab one filters it, tries a path in all of them at once, and sees what
# would change from one to the other. Nothing is started for it.
#
# ![Three policies side by side, and why one of them denies a call](../docs/images/policy-matrix.png)

# %%
from sandbox_notebook import PolicyMatrix

matrix = PolicyMatrix(["transfer-only", "read-only", "workspace"])
matrix

# %% [markdown]
# The values behind the page are for programs, too. What does `read-only` allow that `transfer-only` does not?

# %%
changes = matrix.data.diff("transfer-only", "read-only")
print(*(change.endpoint for change in changes if change.becomes != "denied"), sep=", ")

# %% [markdown]
# ## All of it: SandboxPanel
#
# A sandbox as the last line of a cell is a panel: what it is, its files, its processes, its rules, how busy it is, and what it has
# refused, each in a tab that asks only while it is looked at.
#
# ![The panel of a sandbox: a running job with its output](../docs/images/sandbox-panel.png)

# %%
sandbox

# %% [markdown]
# ## Stop

# %%
# %sandbox stop

# %% [markdown]
# All of this is tested in JupyterLab 4 with every change, and was tried in Notebook 7 and the classic Notebook.
# `docs/topics/notebook.md` tells about other front ends ("Where it runs"). Whatever runs no widgets shows the tables of this page.
