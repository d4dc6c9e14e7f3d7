"""Commands of the operator's own: registered without globals, guarded, bounded, and quiet about their faults."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_server import CommandArg, CommandCall, CommandRegistry, Refusal, command
from sandbox_server.custom import commands as registered
from sandbox_server.handlers import commands as handler
from tests.server.core.harness import JSON, Answer, House
from tests.support.server import running_server
from tests.support.waiting import eventually

Make = Callable[..., House]


def run(house: House, name: str, arguments: dict[str, Any] | None = None, *headers: tuple[str, str]) -> Answer:
    return house.ask("POST", f"/commands/{name}", arguments or {}, JSON, *headers)


@pytest.fixture
def registry() -> CommandRegistry:
    return CommandRegistry()


# -- registration ---------------------------------------------------------------------------------------------------


def test_arguments_are_read_from_the_signature(registry: CommandRegistry) -> None:
    def function(a: int, b: float = 1.5, c: bool = False, d: list[str] = ["x"], e=None, *, f: str = "y") -> None: ...  # type: ignore[no-untyped-def]  # noqa: B006

    registry.command("n")(function)
    (made,) = registry
    assert made.args == (
        CommandArg("a", "integer", True), CommandArg("b", "float", False, "1.5"),
        CommandArg("c", "boolean", False, "False"), CommandArg("d", "string_array", False, '["x"]'),
        CommandArg("e", "string", False, None), CommandArg("f", "string", False, "y"),
    )  # fmt: skip


def test_a_later_registration_takes_the_place_of_an_earlier_one(registry: CommandRegistry) -> None:
    registry.register("n", lambda: 1)
    registry.register("m", lambda: 2)
    registry.register("n", lambda: 3)
    assert [made.name for made in registry] == ["n", "m"]
    assert (found := registry.get("n")) is not None and found.function() == 3


def test_a_registry_that_a_server_uses_is_frozen(house: Make, registry: CommandRegistry) -> None:
    house(commands=registry)
    with pytest.raises(RuntimeError, match="register commands before it starts"):
        registry.register("n", lambda: 1)


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 129])
def test_a_name_that_no_address_can_hold_is_an_error(registry: CommandRegistry, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a command"):
        registry.register(name, lambda: 1)


def test_scopes_written_as_one_text_are_an_error(registry: CommandRegistry) -> None:
    with pytest.raises(ValueError, match="scopes are a list"):
        registry.register("n", lambda: 1, scopes="deploy")


def test_marking_a_function_registers_it_nowhere() -> None:
    @command(description="d", scopes=["s"])
    def function(a: int = 1) -> int:
        return a

    assert function(2) == 2
    assert getattr(function, registered.MARK).scopes == ("s",)
    assert not [value for value in vars(registered).values() if isinstance(value, CommandRegistry)]


# -- policy ---------------------------------------------------------------------------------------------------------

TOKENS = {
    "auth": {
        "tokens": [
            {"id": "some", "token_env": "SOME", "scopes": ["commands:*"]},
            {"id": "all", "token_env": "ALL", "scopes": ["commands:*", "deploy"]},
        ]
    }
}
SOME, ALL = ("X-Access-Token", "some-token"), ("X-Access-Token", "all-token")


@pytest.mark.finding("R1-F4")
def test_a_commands_own_scopes_are_asked_for_and_it_is_listed_only_to_their_holders(
    house: Make, registry: CommandRegistry
) -> None:
    registry.register("deploy", lambda: "done", scopes=["deploy"])
    registry.register("open", lambda: "done")
    environ = {"SOME": "some-token", "ALL": "all-token"}
    made = house(TOKENS, environ=environ, allow_anonymous=False, commands=registry)
    refused = run(made, "deploy", None, SOME)
    assert (refused.status, refused.code, refused.json["scope"]) == (403, "missing_scope", "deploy")
    assert run(made, "deploy", None, ALL).json == {"result": "done"}
    names = [[one["name"] for one in made.ask("GET", "/commands", None, who).json["commands"]] for who in (SOME, ALL)]
    assert names == [["open"], ["deploy", "open"]]


@pytest.mark.finding("R1-F4")
def test_a_command_gets_guarded_places_under_the_endpoints_own_path_rule(
    house: Make, base: Path, registry: CommandRegistry
) -> None:
    @registry.command()
    def read(path: str, op: str, call: CommandCall) -> str:
        with call.guard(path, op) as place:  # type: ignore[arg-type]
            return Path(place.path).read_text() + call.identity

    (base / "a.txt").write_text("hello ")
    (base / "key.pem").write_text("secret")
    made = house({"endpoints": {"run_command": {"paths": {"deny": ["*.pem"], "read_only": True}}}}, commands=registry)
    assert run(made, "read", {"path": "a.txt", "op": "read"}).json == {"result": "hello anonymous"}
    for path, op, code in (
        ("key.pem", "read", "path_denied"), ("/etc/passwd", "read", "path_not_allowed"),
        ("a.txt", "write", "read_only"), ("../x", "read", "path_not_allowed"), ("/proc/1", "read", "path_not_allowed"),
    ):  # fmt: skip
        answer = run(made, "read", {"path": path, "op": op})
        assert (answer.status, answer.code) == (403, code)
    assert [line["refused"] for line in made.audited()] == ["key.pem", "/etc/passwd", "a.txt", "../x", "/proc/1"]


def test_the_name_of_a_command_is_decoded_once(house: Make, registry: CommandRegistry) -> None:
    registry.register("é %25", lambda: "found")
    assert run(house(commands=registry), "%C3%A9%20%2525").json == {"result": "found"}


def test_the_audit_line_names_the_command_and_none_of_its_arguments(house: Make, registry: CommandRegistry) -> None:
    registry.register("deploy", lambda env: 1 / 0, args=[CommandArg("env")])
    made = house(commands=registry)
    run(made, "deploy", {"env": "s3cr3t-argument"})
    (line,) = made.audited()
    assert (line["program"], line["endpoint"], line["code"]) == ("deploy", "run_command", "command_failed")
    assert "s3cr3t-argument" not in str(line)


def test_an_unknown_command_is_404_and_no_other_name_is_told(house: Make, registry: CommandRegistry) -> None:
    registry.register("hidden-one", lambda: 1, hidden=True)
    answer = run(house(commands=registry), "hidden")
    assert (answer.status, answer.code) == (404, "command_not_found")
    assert b"hidden-one" not in answer.body


# -- results and faults ---------------------------------------------------------------------------------------------


def test_what_json_cannot_express_becomes_text(house: Make, registry: CommandRegistry) -> None:
    value = {1: (float("nan"), float("inf"), 1.5), "b": b"x", "n": None, "s": {2}, "t": True}
    registry.register("n", lambda: value)
    assert run(house(commands=registry), "n").json == {
        "result": {"1": ["nan", "inf", 1.5], "b": "b'x'", "n": None, "s": "{2}", "t": True}
    }


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Nasty:
    def __str__(self) -> str:
        raise RuntimeError("internal detail")


def exits() -> None:
    raise SystemExit("internal detail")


@pytest.mark.field(103)
@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda: {}["internal detail"], "KeyError"),
        (lambda: Path("/internal detail").read_bytes(), "FileNotFoundError"),
        (cyclic, "ValueError"), (Nasty, "RuntimeError"), (exits, "SystemExit"),
    ],
)  # fmt: skip
def test_field_103_a_fault_tells_its_class_and_nothing_else(
    house: Make, registry: CommandRegistry, caplog: pytest.LogCaptureFixture, function: Callable[[], Any], kind: str
) -> None:
    registry.register("n", function)
    with caplog.at_level(logging.ERROR):
        answer = run(house(commands=registry), "n")
    assert (answer.status, answer.code, answer.json["type"]) == (500, "command_failed", kind)
    assert b"internal detail" not in answer.body
    assert caplog.records


def test_a_refusal_of_the_commands_own_is_answered_as_one(house: Make, registry: CommandRegistry) -> None:
    def refuse() -> None:
        raise Refusal("conflict", "not now")

    registry.register("n", refuse)
    answer = run(house(commands=registry), "n")
    assert (answer.status, answer.json["error"]) == (409, "not now")


def test_a_result_that_is_too_large_is_not_sent(house: Make, registry: CommandRegistry) -> None:
    registry.register("n", lambda: "x" * 2000)
    made = house({"endpoints": {"run_command": {"limits": {"max_output_bytes": 1000}}}}, commands=registry)
    answer = run(made, "n")
    assert (answer.status, answer.code, answer.json["limit"]) == (500, "command_failed", 1000)


# -- time -----------------------------------------------------------------------------------------------------------

BRIEF = {"endpoints": {"run_command": {"limits": {"timeout_seconds": 0.05}}}}


@pytest.mark.field(95)
def test_field_095_a_command_that_takes_too_long_is_left_and_told_so(house: Make, registry: CommandRegistry) -> None:
    seen, answered = threading.Event(), threading.Event()

    @registry.command()
    def slow(call: CommandCall) -> None:
        while not call.cancelled:
            threading.Event().wait(0.005)
        answered.wait(30)
        with pytest.raises(Refusal):
            call.guard("a.txt")
        seen.set()

    answer = run(house(BRIEF, commands=registry), "slow")
    assert (answer.status, answer.code) == (408, "timeout")
    answered.set()
    assert seen.wait(30)


@pytest.mark.field(95)
@pytest.mark.parametrize("limits", [{}, {"timeout_seconds": 600}], ids=["no limit", "a limit"])
def test_field_095_a_command_learns_that_its_caller_has_left(tmp_path: Path, limits: dict[str, int]) -> None:
    """Told by two files in the base directory: one when it begins, one when it ends for nobody."""
    module = tmp_path / "commands_of_mine.py"
    module.write_text(
        "import pathlib, time\nfrom sandbox_server import command\n"
        "@command()\ndef slow(call):\n    pathlib.Path('begun').touch()\n"
        "    while not call.cancelled:\n        time.sleep(0.01)\n    pathlib.Path('left').touch()\n"
    )
    policy = {"endpoints": {"run_command": {"limits": limits}}} if limits else None
    with running_server(tmp_path, policy=policy, arguments=("--commands", str(module))) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as caller:
            caller.sendall(b"POST /commands/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
            eventually((tmp_path / "base" / "begun").exists)
        eventually((tmp_path / "base" / "left").exists)


def test_a_quick_command_does_not_notice_the_limit(house: Make, registry: CommandRegistry) -> None:
    @registry.command()
    def quick(call: CommandCall) -> bool:
        return call.deadline is not None and not call.cancelled

    made = house({"endpoints": {"run_command": {"limits": {"timeout_seconds": 60}}}}, commands=registry)
    assert run(made, "quick").json == {"result": True}


def test_commands_that_go_on_for_nobody_are_few(
    house: Make, registry: CommandRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "MOST_ABANDONED", 2)
    release = threading.Event()
    registry.register("stuck", lambda: release.wait(30))
    made = house(BRIEF, commands=registry)
    try:
        assert [run(made, "stuck").code for _ in range(3)] == ["timeout", "timeout", "busy"]
    finally:
        release.set()
    eventually(lambda: not len(made.machinery.application._services.abandoned))
    eventually(lambda: run(made, "stuck").status == 200)  # unless this very moment takes longer than it may
