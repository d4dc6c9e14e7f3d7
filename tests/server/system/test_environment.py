"""Variables: secrets never leave, and setting one reaches children and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_server.system.variables import LONGEST, TooLarge, Variables
from tests.server.core.harness import JSON, House
from tests.support.server import running_server

Make = Callable[..., House]
TOKENS = {"auth": {"tokens": [{"id": "a", "token_env": "MY_LOGIN", "scopes": ["*"]}]}}
LOGIN = ("X-Access-Token", "s3cr3t-value")


def shown(house: House, *headers: tuple[str, str]) -> dict[str, str]:
    variables: dict[str, str] = house.ask("GET", "/env", None, *headers).json["variables"]
    return variables


@pytest.mark.finding("R2-S13")
def test_the_servers_own_secrets_are_not_shown_wherever_they_are_repeated(house: Make) -> None:
    environ = {
        "MY_LOGIN": "s3cr3t-value", "COPY": "x-s3cr3t-value-x", "ABX_SERVER_BASE_DIR": "/b", "API_KEY": "k",
        "DB_PASSWORD": "p", "GREETING": "hello", "ABX_PTY_PORT": "9001",
    }  # fmt: skip
    made = house(TOKENS, environ=environ, allow_anonymous=False)
    assert shown(made, LOGIN) == {"GREETING": "hello", "ABX_PTY_PORT": "9001"}


@pytest.mark.field(103)
def test_field_103_a_password_in_an_address_is_not_shown(house: Make) -> None:
    environ = {"DATABASE": "postgres://ann:hunter2@db:5432/x", "PLAIN": "https://example.org/a@b"}
    assert shown(house(environ=environ)) == {
        "DATABASE": "postgres://ann:***@db:5432/x", "PLAIN": "https://example.org/a@b",
    }  # fmt: skip


@pytest.mark.finding("R2-S13")
def test_a_variable_that_holds_a_token_cannot_be_set(house: Make) -> None:
    made = house(TOKENS, environ={"MY_LOGIN": "s3cr3t-value"}, allow_anonymous=False)
    answer = made.ask("POST", "/env", {"vars": {"MY_LOGIN": "mine"}}, JSON, LOGIN)
    assert (answer.status, answer.code) == (403, "env_var_not_allowed")


def test_setting_changes_what_is_shown_and_not_the_servers_own_environment(house: Make) -> None:
    made = house(environ={"GREETING": "hello"})
    assert made.ask("POST", "/env", {"vars": {"NEW": "1", "GREETING": "bye"}}, JSON).json == {
        "updated": ["GREETING", "NEW"]
    }
    assert shown(made) == {"GREETING": "bye", "NEW": "1"}
    assert "NEW" not in os.environ


def test_two_servers_in_one_program_do_not_share_variables(house: Make) -> None:
    one, other = house(), house()
    one.ask("POST", "/env", {"vars": {"NEW": "1"}}, JSON)
    assert shown(other) == {}


def test_a_refused_name_keeps_all_of_them_from_being_set(house: Make) -> None:
    made = house({"endpoints": {"env_set": {"params": {"deny_vars": ["B*"]}}}})
    for name, code in (("PATH", "forbidden"), ("BAD", "env_var_not_allowed"), ("abx_x", "env_var_denied")):
        answer = made.ask("POST", "/env", {"vars": {"GOOD": "1", name: "2"}}, JSON)
        assert (answer.status, answer.code) == (403, code)
    assert shown(made) == {}


def test_variables_that_no_child_could_be_started_with_are_refused(house: Make) -> None:
    made = house()
    answer = made.ask("POST", "/env", {"vars": {"BIG": "x" * (LONGEST + 1)}}, JSON)
    assert (answer.status, answer.code) == (400, "env_invalid")
    for round in range(4):
        last = made.ask("POST", "/env", {"vars": {f"V{round}": "x" * (LONGEST - 10)}}, JSON)
    assert (last.status, last.code) == (400, "env_invalid")
    assert len(shown(made)) == 2
    variables = Variables({})
    with pytest.raises(TooLarge):
        variables.update({"N": "é" * LONGEST})
    assert variables.all() == {}


def test_every_kind_of_child_starts_with_what_was_set(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        assert server.request("POST", "/env", {"vars": {"NEW": "1", "LANG": "de_DE.UTF-8"}}).status == 200
        told = server.request("POST", "/shell", {"command": "printenv NEW LANG"}).json()
        assert told["stdout"] == "1\nde_DE.UTF-8\n"
        own = server.request("POST", "/shell", {"command": "printenv NEW", "env": {"NEW": "own"}}).json()
        assert own["stdout"] == "own\n"
        pid = server.request("POST", "/process/start", {"command": "printenv NEW", "capture_output": True}).json()[
            "pid"
        ]
        output = server.request("GET", f"/process/{pid}/output?wait=30").json()
        assert output["events"][0]["data"] == "1\n"


def test_where_a_rule_names_the_commands_no_variable_steers_them(tmp_path: Path) -> None:
    policy = {"endpoints": {"shell": {"params": {"allow_commands": ["env"]}}}}
    with running_server(tmp_path, policy=policy) as server:
        steering = {"LD_PRELOAD": "/x.so", "PYTHONPATH": "/x", "GIT_DIR": "/x", "HARMLESS": "1", "TZ": "UTC"}
        assert server.request("POST", "/env", {"vars": steering}).status == 200
        told = server.request("POST", "/shell", {"command": "env"}).json()["stdout"].splitlines()
    names = {line.partition("=")[0] for line in told}
    assert {"HARMLESS", "TZ"} <= names
    assert not names & {"LD_PRELOAD", "PYTHONPATH", "GIT_DIR"}
