"""Who is calling: credentials, identities, and what counts as ambiguous."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from sandbox_server.access import Identity
from sandbox_server.auth import Authenticator, Token
from sandbox_server.messages import Headers, Refusal

READER = Identity("reader", frozenset({"files:read"}))
ADMIN = Identity("admin", frozenset({"*"}))
NOBODY = Identity("anonymous", frozenset({"core:read"}))


def token(text: str, identity: Identity) -> Token:
    return Token(hashlib.sha256(text.encode()).digest(), identity)


TOKENS = (token("read-me", READER), token("rule-all", ADMIN))


def identify(*lines: tuple[str, str], tokens=TOKENS, anonymous=None) -> Identity:
    return Authenticator(tokens, anonymous).identify(Headers(lines))


@pytest.mark.finding("R-B1")
@pytest.mark.parametrize(
    "line",
    [
        ("Authorization", "Bearer read-me"),
        ("authorization", "bearer   read-me  "),
        ("Authorization", "BEARER read-me"),
        ("X-Access-Token", "read-me"),
        ("x-access-token", " read-me "),
    ],
)
def test_both_headers_carry_a_token(line):
    assert identify(line) is READER


def test_a_token_in_the_query_counts_only_without_one_in_a_header():
    door = Authenticator(TOKENS, None)
    assert door.identify(Headers(), ["", "read-me", "read-me"]) is READER
    assert door.identify(Headers([("X-Access-Token", "rule-all")]), ["read-me"]) is ADMIN
    with pytest.raises(Refusal) as refused:
        door.identify(Headers(), ["read-me", "rule-all"])
    assert refused.value.code == "ambiguous_credentials"


@pytest.mark.parametrize("text", ["r\u00e9ad", "\u65e5\u672c", "\udcff"])
def test_a_token_of_other_letters_is_the_same_in_a_header_and_in_the_query(text):
    sent = text.encode("utf-8", "surrogateescape")  # a header field is read as Latin-1, a query as UTF-8
    door = Authenticator([Token(hashlib.sha256(sent).digest(), READER)], None)
    assert door.identify(Headers([("X-Access-Token", sent.decode("latin-1"))])) is READER
    assert door.identify(Headers(), [text]) is READER


def test_the_same_token_in_both_headers_is_one_credential():
    assert identify(("Authorization", "Bearer rule-all"), ("X-Access-Token", "rule-all")) is ADMIN


@pytest.mark.finding("R2-S11")
@pytest.mark.parametrize(
    "lines",
    [
        (("Authorization", "Bearer read-me"), ("X-Access-Token", "rule-all")),
        (("X-Access-Token", "read-me"), ("X-Access-Token", "rule-all")),
        (("Authorization", "Bearer wrong"), ("Authorization", "Bearer rule-all")),
    ],
)
@pytest.mark.parametrize("tokens", [TOKENS, ()])
def test_two_different_credentials_are_ambiguous(lines, tokens):
    with pytest.raises(Refusal) as refused:
        identify(*lines, tokens=tokens, anonymous=NOBODY)
    assert (refused.value.code, refused.value.status) == ("ambiguous_credentials", 400)


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (("Authorization", "Bearer wrong"),),
        (("Authorization", "Basic cmVhZC1tZQ=="),),
        (("Authorization", "Bearer"),),
        (("X-Access-Token", ""),),
        (("X-Access-Token", "read-m"),),
        (("Authorization", "Bearer r\u00e9ad"),),
    ],
)
def test_no_known_token_is_unauthorized_with_a_challenge(lines):
    with pytest.raises(Refusal) as refused:
        identify(*lines)
    assert refused.value.status == 401
    assert ("WWW-Authenticate", "Bearer") in refused.value.headers
    assert "wrong" not in refused.value.message


def test_anonymous_needs_no_credential_but_a_wrong_one_is_refused():
    assert identify(anonymous=NOBODY) is NOBODY
    with pytest.raises(Refusal) as refused:
        identify(("Authorization", "Bearer wrong"), anonymous=NOBODY)
    assert refused.value.status == 401


def test_without_tokens_everybody_is_anonymous_whatever_they_present():
    assert identify(("Authorization", "Bearer anything"), tokens=(), anonymous=NOBODY) is NOBODY


def test_without_tokens_and_without_anonymous_nobody_gets_in():
    with pytest.raises(Refusal) as refused:
        identify(tokens=())
    assert refused.value.status == 401


def test_the_first_identity_wins_when_two_share_a_secret():
    assert identify(("X-Access-Token", "same"), tokens=(token("same", READER), token("same", ADMIN))) is READER


@pytest.mark.finding("R2-S12")
def test_every_digest_is_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append(left)
        return hmac_compare(left, right)

    hmac_compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert identify(("X-Access-Token", "read-me")) is READER
    assert compared == [t.digest for t in TOKENS]  # the match is first, the loop still goes on


def test_fields_that_a_connection_repeats_are_judged_once_and_only_by_what_they_say() -> None:
    authenticator, fields = Authenticator(TOKENS, NOBODY), Headers([("Authorization", "Bearer read-me")])
    assert [authenticator.identify(fields) for _ in range(3)] == [READER] * 3
    bare = Headers()
    assert authenticator.identify(bare, ["rule-all"]) == ADMIN  # by the query of one request,
    assert authenticator.identify(bare) == NOBODY  # which says nothing about the next
    wrong = Headers([("Authorization", "Bearer nobody-has-this")])
    for _ in range(2):
        with pytest.raises(Refusal, match="not known"):
            authenticator.identify(wrong)
