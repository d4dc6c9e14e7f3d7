"""Any JSON body and any query, for every endpoint: bound or refused, never anything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_server.call import Call
from sandbox_server.catalogue import Endpoint, Field
from sandbox_server.messages import REFUSALS, Response, json_response
from tests.server.core.harness import JSON, OCTETS, House, descriptors
from tests.server.fuzz.inputs import ENDPOINTS
from tests.server.fuzz.pools import GOOD, IDS, ODD, TEXTS
from tests.support.effort import share

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def values(field: Field) -> st.SearchStrategy[Any]:
    """What somebody could send for this field: what fits, what nearly fits, anything."""
    known = [*GOOD.get(field.name, ()), *GOOD.get(field.kind, ()), *ODD.get(field.kind, TEXTS)]
    return st.sampled_from(known) | ANYTHING


@st.composite
def sent(draw: st.DrawFn, endpoint: Endpoint) -> tuple[dict[str, Any], list[tuple[str, str]], bool]:
    """Body, query, and whether the body is raw."""
    chosen = {field: draw(values(field)) for field in endpoint.fields if draw(st.booleans())}
    raw = draw(st.booleans())
    body = {field.name: value for field, value in chosen.items() if field.place == "body" and not raw}
    query = [
        (field.name, value if isinstance(value, str) else str(value))
        for field, value in chosen.items()
        if field.place != "body" or raw
    ]
    if draw(st.integers(0, 9)) == 0:
        body |= draw(st.dictionaries(st.text(max_size=5), ANYTHING, max_size=2))
        query += draw(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=2))
    return body, query, raw


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server where every endpoint has a handler, and none does anything."""
    tmp = tmp_path_factory.mktemp("binding")
    for name in ("base/a/b", "state"):
        (tmp / name).mkdir(parents=True)
    (tmp / "base/file").write_text("")
    (tmp / "base/link").symlink_to("a")
    (tmp / "base/loop").symlink_to("loop")
    policy = {
        "groups": {"dev_tools": True, "browser": True},
        "endpoints": {
            "shell": {"params": {"allow_commands": ["echo ...", "cat {path}"]}},
            "files_*": {"paths": {"deny": ["secret", "*.pem"]}},
        },
    }
    house = House(tmp / "base", tmp / "state", policy)

    def handler(call: Call, **bound: Any) -> Response:
        assert bound.keys() == {field.name for field in call.grant.endpoint.fields}
        return json_response({})

    for endpoint in ENDPOINTS:
        house.handler(endpoint.id, handler)
    yield house
    house.close()


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.id)
def test_whatever_is_sent_is_bound_or_refused(door: House, endpoint: Endpoint) -> None:
    door.ask("GET", "/nothing")  # opens the audit log's thread
    before = descriptors()

    @settings(
        max_examples=share(150), derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )  # fmt: skip
    @given(sent(endpoint), st.sampled_from(IDS))
    def check(given_values: tuple[dict[str, Any], list[tuple[str, str]], bool], id: str) -> None:
        body, query, raw = given_values
        path = endpoint.path.replace("{pid}", id).replace("{id}", id).replace("{name}", id)
        data = json.dumps(body).encode("utf-8", "surrogatepass")
        answer = door.ask(endpoint.method, path, data, OCTETS if raw else JSON, query=query)
        assert answer.status == 200 or REFUSALS[answer.code or ""].status == answer.status < 500, answer.body

    check()
    assert descriptors() <= before  # less where garbage of other tests had some


def test_the_file_system_is_as_it_was(door: House) -> None:
    found = sorted(str(path.relative_to(door.base)) for path in Path(door.base).rglob("*"))
    assert found == ["a", "a/b", "file", "link", "loop"]
