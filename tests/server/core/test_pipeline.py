"""The order of the pipeline, one shape for every refusal, and clean-up on every way out."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.call import Call
from sandbox_server.catalogue import builtin
from sandbox_server.messages import REFUSALS, Aborted, FileSlice, Refusal, Response, json_response
from tests.server.core.harness import JSON, OCTETS, Answer, House, SentBody, VanishingBody, descriptors, request

Make = Callable[..., House]
STAT = ("GET", "/files/stat")
HERE = [("path", ".")]
TOKENS = {
    "auth": {
        "tokens": [
            {"id": "reader", "token_env": "READER", "scopes": ["files:read"]},
            {"id": "admin", "token_env": "ADMIN", "scopes": ["*"]},
        ]
    }
}
ENVIRON = {"READER": "r3ad-me-not", "ADMIN": "adm1n-only"}
READER = ("Authorization", "Bearer r3ad-me-not")
ADMIN = ("X-Access-Token", "adm1n-only")
WRONG = ("Authorization", "Bearer wr0ng-one")


@pytest.fixture
def guarded(house: Make) -> House:
    """A server with two identities, and without anonymous access."""
    return house(TOKENS, environ=ENVIRON, allow_anonymous=False)


def is_error(answer: Answer, code: str) -> bool:
    """The one shape: text, type and code, as the table says."""
    reason = REFUSALS[code]
    body = answer.json
    return (
        answer.status == reason.status
        and (body["code"], body["type"]) == (code, reason.type)
        and isinstance(body["error"], str)
        and answer.headers["Content-Type"] == "application/json; charset=utf-8"
    )


# -- who comes in, and to what --------------------------------------------------------------------------------------


def test_a_stranger_learns_nothing_about_what_exists(guarded: House) -> None:
    for headers in ((), (WRONG,)):
        told = set()
        for method, path in (
            STAT,
            ("GET", "/nothing"),
            ("PUT", "/files/stat"),
            ("POST", "/shell"),
            ("POST", "/health"),
        ):
            answer = guarded.ask(method, path, {"command": "true"}, JSON, *headers)
            assert is_error(answer, "unauthorized")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert "Allow" not in answer.headers
            told.add((answer.body, tuple(sorted(set(answer.headers.items())))))
        assert len(told) == 1


def test_health_is_for_anyone_and_only_as_get(guarded: House) -> None:
    for method in ("GET", "HEAD"):
        answer = guarded.ask(method, "/health")
        assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert guarded.ask("GET", "/health", None, READER, ADMIN).status == 200


@pytest.mark.finding("R2-S11")
def test_two_credentials_are_refused_before_anything_is_told(guarded: House) -> None:
    for path in ("/files/stat", "/nothing"):
        answer = guarded.ask("GET", path, None, READER, ADMIN)
        assert is_error(answer, "ambiguous_credentials")
        assert "endpoint" not in answer.json


def test_a_caller_who_is_known_is_told_about_routes_and_methods(guarded: House) -> None:
    assert is_error(guarded.ask("GET", "/nothing", None, READER), "unknown_route")
    answer = guarded.ask("PUT", "/files/stat", None, READER)
    assert is_error(answer, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, HEAD"
    assert answer.json["error"] == "this path takes GET, HEAD"
    assert guarded.ask("OPTIONS", "/pty/sessions/x", None, ADMIN).headers["Allow"] == "DELETE, GET, HEAD"


def test_head_is_admitted_like_get(guarded: House) -> None:
    assert guarded.ask("HEAD", "/files/stat", None, READER, query=HERE).status == 200
    assert is_error(guarded.ask("HEAD", "/process/list", None, READER), "missing_scope")
    assert is_error(guarded.ask("HEAD", "/shell", None, ADMIN), "method_not_allowed")


@pytest.mark.parametrize(
    ("headers", "query", "body", "policy", "code"),
    [
        ((), (), {}, {}, "unauthorized"),
        ((READER,), (), {}, {"endpoints": {"shell": {"enabled": False}}}, "endpoint_disabled"),
        ((READER,), [("a", "1"), ("a", "1")], {}, {}, "missing_scope"),
        ((ADMIN,), [("a", "1"), ("a", "1")], b"[", {}, "duplicate_parameter"),
        ((ADMIN,), (), SentBody(b"[", length=11 << 20), {}, "payload_too_large"),
        ((ADMIN, ("Content-Type", "text/plain")), (), b"[", {}, "unsupported_media_type"),
        ((ADMIN,), (), b"[", {}, "bad_body"),
        ((ADMIN,), (), {"command": 5, "cwd": "/etc"}, {}, "invalid_argument"),
        ((ADMIN,), (), {"command": "true", "cwd": "/etc"}, {}, "path_not_allowed"),
        ((ADMIN,), (), {"command": "no-such-program"}, {}, "not_found"),
    ],
)  # fmt: skip
def test_of_many_faults_the_first_in_the_order_of_the_pipeline_is_told(
    house: Make, headers: Any, query: Any, body: Any, policy: dict[str, Any], code: str
) -> None:
    door = house({**TOKENS, **policy}, environ=ENVIRON, allow_anonymous=False)
    answer = door.ask("POST", "/shell", body, *headers, query=query)
    assert is_error(answer, code)
    assert answer.json.get("endpoint") == (None if code == "unauthorized" else "shell")


def test_a_refused_call_uses_no_rate_and_a_failed_one_does(house: Make) -> None:
    policy = {**TOKENS, "endpoints": {"files_stat": {"limits": {"rate_per_minute": 2}}}}
    door = house(policy, environ=ENVIRON, allow_anonymous=False)
    for _ in range(3):
        assert is_error(door.ask(*STAT), "unauthorized")
    assert is_error(door.ask(*STAT, None, READER), "invalid_argument")
    assert door.ask(*STAT, None, READER, query=HERE).status == 200
    answer = door.ask(*STAT, None, READER, query=HERE)
    assert is_error(answer, "rate_limited")
    assert answer.headers["Retry-After"] == str(answer.json["retry_after"]) == "30"
    assert door.ask(*STAT, None, ADMIN, query=HERE).status == 200


@pytest.mark.finding("R2-S7")
@pytest.mark.field(155)
@pytest.mark.parametrize(
    "path",
    ["/files//stat", "//files/stat", "/files/./stat", "/files/../files/stat", "/files/%73tat", "/files%2Fstat",
     "/FILES/stat", "/files/stat;v=1", "/files/stat%00", "/files/stat ", "/files\\stat", "/x/../files/stat", "",
     "/process/a/b/signal", "/process//signal", "*"],
)  # fmt: skip
def test_field_155_every_endpoint_has_one_spelling(house: Make, path: str) -> None:
    door = house({"endpoints": {"*": {"enabled": True}}})
    for method in ("GET", "POST"):
        assert is_error(door.ask(method, path, query=HERE), "unknown_route")


@pytest.mark.field(14)
@pytest.mark.parametrize("endpoint", [e for e in builtin().values() if not e.virtual], ids=lambda e: e.id)
def test_field_014_a_trailing_slash_is_the_same_route(house: Make, endpoint: Any) -> None:
    door = house({"groups": {"dev_tools": True, "browser": True}})
    path = endpoint.path.replace("{pid}", "999999").replace("{id}", "x").replace("{name}", "x")
    answers = [door.ask(endpoint.method, spelling) for spelling in (path, path + "/", path + "//")]
    assert len({answer.status for answer in answers}) == 1
    if answers[0].status >= 300:
        refusals = [{k: v for k, v in answer.json.items() if k != "retry_after"} for answer in answers]
        assert refusals[0] == refusals[1] == refusals[2]
        assert refusals[0]["endpoint"] == endpoint.id


@pytest.mark.finding("R2-S7")
@pytest.mark.parametrize(
    "header", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL"]
)
def test_overriding_headers_and_parameters_mean_nothing(house: Make, base: Path, header: str) -> None:
    (base / "kept").write_text("")
    door = house()
    for value in ("DELETE", "/files"):
        answer = door.ask("GET", "/files/stat", None, (header, value), query=[("path", "kept"), ("_method", "DELETE")])
        assert answer.json["exists"] is True
    assert (base / "kept").exists()


def test_what_is_declared_but_not_built_is_501_after_everything_else_was_judged(guarded: House) -> None:
    guarded.handler("metrics", None)
    assert is_error(guarded.ask("GET", "/metrics"), "unauthorized")
    assert is_error(guarded.ask("GET", "/metrics", None, READER), "missing_scope")
    answer = guarded.ask("GET", "/metrics", None, ADMIN)
    assert is_error(answer, "not_implemented")
    assert answer.json["endpoint"] == "metrics"


# -- errors ---------------------------------------------------------------------------------------------------------

NAMED = {
    errno.ENOENT: "not_found", errno.ENOTDIR: "not_found", errno.EISDIR: "not_found", errno.ELOOP: "not_found",
    errno.ESTALE: "not_found", errno.EACCES: "forbidden", errno.EPERM: "forbidden", errno.EROFS: "forbidden",
    errno.EEXIST: "file_exists", errno.ENOTEMPTY: "file_exists", errno.EBUSY: "conflict", errno.ETXTBSY: "conflict",
    errno.EXDEV: "conflict", errno.ENOSPC: "no_space", errno.EDQUOT: "no_space", errno.EFBIG: "no_space",
    errno.EMLINK: "no_space", errno.EMFILE: "busy", errno.ENFILE: "busy", errno.ENOMEM: "busy", errno.EAGAIN: "busy",
    errno.EALREADY: "busy", errno.EINPROGRESS: "busy",
    errno.ENAMETOOLONG: "invalid_path", errno.EILSEQ: "invalid_path", errno.EINVAL: "invalid_argument",
}  # fmt: skip
SECRET = "s3cret-text-of-an-exception"


@pytest.mark.finding("R2-C4")
@pytest.mark.parametrize("number", sorted(errno.errorcode), ids=errno.errorcode.get)
def test_an_error_of_the_operating_system_is_told_by_its_kind_never_by_its_text(
    house: Make, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    door = house()

    def fail(call: Call, **_: Any) -> Response:
        raise OSError(number, SECRET, f"/{SECRET}", None, SECRET)

    door.handler("files_stat", fail)
    answer = door.ask(*STAT, query=HERE)
    assert is_error(answer, NAMED.get(number, "internal_error"))
    assert SECRET not in answer.body.decode()
    assert os.strerror(number) not in answer.body.decode() or number in (errno.ENOENT, errno.ENOSPC)
    assert (SECRET in caplog.text) == (number not in NAMED)


@pytest.mark.parametrize(
    "error",
    [ValueError(SECRET), RecursionError(SECRET), MemoryError(SECRET), KeyError(SECRET), AssertionError(SECRET),
     OSError(SECRET), UnicodeEncodeError("utf-8", SECRET, 0, 1, SECRET), StopIteration(SECRET)],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_a_fault_of_a_handler_is_500_without_a_word_of_it_and_logged(
    house: Make, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    door = house()

    def fail(call: Call, **_: Any) -> Response:
        raise error

    door.handler("files_stat", fail)
    with caplog.at_level(logging.ERROR, "sandbox_server"):
        answer = door.ask(*STAT, query=HERE)
    assert is_error(answer, "internal_error")
    assert answer.json == {
        "error": "the server failed; its log has the details", "type": "InternalError", "code": "internal_error",
        "endpoint": "files_stat",
    }  # fmt: skip
    assert SECRET in caplog.text


def test_a_full_process_table_of_the_system_is_busy_on_a_worker(house: Make) -> None:
    door = house()

    def fail(call: Call, **_: Any) -> Response:
        raise BlockingIOError

    door.handler("files_stat", fail)
    assert is_error(door.ask(*STAT, query=HERE), "busy")


def test_facts_of_a_refusal_become_keys_and_its_headers_go_out(house: Make) -> None:
    door = house()

    def refuse(call: Call, **_: Any) -> Response:
        refusal = Refusal("conflict", "no", path="/a", endpoint="told by the handler")
        refusal.headers.append(("X-Extra", "1"))
        raise refusal

    door.handler("files_stat", refuse)
    answer = door.ask(*STAT, query=HERE)
    assert answer.json == {
        "error": "no", "type": "ConflictError", "code": "conflict", "path": "/a", "endpoint": "told by the handler",
    }  # fmt: skip
    assert answer.headers["X-Extra"] == "1"


@pytest.mark.finding("R1-F6")
def test_every_answer_says_which_request_and_which_policy(house: Make) -> None:
    door = house()
    for given in (STAT, ("GET", "/health"), ("GET", "/nothing")):
        answer = door.ask(*given, id="abc123")
        assert answer.headers["X-Request-Id"] == "abc123"
        assert answer.headers["X-Policy-Revision"] == door.bound.revision
        assert answer.headers["X-Sandbox-Server"] == "notebook-sandbox"


def test_text_that_no_encoding_takes_is_told_as_an_escape(house: Make) -> None:
    answer = house().ask(*STAT, query=[("path", "/\udcff")])
    assert is_error(answer, "path_not_allowed")
    assert answer.body.isascii()


# -- clean-up -------------------------------------------------------------------------------------------------------

ONE = {"endpoints": {"files_stat": {"limits": {"max_concurrency": 1}}}}


def stream_that_fails() -> Iterator[bytes]:
    yield b"a"
    raise RuntimeError("half way")


def result(call: Call) -> Response:
    return json_response({})


def refusal(call: Call) -> Response:
    raise Refusal("conflict", "no")


def fault(call: Call) -> Response:
    raise RuntimeError("x")


def os_error(call: Call) -> Response:
    raise PermissionError(errno.EACCES, "x")


def aborted(call: Call) -> Response:
    raise Aborted


def stream(call: Call) -> Response:
    return Response(200, stream_that_fails())


def failing_close(call: Call) -> Response:
    def fail() -> None:
        raise RuntimeError("in clean-up")

    call.defer(fail)
    response = json_response({})
    response.on_close += [fail, fail]
    return response


@pytest.mark.parametrize("way", [result, refusal, fault, os_error, aborted, stream, failing_close])
def test_on_every_way_out_what_was_deferred_runs_and_the_place_is_free(
    house: Make, way: Callable[[Call], Response]
) -> None:
    door = house({**ONE, "defaults": {"audit": "all"}})
    ran: list[str] = []

    def handler(call: Call, **_: Any) -> Response:
        call.defer(lambda: ran.append("first"))
        call.defer(lambda: ran.append("second"))
        return way(call)

    door.handler("files_stat", handler)
    before = descriptors()
    for _ in range(3):
        response = door.application.handle(request(*STAT, query=HERE))
        assert response is not None
        assert ran == []
        assert is_error(door.ask(*STAT, query=HERE), "concurrency_limited")
        assert response.close_connection is (way is aborted)
        try:
            response.close()
        except RuntimeError as error:
            assert str(error) == "in clean-up"
        response.close()  # a second time does nothing
        assert ran == ["second", "first"]
        ran.clear()
        assert descriptors() <= before | {d for d in descriptors() if "audit.jsonl" in d}
    assert [line["status"] for line in door.audited()].count(429) == 3
    assert len(door.log.read_text().splitlines()) == 6


def test_a_descriptor_in_a_response_is_whoever_sends_its(house: Make, base: Path) -> None:
    (base / "f").write_bytes(b"content")
    door = house()
    before = descriptors()
    response = door.application.handle(request("GET", "/files/download-stream", None, ("Accept", "*/*, " + OCTETS[1]),
                                               query=[("path", "f")]))  # fmt: skip
    assert response is not None
    assert isinstance(response.body, FileSlice)
    os.close(response.body.descriptor)
    response.close()
    assert descriptors() == before


@pytest.mark.finding("R1-F3")
@pytest.mark.parametrize("length", [0, 5])
def test_a_peer_that_vanishes_in_mid_body_leaves_nothing_and_is_closed(house: Make, base: Path, length: int) -> None:
    door = house()
    for headers, query in ((OCTETS, [("path", "f")]), (JSON, [])):
        answer = door.ask("POST", "/files/upload-stream", VanishingBody(length=9), headers, query=query)
        assert is_error(answer, "bad_body")
        assert answer.close_connection
    assert os.listdir(base) == []


# -- on the selector thread -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "quick"),
    [("GET", "/health", True), ("HEAD", "/health", True), ("POST", "/health", False), ("GET", "/files/stat", True),
     ("GET", "/process/1", True), ("POST", "/shell", False), ("GET", "/nothing", False), ("GET", "//health", False)],
)  # fmt: skip
def test_only_what_the_catalogue_calls_inline_is_tried_on_the_selector_thread(
    house: Make, method: str, path: str, quick: bool
) -> None:
    assert house().application.quick(method, path) is quick


def test_a_try_that_would_block_leaves_no_trace(house: Make) -> None:
    door = house(
        {"endpoints": {"files_stat": {"limits": {"rate_per_minute": 1, "max_concurrency": 1}, "audit": "all"}}}
    )
    tries: list[bool] = []
    ran: list[bool] = []

    def handler(call: Call, **_: Any) -> Response:
        tries.append(call.inline)
        call.defer(lambda: ran.append(call.inline))
        if call.inline:
            raise BlockingIOError
        return json_response({})

    door.handler("files_stat", handler)
    asked = request(*STAT, query=HERE)
    for _ in range(5):
        assert door.application.handle(asked, inline=True) is None
    assert ran == [True] * 5
    response = door.application.handle(asked)
    assert response is not None and response.status == 200
    response.close()
    assert (tries, ran) == ([True] * 5 + [False], [True] * 5 + [False])
    answer = door.application.handle(asked, inline=True)
    assert answer is not None and answer.status == 429  # the one token went to the one that was answered
    answer.close()
    assert [line["status"] for line in door.audited()] == [200, 429]


def test_a_refusal_on_the_selector_thread_is_final(house: Make) -> None:
    response = house().application.handle(request(*STAT, query=[("path", "/etc")]), inline=True)
    assert response is not None and json.loads(bytes(response.body))["code"] == "path_not_allowed"
    response.close()


# -- audit ----------------------------------------------------------------------------------------------------------


def test_every_refusal_is_written_by_default_and_nothing_else(guarded: House) -> None:
    guarded.ask(*STAT, None, READER, query=HERE)
    guarded.ask(*STAT, None, id="1")
    guarded.ask(*STAT, None, READER, ADMIN, id="2")
    guarded.ask("GET", "/nothing", None, READER, id="3")
    guarded.ask("PUT", "/files/stat", None, READER, id="4")
    guarded.ask("POST", "/shell", {"command": "true"}, READER, JSON, id="5")
    guarded.ask(*STAT, None, READER, query=[("path", "/etc")], id="6")
    guarded.ask(*STAT, None, READER, id="7")
    guarded.ask("POST", "/shell", {"command": "no-such-program x"}, ADMIN, JSON, id="8")
    guarded.application.refuse(
        Refusal("bad_request", "x"), client="10.0.0.1:1", method="GET", path="/a", id="9"
    ).close()
    guarded.application.refuse(Refusal("host_not_allowed", "x")).close()
    lines = guarded.audited()
    assert [(line["id"], line["identity"], line["endpoint"], line["target"], line["status"], line["code"])
            for line in lines[:-1]] == [
        ("1", None, "files_stat", None, 401, "unauthorized"),
        ("2", None, "files_stat", None, 400, "ambiguous_credentials"),
        ("3", "reader", None, "/nothing", 404, "unknown_route"),
        ("4", "reader", None, "/files/stat", 405, "method_not_allowed"),
        ("5", "reader", "shell", None, 403, "missing_scope"),
        ("6", "reader", "files_stat", None, 403, "path_not_allowed"),
        ("7", "reader", "files_stat", None, 400, "invalid_argument"),
        ("8", "admin", "shell", None, 404, "not_found"),
        ("9", None, None, "/a", 400, "bad_request"),
    ]  # fmt: skip
    assert {line["decision"] for line in lines} == {"deny"}
    assert (lines[-1]["code"], len(lines[-1]["id"]), lines[-2]["client"]) == ("host_not_allowed", 32, "10.0.0.1:1")
    assert lines[7]["program"] == "no-such-program"


def test_under_all_every_outcome_is_written_with_what_it_touched(house: Make, base: Path) -> None:
    (base / "f").write_text("")
    door = house({"endpoints": {"*": {"audit": "all"}, "files_stat": {"enabled": True}}})
    door.ask(*STAT, query=[("path", "f")])
    door.ask("POST", "/files/move", {"source": "f", "destination": "g"}, JSON)
    door.ask("POST", "/shell", {"command": "true secret-argument"}, JSON)
    stat, move, shell = door.audited()
    assert (stat["decision"], stat["status"], stat["code"], stat["paths"]) == ("allow", 200, None, [str(base / "f")])
    assert (stat["client"], stat["identity"], stat["rule"]) == (
        "127.0.0.1:1",
        "anonymous",
        "policy:endpoints.files_stat",
    )
    assert move["paths"] == [str(base / "f"), str(base / "g")]
    assert shell["program"].endswith("/true")
    assert "secret-argument" not in door.log.read_text()


@pytest.mark.parametrize(
    ("policy", "codes"),
    [
        ({"defaults": {"audit": "off"}}, []),
        ({"defaults": {"audit": "deny"}}, ["unknown_route", "path_not_allowed", "bad_request"]),
        ({"defaults": {"audit": "all"}}, [None, "unknown_route", "path_not_allowed", "bad_request"]),
        ({"endpoints": {"files_stat": {"audit": "off"}}}, ["unknown_route", "bad_request"]),
        ({"mode": "observe", "defaults": {"audit": "off"}}, None),
    ],
)
def test_the_policy_says_what_is_written(house: Make, policy: dict[str, Any], codes: list[str | None] | None) -> None:
    door = house(policy)
    door.ask(*STAT, query=HERE)
    door.ask("GET", "/nothing")
    door.ask(*STAT, query=[("path", "/etc")])
    door.application.refuse(Refusal("bad_request", "x")).close()
    written = [line["code"] for line in door.audited()]
    if codes is None:  # observing writes everything
        assert len(written) == 4
    else:
        assert written == codes


@pytest.mark.field(103)
@pytest.mark.finding("R2-S13")
def test_field_103_no_token_and_no_body_is_ever_in_a_line_or_an_answer(house: Make) -> None:
    door = house(
        {**TOKENS, "endpoints": {"*": {"audit": "all"}}},
        environ={**ENVIRON, "ABX_SERVER_POLICY": "hidden-too"},
        allow_anonymous=False,
    )
    secrets = ["r3ad-me-not", "adm1n-only", "wr0ng-one", "b0dy-secret", "hidden-too"]
    told = []
    for headers in ((READER,), (ADMIN,), (WRONG,), (READER, ADMIN), (WRONG, ("X-Access-Token", "adm1n-only"))):
        for method, path in (STAT, ("POST", "/shell"), ("GET", "/capabilities"), ("GET", "/nothing"),
                             ("POST", "/files/mkdir"), ("POST", "/capabilities/check")):  # fmt: skip
            body = {"command": "env", "env": {"X": "y"}, "data": "b0dy-secret", "endpoint": "shell"}
            told.append(door.ask(method, path, body, JSON, *headers, query=[("token", "adm1n-only")]).body.decode())
    door.audited()
    text = door.log.read_text() + "".join(told)
    assert [secret for secret in secrets if secret in text] == []


def test_lines_stay_short_whatever_is_sent(house: Make) -> None:
    door = house()
    door.ask("M" * 8000, "/" + "p" * 8000)
    door.ask("POST", "/shell", {"command": "./" + "c" * 4000}, JSON)
    first, second = door.audited()
    assert (len(first["method"]), len(first["target"]), len(second["program"])) == (512, 512, 512)
