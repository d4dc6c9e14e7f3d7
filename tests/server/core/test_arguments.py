"""From a request to a handler's keyword arguments: shapes first, then guards, in one order."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.catalogue import Field
from sandbox_server.guards.commands import Command
from sandbox_server.guards.paths import PathGuard
from tests.server.core.harness import JSON, OCTETS, Binder, SentBody, descriptors

Make = Callable[..., Binder]


def field(kind: str, name: str = "x", place: str = "body", **more: Any) -> Field:
    return Field(name, kind, place, "", **more)  # type: ignore[arg-type]


PATH = field("path", "path", op="read")
UPLOAD = (
    field("path", "path", op="write"),
    field("base64", "content", default=None),
    field("bool", "keep", default=True),
    field("number", "when", default=None),
)


# -- kinds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sent", "value"),
    [
        ("text", "words", "words"),
        ("text", " ", " "),
        ("url", "http://a/", "http://a/"),
        ("int", 7, 7),
        ("int", -3, -3),
        ("int", 1.9, 1),
        ("int", "12", 12),
        ("int", " 12 ", 12),
        ("int", "1.9", 1),
        ("int", "1e3", 1000),
        ("int", 9007199254740993, 9007199254740993),
        ("int", "9007199254740993", 9007199254740993),
        ("number", 7, 7.0),
        ("number", 0.5, 0.5),
        ("number", "2.5", 2.5),
        ("number", "-1e-3", -0.001),
        ("bool", True, True),
        ("bool", False, False),
        ("bool", 0, False),
        ("bool", 1, True),
        ("bool", "", False),
        ("bool", "false", False),  # truthiness would store what "overwrite": "false" was to keep
        ("bool", "No", False),
        ("bool", "0", False),
        ("bool", "x", True),
        ("bool", [], False),
        ("base64", "", b""),
        ("base64", "AP8=", b"\0\xff"),
        ("object", {"a": [1]}, {"a": [1]}),
        ("object", 5, 5),
        ("env", {}, {}),
        ("env", {"A": "1"}, {"A": "1"}),
    ],
)
def test_a_body_field_is_read_by_its_kind(binder: Make, kind: str, sent: object, value: object) -> None:
    bound = binder(field(kind))({"x": sent}, JSON)["x"]
    assert (bound, type(bound)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "sent", "expected"),
    [
        ("text", "", "text that is not empty"),
        ("text", 5, "text"),
        ("text", ["a"], "text"),
        ("url", "", "text that is not empty"),
        ("url", {}, "text"),
        ("path", 5, "a path as text"),
        ("base64", 5, "base64 text"),
        ("base64", "a", "base64 text (RFC 4648, section 4)"),
        ("base64", "AP8", "base64 text (RFC 4648, section 4)"),
        ("base64", "AP 8=", "base64 text (RFC 4648, section 4)"),
        ("base64", "AP-_", "base64 text (RFC 4648, section 4)"),
        ("base64", "\u00e9\u00e9==", "base64 text (RFC 4648, section 4)"),
        ("int", True, "a whole number"),
        ("int", "seven", "a whole number"),
        ("int", "", "a whole number"),
        ("int", [1], "a whole number"),
        ("int", "nan", "a whole number"),
        ("int", "9" * 400, "a whole number"),
        ("number", False, "a number"),
        ("number", "inf", "a number"),
        ("number", "-1e999", "a number"),
        ("number", 10**400, "a number"),
        ("number", {}, "a number"),
        ("paths", "a", "a list of paths that is not empty"),
        ("paths", [], "a list of paths that is not empty"),
        ("paths", ["a", 5], "a list of paths that is not empty"),
        ("env", "A=1", "an object of variable names and text values"),
        ("env", [["A", "1"]], "an object of variable names and text values"),
    ],
)
@pytest.mark.parametrize("given", [{}, {"default": None}], ids=["required", "optional"])
def test_a_wrong_shape_is_refused_and_named(
    binder: Make, kind: str, sent: object, expected: str, given: dict[str, Any]
) -> None:
    if sent == "" and kind in ("text", "url") and given:
        assert binder(field(kind, **given))({"x": sent}, JSON) == {"x": ""}  # an optional text may be empty
        return
    op = {"op": "read"} if kind in ("path", "paths") else {}
    refused = binder(field(kind, **op, **given)).refused({"x": sent}, JSON)
    code = "env_invalid" if kind == "env" else "invalid_argument"
    assert (refused.code, refused.status, refused.facts) == (code, 400, {"field": "x"})
    assert refused.message == f'"x" must be {expected}'


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("Yes", True), ("1", True), ("on", False), ("0", False), ("false", False)],
)
def test_truth_in_a_query_is_true_yes_or_1(binder: Make, text: str, value: bool) -> None:
    assert binder(field("bool", place="query", default=None))(query=[("x", text)]) == {"x": value}


def test_a_command_is_split_and_kept_as_it_was_sent(binder: Make) -> None:
    make = binder(field("command", "command"))
    command = make({"command": "true 'a b' \"c\""}, JSON)["command"]
    assert command == Command(("true", "a b", "c"), command.program, "true 'a b' \"c\"")
    assert make.calls[0].program == command.program
    assert Path(command.program).is_absolute()


def test_a_program_that_is_not_there_is_told_by_its_word(binder: Make) -> None:
    make = binder(field("command", "command"))
    assert make({"command": "no-such-program x"}, JSON)["command"].program == ""
    assert make.calls[0].program == "no-such-program"


@pytest.mark.parametrize(
    ("sent", "code"),
    [(5, "invalid_argument"), ("", "invalid_argument"), ("  ", "process_invalid"), ("'", "command_invalid")],
)
def test_a_command_that_is_none_is_refused(binder: Make, sent: object, code: str) -> None:
    assert binder(field("command", "command")).refused({"command": sent}, JSON).code == code


def test_a_command_starts_at_the_working_directory_of_its_call(binder: Make, base: Path) -> None:
    for folder in ("", "sub"):
        tool = base / folder / "tool"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
    make = binder(field("command", "command"), field("path", "cwd", op="exec", default=None))
    assert make({"command": "./tool"}, JSON)["command"].program == str(base / "tool")
    assert make({"command": "./tool", "cwd": "sub"}, JSON)["command"].program == str(base / "sub/tool")
    assert make({"command": "./tool", "cwd": str(base / "sub")}, JSON)["command"].program == str(base / "sub/tool")


def test_paths_are_located_each_and_told_to_the_audit_line(binder: Make, base: Path) -> None:
    (base / "a").write_text("")
    make = binder(field("paths", "paths", op="read"))
    located = make({"paths": ["a", str(base / "b")]}, JSON)["paths"]
    assert [(place.path, place.missing) for place in located] == [(str(base / "a"), False), (str(base / "b"), True)]
    assert make.calls[0].paths == [str(base / "a"), str(base / "b")]


@pytest.mark.parametrize(
    ("follow", "sent", "path"),
    [
        (True, {}, "target"),
        (False, {}, "link"),
        ("through", {}, "target"),
        ("through", {"through": True}, "target"),
        ("through", {"through": False}, "link"),
    ],
)
def test_a_link_is_followed_as_the_field_or_the_field_that_it_names_says(
    binder: Make, base: Path, follow: bool | str, sent: dict[str, Any], path: str
) -> None:
    (base / "target").write_text("")
    (base / "link").symlink_to("target")
    make = binder(field("path", "path", op="read", follow=follow), field("bool", "through", default=True))
    assert make({"path": "link", **sent}, JSON)["path"].path == str(base / path)


# -- absent, lenient, in which place --------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [{}, {"x": None}])
@pytest.mark.parametrize(
    "kind", ["text", "url", "int", "number", "bool", "base64", "object", "path", "paths", "command", "env"]
)
def test_what_is_absent_or_null_is_required_or_has_its_default(binder: Make, kind: str, sent: dict[str, Any]) -> None:
    op = {"op": "read"} if kind in ("path", "paths") else {}
    refused = binder(field(kind, **op)).refused(sent, JSON)
    assert (refused.code, refused.message) == ("invalid_argument", '"x" is required')
    assert binder(field(kind, default=None, **op))(sent, JSON) == {"x": None}


def test_a_default_path_goes_through_the_guard_like_any_other(binder: Make, base: Path) -> None:
    assert binder(field("path", "path", op="read", default="."))({})["path"].path == str(base)
    assert binder(field("path", "path", op="read", default="/etc")).refused({}).code == "path_not_allowed"


@pytest.mark.field(97)
@pytest.mark.parametrize("sent", ["lots", [], True, "nan", 10**400])
def test_field_097_a_lenient_number_that_is_malformed_counts_as_absent_but_zero_counts(
    binder: Make, sent: object
) -> None:
    make = binder(field("int", default=None, lenient=True))
    assert make({"x": sent}, JSON) == {"x": None}
    assert make({"x": 0}, JSON) == {"x": 0}


def test_fields_come_from_the_place_that_they_declare_and_from_no_other(binder: Make) -> None:
    make = binder(
        field("text", "id", "path"), field("text", "q", "query", default=None), field("text", "b", default=None)
    )
    bound = make({"id": "body", "q": "body", "b": "body"}, JSON, query=[("id", "query"), ("b", "query")],
                 in_path={"id": "path"})  # fmt: skip
    assert bound == {"id": "path", "q": None, "b": "body"}


def test_unknown_fields_are_ignored(binder: Make) -> None:
    assert binder(field("text", default=""))({"y": 1}, JSON, query=[("z", "1")]) == {"x": ""}


# -- queries --------------------------------------------------------------------------------------------------------


@pytest.mark.finding("R2-S4")
@pytest.mark.parametrize(
    "query",
    [
        [("x", "1"), ("x", "1")],
        [("x", "1"), ("y", "2"), ("x", "2")],
        [("x", ""), ("x", "1")],
        [("x", "1"), ("x", "")],
        [("x", ""), ("x", "")],
        [("unknown", "1"), ("unknown", "2")],
    ],
)
def test_a_repeated_query_parameter_is_refused_whatever_it_is(binder: Make, query: list[tuple[str, str]]) -> None:
    refused = binder(field("text", place="query", default=None)).refused(query=query)
    assert (refused.code, refused.status) == ("duplicate_parameter", 400)


def test_a_blank_query_value_counts_as_absent(binder: Make) -> None:
    assert binder(field("text", place="query", default="d"))(query=[("x", "")]) == {"x": "d"}
    assert binder(field("text", place="query")).refused(query=[("x", "")]).message == '"x" is required'


def test_names_of_queries_are_compared_as_they_are(binder: Make) -> None:
    assert binder(field("text", place="query", default=None))(query=[("X", "1"), ("x ", "2")]) == {"x": None}


# -- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json ;charset=latin-1",
        "",
    ],
)
def test_json_is_read_when_it_is_called_json_or_nothing(binder: Make, kind: str) -> None:
    assert binder(field("int"))({"x": 1}, ("Content-Type", kind)) == {"x": 1}


def test_json_needs_no_content_type(binder: Make) -> None:
    assert binder(field("int"))({"x": 1}) == {"x": 1}


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json-seq",
        "application/octet-stream",
        "application/json, text/plain",
    ],
)
def test_other_content_types_are_refused_before_the_body_is_read(binder: Make, kind: str) -> None:
    body = SentBody(b'{"x": 1}')
    refused = binder(field("int")).refused(body, ("Content-Type", kind))
    assert (refused.code, refused.status, body.reads) == ("unsupported_media_type", 415, 0)
    assert refused.message == f'content type "{kind}" is not accepted here; send application/json'


def test_two_content_types_are_one_too_many(binder: Make) -> None:
    refused = binder(field("int")).refused({"x": 1}, JSON, ("Content-Type", "text/plain"))
    assert refused.code == "unsupported_media_type"


def test_an_upload_says_that_it_takes_bytes_too(binder: Make) -> None:
    refused = binder(*UPLOAD, raw_types=("application/octet-stream",)).refused(b"x", ("Content-Type", "text/csv"))
    assert refused.message == (
        'content type "text/csv" is not accepted here; send application/json or application/octet-stream'
    )


def test_an_empty_body_is_an_empty_object_whatever_its_type(binder: Make) -> None:
    assert binder(field("int", default=5))(b"", ("Content-Type", "text/plain")) == {"x": 5}


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD"])
def test_the_body_of_other_methods_is_never_looked_at(binder: Make, method: str) -> None:
    body = SentBody(b"{not json", length=10**9)
    assert binder(field("int", default=5), method=method)(body, ("Content-Type", "text/plain")) == {"x": 5}
    assert body.reads == 0


@pytest.mark.finding("R1-F3")
def test_the_declared_length_is_judged_before_the_body_is_read(binder: Make) -> None:
    body = SentBody(b"", length=1001)
    refused = binder(field("int")).refused(body, ("Content-Type", "text/plain"))
    assert (refused.code, refused.status, refused.facts, body.reads) == ("payload_too_large", 413, {"limit": 1000}, 0)
    assert refused.message == "the body has 1001 bytes, the limit is 1000"
    assert binder(field("int"))(b'{"x":1}'.ljust(1000), JSON) == {"x": 1}


def test_without_a_limit_any_length_is_read(binder: Make) -> None:
    assert binder(field("int"))(b'{"x":1}'.ljust(5000), JSON, limits={"max_request_bytes": None}) == {"x": 1}


@pytest.mark.finding("R1-F3")
def test_a_raw_body_is_bounded_only_where_a_policy_wrote_a_bound(binder: Make) -> None:
    make = binder(*UPLOAD, raw_types=("application/octet-stream",))
    body = SentBody(b"", length=10**12)
    bound = make(body, OCTETS, query=[("path", "f")])
    assert (bound["path"].name, make.calls[0].raw, body.reads) == ("f", True, 0)
    refused = make.refused(body, OCTETS, query=[("path", "f")], limits={"max_request_bytes": 500})
    assert (refused.code, refused.facts) == ("payload_too_large", {"limit": 500})
    assert not make.refused(body, ("Content-Type", "text/plain"), query=[("path", "f")]).facts.get("field")


def test_with_a_raw_body_the_body_fields_come_from_the_query_as_text(binder: Make) -> None:
    make = binder(*UPLOAD, raw_types=("application/octet-stream",))
    bound = make(b"{}", OCTETS, query=[("path", "f"), ("keep", "no"), ("when", "1.5"), ("content", "AA==")])
    assert (bound["keep"], bound["when"], bound["content"]) == (False, 1.5, b"\0")


def test_an_octet_stream_is_raw_only_where_the_endpoint_takes_uploads(binder: Make) -> None:
    assert binder(field("int", default=1)).refused(b"{}", OCTETS).code == "unsupported_media_type"


def test_a_json_body_of_an_upload_is_no_raw_one(binder: Make) -> None:
    make = binder(*UPLOAD, raw_types=("application/octet-stream",))
    assert make({"path": "f", "content": "AP8=", "keep": False}, JSON)["content"] == b"\0\xff"
    assert make.calls[0].raw is False


# -- order and clean-up ---------------------------------------------------------------------------------------------

SHAPES = (
    field("path", "cwd", op="exec", default=None),
    field("command", "command"),
    field("base64", "data", default=None),
    field("env", "env", default=None),
    field("int", "number", default=0),
)
BAD_ENV, BAD_COMMAND, BAD_CWD = {"ABX_X": "1"}, "/proc/self/exe", "/etc"


def test_all_shapes_are_looked_at_before_any_guard_is_asked(binder: Make) -> None:
    sent = {"cwd": BAD_CWD, "command": BAD_COMMAND, "env": BAD_ENV, "number": "no"}
    refused = binder(*SHAPES).refused(sent, JSON)
    assert (refused.code, refused.facts) == ("invalid_argument", {"field": "number"})


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"cwd": BAD_CWD, "command": BAD_COMMAND, "env": BAD_ENV, "data": "?"}, "env_var_denied"),
        ({"cwd": BAD_CWD, "command": BAD_COMMAND, "env": {"HIDDEN": "1"}}, "env_var_not_allowed"),
        ({"cwd": BAD_CWD, "command": BAD_COMMAND, "env": {"A": "1"}, "data": "?"}, "process_denied"),
        ({"cwd": BAD_CWD, "command": "true", "env": {"A": "1"}, "data": "?"}, "path_not_allowed"),
        ({"cwd": ".", "command": "true", "env": {"A": "1"}, "data": "?"}, "invalid_argument"),
    ],
)
def test_guards_are_asked_in_the_order_environment_command_path_payload(
    binder: Make, sent: dict[str, Any], code: str
) -> None:
    assert binder(*SHAPES).refused(sent, JSON).code == code


def test_the_order_of_declaration_does_not_matter(binder: Make) -> None:
    sent = {"cwd": BAD_CWD, "command": BAD_COMMAND, "env": BAD_ENV}
    assert binder(*reversed(SHAPES)).refused(sent, JSON).code == "env_var_denied"


@pytest.mark.parametrize("rule", ["allow_commands", "deny_commands"])
def test_where_a_rule_speaks_about_commands_variables_must_not_steer_them(binder: Make, rule: str) -> None:
    sent = {"command": "true", "env": {"LD_PRELOAD": "x.so"}}
    assert binder(*SHAPES)(sent, JSON)["env"] == {"LD_PRELOAD": "x.so"}
    assert binder(*SHAPES).refused(sent, JSON, params={rule: ["nothing"]}).code == "env_var_not_allowed"


def test_the_rules_about_commands_are_the_grants(binder: Make) -> None:
    make = binder(field("command", "command"))
    assert make({"command": "true"}, JSON, params={"allow_commands": ["true"]})["command"].argv == ("true",)
    refused = make.refused({"command": "echo hi"}, JSON, params={"allow_commands": ["true"]})
    assert refused.code == "command_not_allowed"
    assert make.calls[-1].program == "echo"  # for the audit line, also of what was refused


@pytest.mark.parametrize(
    "sent",
    [
        {"a": "x", "b": "/etc", "many": ["x"]},
        {"a": "x", "b": "y", "many": ["x", "y", "/etc"]},
        {"a": "x", "b": "y", "many": ["x"], "data": "?"},
    ],
)
def test_nothing_stays_open_when_a_later_guard_refuses(binder: Make, base: Path, sent: dict[str, Any]) -> None:
    (base / "x").mkdir()
    (base / "y").write_text("")
    make = binder(
        field("path", "a", op="read"), field("path", "b", op="read"), field("paths", "many", op="read"),
        field("base64", "data", default=None),
    )  # fmt: skip
    before = descriptors()
    make.refused(sent, JSON)
    call = make.calls[0]
    assert call.deferred
    while call.deferred:
        call.deferred.pop()()
    assert descriptors() == before


def test_every_location_is_closed_with_the_call(binder: Make, base: Path) -> None:
    (base / "x").mkdir()
    make = binder(field("path", "a", op="read"), field("paths", "many", op="read"))
    before = descriptors()
    make({"a": "x", "many": ["x", "x", "missing"]}, JSON)
    call = make.calls[0]
    assert len(call.deferred) == 4
    while call.deferred:
        call.deferred.pop()()
    assert descriptors() == before


def test_on_the_selector_thread_a_path_is_looked_up_in_memory_only(
    binder: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def locate(self: PathGuard, raw: object, op: str, *, follow: bool, cached: bool) -> _Nowhere:
        asked.append(cached)
        return _Nowhere()

    monkeypatch.setattr(PathGuard, "locate", locate)
    make = binder(PATH)
    make({"path": "."}, JSON, inline=True)
    make({"path": "."}, JSON)
    assert asked == [True, False]


class _Nowhere:
    path = "/nowhere"

    def close(self) -> None:
        pass


def test_numbers_are_finite(binder: Make) -> None:
    assert math.isfinite(binder(field("number"))({"x": 1e308}, JSON)["x"])
    assert binder(field("number")).refused(b'{"x": 1e400}', JSON).code == "invalid_argument"
