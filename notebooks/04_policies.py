# %% [markdown]
# # Policies: as much as needed, and no more
#
# A sandbox bounds what programs can reach. A **policy** bounds what may be asked of it, and by whom: which calls there are, on
# which paths, how large, with which commands. It is one small document, and everything that it decides it also explains.
#
# This page begins with a sandbox that can do almost nothing and ends with one in which an agent does its job, a reviewer looks at
# the result, and neither can do more than that.

# %%
# %load_ext sandbox_sdk

# %% [markdown]
# ## Transfer only
#
# Two calls, upload and download, each bound to one directory. For a drop box that is enough, and it needs no file:

# %%
# %sandbox start --name dropbox --only transfer --upload-to in --download-from out

# %%
# %sandbox upload data/station.csv

# %%
# %sandbox caps

# %% [markdown]
# What went in does not come out again, for only `out` gives files away. A refusal has two lines: what was refused, and what to do.

# %% tags=["raises-exception"]
# %sandbox download /workspace/in/station.csv

# %% [markdown]
# ## Ask first
#
# `check` asks the rules and does nothing. Its answer is the one that the call would get: the same code gives both. `explain` adds
# who asks, and what else the rules say.

# %%
# %sandbox check files_upload_stream /workspace/in/../out/result.csv

# %%
# %sandbox explain files_upload_stream more.csv

# %%
# %sandbox stop

# %% [markdown]
# ## A policy for a job
#
# The job: an agent reads the measurements in `in`, runs one script over them, and writes a report to `out`. Everything starts as
# switched off, and a rule that names one call is stronger than the rule for all of them.

# %%
import json
import os
import secrets


def save(policy):
    with open("policy.json", "w") as file:
        json.dump(policy, file, indent=2)


policy = {
    "endpoints": {
        "*": {"enabled": False},
        "files_list": {"enabled": True},
        "files_download_stream": {"enabled": True},
        "files_upload_stream": {
            "enabled": True,
            "paths": {"allow": ["/workspace/out"]},
            "limits": {"max_bytes": "1MB"},
            "params": {"allow_extensions": [".md"]},
        },
        "shell_stream": {
            "enabled": True,
            "params": {"allow_commands": ["wc -l {path}", "python3 ..."]},
        },
    }
}
save(policy)

# %% [markdown]
# A policy is judged before anybody relies on it:

# %%
# %sandbox policy lint policy.json

# %% [markdown]
# Two warnings, and both are right. `L9`: whoever may call `python3` with anything may do anything that Python can. So name the
# script, and let the caller choose the file only. `L1`: what that script writes is bound by the sandbox, not by the rule about
# uploads. That is as intended, since the script is ours.

# %%
policy["endpoints"]["shell_stream"]["params"]["allow_commands"] = ["wc -l {path}", "python3 report.py {path}"]
save(policy)

# %%
# warnings = %sandbox policy lint policy.json
[warning.code for warning in warnings]

# %% [markdown]
# A misspelt word is an error and not a rule that silently does nothing:

# %%
save({"endpoints": {"files_list": {"paths": {"alow": ["/workspace/in"]}}}})

# %% tags=["raises-exception"]
# %sandbox policy lint policy.json

# %% [markdown]
# ## Who is asking?
#
# So far everybody was the same. Now each caller gets a token of its own, and with it what its job needs. The agent may read, write
# and run; the reviewer may read, and only below `out`. What a token says about paths can only narrow what the rules allow.
#
# The policy never holds a token. It says in which variable to find it.

# %%
os.environ["AGENT_TOKEN"] = secrets.token_urlsafe(32)
os.environ["REVIEWER_TOKEN"] = secrets.token_urlsafe(32)

policy["auth"] = {
    "tokens": [
        {"id": "agent", "token_env": "AGENT_TOKEN", "scopes": ["files:read", "files:write", "process:run"]},
        {
            "id": "reviewer",
            "token_env": "REVIEWER_TOKEN",
            "scopes": ["files:read"],
            "paths": {"allow": ["/workspace/out"], "read_only": True},
        },
    ]
}
save(policy)

# %% [markdown]
# Who may do what is one table, made without starting anything. Here are the rows in which somebody may do something:

# %%
from sandbox_sdk import policy_matrix

matrix = policy_matrix("policy.json", paths=["/workspace/in/station.csv", "/workspace/out/report.md"])
table = matrix.to_pandas().set_index("endpoint")
table[(table != "denied").any(axis=1)]

# %% [markdown]
# Each cell knows its reasons, and what would become of the paths that were asked about:

