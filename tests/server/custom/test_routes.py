"""Endpoints of the operator's own go through the same door as ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_server import (
    Call,
    ConfigurationError,
    Endpoint,
    Field,
    PolicyConfigError,
    Response,
    Route,
    SandboxServer,
    ServerPolicy,
    Settings,
    json_response,
)
from sandbox_server.custom.routes import catalogue_with
from sandbox_server.guards.location import Location
from sandbox_server.settings import bind_policy
from tests.server.core.harness import JSON, OCTETS, House

pytestmark = pytest.mark.finding("R1-F4")
Make = Callable[..., House]

COUNT = Endpoint(
    "lines_count", "POST", "/lines/{kind}", "file_ops", "Counts lines.", ("lines:count",),
    (
        Field("kind", "text", "path", "What to count."),
        Field("path", "path", "body", "File.", op="read"),
        Field("most", "int", "body", "Largest count.", 100),
        Field("again", "bool", "query", "Look twice.", False),
    ),
    {"max_bytes": 1000}, ("allow_extensions",),
)  # fmt: skip


def count(call: Call, *, kind: str, path: Location, most: int, again: bool) -> Response:
    lines = Path(path.path).read_text().count("\n")
    return json_response(
        {"kind": kind, "lines": min(lines, most), "again": again, "limit": call.grant.size("max_bytes")}
    )


ROUTE = Route(COUNT, count)


@pytest.fixture
def file(base: Path) -> Path:
    (base / "a.txt").write_text("1\n2\n3\n")
    (base / "key.pem").write_text("1\n")
    return base / "a.txt"


def test_its_fields_are_parsed_and_guarded_like_ours(house: Make, file: Path) -> None:
    made = house({"endpoints": {"lines_*": {"paths": {"deny": ["*.pem"]}}}}, routes=(ROUTE,))
    answer = made.ask("POST", "/lines/all", {"path": "a.txt", "most": "2"}, JSON, query=[("again", "yes")])
    assert answer.json == {"kind": "all", "lines": 2, "again": True, "limit": 1000}
    for body, status, code in (
        ({"path": "key.pem"}, 403, "path_denied"), ({"path": "/etc/passwd"}, 403, "path_not_allowed"),
        ({}, 400, "invalid_argument"), ({"path": "a.txt", "most": "x"}, 400, "invalid_argument"),
    ):  # fmt: skip
        refused = made.ask("POST", "/lines/all", body, JSON)
        assert (refused.status, refused.code, refused.json["endpoint"]) == (status, code, "lines_count")
    assert made.ask("GET", "/lines/all").status == 405
    assert made.ask("POST", "/lines/all", b"x", OCTETS).status == 415
    assert [line["endpoint"] for line in made.audited()][:4] == ["lines_count"] * 4


def test_a_policy_knows_its_id_group_limits_and_params(house: Make, file: Path) -> None:
    def answered(policy: dict[str, Any]) -> tuple[int, str | None]:
        answer = house(policy, routes=(ROUTE,)).ask("POST", "/lines/all", {"path": "a.txt"}, JSON)
        return answer.status, answer.json.get("code")

    assert answered({"endpoints": {"lines_count": {"enabled": False}}}) == (404, "endpoint_disabled")
    assert answered({"groups": {"file_ops": False}}) == (404, "endpoint_disabled")
    assert answered({"preset": "locked"}) == (404, "endpoint_disabled")
    assert answered({"endpoints": {"lines_count": {"limits": {"max_request_bytes": 5}}}}) == (413, "payload_too_large")
    assert answered({"endpoints": {"lines_count": {"params": {"allow_extensions": [".md"]}}}})[0] == 200
    with pytest.raises(PolicyConfigError, match='lines_cont: unknown endpoint; did you mean "lines_count"'):
        answered({"endpoints": {"lines_cont": {"enabled": True}}})
    with pytest.raises(PolicyConfigError, match="does not apply"):
        answered({"endpoints": {"lines_count": {"limits": {"max_files": 5}}}})
    with pytest.raises(PolicyConfigError, match="unknown endpoint"):
        house({"endpoints": {"lines_count": {}}})


def test_its_scopes_are_asked_for(house: Make, file: Path) -> None:
    tokens = {"auth": {"tokens": [{"id": "r", "token_env": "R", "scopes": ["files:*"]}]}}
    made = house(tokens, environ={"R": "reader-token"}, allow_anonymous=False, routes=(ROUTE,))
    answer = made.ask("POST", "/lines/all", {"path": "a.txt"}, JSON, ("X-Access-Token", "reader-token"))
    assert (answer.status, answer.code, answer.json["scope"]) == (403, "missing_scope", "lines:count")
    assert made.ask("POST", "/lines/all", {"path": "a.txt"}, JSON).status == 401


def test_discovery_the_document_and_explanations_know_it(house: Make, file: Path) -> None:
    made = house(routes=(ROUTE,))
    told = made.ask("GET", "/capabilities").json
    entry = told["endpoints"]["lines_count"]
    assert (entry["allowed"], entry["path"], entry["scopes"]) == (True, "/lines/{kind}", ["lines:count"])
    assert entry["defaults"]["max_bytes"] == 1000
    operation = made.ask("GET", "/openapi.json").json["paths"]["/lines/{kind}"]["post"]
    assert operation["operationId"] == "lines_count"
    check = made.ask("POST", "/capabilities/check", {"endpoint": "lines_count", "path": "/etc/passwd"}, JSON).json
    assert (check["allowed"], check["code"]) == (False, "path_not_allowed")
    catalogue = catalogue_with((ROUTE,))
    policy = ServerPolicy.only("lines_count")
    assert policy.explain("lines_count", catalogue=catalogue)["allowed"]
    assert not policy.explain("shell", catalogue=catalogue)["allowed"]


def test_a_handler_may_judge_more_paths_and_ask_for_more_scopes(house: Make, file: Path) -> None:
    def handler(call: Call, *, name: str) -> Response:
        call.require_scope("other:scope")
        return json_response({"path": call.guard(name, "read").path})

    made = Route(
        Endpoint(
            "judge", "GET", "/judge", "file_ops", "", (), (Field("name", "text", "query", ""),), judges_paths=True
        ),
        handler,
    )
    policy = {"endpoints": {"judge": {"paths": {"deny": ["*.pem"]}}}}
    served = house(policy, routes=(made,))
    assert served.ask("GET", "/judge", query=[("name", "a.txt")]).json == {"path": str(file)}
    assert served.ask("GET", "/judge", query=[("name", "key.pem")]).code == "path_denied"
    lesser = house({**policy, "auth": {"anonymous_scopes": ["files:read"]}}, routes=(made,))
    assert lesser.ask("GET", "/judge", query=[("name", "a.txt")]).json["scope"] == "other:scope"


def test_a_fault_in_it_is_a_500_without_its_text(house: Make) -> None:
    def handler(call: Call) -> Response:
        raise RuntimeError("internal detail")

    made = house(routes=(Route(Endpoint("bad", "GET", "/bad", "system", ""), handler),))
    answer = made.ask("GET", "/bad")
    assert (answer.status, answer.code) == (500, "internal_error")
    assert b"internal detail" not in answer.body


def plain(call: Call) -> Response:
    return json_response({})


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        (Endpoint("a.b", "GET", "/a", "system", ""), "an id is 1 to 64"),
        (Endpoint("x" * 65, "GET", "/a", "system", ""), "an id is 1 to 64"),
        (Endpoint("a", "GET", "/a", "core", ""), "the group must be one of"),
        (Endpoint("a", "GET", "/a", "mine", ""), "the group must be one of"),
        (Endpoint("a", "TRACE", "/a", "system", ""), "the method must be"),
        (Endpoint("a", "GET", "a", "system", ""), "is no path"),
        (Endpoint("a", "GET", "/a/", "system", ""), "is no path"),
        (Endpoint("a", "GET", "/a%20b", "system", ""), "is no path"),
        (Endpoint("a", "GET", "/a", "system", "", public=True), "public, virtual and inline"),
        (Endpoint("a", "GET", "/a", "system", "", limits={"most": 1}), "no limit or parameter 'most'"),
        (Endpoint("a", "GET", "/a", "system", "", scopes="files:read"), "lists of texts"),  # type: ignore[arg-type]
        (Endpoint("a", "GET", "/a", "system", "", (), (Field("p", "text", "query", ""),)), "the handler must take"),
        (Endpoint("a", "GET", "/{p}", "system", ""), "have the place 'path'"),
        (Endpoint("a", "GET", "/a", "system", "", (), (Field("p", "path", "query", ""),)), "each path needs one"),
        (Endpoint("a", "GET", "/a", "system", "", (), (Field("p", "text", "body", ""),)), "which GET has not"),
        (Endpoint("a", "GET", "/a", "system", "", (), (Field("p", "word", "query", ""),)),  # type: ignore[arg-type]
         "unknown kind"),
    ],
)  # fmt: skip
def test_a_declaration_that_could_not_be_held_is_an_error(endpoint: Endpoint, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Route(endpoint, plain)


@pytest.mark.parametrize(
    "endpoint",
    [Endpoint("files_stat", "GET", "/mine", "system", ""), Endpoint("mine", "GET", "/files/stat", "file_ops", "")],
    ids=["id", "path"],
)
def test_what_is_taken_is_taken(endpoint: Endpoint, base: Path) -> None:
    settings = Settings(policy=ServerPolicy(), environ={}, base_dir=str(base), routes=(Route(endpoint, plain),))
    with pytest.raises(ConfigurationError, match="declared twice"):
        bind_policy(settings)


def test_a_program_that_embeds_the_server_adds_them_by_its_settings(base: Path, file: Path) -> None:
    import urllib.request

    settings = Settings(
        policy=ServerPolicy(), environ={}, base_dir=str(base), port=0, allow_anonymous=True, routes=(ROUTE,),
        audit_file=str(base.parent / "audit"),
    )  # fmt: skip
    with SandboxServer(settings) as server:
        request = urllib.request.Request(
            f"{server.addresses[0]}/lines/all", b'{"path":"a.txt"}', {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.read() == b'{"kind":"all","lines":3,"again":false,"limit":1000}'
