"""Rate and concurrency, with a clock of our own."""

from __future__ import annotations

import threading

import pytest

from sandbox_server.access import Grant, Identity
from sandbox_server.catalogue import builtin
from sandbox_server.limits import Limits
from sandbox_server.messages import Refusal
from tests.support.server import running_server

STAT = builtin()["files_stat"]


def grant(identity: str = "a", **limits: int) -> Grant:
    return Grant(Identity(identity, frozenset({"*"})), STAT, limits=limits)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_counted_without_a_limit():
    assert Limits().enter(grant()) is None


def test_the_bucket_starts_full_and_refills_evenly():
    clock = Clock()
    limits = Limits(clock)
    for _ in range(3):
        limits.enter(grant(rate_per_minute=3))
    with pytest.raises(Refusal) as refused:
        limits.enter(grant(rate_per_minute=3))
    assert refused.value.code == "rate_limited"
    assert refused.value.facts == {"retry_after": 20}
    assert ("Retry-After", "20") in refused.value.headers
    clock.now = 19.9
    with pytest.raises(Refusal) as refused:
        limits.enter(grant(rate_per_minute=3))
    assert refused.value.facts["retry_after"] == 1
    clock.now = 20.0
    limits.enter(grant(rate_per_minute=3))


def test_a_long_pause_never_fills_above_the_rate():
    clock = Clock()
    limits = Limits(clock)
    limits.enter(grant(rate_per_minute=2))
    clock.now = 1e6
    for _ in range(2):
        limits.enter(grant(rate_per_minute=2))
    with pytest.raises(Refusal):
        limits.enter(grant(rate_per_minute=2))


def test_identities_have_buckets_of_their_own():
    limits = Limits(Clock())
    limits.enter(grant("a", rate_per_minute=1))
    limits.enter(grant("b", rate_per_minute=1))


def test_a_place_is_given_back():
    limits = Limits(Clock())
    leave = limits.enter(grant(max_concurrency=1))
    with pytest.raises(Refusal) as refused:
        limits.enter(grant(max_concurrency=1))
    assert refused.value.code == "concurrency_limited"
    leave()
    limits.enter(grant(max_concurrency=1))


def test_a_refund_returns_the_rate_token():
    limits = Limits(Clock())
    leave = limits.enter(grant(rate_per_minute=1))
    leave(refund=True)
    limits.enter(grant(rate_per_minute=1))


def test_many_threads_never_exceed_the_concurrency():
    limits = Limits()
    running = most = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        for _ in range(200):
            try:
                leave = limits.enter(grant(max_concurrency=3))
            except Refusal:
                continue
            with lock:
                running += 1
                most = max(most, running)
            with lock:
                running -= 1
            leave()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= most <= 3
    leaves = [limits.enter(grant(max_concurrency=3)) for _ in range(3)]
    assert len(leaves) == 3


def test_who_has_its_answer_is_never_in_its_own_way(tmp_path):
    """A caller who asks one thing after the other is one at a time, however busy the server is."""
    calls = [
        ("GET", "/capabilities", None),
        ("GET", "/files/list?path=.", None),
        ("POST", "/files/upload-stream", {"path": "file", "content_base64": "YQ=="}),
        ("POST", "/shell/stream", {"command": "true"}),
    ]
    with running_server(tmp_path, policy={"defaults": {"limits": {"max_concurrency": 1}}}) as server:
        done = threading.Event()

        def distract():
            while not done.is_set():
                server.request("GET", "/health")

        others = [threading.Thread(target=distract) for _ in range(3)]
        for other in others:
            other.start()
        try:
            for method, target, body in calls:
                assert [server.request(method, target, body).status for _ in range(30)] == [200] * 30
        finally:
            done.set()
            for other in others:
                other.join()
