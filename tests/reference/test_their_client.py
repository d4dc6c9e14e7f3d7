"""The unmodified reference client against our server: every public method is called, and finds what it should."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reference.conftest import Reference
from tests.reference.scenario.watched import Watched, surface
from tests.server.browser.conftest import demand_browser
from tests.server.browser.site import running_site
from tests.support.repositories import as_told
from tests.support.server import SYSTEM_PATH, ServerProcess, running_server

pytestmark = [pytest.mark.finding("R2-C8", "R2-C3", "R2-C4"), pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
AUTH = {"tokens": [{"id": "owner", "token_env": "OWNER", "scopes": ["*"]}]}
ENVIRON = {"PATH": SYSTEM_PATH, "OWNER": "t0ken", "LANG": "C.UTF-8", "GREETING": "hello", "HOME": "/nonexistent"}
THROUGH = pytest.mark.parametrize("twins", [False, True], ids=["asynchronous", "blocking"])
COMMANDS = ("--commands", str(ROOT / "tests" / "support" / "sample_commands.py"))


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with running_site() as site:
        yield site.url


@pytest.fixture(scope="module")
def server(site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Everything is on, and the browser may open the pages of this machine that it is shown."""
    policy = {
        "auth": AUTH,
        "groups": {"dev_tools": True, "browser": True},
        "endpoints": {"browser_navigate": {"params": {"block_private_networks": False, "url_allow": [f"{site}/*"]}}},
    }
    directory = tmp_path_factory.mktemp("reference")
    with running_server(directory, policy=policy, environ=ENVIRON, allow_anonymous=False, arguments=COMMANDS) as server:
        yield server


