"""The server's token is not to be read from outside, nor inherited."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHOW = """
import os, sys
from sandbox_server.secrecy import hide
hide(["SECRET_ONE", "ABSENT"])
own = open("/proc/self/environ", "rb").read()
print("SECRET_ONE" in os.environ, b"hunter2-of-one" in own, b"kept-value" in own, os.environ["PLAIN"])
import ctypes
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
os.execvp("printenv", ["printenv"])
"""


@pytest.mark.finding("R2-S13")
def test_a_hidden_variable_is_gone_from_proc_and_from_children():
    environ = {"PATH": os.environ["PATH"], "SECRET_ONE": "hunter2-of-one", "PLAIN": "kept-value"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{SHOW}"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    facts, dumpable, *rest = done.stdout.splitlines()
    assert facts == "False False True kept-value"
    assert dumpable == "0"
    assert "PLAIN=kept-value" in rest
    assert "hunter2-of-one" not in done.stdout
