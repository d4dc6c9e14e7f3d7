"""The OpenAPI document: complete, and true to the declarations it is made of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from sandbox_server.catalogue import builtin
from sandbox_server.handlers import HANDLERS
from sandbox_server.messages import REFUSALS
from tests.server.core.harness import House

Make = Callable[..., House]
ALL_ON: dict[str, Any] = {"groups": ["dev_tools", "browser"]}


@pytest.fixture
def document(house: Make) -> dict[str, Any]:
    made: dict[str, Any] = house(ALL_ON).ask("GET", "/openapi.json").json
    return made


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["operationId"]: one for path in document["paths"].values() for one in path.values()}


def test_every_endpoint_with_a_handler_is_an_operation(document: dict[str, Any]) -> None:
    expected = {
        route.route.replace(".", "-")
        for endpoint in builtin().values()
        if endpoint.id in HANDLERS and not endpoint.virtual
        for route in endpoint.routes
    }
    assert operations(document).keys() == expected


@pytest.mark.field(163)
def test_field_163_names_are_such_as_models_take(document: dict[str, Any]) -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in operations(document))


def test_every_field_is_described_where_it_goes(document: dict[str, Any]) -> None:
    for id, operation in operations(document).items():
        endpoint = builtin().get(id)
        if endpoint is None:  # a further route of one
            continue
        parameters = {(one["in"], one["name"]): one for one in operation["parameters"]}
        content = operation.get("requestBody", {}).get("content", {})
        properties = content.get("application/json", {}).get("schema", {}).get("properties", {})
        for field in endpoint.fields:
            if field.place in ("path", "query"):
                told = parameters[field.place, field.name]
                assert told["required"] == (field.required or field.place == "path")
            elif field.place == "body":
                assert properties[field.name]["description"] == field.doc
        assert set(endpoint.raw_types) <= set(content)
    upload = operations(document)["files_upload_stream"]
    assert {"application/json", "application/octet-stream"} == set(upload["requestBody"]["content"])
    assert ("query", "path") in {(one["in"], one["name"]) for one in upload["parameters"]}


def test_refusals_are_told_by_status_with_their_codes(document: dict[str, Any]) -> None:
    responses = document["components"]["responses"]
    for id, operation in operations(document).items():
        assert {"200", "400", "401", "403", "404", "429", "500"} <= operation["responses"].keys(), id
    codes = responses["Refusal403"]["content"]["application/json"]["schema"]["properties"]["code"]["enum"]
    assert set(codes) == {code for code, reason in REFUSALS.items() if reason.status == 403}


def test_what_the_policy_switches_off_is_not_in_it(house: Make) -> None:
    told = operations(house({"preset": "read-only"}).ask("GET", "/openapi.json").json)
    assert "files_stat" in told
    assert not {"shell", "files_delete", "git_status", "env_set"} & told.keys()


def test_security_names_both_credentials_and_the_scopes(document: dict[str, Any]) -> None:
    told = operations(document)
    assert told["health"]["security"] == []
    assert told["files_stat"]["security"] == [{"bearer": ["files:read"]}, {"accessToken": ["files:read"]}]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "accessToken"}


def test_streams_say_in_which_forms_they_come(document: dict[str, Any]) -> None:
    content = operations(document)["shell_stream"]["responses"]["200"]["content"]
    assert set(content) == {"text/event-stream", "application/vnd.docker.multiplexed-stream"}
    assert json.dumps(document)
