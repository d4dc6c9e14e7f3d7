# %% [markdown]
# # Programs: run, follow, answer, stop
#
# A cell that runs a program should feel as if the program ran here: output appears while it is written, a failure is a failure,
# and the stop button ■ stops it *there*, with everything it has started. And a long job should go on while you work on something
# else. This page shows each of these, with programs small enough to read.

# %%
# %load_ext sandbox_sdk

# %%
# %sandbox start

# %% [markdown]
# ## A command
#
# No shell reads the line. What you write is what the program gets, with quotes to keep words together:

# %%
# %sandbox run printf "%s\n" "one word" $HOME *.csv {braces}

# %% [markdown]
# That is safe, and it means that `|` and `>` are not at hand. When you want a shell, give it a cell:

# %%
# %%sandbox run --lang bash
for word in red green blue; do echo "$word"; done | sort -r > colours.txt
cat colours.txt

# %% [markdown]
# A program that fails makes its cell fail, so *Run All* stops where something went wrong:

# %% tags=["raises-exception"]
# %%sandbox run
import sys

print("this much was done")
sys.exit("no disk left")  # the text goes to stderr, and the exit code is 1

# %% [markdown]
# `--ok` says that you expect it, and `--out` puts the result into a variable:

# %%
# %sandbox run --ok --quiet --out result ls colours.txt no-such-file

# %%
result.exit_code, result.stdout, result.stderr

# %% [markdown]
# ## What a program gets
#
# With a command on its first line, the body of a cell is the command's input. Otherwise it is the program, and values of this
# notebook reach it as a file, as a variable of its environment, or written into the line, each only when asked:

# %%
# %%sandbox run sort -n
42
7
19

# %%
rows = "city,height\nSion,500\nArosa,1775\nDavos,1560\n"
limit = 1000

# %%
# %%sandbox run --file cities.csv=rows --env UNIT=m --fill
import csv, os

for row in csv.DictReader(open("cities.csv")):
    if int(row["height"]) > {limit}:
        print(row["city"], row["height"], os.environ["UNIT"])

# %% [markdown]
# Nothing runs for ever unless you want it: `--timeout` ends a program, and keeps what it has said so far.

# %% tags=["raises-exception"]
# %%sandbox run --timeout 5
import time

print("waiting for an answer", flush=True)
time.sleep(600)

# %% [markdown]
# ## The same in a program of yours
#
# `sandbox.run` gives the whole result; callbacks get the text while it comes. To react to it, iterate over a stream. Leaving the
# block stops the command, as the stop button does:

# %%
# sandbox = %sandbox use local

search = """
import time

for number in (91, 93, 95, 97):
    print(number, all(number % other for other in range(2, number)), flush=True)
time.sleep(600)  # it would go on for a long time
"""

with sandbox.process.stream(["python3", "-c", search]) as events:
    for event in events:
        print(event.text, end="")
        if "True" in event.text:
            print("a prime, that is enough")
            break

# %% [markdown]
# ## In the background
#
# `--bg` does not wait. The job belongs to the sandbox, not to the cell: it goes on when the page is closed.

# %%
# %%sandbox run --bg
import sys, time

for step in range(1, 6):
    print(f"step {step} of 5")
    time.sleep(0.1)
print("all steps done", file=sys.stderr)

# %% [markdown]
# `logs` shows what it has written, `logs -f` follows until it ends. Nothing gets lost because nobody listened:

# %%
# %sandbox logs -f

# %% [markdown]
# In JupyterLab, `%sandbox attach` puts the job into a pane of its own: colours, progress bars, a line to type into, and a stop
# button that works while the notebook is busy. All jobs of a sandbox are in its panel, which a cell shows that ends with `sandbox`:
#
# ![The panel of a sandbox: a running job with its output](../docs/images/sandbox-panel.png)
#
# ### Follow it from where you were
#
# Output is kept by the byte. A program that was away asks for what it has not seen yet:

# %%
job = sandbox.process.start("seq 1 5")
job.wait(timeout=60)

first = job.output().data[:4]
rest = job.output(offset=len(first))
first, rest.data

# %% [markdown]
# ## Answer it
#
# A program that asks gets its answers line by line, when it was started with `--stdin`.

# %%
ask = """
import sys

name = input("who is there? ")
print(f"hello, {name}")
print("that makes", sum(int(line) for line in sys.stdin))
"""

# %%
# %sandbox run --bg --stdin --file ask.py=ask python3 ask.py

# %%
# %sandbox stdin 2 Ada

# %%
# %%sandbox stdin --eof 2
20
22

# %%
# %sandbox logs -f 2

# %% [markdown]
# ## End it
#
# `kill` asks a job to end and, if it does not within five seconds, ends it. Its children go with it. This one has started three:

# %%
# %%sandbox run --bg --lang bash
sleep 600 & sleep 600 & sleep 600 &
echo "three are asleep"
wait

# %%
# %sandbox ps

# %%
# %sandbox kill

# %%
# %sandbox ps

# %% [markdown]
# Other signals do what they always do. `kill -s INT` is Ctrl-C, and a program that saves its work then saves it here, too. The same
# in a program, which waits for the right moment:

# %%
training = """
import time

try:
    print("training", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("interrupted, the model is saved")
"""

job = sandbox.process.start(["python3", "-c", training])
for event in job:
    print(event.text, end="")
    if "training" in event.text:
        job.interrupt()

# %%
job.wait(timeout=60)

# %% [markdown]
# ## A terminal
#
# Some programs want to be typed into: an editor, a debugger, an installer with its questions. `%sandbox term` opens a terminal in
# JupyterLab:
#
# ![A terminal in the sandbox, below a notebook's cell](../docs/images/terminal.png)
#
# A program has the same by hand, here with a small helper that waits for the prompt:

# %%
terminal = sandbox.pty.create("/bin/sh", cols=60, rows=12, env={"PS1": "$ "})


def until_prompt(terminal):
    shown = ""
    while not shown.endswith("$ "):
        shown += terminal.read(timeout=60)
    return shown


print(until_prompt(terminal), end="")
terminal.send("test -t 0 && echo this is a terminal\n")
print(until_prompt(terminal), end="")
terminal.send("stty size\n")
print(until_prompt(terminal), end="")

# %% [markdown]
# A terminal outlives its connection. Whoever comes back sees first what was shown before:

# %%
terminal.close()
again = sandbox.pty.connect(terminal.id)
print(until_prompt(again))

again.send("exit 3\n")
again.wait(timeout=60)

# %%
# %sandbox stop
