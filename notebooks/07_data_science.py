# %% [markdown]
# # Data science in a sandbox
#
# Training code is often code from elsewhere: a notebook from a forum, a package with forty dependencies, the answer of a model. It
# deserves a sandbox, and it should not feel like one. Here the data frame goes over, the model learns over there while you watch,
# and tables, plots and results come back as if they had been made here.
#
# The task: from the weather of tomorrow, how much will the house use? There is a year of measurements, and a small neural network
# of forty lines.

# %%
# %load_ext sandbox_sdk

# %%
# %sandbox start

# %% [markdown]
# ## Data up
#
# On this side, pandas as usual. The five days in June on which the station was silent are left out.

# %%
import pandas as pd

station = pd.read_csv("data/station.csv", parse_dates=["date"]).dropna()
station.head(3)

# %% [markdown]
# `%%sandbox code` runs Python in the sandbox and keeps its variables from cell to cell. It is the same Python with the same
# packages as this notebook's. `--push` takes a variable along; what is last in the cell is shown, as here:

# %%
# %%sandbox code --push station
station.drop(columns="date").describe().loc[["mean", "min", "max"]].round(1)

# %% [markdown]
# ## A look at it
#
# A plot made there is an output here:

# %%
# %%sandbox code
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.2))
dots = axes.scatter(station.t_mean_c, station.load_kwh, c=station.date.dt.month, cmap="twilight", s=14)
axes.set(xlabel="mean temperature, °C", ylabel="used, kWh a day")
axes.spines[["top", "right"]].set_visible(False)
figure.colorbar(dots, label="month");

# %% [markdown]
# Cold days cost, and above some 15 °C the heating is off: no straight line will do. And there are two bands. Is somebody at home on
# weekends? Perhaps the network finds out.
#
# ## Train
#
# One hidden layer, gradient descent, nothing but numpy. Every fifth day is kept for judging. The progress appears while it learns,
# and the stop button ■ would end it there, with the variables as they are.

# %%
# %%sandbox code
import numpy as np

station["weekend"] = station.date.dt.day_of_week >= 5
columns = ["t_mean_c", "sun_kwh_m2", "weekend"]
inputs = station[columns].to_numpy(float)
inputs = (inputs - inputs.mean(0)) / inputs.std(0)
target = station.load_kwh.to_numpy()
held = np.arange(len(station)) % 5 == 0


class Network:
    def __init__(self, size, chance):
        self.first = chance.normal(size=(len(columns), size)) * 0.8
        self.bias, self.second, self.level = np.zeros(size), np.zeros(size), target[~held].mean()

    def __call__(self, inputs):
        self.hidden = np.tanh(inputs @ self.first + self.bias)
        return self.hidden @ self.second + self.level

    def learn(self, inputs, target, rate):
        error = (self(inputs) - target) / len(target)
        back = np.outer(error, self.second) * (1 - self.hidden**2)
        self.second -= rate * (self.hidden.T @ error)
        self.level -= rate * error.sum()
        self.first -= rate * (inputs.T @ back)
        self.bias -= rate * back.sum(0)


network = Network(12, np.random.default_rng(7))


def off(days):
    return np.sqrt(np.mean((network(inputs[days]) - target[days]) ** 2))


for epoch in range(1501):
    if epoch % 250 == 0:
        print(f"epoch {epoch:4}   off by {off(~held):4.2f} kWh, on unseen days {off(held):4.2f}", flush=True)
    network.learn(inputs[~held], target[~held], rate=0.05)

# %% [markdown]
# ## Is it any good?
#
# The variables are still there, so the next cell goes on from here. The comparison is a plain straight line:

# %%
# %%sandbox code
slope, level = np.polyfit(inputs[~held, 0], target[~held], 1)
unseen = station[held].assign(network=network(inputs[held]), line=level + slope * inputs[held, 0])

figure, axes = plt.subplots(figsize=(7, 3.2))
axes.plot(unseen.t_mean_c, unseen.line, color="#64748b", lw=1, label="straight line")
axes.scatter(unseen.t_mean_c, unseen.load_kwh, s=26, color="#94a3b8", label="measured on unseen days")
axes.scatter(unseen.t_mean_c, unseen.network, s=9, color="#c2410c", label="said by the network")
axes.set(xlabel="mean temperature, °C", ylabel="used, kWh a day")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False);

# %% [markdown]
# ## Results back
#
# `--pull` brings variables home: numbers, arrays, tables. They travel as what they are (JSON, npy, Parquet or CSV). A pickle could
# run code on this side while it is opened, so none is sent unless you ask for it.

# %%
# %sandbox code --pull unseen

# %%
error = unseen[["network", "line"]].sub(unseen.load_kwh, axis=0).abs()
error.groupby(unseen.date.dt.quarter.rename("quarter")).mean().round(2)

# %% [markdown]
# In kWh a day, by quarter: the network is off by a tenth of what the line is. From here on, `unseen` is an ordinary data frame.
#
# ## When it goes wrong
#
# An error over there is an error here, in two lines; `--traceback` shows all of it. The variables stay.

# %% tags=["raises-exception"]
# %%sandbox code
network(station[["t_mean_c"]])

# %% [markdown]
# ## A long training
#
# For hours of training, use a job instead of a cell: `%%sandbox run --bg` goes on when the notebook is closed, and
# [processes and streams](03_processes_and_streams.ipynb) shows how to follow it. Whatever it writes to `out` comes back by
# `%sandbox download out`.

# %%
# %sandbox stop
