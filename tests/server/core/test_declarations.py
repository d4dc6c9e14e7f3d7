"""Catalogue, handlers and refusal codes fit each other."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import sandbox_server
from sandbox_server.arguments import _PARSERS
from sandbox_server.catalogue import GROUPS, LIMITS, PARAMS, Catalogue, Endpoint, Field, builtin
from sandbox_server.handlers import HANDLERS
from sandbox_server.handlers.later import Later
from sandbox_server.messages import REFUSALS

SOURCES = sorted(Path(sandbox_server.__file__).parent.rglob("*.py"))
DOCS = Path(__file__).resolve().parents[3] / "docs"
#: Every endpoint at each of its routes, by the name of its handler.
ROUTES = {route.route: route for endpoint in builtin().values() for route in endpoint.routes}


@pytest.mark.parametrize("endpoint", sorted(HANDLERS))
def test_a_handler_takes_exactly_the_fields_of_its_endpoint(endpoint: str) -> None:
    handler = HANDLERS[endpoint]
    function = handler.function if isinstance(handler, Later) else handler
    call, *values = inspect.signature(function).parameters.values()
    assert call.name == "call"
    assert {value.kind for value in values} <= {inspect.Parameter.KEYWORD_ONLY}
    assert {value.default for value in values} <= {inspect.Parameter.empty}  # defaults are the catalogue's alone
    assert [value.name for value in values] == [field.name for field in ROUTES[endpoint].fields]


def test_every_declared_endpoint_has_a_handler() -> None:
    assert set(HANDLERS) == set(ROUTES)


@pytest.mark.parametrize("endpoint", ROUTES.values(), ids=lambda endpoint: endpoint.route)
def test_a_declaration_uses_known_words_and_can_be_bound(endpoint: Endpoint) -> None:
    assert endpoint.group in GROUPS
    assert set(endpoint.limits) <= set(LIMITS)
    assert set(endpoint.params) <= set(PARAMS)
    names = [field.name for field in endpoint.fields]
    assert len(names) == len(set(names))
    in_path = {part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")}
    assert in_path == {field.name for field in endpoint.fields if field.place == "path"}
    for field in endpoint.fields:
        assert field.kind in _PARSERS
        assert (field.op is not None) == (field.kind in ("path", "paths"))
        assert not field.lenient or not field.required
        assert isinstance(field.follow, bool) or field.follow in names
        assert field.place != "body" or endpoint.method in ("POST", "PUT")
    assert not endpoint.inline or endpoint.method == "GET"


def test_every_kind_that_has_a_guard_is_guarded() -> None:
    order = ("env", "command", "url", "path", "paths", "base64")
    fields = tuple(Field(kind, kind, "body", "") for kind in (*reversed(order), "text"))
    guarded = ROUTES["shell"]._replace(fields=fields).guarded
    assert sorted(field.kind for field in guarded) == sorted(order)
    assert [field.kind for field in guarded if field.kind in ("env", "command", "path", "base64")] == [
        "env", "command", "path", "base64",
    ]  # fmt: skip


def refusals(tree: ast.AST) -> Iterator[str]:
    """The codes of all refusals that a module makes with a literal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
            first = node.args[0]
            if node.func.id in ("Refusal", "_too_many") and isinstance(first, ast.Constant):
                yield str(first.value)
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            first = node.elts[0]
            if isinstance(first, ast.Constant) and first.value in REFUSALS:
                yield str(first.value)


def test_codes_are_those_of_the_table_and_each_is_used() -> None:
    used = {code for source in SOURCES for code in refusals(ast.parse(source.read_text(encoding="utf-8")))}
    assert used == set(REFUSALS)


def test_every_code_endpoint_limit_and_parameter_is_in_the_documentation() -> None:
    page = (DOCS / "endpoints.md").read_text(encoding="utf-8")
    for name in (*REFUSALS, *builtin(), *LIMITS, *PARAMS):
        assert f"| `{name}` |" in page


def test_a_code_has_a_class_of_status_and_a_meaning() -> None:
    for code, reason in REFUSALS.items():
        assert 400 <= reason.status < 600, code
        assert reason.doc and not reason.doc.endswith("."), code


# -- the catalogue itself -------------------------------------------------------------------------------------------


def endpoint(id: str = "a", method: str = "GET", path: str = "/a", **more: object) -> Endpoint:
    return Endpoint(id, method, path, "core", "", **more)  # type: ignore[arg-type]


def test_two_endpoints_never_share_an_id_or_a_route() -> None:
    with pytest.raises(ValueError, match="endpoint id 'a' is declared twice"):
        Catalogue([endpoint(), endpoint(path="/b")])
    with pytest.raises(ValueError, match="GET /a is declared twice"):
        Catalogue([endpoint(), endpoint("b")])
    assert len(Catalogue([endpoint(), endpoint("b", "POST")])) == 2


def test_a_larger_catalogue_is_another() -> None:
    one = Catalogue([endpoint()])
    two = Catalogue([*one.values(), endpoint("b", path="/b/{x}")])
    assert (list(one), list(two)) == (["a"], ["a", "b"])
    assert two.find("/b/7") == ({"GET": two["b"]}, {"x": "7"})
    assert one.find("/b/7") == ({}, {})


def test_a_websocket_begins_as_a_get() -> None:
    catalogue = builtin()
    assert catalogue["pty_connect"].virtual
    assert catalogue.find("/pty") == ({"GET": catalogue["pty_connect"]}, {})


@pytest.mark.parametrize("path", ["/b/", "/b/x/y", "/b", "/b/x\n", "/b/x/y/"])
def test_a_parameter_is_one_segment(path: str) -> None:
    found = Catalogue([endpoint("b", path="/b/{x}")]).find(path)
    assert found == ({}, {}) or found[1] == {"x": "x\n"}


def test_a_fixed_path_comes_before_a_pattern() -> None:
    assert builtin().find("/process/list")[0]["GET"].id == "process_list"
    assert builtin().find("/process/start")[0]["POST"].id == "process_start"
    assert builtin().find("/process/17")[1] == {"pid": "17"}
