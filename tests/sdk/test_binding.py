"""Addresses, tokens and headers are judged once, at construction."""

from __future__ import annotations

import pytest

from sandbox_sdk import AsyncServerClient, ServerClient
from sandbox_sdk._binding import Binding


@pytest.mark.parametrize(
    "url",
    [
        "localhost:9000",
        "ftp://host",
        "http://",
        "http://user:secret@host/",
        "http://host/#part",
        "http://host/a b",
        "http://host/\n",
        "http://host\\evil",
        "http://host/a%2Fb",
        "http://host/../b",
        "http://host/%2e%2e/b",
        "http://host:port/",
        "http://host/?a=1&a=2",
    ],
)
def test_an_odd_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as refused:
        Binding.of(url)
    assert "secret" not in str(refused.value).replace("[secret]", "")


def test_a_prefix_and_fixed_parameters_go_along_on_every_call() -> None:
    binding = Binding.of("https://host:8443/sandboxes/7/?region=eu")
    assert binding.url("/files/stat?path=a") == "https://host:8443/sandboxes/7/files/stat?path=a&region=eu"
    assert binding.url("/health") == "https://host:8443/sandboxes/7/health?region=eu"
    assert binding.address == "https://host:8443/sandboxes/7"


@pytest.mark.field(13)
@pytest.mark.parametrize("token", ["", "a b", "tok\n", "tök", "a\x00"])
def test_field_013_a_malformed_token_is_refused_up_front(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        Binding.of("http://host", token=token)


@pytest.mark.parametrize(
    "name", ["Host", "content-length", "Transfer-Encoding", "X-Forwarded-For", "bad name", "a:b", "a\n"]
)
def test_headers_that_belong_to_the_connection_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="header"):
        Binding.of("http://host", headers={name: "x"})


def test_a_line_end_in_a_header_is_refused() -> None:
    with pytest.raises(ValueError, match="X-Thing"):
        Binding.of("http://host", headers={"X-Thing": "a\r\nX-Injected: b"})


def test_two_credentials_are_refused() -> None:
    with pytest.raises(ValueError, match="either a token or"):
        Binding.of("http://host", token="t", headers={"authorization": "Basic x"})


def test_an_address_is_needed_and_one_is_enough() -> None:
    with pytest.raises(ValueError, match="either"):
        Binding.of(None)
    with pytest.raises(ValueError, match="either"):
        Binding.of("http://host", uds="/run/x")
    assert Binding.of(None, uds="/run/x").address == "unix:/run/x"


@pytest.mark.field(97)
@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_field_097_a_timeout_of_zero_is_refused_not_taken_for_unset(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Binding.of("http://host", timeout=timeout)


@pytest.mark.field(103)
@pytest.mark.parametrize("client", [ServerClient, AsyncServerClient])
def test_field_103_no_repr_shows_a_secret(client: type[ServerClient] | type[AsyncServerClient]) -> None:
    made = client("http://host:9000", token="s3cret", headers={"X-Access-Token": "0ther"})
    shown = repr(made) + repr(vars(made)) + repr(made._connection.binding) + repr(vars(made._connection))
    assert "s3cret" not in shown
    assert "0ther" not in shown


@pytest.mark.field(103)
def test_field_103_a_secret_that_a_peer_echoes_is_taken_out() -> None:
    binding = Binding.of("http://host", token="s3cret", headers={"X-Access-Token": "0ther"})
    assert binding.redact("bad header: Bearer s3cret, 0ther") == "bad header: Bearer [secret], [secret]"


@pytest.mark.parametrize("client", [ServerClient, AsyncServerClient])
def test_another_token_makes_another_client(client: type[ServerClient] | type[AsyncServerClient]) -> None:
    first = client("http://host:9000/p?x=1", token="one", headers={"X-Extra": "1"}, timeout=7)
    second = first.with_token("two")
    binding = second._connection.binding
    assert binding.token == "two"
    assert binding.headers == {"X-Extra": "1", "Authorization": "Bearer two"}
    assert binding.url("/health") == "http://host:9000/p/health?x=1"
    assert binding.timeout == 7
    assert first._connection.binding.token == "one"
