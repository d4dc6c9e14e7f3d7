"""The magics that tell about policies and audit logs, and connections to servers that are there already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess, running_server
from tests.support.waiting import eventually

from .conftest import Run, failure

TOKEN = "a-token-that-must-not-be-shown"
DEAD = "check the address, and start the server there; %sandbox start needs none"


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server")) as process:
        yield process


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    known = {"ABX_SERVER_TOKEN": TOKEN}
    with running_server(tmp_path_factory.mktemp("guarded"), environ=known, allow_anonymous=False) as process:
        yield process


def test_explain_says_who_asks_and_which_rules_there_are(started: Run) -> None:
    done = started("answer = %sandbox explain files_delete /etc/passwd\nbool(answer), answer.decision.code")
    assert done.result == (False, "path_not_allowed")
    text = started("%sandbox explain files_delete x --op delete").text
    assert text.splitlines()[0] == '✓ allowed: files_delete of "x"'
    for fact in (
        "identity              server",
        "scopes                files:delete",
        "allow is enforced by  the server",
    ):
        assert fact in text
    assert failure(started("%sandbox explain files_delte"))[1] == "did you mean files_delete?"


def test_the_policy_in_force_is_shown_as_the_caller_sees_it(run: Run, here: Path) -> None:
    run("%sandbox start --policy read-only")
    text = run("%sandbox policy").text
    assert text.splitlines()[0] == 'the policy of sandbox "local", as you see it'
    facts = dict(line.split(None, 1) for line in text.splitlines()[1:] if line.startswith("  "))
    assert facts["policy"] == "read-only" and facts["dev_tools"] == "off" and facts["core"] == "all"
    assert run("document = %sandbox policy show\ndocument['policy']['preset']").result == "read-only"


def test_policy_files_are_judged_and_compared(run: Run, here: Path) -> None:
    (here / "mine.json").write_text('{"preset": "workspace", "groups": {"dev_tools": false}}')
    done = run("found = %sandbox policy lint mine.json\n[one.code for one in found]")
    assert "L1" in done.result
    lines = run("%sandbox policy diff workspace mine.json").text.splitlines()
    (row,) = (line.split(None, 3) for line in lines if line.startswith("  code_run "))
    assert row == ["code_run", "✓", "limited", "✗ denied: switched off by policy:groups.dev_tools"]
    assert run("%sandbox policy diff workspace workspace").text.splitlines()[-1] == "both mean the same"


def _policy(path: Path, *scopes: str, **more: object) -> None:
    """A policy with identities whose tokens this environment does not hold."""
    tokens = [{"id": f"{n}", "token_env": f"NOT_SET_{n}", "scopes": scope.split()} for n, scope in enumerate(scopes)]
    path.write_text(json.dumps({"auth": {"tokens": tokens}, **more}))


def test_policies_are_judged_and_compared_without_their_secrets(run: Run, here: Path) -> None:
    _policy(here / "old.json", "files:*", "*", preset="workspace", mode="observe")
    bounds = {"files_list": {"limits": {"max_entries": 5}}}
    _policy(here / "new.yaml", "files:read", "*", "*", preset="workspace", endpoints=bounds)
    done = run("found = %sandbox policy lint old.json new.yaml\n{(one.policy, one.code) for one in found}")
    assert ("old.json", "L3") in done.result and ("new.yaml", "L3") in done.result
    done = run("found = %sandbox policy diff old.json new.yaml\nfound")
    told = {(one.identity, one.endpoint): one for one in done.result}
    denied = told["0", "files_mkdir"]
    assert (denied.fact, denied.first) == ("", "limited")
    assert denied.second == 'denied: needs the scope "files:write", which "0" does not hold'
    bound = told["1", "files_list"]
    assert (bound.fact, bound.first, bound.second) == ("max entries", "not set", "5")
    text = run("%sandbox policy diff old.json new.yaml").text.splitlines()
    assert text[1].split() == ["identity", "endpoint", "old.json", "new.yaml"]
    assert text[-2:] == [
        "old.json only observes: what it would deny is let through",
        "2 is known to new.yaml alone",
    ]


def test_a_policy_that_names_nobody_is_compared_with_everybody(run: Run, here: Path) -> None:
    _policy(here / "two.json", "files:*", "*", preset="workspace")
    for line, first in (("workspace two.json", True), ("two.json workspace", False)):
        found = run(f"found = %sandbox policy diff {line}\nfound").result
        assert {one.identity for one in found} == {"0"}  # the other may do what the one without a name may
        (shell,) = (one for one in found if one.endpoint == "shell")
        assert ((shell.first, shell.second) if first else (shell.second, shell.first)) == (
            "limited",
            'denied: needs the scope "process:run", which "0" does not hold',
        )


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("lint", "which policy?", "%sandbox policy lint policy.json"),
        ("lint nosuch.json", '"nosuch.json" is no policy: ', "a preset (workspace"),
        ("lint bad.json", '"bad.json" is no policy: ', "a preset (workspace"),
        ("diff nosuch.json locked", 'cannot read the policy file "nosuch.json"', "a preset (workspace"),
        ("diff bad.json locked", 'the policy "bad.json" is not valid: ', "a preset (workspace"),
        ("diff locked", "diff compares two policies", "%sandbox policy diff"),
        ("show x.json", "show asks the sandbox", "%sandbox policy lint x.json"),
        ("shw", '"shw" is no action, expected one of show, lint, diff', "%sandbox policy show"),
    ],
)
def test_what_is_no_policy_is_refused(run: Run, here: Path, line: str, message: str, hint: str) -> None:
    (here / "bad.json").write_text('{"presett": "locked"}')
    found, told = failure(run(f"%sandbox policy {line}"))
    assert found.startswith(message) and hint in told


def test_what_was_refused_is_in_the_audit_log(started: Run) -> None:
    started("%sandbox download /etc/passwd")
    started("%sandbox download /etc/shadow x")
    # A line is written once its answer is out, so the last one may come a moment later.
    eventually(lambda: len(started("log = %sandbox audit --denied\nlog").result) == 2)
    done = started("log = %sandbox audit --denied -n 1\nlog[0]['endpoint'], log[0]['code'], len(log)")
    assert done.result == ("files_download_stream", "path_not_allowed", 1)
    started("%sandbox config ui html")
    lines = [line.split() for line in started("%sandbox audit").text.splitlines()]
    assert lines[0] == ["decision", "endpoint", "what", "code", "identity"]
    assert [line[:3] for line in lines[1:]] == [["✗", "denied", "files_download_stream"]] * 2


def test_what_is_not_there_is_not_called_refused(started: Run) -> None:
    started("%sandbox config ui html")
    assert started("%sandbox audit --denied").text == "nothing noted as refused"
    started("%sandbox download gone.txt")
    eventually(lambda: "gone.txt" in started("%sandbox audit").text)
    started("%sandbox download /etc/passwd")
    eventually(lambda: "passwd" in started("%sandbox audit --denied").text)
    lines = [line.split() for line in started("%sandbox audit").text.splitlines()]
    assert [[*line[:2], line[4]] for line in lines[1:]] == [
        ["○", "missing", "not_found"], ["✗", "denied", "path_not_allowed"],
    ]  # fmt: skip
    assert "gone.txt" not in started("%sandbox audit --denied").text


def test_a_server_that_is_there_is_used_like_a_sandbox(
    run: Run, here: Path, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(f"%sandbox connect {server.url}")
    assert done.text.splitlines()[0] == f'✓ "server" is {server.url}'
    assert run("%sandbox run echo hi").stdout == "hi\n"
    assert "server" in run("%sandbox list").text and run("%sandbox info -l").error is None
    assert failure(run("%sandbox audit"))[0] == 'the log of "server" is not on this machine'
    assert run(f"%sandbox connect {server.url} --name server").error is None
    assert f"goes on  {server.url}" in run("%sandbox stop server").text
    assert failure(run("%sandbox ls"))[0] == "no sandbox is running in this kernel"


def test_the_token_comes_from_the_environment_and_is_shown_nowhere(
    run: Run, here: Path, guarded: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    assert failure(run(f"%sandbox connect {guarded.url} --token-env NOT_SET")) == (
        'the environment has no variable "NOT_SET"',
        "set NOT_SET before this kernel starts",
    )
    done = run(f"sb = %sandbox connect {guarded.url} --token-env MY_TOKEN\nsb, sb.info(), sb.server")
    assert done.error is None and TOKEN not in repr(done)
    assert "TOKEN" not in run("%sandbox list").text


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("", "give a URL, or a socket by --uds", "%sandbox connect https://"),
        ("http://x --uds y", "give a URL, or a socket by --uds", "%sandbox connect https://"),
        ("localhost:1", '"localhost:1" is no URL of a server', "%sandbox connect http://localhost:1"),
        ("http://me:secret@x", "a URL with a password in it is kept in the notebook", "set ABX_SERVER_TOKEN before"),
        ("ftp://x", '"ftp://x" must be http:// or https:// and a host', "write it as https://"),
        ("http://x:port", '"http://x:port" has a malformed host or port', "write it as https://"),
        ("http://127.0.0.1:1", "no server answers at http://127.0.0.1:1", DEAD),
        ("--uds /nosuch", "no server answers at unix:/nosuch", DEAD),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(run: Run, line: str, message: str, hint: str) -> None:
    told, advice = failure(run(f"%sandbox connect {line}"))
    assert told.startswith(message) and advice.startswith(hint) and "secret" not in told + advice


def test_text_is_typed_into_a_process_that_listens(started: Run) -> None:
    started("%sandbox run --bg --stdin cat")
    assert started("%sandbox stdin 1 'hello there'").text == "✓ 1 (cat) got it"
    started("%%sandbox stdin 1 --eof\nmore\n")
    started("sb = %sandbox use local\nsb.process.attach(sb.process.list(finished=True)[0].id).wait(60)")
    assert started("%sandbox logs 1").stdout == "hello there\nmore\n"
    assert failure(started("%sandbox stdin 1"))[0] == "text is missing: the line to type"
    assert failure(started("%sandbox stdin 1 more")) == (
        "cat has no input that is open",
        "%sandbox run --bg --stdin COMMAND leaves it open",
    )
    assert failure(started("%sandbox run --stdin cat"))[0] == "--stdin goes with --bg and a command"
