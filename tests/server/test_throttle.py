"""Failed logins slow their peer down, nobody else, and never somebody who was let in before."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sandbox_server.access import Identity
from sandbox_server.auth import Authenticator, Token
from sandbox_server.messages import Headers, Refusal
from sandbox_server.throttle import FORGOTTEN_AFTER, FREE, LONGEST, Throttle, address_of
from tests.support.server import running_server

pytestmark = pytest.mark.finding("R2-S19")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> Throttle:
    return Throttle(clock)


def fail(throttle: Throttle, times: int = 1, client: str = "10.0.0.1:1") -> None:
    for _ in range(times):
        throttle.judge(client, None)


def waits(throttle: Throttle, identity: str | None = None, client: str = "10.0.0.1:1") -> int:
    """Seconds that the peer is told to wait; 0 when its attempt was heard."""
    try:
        throttle.judge(client, identity)
    except Refusal as refusal:
        assert (refusal.status, refusal.code) == (429, "rate_limited")
        assert dict(refusal.headers)["Retry-After"] == str(refusal.facts["retry_after"])
        return int(refusal.facts["retry_after"])
    return 0


def test_a_few_slips_cost_nothing(throttle: Throttle) -> None:
    fail(throttle, FREE - 1)
    assert waits(throttle, "ann") == 0


def test_each_further_failure_doubles_the_wait_up_to_a_bound(throttle: Throttle, clock: Clock) -> None:
    fail(throttle, FREE)
    seen = []
    for _ in range(9):
        seen.append(waits(throttle))
        clock.now += seen[-1] + 0.001
        fail(throttle)
    assert seen == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_right_token_is_not_recognised_meanwhile_and_the_answer_is_the_same(throttle: Throttle, clock: Clock) -> None:
    fail(throttle, FREE)
    assert waits(throttle, "ann") == waits(throttle, None) == 1
    clock.now += 1.001
    assert waits(throttle, "ann") == 0


def test_knocking_meanwhile_does_not_prolong_the_wait(throttle: Throttle, clock: Clock) -> None:
    fail(throttle, FREE)
    for _ in range(1000):
        assert waits(throttle) == 1
    clock.now += 1.001
    assert waits(throttle, "ann") == 0


def test_who_was_let_in_before_is_never_locked_out_by_a_neighbour(throttle: Throttle) -> None:
    assert waits(throttle, "ann") == 0
    fail(throttle, FREE)
    for _ in range(100):
        waits(throttle)
        assert waits(throttle, "ann") == 0
    assert waits(throttle, "bob") == 1


def test_a_token_of_ones_own_does_not_buy_further_guesses(throttle: Throttle) -> None:
    throttle.judge("10.0.0.1:1", "intern")
    for _ in range(FREE):
        fail(throttle)
        throttle.judge("10.0.0.1:1", "intern")
    assert waits(throttle, None) == 1


def test_other_addresses_are_not_concerned(throttle: Throttle) -> None:
    fail(throttle, FREE)
    assert waits(throttle, "ann", "10.0.0.2:1") == 0
    assert waits(throttle, None, "10.0.0.1:60000") == 1


def test_failures_are_forgotten_after_a_quiet_while(throttle: Throttle, clock: Clock) -> None:
    fail(throttle, FREE)
    clock.now += FORGOTTEN_AFTER + LONGEST
    fail(throttle, FREE - 1)
    assert waits(throttle, "ann") == 0


def test_the_table_is_bounded_and_a_flood_of_addresses_frees_nobody(clock: Clock) -> None:
    throttle = Throttle(clock, most_peers=50)
    fail(throttle, FREE, "10.9.9.9:1")
    for number in range(1000):
        throttle.judge(f"10.1.{number // 250}.{number % 250}:1", None)
    assert len(throttle._peers) == 50
    assert waits(throttle, None, "10.9.9.9:1") == 1


@pytest.mark.parametrize(
    ("client", "address"),
    [
        ("10.0.0.1:40312", "10.0.0.1"),
        ("unix", "unix"),
        ("", ""),
        ("[2001:db8::1]:80", "2001:db8::/64"),
        ("[2001:db8::ffff:1%eth0]:80", "2001:db8::/64"),
        ("[2001:db8:0:1::1]:80", "2001:db8:0:1::/64"),
        ("[::ffff:10.0.0.1]:80", "10.0.0.1"),
        ("[::1]:80", "::/64"),
        ("[nonsense]:80", "nonsense"),
    ],
)
def test_what_counts_as_one_peer(client: str, address: str) -> None:
    assert address_of(client) == address


def test_no_credential_and_two_credentials_are_no_failed_login(throttle: Throttle) -> None:
    token = Token(hashlib.sha256(b"right").digest(), Identity("ann", frozenset("*")))
    authenticator = Authenticator([token], None, throttle)
    two = Headers([("Authorization", "Bearer a"), ("X-Access-Token", "b")])
    for _ in range(3 * FREE):
        for headers in (Headers(), two):
            with pytest.raises(Refusal) as refusal:
                authenticator.identify(headers, client="10.0.0.1:1")
            assert refusal.value.code in ("unauthorized", "ambiguous_credentials")
    assert authenticator.identify(Headers([("Authorization", "Bearer right")]), client="10.0.0.1:1").id == "ann"


def test_a_server_slows_guesses_and_lets_its_user_work(tmp_path: Path) -> None:
    policy = {
        "auth": {
            "tokens": [
                {"id": name, "scopes": ["*"], "token_sha256": hashlib.sha256(name.encode()).hexdigest()}
                for name in ("ann", "bob")
            ]
        }
    }
    with running_server(tmp_path, policy=policy, allow_anonymous=False) as server:

        def call(token: str) -> int:
            return server.request("GET", "/capabilities", headers={"Authorization": f"Bearer {token}"}).status

        assert call("ann") == 200
        answers = [call(f"guess-{number}") for number in range(4 * FREE)]
        assert answers[:FREE] == [401] * FREE
        assert set(answers) == {401, 429}  # when exactly, the tests with a clock of their own show
        assert call("ann") == 200
        assert server.request("GET", "/health").status == 200
        refused = server.request("GET", "/capabilities", headers={"Authorization": "Bearer guess"})
        if refused.status == 429:
            assert int(refused.headers["retry-after"]) == refused.json()["retry_after"] >= 1
            assert "token" not in refused.json()["error"]
