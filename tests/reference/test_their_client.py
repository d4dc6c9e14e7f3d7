"""The unmodified reference client against our server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.reference.conftest import Reference
from tests.support.server import running_server

pytestmark = [pytest.mark.finding("R2-C8", "R2-C3", "R2-C4"), pytest.mark.slow]

OPEN = {"version": 1, "auth": {"tokens": [{"id": "owner", "token_env": "OWNER", "scopes": ["*"]}]}}


def test_the_reference_client_works_against_our_server(reference: Reference, tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OWNER": "t0ken", "LANG": "C.UTF-8"}
    with running_server(tmp_path, policy=OPEN, environ=environ, allow_anonymous=False) as server:
        base = str(tmp_path / "base")
        script = Path(__file__).parent / "scenario.py"
        done = subprocess.run(
            [reference.python, script, server.url, "t0ken", base, tmp_path / "local"],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "health": True,
        "api_version": 2,
        "can list": True,
        "can run code": False,
        "check outside": [False, "path_not_allowed"],
        "check inside": [True, None],
        "upload": 256 * 4000,
        "download": True,
        "upload_file": 5,
        "download_file": 5,
        "read_text": "local",
        "list": [["up", "file", 5], ["ü b.bin", "file", 256 * 4000]],
        "stat": ["file", 5, True, f"{base}/d/up"],
        "exists": [True, False],
        "mkdir": f"{base}/made",
        "move": [f"{base}/d/up", f"{base}/made/moved"],
        "search": [[f"{base}/made/moved"], False],
        "watch": [["created", False]],
        "delete": True,
        "refused read": ["FilePolicyDeniedError", 403, "path_not_allowed"],
        "missing": ["FileNotFoundError_", None, None],
        "refused stat": ["FilePolicyDeniedError", 403, "path_not_allowed"],
        "shell": ["out\n", "err\n", 3, False],
        "shell timeout": ["CommandTimeoutError", None, None],
        "stream": [["stdout", "a", None], ["stdout", "", None], ["stdout", "b", None], ["exit", "", 0]],
        "run_stream": ["y\n", 0, ["y"]],
        "listed": True,
        "running": True,
        "stdin": 3,
        "follow": "got é\n",
        "wait": 5,
        "output": ["got é\n", "exited", 5],
        "signal": 15,
        "signalled": -15,
        "bad signal": ["ServerAPIError", 400, "invalid_argument"],
        "no process": ["ServerAPIError", 404, "process_not_found"],
        "code": ["EndpointNotAvailableError", 404, "endpoint_disabled"],
        "code, unchecked": ["EndpointNotAvailableError", 404, "endpoint_disabled"],
        "terminal": [100, 30, True, True],
        "terminals": [True],
        "terminal resized": [90, 20],
        "terminal shows": [True, True],
        "terminal ends": ["exited"],
        "terminal deleted": ["ServerAPIError", 404, "session_not_found"],
        "wrong token": ["ServerAuthError", 401, "unauthorized"],
        "sync": [True, True, False],
    }
    assert (tmp_path / "local" / "down").read_text() == "local"