@pytest.fixture
def played(reference: Reference, tmp_path: Path) -> Any:
    """Plays parts of the scenario in the client's own environment, in a directory of their own on the server."""

    def play(server: ServerProcess, base: Path, *parts: str, twins: bool = False, site: str = "") -> Any:
        told = {
            "url": server.url, "token": "t0ken", "base": str(base), "local": str(tmp_path), "site": site,
            "twins": twins, "parts": parts,
        }  # fmt: skip
        done = subprocess.run(
            [reference.python, "-m", "tests.reference.scenario", json.dumps(told)],
            capture_output=True, text=True, timeout=300, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return play


def base_for(server: ServerProcess, twins: bool) -> Path:
    base = server.audit.parents[1] / "base" / ("blocking" if twins else "asynchronous")
    base.mkdir(exist_ok=True)
    return base


@THROUGH
def test_binding(played: Any, server: ServerProcess, twins: bool) -> None:
    told = played(server, base_for(server, twins), "binding", twins=twins)
    assert told["missing"] == []
    assert told["seen"]["binding"] == {
        "health": True,
        "before discovery": None,
        "discovery": [2, "owner", ["*"], "default", True],
        "disclosed as sent": True,
        "not offered": [],
        "offered": True,
        "denials": [None, "unknown_endpoint"],
        "by scope": True,
        "info": ["files_stat", "GET", "/files/stat", ["files:read"], True, None],
        "rule": None,
        "limits": [None, 7],
        "params": [False, 7],
        "paths": [[], False, "within"],
        "check outside": [False, "path_not_allowed"],
        "check two": [True, None],
        "check inside": [True, None],
        "credentials": {"Authorization": "Bearer t0ken", "X-Access-Token": "t0ken"},
        "wrong token": ["ServerAuthError", 401, "unauthorized"],
        "forgotten": None,
    }


@THROUGH
def test_files(played: Any, server: ServerProcess, twins: bool) -> None:
    told = played(server, base_for(server, twins), "files", twins=twins)
    assert told["missing"] == []
    assert told["seen"]["files"] == {
        "upload": 256 * 4000,
        "download": True,
        "upload_file": 5,
        "download_file": 5,
        "downloaded": "local",
        "read_text": "local",
        "list": [["up", "file", 5], ["ü b.bin", "file", 256 * 4000]],
        "list all": ["up", "ü b.bin"],
        "stat": ["file", 5, True, True],
        "exists": [True, False],
        "mkdir": True,
        "move": [True, True],
        "search": [[True], False],
        "tar.gz": ["tar.gz", True],
        "zip": ["zip", True],
        "in the archive": ["made/moved"],
        "watch_for": [["created", False]],
        "watch": ["created", True],
        "delete": True,
        "refused read": ["FilePolicyDeniedError", 403, "path_not_allowed"],
        "refused stat": ["FilePolicyDeniedError", 403, "path_not_allowed"],
        "missing": ["FileNotFoundError_", None, None],
    }


@THROUGH
def test_processes(played: Any, server: ServerProcess, twins: bool) -> None:
    told = played(server, base_for(server, twins), "processes", twins=twins)
    assert told["missing"] == []
    assert told["seen"]["processes"] == {
        "shell": ["out\n", "err\n", 3, False],
        "shell timeout": ["CommandTimeoutError", None, None],
        "shell_stream": [["stdout", "a", None], ["stdout", "", None], ["stdout", "b", None], ["exit", "", 0]],
        "run_stream": ["y\n", 0, ["y"]],
        "listed": True,
        "running": True,
        "send_stdin": 3,
        "follow": "got é\n",
        "wait": 5,
        "output": ["got é\n", "exited", 5],
        "close_stdin": True,
        "cat ends": [0, "bytes"],
        "signals": [["signal", 15, -15], ["terminate", 15, -15], ["kill", 9, -9]],
        "bad signal": ["ServerAPIError", 400, "invalid_argument"],
        "no process": ["ServerAPIError", 404, "process_not_found"],
    }


@THROUGH
def test_terminals(played: Any, server: ServerProcess, twins: bool) -> None:
    told = played(server, base_for(server, twins), "terminals", twins=twins)
    assert told["missing"] == []
    assert told["seen"]["terminals"] == {
        "created": [100, 30, True, True],
        "listed": [True],
        "resized": [90, 20],
        "the main port": [True, True, True, ["exited"]],
        "deleted": ["ServerAPIError", 404, "session_not_found"],
        "its own port": [True, True, True, ["exited"]],
        "default shell": True,
        "iterated": ["exited"],
        "wrong token": ["ServerAuthError", 401, ""],
    }


@THROUGH
def test_the_machine_code_and_commands(played: Any, server: ServerProcess, twins: bool) -> None:
    base = base_for(server, twins)
    as_told(base / "repo", "then modify")
    told = played(server, base, "devtools", twins=twins)
    assert told["missing"] == []
    assert told["seen"]["devtools"] == {
        "info": [True, True, True],
        "metrics": [True, True],
        "env": [{"GREETING": "hello"}, "hello"],
        "set_env": [["SET"], {"SET": "by the client"}],
        "refused env": ["PolicyDeniedError", 403, "env_var_denied"],
        "ports": True,
        "packages": ["pip", True],
        "python": ["42\n", "", 3, "python", False],
        "bash": ["42\n", "", 3, "bash", False],
        "code timeout": ["CommandTimeoutError", None, None],
        "git_status": ["main", False, [["f.txt", "modified"], ["s.txt", "added"], ["u.txt", "untracked"]]],
        "git_diff": ["+two"],
        "git_diff, staged": True,
        "commands": [
            "add", "boom", "deploy", "fallback", "greet", "join", "nothing", "tags", "untyped", "weird", "with space",
        ],
        "declared": [
            ["name", "string", False, "world"], ["times", "integer", False, "1"], ["loud", "boolean", False, "False"],
        ],
        "run": ["HI YOU HI YOU", 3.5, "x,y", None, ["x", "y"]],
        "no command": ["CommandNotFoundError", None, None],
        "wrong arguments": ["CommandArgumentError", 400, "wrong_type"],
        "failed command": ["CommandExecutionError", 500, "command_failed"],
    }  # fmt: skip


@THROUGH
def test_pages(played: Any, server: ServerProcess, site: str, twins: bool) -> None:
    demand_browser()
    told = played(server, base_for(server, twins), "pages", twins=twins, site=site)
    assert told["missing"] == []
    assert told["seen"]["pages"] == {
        "navigate": [True, "Form", 200],
        "evaluate": ["clicked new", {"a": [1, None]}],
        "console": [["log", "went"], ["warning", "careful"]],
        "content": [True, True],
        "screenshot": ["89504e47", "ffd8ffe0"],
        "pdf": "%PDF",
        "refused address": ["PolicyDeniedError", 403, "url_not_allowed"],
        "no element": ["CommandTimeoutError", None, None],
    }


def test_a_group_that_is_off(played: Any, tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"auth": AUTH}, environ=ENVIRON, allow_anonymous=False) as server:
        told = played(server, tmp_path / "base", "closed")
    assert told["seen"]["closed"] == {
        "can": [True, False],
        "code": ["EndpointNotAvailableError", 404, "endpoint_disabled"],
        "code, unchecked": ["EndpointNotAvailableError", 404, "endpoint_disabled"],
    }


def test_what_is_not_called_is_missed() -> None:
    part = type("Part", (), {"__module__": "agent_sandbox", "go": lambda self: 1, "rest": lambda self: 2})()
    client = type("Client", (), {"__module__": "agent_sandbox", "part": part, "number": 5})()
    called: set[str] = set()
    assert Watched(client, "", called, twins=False).part.go() == 1
    assert surface(client) - called == {"part.rest"}