# %%
for who in ("agent", "reviewer"):
    for answer in matrix.cell("files_download_stream", who).asked:
        print(f"{who:9}", answer.path, "·", "allowed" if answer.allowed else answer.code)

# %% [markdown]
# In JupyterLab, `PolicyMatrix` ([here](06_widgets_tour.ipynb) is how) shows the same as a page in which one can filter, try a path,
# and compare policies:
#
# ![Three policies side by side, and why one of them denies a call](../docs/images/policy-matrix.png)
#
# ## Watch it hold
#
# The sandbox works in a folder of ours, with the data and the script in it. Nobody may write there through the server, not even
# this notebook; only `out` takes reports.

# %%
import shutil

shutil.rmtree("job", ignore_errors=True)
os.makedirs("job/in")
os.makedirs("job/out")
shutil.copy("data/station.csv", "job/in")

with open("job/report.py", "w") as file:
    file.write("""
import csv, statistics, sys

days = list(csv.DictReader(open(sys.argv[1])))
means = [float(day["t_mean_c"]) for day in days if day["t_mean_c"]]
print(f"{len(days)} days, {statistics.fmean(means):.1f} °C on average")
""")

# %%
# %sandbox start --name job --policy policy.json --root job

# %% [markdown]
# Two clients of the same sandbox, each with its token:

# %%
from sandbox_sdk import ServerAPIError

# sandbox = %sandbox use job
agent = sandbox.server_at(token=os.environ["AGENT_TOKEN"])
reviewer = sandbox.server_at(token=os.environ["REVIEWER_TOKEN"])


def attempt(what, call, *arguments):
    try:
        call(*arguments)
        print("✓", what)
    except ServerAPIError as refusal:
        print("✗", what, "·", refusal.code)


# %%
attempt("read the measurements", agent.files.read, "in/station.csv")
attempt("count its lines", agent.process.run, "wc -l in/station.csv")
attempt("run the script", agent.process.run, "python3 report.py in/station.csv")
attempt("write a report", agent.files.write, "/workspace/out/report.md", "# All is well\n")

attempt("write a report elsewhere", agent.files.write, "/workspace/report.md", "# All is well\n")
attempt("write something else", agent.files.write, "/workspace/out/report.sh", "rm -rf /\n")
attempt("write much", agent.files.write, "/workspace/out/report.md", "far too long\n" * 100_000)
attempt("run something else", agent.process.run, ["python3", "-c", "print('hello')"])
attempt("remove the measurements", agent.files.delete, "in/station.csv")

# %%
attempt("read the report", reviewer.files.read, "/workspace/out/report.md")
attempt("read the measurements", reviewer.files.read, "/workspace/in/station.csv")
attempt("correct the report", reviewer.files.write, "/workspace/out/report.md", "# All is lost\n")
attempt("run the script", reviewer.process.run, "python3 report.py in/station.csv")

# %% [markdown]
# ### A way round?
#
# A program may make links, and a link may point anywhere. The rules look at where it leads, at the moment when the file is opened:

# %%
os.symlink("/etc/passwd", "job/out/innocent.md")

attempt("read through a link", reviewer.files.read, "/workspace/out/innocent.md")

# %% [markdown]
# ### Nothing is forgotten
#
# Every refusal is noted, with who asked for what. (Times are left out here, as everywhere on this page.)

# %%
# %sandbox audit --denied

# %%
agent.close()
reviewer.close()
# %sandbox stop

# %% [markdown]
# ## Which policy does my workload need?
#
# Nobody knows beforehand. `"mode": "observe"` lets through what the rules would refuse, and notes it. It protects nothing, and
# says so at every start; use it to find out, with data that may get lost.

# %%
policy["mode"] = "observe"
save(policy)

# %%
# %sandbox start --name trial --policy policy.json --root job

# %%
# trial = %sandbox use trial
agent = trial.server_at(token=os.environ["AGENT_TOKEN"])

agent.process.run("head -n 2 in/station.csv")
agent.files.mkdir("out/2025")
agent.files.write("/workspace/out/report.md", "# All is well\n")
agent.close()

# %%
# noted = %sandbox audit
for what in sorted(f"{line['endpoint']} · {line['code']}" for line in noted if line.get("would") == "deny"):
    print(what)

# %% [markdown]
# So this workload needs two things more. Whether it shall have them is a decision, and now it is one that somebody makes.
#
# ## Tidy up

# %%
# %sandbox stop

# %%
shutil.rmtree("job")
os.remove("policy.json")

# %% [markdown]
# Where to go on: [an agent at work](05_driving_an_agent.ipynb) under such a policy. Every key, preset and warning is described in
# `docs/topics/policies.md`.
