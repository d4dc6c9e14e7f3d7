"""URLs: the recorded verdicts, spellings that hide an address, and names that lead to a private one."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.guards.urls import UrlGuard, is_public, parsed
from sandbox_server.messages import REFUSALS, Refusal
from tests.server.guards.deviations import DEVIATIONS

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "vectors/url_rules.jsonl").read_text(encoding="utf-8").splitlines()
]


def nowhere(host: str, port: int) -> list[str]:
    return []


def guard(*allow: str, deny: tuple[str, ...] = (), private: bool | None = None, leads: Any = ()) -> UrlGuard:
    return UrlGuard(allow, deny, private, lambda host, port: list(leads))


def code(guard: UrlGuard, url: str) -> str | None:
    try:
        guard.admit(url)
    except Refusal as refusal:
        return refusal.code
    return None


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_url_is_judged_as_recorded(vector: dict[str, Any]) -> None:
    found = code(UrlGuard(resolve=nowhere), vector["url"])
    if f"url_rules:{vector['name']}" in DEVIATIONS:
        assert vector["admitted"]
        assert found == "url_denied"
        return
    assert found == vector.get("code")
    assert (found is None) is vector["admitted"]
    assert found is None or REFUSALS[found].status == vector["http_status"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1\u3002/", "http://127\u30020.0.1/", "http://\uff11\uff12\uff17.0.0.1/",
        "http://\u2460\u2461\u2466.0.0.1/", "http://127.0.0.1\u00ad/", "http://loc\u00adalhost/",
        "http://\uff4cocalhost/", "http://LOCALHOST%2e/", "http://%6cocalhost/", "http://%31%32%37.0.0.1/",
        "http://1.1.1.1\\@127.0.0.1/", "http://good.example\\.127.0.0.1/", "http://0/", "http://0x7f.1/",
        "http://0X7F000001/", "http://017700000001/", "http://127.0.0.1.:80/", "http://1.2.3.4.5/", "http://[::]/",
        "http://[::127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[64:ff9b:1::1]/", "http://[2001:0:1::]/",
        "http://[fec0::1]/", "http://[ff02::1]/", "http://[::1%25lo]/", "http://a b@c/", "http://exa\tmple.com/",
        "http:/example.com", "http:example.com", "http://?x", "http://#x", "http://@/", "http://example.com:1:2/",
        "http://example.com:00080000/", "http://example.com:-1/", "http://example.com:\u0661/", "http://[1.1.1.1]/",
        "http://[::1]x/", "http://192.88.99.1/", "ws://example.com/", "http://localhost../", "http://127.0.0.1../",
        "http://.example.com/", "http://a..b/", "http://localhost.localdomain/", "http://ip6-localhost/",
        "http://192.0.0.192/", "http://[3fff::1]/", "http://[2001:20::1]/",
        "http://" + "a" * 9000,
    ],
)  # fmt: skip
def test_what_readers_could_take_for_something_else_is_refused(url: str) -> None:
    assert code(UrlGuard(resolve=nowhere), url) in ("url_invalid", "url_denied")


@pytest.mark.parametrize(
    "leads", [["127.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["fd00::1"], ["64:ff9b::7f00:1"], ["100.64.0.9"], ["nonsense"]]
)
def test_a_name_that_leads_to_any_private_address_is_refused(leads: list[str]) -> None:
    assert code(guard(leads=leads), "http://rebind.example/") == "url_denied"
    assert code(guard(private=True, leads=leads), "http://rebind.example/") == "url_not_allowed"
    with pytest.raises(Refusal):
        guard(leads=leads).addresses("http://rebind.example/")
    with pytest.raises(Refusal):
        guard(leads=leads).tunnel("rebind.example", 443)


def test_a_public_name_is_connected_to_at_the_addresses_that_were_judged() -> None:
    leads = ["1.1.1.1", "2606:4700::1"]
    assert guard(leads=leads).addresses("http://example.com/x") == leads
    assert guard(leads=leads).tunnel("example.com", 443) == leads
    assert guard(leads=()).tunnel("unknown.example", 443) == []


def test_rules_come_first_and_speak_of_the_whole_url() -> None:
    one = guard("https://good.example/*", deny=("*secret*",))
    assert code(one, "https://good.example/a") is None
    assert code(one, "https://good.example/secret") == "url_not_allowed"
    assert code(one, "https://other.example/") == "url_not_allowed"
    assert code(one, "file:///etc/passwd") == "url_not_allowed"
    assert code(guard(deny=("x",)), "file:///etc/passwd") == "url_not_allowed"
    assert code(guard(private=False), "file:///etc/passwd") == "url_invalid"
    assert code(guard("http://10.0.0.1/*"), "http://10.0.0.1/") == "url_denied"
    assert code(guard(private=False), "http://10.0.0.1/") == "url_denied"


@pytest.mark.parametrize(
    "url",
    [
        "HTTPS://bad.example/x", "https://BAD.example/x", "https://bad.example./x", "https://bad.example:443/x",
        "https://user@bad.example/x", "https://bad\u3002example/x", "https://bad.example",
    ],
)  # fmt: skip
def test_no_other_spelling_gets_past_a_deny_pattern(url: str) -> None:
    assert code(guard(deny=("https://bad.example/*",)), url) == "url_not_allowed"


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example@evil.example/",
        "https://good.example:pw@evil.example/",
        "https://good.example.evil.example/",
    ],
)
def test_no_other_host_gets_in_by_an_allow_pattern(url: str) -> None:
    assert (
        code(guard("https://good.example:*", "https://good.example@*", "https://good.example/*"), url)
        == "url_not_allowed"
    )


def test_a_private_address_opens_only_where_a_policy_switches_the_block_off_and_spells_the_host() -> None:
    here = "http://127.0.0.1:8000/page"
    assert code(guard("http://127.0.0.1:8000/*", private=False), here) is None
    assert code(guard("http://127.0.0.1:*", private=False), here) is None
    for pattern in ("*", "http://*", "http://127.*", "http://127.0.0.1*", "http://localhost:8000/*"):
        assert code(guard(pattern, private=False), here) in ("url_denied", "url_not_allowed")
    for private in (None, True):
        assert code(guard("http://127.0.0.1:8000/*", private=private), here) in ("url_denied", "url_not_allowed")
    named = guard("http://internal.example/*", private=False, leads=["10.1.2.3"])
    assert code(named, "http://internal.example/") is None
    assert named.addresses("http://internal.example/") == ["10.1.2.3"]
    assert code(named, "http://other.example/") == "url_not_allowed"


def test_a_tunnel_goes_where_some_allowed_url_could_be() -> None:
    one = guard(
        "https://good.example/deep/*",
        "https://*.cdn.example/*",
        deny=("https://x.cdn.example/*", "https://y.cdn.example/p"),
    )
    assert one.tunnel("good.example", 443) == []
    assert one.tunnel("a.cdn.example", 443) == []
    assert one.tunnel("y.cdn.example", 443) == []
    for host, port in (
        ("x.cdn.example", 443),
        ("good.example", 8443),
        ("evil.example", 443),
        ("cdn.example.evil", 443),
    ):
        with pytest.raises(Refusal, match="not allowed"):
            one.tunnel(host, port)
    with pytest.raises(Refusal, match="private"):
        guard().tunnel("127.0.0.1", 443)


def test_a_pattern_without_a_scheme_could_allow_any_tunnel_but_no_private_one() -> None:
    one = guard("*.example/*", leads=("93.184.216.34",))
    assert one.tunnel("other.site", 443) == ["93.184.216.34"]
    with pytest.raises(Refusal, match="private"):
        one.tunnel("10.0.0.1", 443)


def test_what_a_page_asks_for_is_judged_without_looking_the_name_up() -> None:
    def fail(host: str, port: int) -> list[str]:
        raise AssertionError(host)

    one = UrlGuard(deny=("*/ads/*",), resolve=fail)
    one.judge("wss://example.com/socket")
    for url in ("https://example.com/ads/1", "http://localhost/", "http://2130706433/", "ftp://example.com/"):
        with pytest.raises(Refusal):
            one.judge(url)


def test_a_page_may_ask_for_the_private_host_that_a_pattern_spells_and_for_no_other() -> None:
    one = guard("http://127.0.0.1/*", "*/shared/*", private=False)
    one.judge("http://127.0.0.1/shared/logo.png")
    with pytest.raises(Refusal, match="private"):
        one.judge("http://127.0.0.2/shared/logo.png")


@given(st.integers(0, 2**32 - 1))
def test_every_spelling_of_a_private_ipv4_address_is_refused(number: int) -> None:
    address = ipaddress.IPv4Address(number)
    dotted = str(address)
    assert (code(UrlGuard(resolve=nowhere), f"http://{dotted}/") is None) is is_public(address)
    octal = ".".join(f"0{int(part):o}" for part in dotted.split("."))
    for other in (str(number), hex(number), octal, f"{dotted.rpartition('.')[0].rpartition('.')[0]}.{number & 0xFFFF}"):
        assert code(UrlGuard(resolve=nowhere), f"http://{other}/") == "url_denied"
    mapped = f"http://[::ffff:{dotted}]/"
    assert (code(UrlGuard(resolve=nowhere), mapped) is None) is is_public(address)


@given(st.text(max_size=60), st.sampled_from(["", "http://", "https://user@", "http://[", "http://a.example:"]))
def test_any_text_is_admitted_or_refused_and_nothing_else(text: str, start: str) -> None:
    url = start + text
    assert code(UrlGuard(resolve=nowhere), url) in (None, "url_invalid", "url_denied")
    try:
        parts = parsed(url)
    except Refusal:
        return
    assert parts.host and 0 < parts.port < 65536 and parts.rest.startswith("/")
