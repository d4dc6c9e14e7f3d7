"""Who may attach to a terminal, and how everybody else is refused: before the connection changes, or right after."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import running_server
from tests.support.waiting import eventually
from tests.support.websocket import NotUpgraded

from .conftest import Place

ANN, BOB, EVE, ÜBER = "ann-token-1234567890", "bob-token-1234567890", "eve-token-1234567890", "über-token-123456"
BEARER = {name: {"Authorization": f"Bearer {name}"} for name in (ANN, BOB, EVE)}


def _token(id: str, text: str, *scopes: str) -> dict[str, Any]:
    return {"id": id, "token_sha256": hashlib.sha256(text.encode()).hexdigest(), "scopes": list(scopes)}


POLICY = {
    "auth": {
        "tokens": [
            _token("ann", ANN, "terminal:*"),
            _token("bob", BOB, "*"),
            _token("eve", EVE, "files:read"),
            _token("über", ÜBER, "terminal:*"),
        ]
    },
    "defaults": {"audit": "all"},
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running_server(tmp_path_factory.mktemp("guarded"), policy=POLICY, allow_anonymous=False) as server:
        yield Place(server, BEARER[ANN])


@pytest.fixture
def id(guarded: Place) -> Iterator[str]:
    id = guarded.open()
    yield id
    guarded.close(id)


def _refused(place: Place, id: str, query: str = "", headers: dict[str, str] | None = None) -> NotUpgraded:
    with pytest.raises(NotUpgraded) as refused:
        place.connect(id, query, headers)
    return refused.value


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {"Authorization": f"Bearer {ANN}"}),
        ("", {"X-Access-Token": ANN}),
        (f"&token={ANN}", {}),
        ("&token=%C3%BCber-token-123456", {}),
        (f"&token={ANN}", {"Authorization": ""}),
    ],
)
def test_a_credential_is_a_header_or_where_there_is_none_a_query_value(
    guarded: Place, query: str, headers: dict[str, str]
) -> None:
    own = {"X-Access-Token": ÜBER.encode().decode("latin-1")} if "%C3" in query else BEARER[ANN]
    target = guarded.open(headers={k: v.encode("latin-1").decode("latin-1") for k, v in own.items()})
    with guarded.connect(target, query, headers) as viewer:
        assert viewer.receive()["event"] == "started"
    assert guarded.server.request("DELETE", f"/pty/sessions/{target}", headers=own).status == 200


def test_strangers_are_refused_before_the_connection_changes(guarded: Place, id: str) -> None:
    for query, headers in (
        ("", {}),
        ("&token=wrong", {}),
        (f"&token={ANN}", {"X-Access-Token": "wrong"}),
        (f"&token={ANN}", {"Authorization": "Bearer wrong"}),
    ):
        refused = _refused(guarded, id, query, headers)
        assert (refused.status, refused.json()["code"]) == (401, "unauthorized")
        assert refused.json().keys() == {"error", "type", "code"}  # nothing about what is here
    ambiguous = _refused(guarded, id, headers={"Authorization": f"Bearer {ANN}", "X-Access-Token": BOB})
    assert (ambiguous.status, ambiguous.json()["code"]) == (400, "ambiguous_credentials")
    assert _refused(guarded, id, f"&token={ANN}&token={BOB}", {}).json()["code"] == "ambiguous_credentials"


def test_the_query_holds_a_credential_for_terminals_only(guarded: Place) -> None:
    for target in ("/pty/sessions", "/capabilities", "/files/stat"):
        assert guarded.server.request("GET", f"{target}?token={ANN}").status == 401


def test_pages_of_other_sites_are_refused_before_the_connection_changes(guarded: Place, id: str) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        refused = _refused(guarded, id, f"&token={ANN}", headers)
        assert (refused.status, refused.json()["code"]) == (403, "origin_not_allowed")
    refused = _refused(guarded, id, f"&token={ANN}", {"Host": "evil.example"})
    assert (refused.status, refused.json()["code"]) == (421, "host_not_allowed")
    with guarded.connect(id, headers={**BEARER[ANN], "Origin": f"http://127.0.0.1:{guarded.server.port}"}) as viewer:
        assert viewer.receive()["event"] == "started"


@pytest.mark.finding("R2-S14")
def test_who_is_known_but_may_not_is_told_by_a_close_code_and_nothing_else(guarded: Place, id: str) -> None:
    with guarded.connect(id, headers=BEARER[EVE]) as viewer:
        assert viewer.rest() == []
        assert viewer.close_code == 4003
        assert viewer.close_reason.startswith("missing_scope: ")


@pytest.mark.finding("R2-S14")
def test_where_the_policy_switches_attaching_off_the_code_is_4003(tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"endpoints": {"pty_connect": {"enabled": False}}}) as server:
        place = Place(server, {})
        with place.connect(place.open()) as viewer:
            assert viewer.rest() == [] and viewer.close_code == 4003
            assert viewer.close_reason.startswith("endpoint_disabled: ")
        assert server.request("GET", "/pty").status == 404


def test_a_terminal_belongs_to_who_opened_it(guarded: Place, id: str) -> None:
    with guarded.connect(id, headers=BEARER[BOB]) as viewer:
        assert viewer.rest() == [] and viewer.close_code == 1008
    with guarded.connect("f" * 32) as unknown:
        assert unknown.rest() == [] and unknown.close_code == 1008
    assert viewer.close_reason.replace(id, "f" * 32) == unknown.close_reason
    for method, target in (("GET", ""), ("DELETE", ""), ("POST", "/resize")):
        body = {"cols": 5, "rows": 5} if method == "POST" else None
        reply = guarded.server.request(method, f"/pty/sessions/{id}{target}", body, BEARER[BOB])
        assert (reply.status, reply.json()["code"]) == (404, "session_not_found")
    assert guarded.server.request("GET", "/pty/sessions", headers=BEARER[BOB]).json() == {"sessions": []}
    assert [
        s["id"] for s in guarded.server.request("GET", "/pty/sessions", headers=BEARER[ANN]).json()["sessions"]
    ] == [id]


def test_ids_cannot_be_found_by_trying(guarded: Place, id: str) -> None:
    assert re.fullmatch("[0-9a-f]{32}", id)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Upgrade": ""}, 426),
        ({"Upgrade": "h2c"}, 426),
        ({"Connection": ""}, 426),
        ({"Connection": "keep-alive"}, 426),
        ({"Sec-WebSocket-Version": ""}, 426),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Key": ""}, 400),
        ({"Sec-WebSocket-Key": "too short"}, 400),
    ],
)
def test_what_is_no_proper_handshake_is_answered_in_http(
    guarded: Place, id: str, headers: dict[str, str], status: int
) -> None:
    refused = _refused(guarded, id, headers={**BEARER[ANN], **headers})
    assert refused.status == status
    assert refused.json()["code"] == ("upgrade_required" if status == 426 else "bad_request")
    if status == 426:
        assert "Upgrade: websocket" in refused.head and "Sec-WebSocket-Version: 13" in refused.head


def test_tokens_of_a_list_count_in_any_case(guarded: Place, id: str) -> None:
    headers = {**BEARER[ANN], "Upgrade": "WebSocket", "Connection": "keep-alive, UPGRADE"}
    offered = {"Sec-WebSocket-Extensions": "permessage-deflate", "Sec-WebSocket-Protocol": "tty"}
    with guarded.connect(id, headers={**headers, **offered}) as viewer:
        assert viewer.receive()["event"] == "started"
        assert "sec-websocket-extensions" not in viewer.headers and "sec-websocket-protocol" not in viewer.headers


def test_a_request_with_a_body_does_not_attach_however_its_pieces_come(guarded: Place, id: str) -> None:
    whole = _refused(guarded, id, headers={**BEARER[ANN], "Content-Length": "5\r\n\r\nhello"})
    assert (whole.status, whole.json()["code"]) == (400, "bad_request")
    with guarded.connect(id, headers={**BEARER[ANN], "Content-Length": "0"}) as viewer:
        assert viewer.receive()["event"] == "started"


def test_an_id_that_is_no_text_is_an_id_that_nobody_has(guarded: Place) -> None:
    with guarded.connect("%ff", headers=BEARER[ANN]) as viewer:
        assert viewer.receive() is None
        assert (viewer.close_code, viewer.close_reason[:31]) == (1008, "session_not_found: no terminal ")


def test_other_methods_do_not_attach(guarded: Place, id: str) -> None:
    for method in ("POST", "DELETE", "PUT"):
        reply = guarded.server.request(method, f"/pty?session_id={id}", headers=BEARER[ANN])
        assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")
    assert guarded.server.request("HEAD", f"/pty?session_id={id}", headers=BEARER[ANN]).status == 426


def test_opening_and_closing_are_in_the_audit_log_and_no_token_ever_is(guarded: Place, id: str) -> None:
    with guarded.connect(id, f"&token={ANN}", {}) as viewer:
        viewer.receive()
        viewer.sock.sendall(bytes([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8]))
        viewer.rest()

    def lines() -> list[dict[str, Any]]:
        return [line for line in guarded.server.audit_lines() if line.get("session") == id]

    eventually(lambda: len(lines()) == 2)
    opened, closed = lines()
    assert (opened["event"], opened["identity"], opened["decision"]) == ("open", "ann", "allow")
    assert (closed["event"], closed["close_code"], closed["id"]) == ("close", 1000, opened["id"])

    def of_eve() -> list[dict[str, Any]]:
        return [line for line in guarded.server.audit_lines() if line["identity"] == "eve"]

    before = len(of_eve())
    with guarded.connect(id, headers=BEARER[EVE]) as viewer:
        viewer.rest()
    eventually(lambda: len(of_eve()) > before)
    last = of_eve()[-1]
    assert (last["decision"], last["code"], last["endpoint"]) == ("deny", "missing_scope", "pty_connect")
    text = guarded.server.audit.read_text() + guarded.server.log.read_text()
    assert not any(token in text for token in (ANN, BOB, EVE))


def test_refusals_are_audited_by_default(tmp_path: Path) -> None:
    policy = {"endpoints": {"pty_connect": {"enabled": False}}}
    with running_server(tmp_path, policy=policy) as server:
        place = Place(server, {})
        with place.connect(place.open()) as viewer:
            viewer.rest()
        eventually(server.audit_lines)
        line = server.audit_lines()[-1]
    assert (line["endpoint"], line["code"], line["decision"]) == ("pty_connect", "endpoint_disabled", "deny")


def test_the_rest_answer_names_where_to_connect(guarded: Place) -> None:
    reply = guarded.try_open()
    made = reply.json()
    id = made["session_id"]
    assert made["path"] == f"/pty?session_id={id}"
    found = re.fullmatch(r"ws://127\.0\.0\.1:(\d+)(/pty\?session_id=[0-9a-f]{32})", made["ws_url"])
    assert found and int(found[1]) != guarded.server.port and found[2] == made["path"]
    guarded.close(id)


def test_a_place_in_max_concurrency_is_held_as_long_as_one_is_attached(tmp_path: Path) -> None:
    policy = {"endpoints": {"pty_connect": {"limits": {"max_concurrency": 1}}}}
    with running_server(tmp_path, policy=policy) as server:
        place = Place(server, {})
        id = place.open()
        with place.connect(id) as first:
            first.receive()
            with place.connect(id) as second:
                assert second.rest() == [] and second.close_code == 4003
                assert second.close_reason.startswith("concurrency_limited: ")

        def attached() -> bool:
            with place.connect(id) as again:
                message = again.receive()
                return message is not None and message["event"] == "started"

        eventually(attached)
