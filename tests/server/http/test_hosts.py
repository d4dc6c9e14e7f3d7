"""Host, Origin and Sec-Fetch-Site: which names and which pages may talk to the server."""

from __future__ import annotations

import pytest

from sandbox_server.http.hosts import HostRules
from sandbox_server.http.parser import parse_fields
from sandbox_server.messages import Refusal


def code(rules: HostRules, *lines: str, any_host: bool = False, minor: int = 1) -> str | None:
    try:
        rules.check(parse_fields("\r\n".join(lines).encode("latin-1"), minor), any_host=any_host)
    except Refusal as refusal:
        return refusal.code
    return None


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:9000",
        "localhost.",
        "app.localhost:80",
        "127.0.0.1",
        "127.0.0.1:9000",
        "10.1.2.3:9000",
        "0.0.0.0:",
        "[::1]",
        "[::1]:9000",
        "[fe80::1]:9000",
        "[::ffff:127.0.0.1]",
    ],
)
def test_addresses_and_loopback_names_pass_as_host(host: str) -> None:
    assert code(HostRules(), f"Host: {host}") is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9000",
        "localhost.evil.example",
        "notlocalhost",
        "127.0.0.1.evil.example",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "[127.0.0.1]",
        "[1]",
        "",
        ":9000",
        "localhost..",
        ".",
    ],
)
def test_any_other_host_is_refused(host: str) -> None:
    assert code(HostRules(), f"Host: {host}") == "host_not_allowed"


def test_a_configured_name_passes_with_any_port_and_case() -> None:
    rules = HostRules(["Box.Example", "other:80"])
    assert code(rules, "Host: box.example") is None
    assert code(rules, "Host: BOX.example.:9000") is None
    assert code(rules, "Host: other:9000") is None
    assert code(rules, "Host: sub.box.example") == "host_not_allowed"


def test_a_unix_socket_takes_any_host_and_still_refuses_pages() -> None:
    assert code(HostRules(), "Host: whatever", any_host=True) is None
    assert code(HostRules(), "Host: whatever", "Origin: http://evil.example", any_host=True) == "origin_not_allowed"


def test_http_1_0_may_come_without_host() -> None:
    assert code(HostRules(), minor=0) is None
    assert code(HostRules(), "Host: evil.example", minor=0) == "host_not_allowed"


@pytest.mark.parametrize(
    "lines",
    [
        ["Origin: http://localhost:9000"],
        ["Origin: https://LOCALHOST:9000"],
        ["Sec-Fetch-Site: none"],
        ["Sec-Fetch-Site: same-origin", "Origin: http://localhost:9000"],
    ],
)
def test_the_servers_own_pages_and_typed_addresses_pass(lines: list[str]) -> None:
    assert code(HostRules(), "Host: localhost:9000", *lines) is None


@pytest.mark.parametrize(
    "lines",
    [
        ["Origin: http://evil.example"],
        ["Origin: null"],
        ["Origin: "],
        ["Origin: http://localhost"],
        ["Origin: http://localhost:8888"],
        ["Origin: http://localhost:9000.evil.example"],
        ["Origin: ftp://localhost:9000"],
        ["Origin: http://localhost:9000", "Origin: http://localhost:9000"],
        ["Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: same-site"],
        ["Sec-Fetch-Site: whatever"],
        ["Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"],
        ["Origin: http://localhost:9000", "Sec-Fetch-Site: cross-site"],
    ],
)
def test_other_pages_are_refused(lines: list[str]) -> None:
    assert code(HostRules(), "Host: localhost:9000", *lines) == "origin_not_allowed"


def test_a_configured_origin_passes_although_it_is_another_site() -> None:
    rules = HostRules(allow_origins=["https://Lab.example/"])
    assert code(rules, "Host: localhost", "Origin: https://lab.example", "Sec-Fetch-Site: cross-site") is None
    assert code(rules, "Host: localhost", "Sec-Fetch-Site: cross-site") == "origin_not_allowed"
    assert code(rules, "Host: localhost", "Origin: https://lab.example:444") == "origin_not_allowed"
