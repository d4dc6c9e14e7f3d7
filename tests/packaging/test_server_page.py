"""The server's page on the package index: its policy is valid, and its commands take the flags it names."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.server import running_server

PAGE = Path(__file__).resolve().parents[2] / "server" / "README.md"


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandbox_server", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)


def test_its_policy_is_valid_and_explained(tmp_path: Path) -> None:
    [document] = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    file = tmp_path / "policy.json"
    file.write_text(document)
    checked = run("check-config", "--policy", str(file), READER_TOKEN="x" * 32)
    assert (checked.returncode, checked.stdout.partition(",")[0]) == (0, "policy is valid"), checked.stderr
    upload = ("--explain", "files_upload_stream", "--path", "/home/user/.ssh/config")
    assert run("check-config", "--policy", str(file), *upload, READER_TOKEN="x" * 32).returncode == 3


def test_its_flags_exist() -> None:
    known = run("serve", "--help").stdout + run("check-config", "--help").stdout + run("healthcheck", "--help").stdout
    page = PAGE.read_text(encoding="utf-8").replace("pip install --target", "").replace("--main", "")
    flags = set(re.findall(r"--[a-z][a-z-]+", page)) - {"--output"}
    assert flags and not {flag for flag in flags if flag not in known}


def test_its_calls_are_answered(tmp_path: Path) -> None:
    curl = argparse.ArgumentParser()
    curl.add_argument("-H", action="append")
    curl.add_argument("-d")
    curl.add_argument("url")
    lines = re.findall(r"^curl (.*)$", PAGE.read_text(encoding="utf-8").replace("\\\n", ""), re.MULTILINE)
    assert len(lines) == 3
    with running_server(tmp_path, environ={"ABX_SERVER_TOKEN": "T"}, allow_anonymous=False) as server:
        for line in lines:
            call = curl.parse_args(shlex.split(line.replace("$ABX_SERVER_TOKEN", "T")))
            headers = {"Content-Type": "application/x-www-form-urlencoded"} if call.d else {}  # as curl says
            headers |= dict(header.split(": ") for header in call.H)
            target = call.url.removeprefix("http://localhost:9000")
            answer = server.request("POST" if call.d else "GET", target, call.d, headers)
            assert answer.status == 200, answer.body
