"""Thousands of requests, good, odd and broken: each gets a well-formed answer, none costs the server anything."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.server.fuzz.conftest import Target, seeded
from tests.server.fuzz.inputs import BUILT, Attempt, attempt, mutated, simple
from tests.server.fuzz.pools import LAST_ID, NEVER_ODD, ODD, PLACES
from tests.server.fuzz.wire import Broken, Reply, Wire
from tests.support.effort import EFFORT, share

CLIENTS = 2
GENERATED, MUTATED, VANISHING, EXAMPLES = share(14_000), share(9_000), share(1_000), share(1_500)
_STARTED = re.compile(rb'\{"id":"([0-9a-f]{32})","pid":')


class Client:
    """Sends attempts, on one connection as long as that lives."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._wire: Wire | None = None
        self._last_id = LAST_ID.encode()
        self.seen: Counter[int] = Counter()

    def send(self, one: Attempt) -> None:
        """One request whose framing is right, or any bytes at all; what comes back is judged."""
        data = one.data.replace(LAST_ID.encode(), self._last_id)
        try:
            replies = [self._on_one_connection(data, one)] if one.whole else self._on_its_own(data)
            for reply in replies:
                reply.judge()
                self.seen[reply.status] += 1
        except Exception as error:
            raise Broken(f"{error}\nafter: {data[:2000]!r}") from error
        if started := _STARTED.match(replies[0].body if replies else b""):
            self._last_id = started[1]

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()

    def _on_one_connection(self, data: bytes, one: Attempt) -> Reply:
        if self._wire is None or not self._wire.open:
            self._wire = Wire(self._target.port)
        return self._wire.ask(data, bodiless=one.bodiless, cut=one.cut)

    def _on_its_own(self, data: bytes) -> list[Reply]:
        replies = Wire(self._target.port).all(data)
        if not replies and data.strip(b"\r\n"):
            raise Broken("the connection was closed without an answer")
        return replies


def run(target: Target, count: int, make: Callable[[Random], Attempt]) -> Counter[int]:
    """`count` attempts from several clients at once, the same ones every time."""

    def work(number: int) -> Counter[int]:
        client, random = Client(target), seeded(number)
        try:
            for turn in range(count // CLIENTS):
                if turn % 500 == 0:
                    target.lay_out()
                client.send(make(random))
        finally:
            client.close()
        return client.seen

    with ThreadPoolExecutor(CLIENTS) as pool:
        seen = sum(pool.map(work, range(CLIENTS)), Counter())
    target.check_health(CLIENTS)
    return seen


def test_generated_requests_for_every_endpoint_are_answered(target: Target) -> None:
    seen = run(target, GENERATED, attempt)
    assert sum(seen.values()) >= GENERATED
    # All kinds of answers were reached, or the generator tests nothing.
    kinds = {200, 400, 401, 403, 404, 405, 409, 413, 414, 415, 431, 503, 505}
    assert set(seen) >= (kinds | {429} if EFFORT >= 100 else kinds)  # with less effort nothing is asked too often
    assert seen[200] > GENERATED // 10


def test_requests_with_damaged_bytes_are_answered_or_refused(target: Target) -> None:
    def damaged(random: Random) -> Attempt:
        return Attempt(mutated(simple(random), random), whole=False)

    seen = run(target, MUTATED, damaged)
    assert sum(seen.values()) >= MUTATED * 9 // 10  # some are cut down to nothing
    assert set(seen) >= {200, 400, 403, 404, 405, 413, 415, 421}


def test_peers_that_vanish_at_any_moment_cost_nothing(target: Target) -> None:
    random = seeded(-1)
    for _ in range(VANISHING):
        data = simple(random)
        Wire(target.port).hang_up(data[: random.randrange(len(data) * 2)])
    target.check_health(clients=VANISHING)  # as many threads as came at once; they go when they are idle


ODD_TEXT = st.one_of(
    st.sampled_from([path for path in (*PLACES, *ODD["path"]) if isinstance(path, str)]),
    st.text(max_size=30),
    st.text(alphabet="/.%\0\r\n:;?&=+#\"'\\ a", max_size=30),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def requests(draw: st.DrawFn) -> Attempt:
    """An endpoint of the catalogue with any values in its fields, or any bytes as its body."""
    endpoint = draw(st.sampled_from(BUILT))
    path = endpoint.path
    for field in endpoint.fields:
        if field.place == "path":
            path = path.replace(f"{{{field.name}}}", quote(draw(ODD_TEXT).encode("utf-8", "surrogatepass"), safe=""))
    path = path.replace("{id}", "x")
    fields = {f.name: f.place for f in endpoint.fields if f.name not in NEVER_ODD and f.place != "path"}
    chosen = draw(st.dictionaries(st.sampled_from(sorted(fields) or ["x"]), JSON, max_size=4))
    pairs = [
        f"{name}={quote(str(value).encode('utf-8', 'surrogatepass'))}"
        for name, value in chosen.items()
        if fields.get(name) != "body"
    ]
    body = b""
    if endpoint.method == "POST":
        sent = {name: value for name, value in chosen.items() if fields.get(name) == "body"}
        body = draw(st.just(json.dumps(sent).encode()) | st.binary(max_size=60))
    target = path + ("?" + "&".join(pairs) if pairs else "")
    head = f"{endpoint.method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return Attempt(head.encode() + body, len(target) < 8000)


@pytest.fixture(scope="module")
def client(target: Target) -> Iterator[Client]:
    client = Client(target)
    yield client
    client.close()


@hypothesis_settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(requests())
def test_any_values_in_any_field_are_answered(client: Client, one: Attempt) -> None:
    client.send(one)


def test_the_server_is_as_it_was_before(target: Target, client: Client) -> None:
    client.close()
    target.check_health(CLIENTS)
