"""What the OpenAPI document promises, tried out against a running server with made-up requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sandbox_server.catalogue import builtin
from sandbox_server.catalogue.files import ARCHIVE_TYPES, PARTIAL_TYPE
from sandbox_server.handlers import HANDLERS
from tests.support.server import ServerProcess, running_server

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
#: Everything that can be bounded is, and nothing reaches out of the directory.
POLICY: dict[str, Any] = {
    "preset": "workspace",
    "endpoints": {
        "shell": {"limits": {"timeout_seconds": 1}},
        "shell_stream": {"limits": {"timeout_seconds": 1}},
        "code_run": {"limits": {"timeout_seconds": 1}},
        "process_start": {"limits": {"timeout_seconds": 1}},
        "files_watch": {"limits": {"max_duration_seconds": 0.2}},
    },
}
OPERATIONS = [
    route.route.replace(".", "-")
    for endpoint in builtin().values()
    if endpoint.id in HANDLERS and endpoint.group != "browser" and not endpoint.virtual
    for route in endpoint.routes
]


@schemathesis.serializer(*ARCHIVE_TYPES, PARTIAL_TYPE)
def as_it_is(context: Any, value: Any) -> Any:
    """A body of bytes; what they mean is the server's to find out."""
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("made-up")
    with running_server(directory, policy=POLICY) as running:
        yield running


@pytest.fixture(scope="module")
def document(server: ServerProcess) -> dict[str, Any]:
    told: dict[str, Any] = server.request("GET", "/openapi.json").json()
    return told


@pytest.fixture(scope="module")
def operations(document: dict[str, Any]) -> dict[str, Any]:
    schema = schemathesis.openapi.from_dict(document)
    found = (result.ok() for result in schema.get_all_operations())
    return {operation.definition.raw["operationId"]: operation for operation in found}


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


def test_a_public_validator_finds_the_document_valid(document: dict[str, Any]) -> None:
    validate(document)
    assert document["openapi"] == "3.1.0"


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_that_fits_the_document_gets_an_answer_that_does_not(
    operation: str, operations: dict[str, Any], server: ServerProcess, session: requests.Session
) -> None:
    @given(case=operations[operation].as_strategy())
    @settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def attempt(case: Any) -> None:
        response = case.call(base_url=server.url, session=session, timeout=60)
        case.validate_response(response, checks=CHECKS)

    attempt()
    assert server.process.poll() is None
