"""Refusals of any server become the right exceptions."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import sandbox_sdk
from sandbox_sdk import (
    AuthenticationError,
    CommandTimeoutError,
    EndpointNotAvailableError,
    FilePolicyDeniedError,
    NoSpaceError,
    NotFoundError,
    PayloadTooLargeError,
    PolicyDeniedError,
    RateLimitedError,
    SandboxError,
    ServerAPIError,
)
from sandbox_sdk._refusals import error_from_response
from tests.sdk.deviations import DEVIATIONS

VECTORS = [
    json.loads(line) for line in (Path(__file__).parents[1] / "vectors/client_errors.jsonl").read_text().splitlines()
]
#: Exception class of the reference client -> ours.
CLASSES: dict[str, type[SandboxError]] = {
    "ServerAPIError": ServerAPIError,
    "ServerAuthError": AuthenticationError,
    "PolicyDeniedError": PolicyDeniedError,
    "FilePolicyDeniedError": FilePolicyDeniedError,
    "EndpointNotAvailableError": EndpointNotAvailableError,
    "FileNotFoundError_": NotFoundError,
    "PayloadTooLargeError": PayloadTooLargeError,
    "RateLimitedError": RateLimitedError,
    "CommandTimeoutError": CommandTimeoutError,
}
#: Where ours is more exact than the reference.
FINER: dict[str, type[SandboxError]] = {
    name.partition(":")[2]: getattr(sandbox_sdk, reason.split("`")[1]) for name, reason in DEVIATIONS.items()
}


@pytest.mark.finding("R1-U3", "R2-C4")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_recorded_refusal_becomes_the_right_exception(vector: dict[str, Any]) -> None:
    body = vector["body"]
    raw = b"" if body is None else json.dumps(body).encode()
    error = error_from_response(vector["status"], vector.get("headers", {}), raw, "called_ep")
    expected = FINER.get(vector["name"]) or CLASSES[vector["exception"]]
    assert type(error) is expected
    assert isinstance(error, ServerAPIError)
    for name, value in vector["attributes"].items():
        if name != "capability":  # ours is `.endpoint`
            assert getattr(error, name) == value, name


@pytest.mark.finding("R1-U3")
def test_errors_are_also_what_python_code_expects() -> None:
    denied = error_from_response(403, {}, {"error": "no", "type": "PolicyDenied", "code": "path_denied"})
    missing = error_from_response(404, {}, {"error": "no", "type": "FileNotFoundError", "code": "not_found"})
    late = error_from_response(408, {}, {"error": "no", "type": "TimeoutError", "code": "timeout"})
    assert isinstance(denied, PermissionError) and denied.errno == 13
    assert isinstance(missing, FileNotFoundError) and missing.errno == 2
    assert isinstance(late, TimeoutError)


@pytest.mark.finding("R1-U3")
def test_an_error_says_which_rule_decided_and_how_to_see_more() -> None:
    body = {
        "error": "'shell' is off",
        "type": "ValueError",
        "code": "endpoint_disabled",
        "rule": "policy:groups.process",
    }
    error = error_from_response(404, {"x-request-id": "abc"}, body, "shell")
    assert (error.code, error.rule, error.endpoint, error.request_id) == (
        "endpoint_disabled",
        "policy:groups.process",
        "shell",
        "abc",
    )
    assert "policy:groups.process" in error.hint
    assert str(error) == f"'shell' is off [endpoint_disabled]\nhint: {error.hint}"


@pytest.mark.field(94)
def test_field_094_a_timeout_carries_the_output_so_far() -> None:
    body = {"error": "late", "type": "TimeoutError", "code": "timeout", "stdout": "so far\n", "stderr": "é"}
    error = error_from_response(408, {}, body, "shell")
    assert isinstance(error, CommandTimeoutError)
    assert (error.stdout, error.stderr) == ("so far\n", "é")


@pytest.mark.field(31)
def test_field_031_a_full_disk_tells_what_is_needed_and_what_is_free() -> None:
    body = {"error": "full", "type": "OSError", "code": "no_space", "needed": 10, "free": 4}
    error = error_from_response(507, {}, body, "files_upload_stream")
    assert isinstance(error, NoSpaceError)
    assert (error.needed, error.free) == (10, 4)


def test_a_redirect_is_an_error_of_its_own() -> None:
    error = error_from_response(302, {"location": "http://elsewhere/"}, b"", "files_stat")
    assert (error.error_type, error.status_code) == ("BindingRedirect", 302)


@pytest.mark.parametrize("status", [405, 501])
def test_what_a_server_does_not_offer_is_not_available(status: int) -> None:
    assert type(error_from_response(status, {}, b"", "files_unpack")) is EndpointNotAvailableError


def test_an_unknown_id_in_the_path_is_not_found_on_servers_without_codes() -> None:
    body = {"error": "no such session", "type": "ValueError"}
    assert type(error_from_response(404, {}, body, "pty_detail")) is NotFoundError


def test_what_a_server_looked_for_and_did_not_find_is_not_found() -> None:
    body = {"error": 'nothing on the page matches "#a"', "type": "ValueError", "code": "element_not_found"}
    assert type(error_from_response(404, {}, body, "browser_screenshot")) is NotFoundError
    assert (
        type(error_from_response(404, {}, body | {"code": "unknown_route"}, "files_stat")) is EndpointNotAvailableError
    )


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"[" * 100_000, b'"text"', b"{}", b'{"error": 7, "type": [], "code": {}}']
)
def test_nonsense_in_an_error_body_does_no_harm(body: bytes) -> None:
    error = error_from_response(500, {}, body, "files_stat")
    assert type(error) is ServerAPIError
    assert (error.error_type, error.error_code, error.status_code) == ("", "", 500)
    assert error.message == "the server answered 500 without a reason"


def every_error_class() -> list[type[SandboxError]]:
    found = (getattr(sandbox_sdk, name) for name in sandbox_sdk.__all__)
    return [one for one in found if isinstance(one, type) and issubclass(one, SandboxError)]


@pytest.mark.parametrize("error_class", every_error_class(), ids=lambda one: one.__name__)
def test_every_error_survives_pickling(error_class: type[SandboxError]) -> None:
    error = error_class("what", hint="how")
    error.__dict__["endpoint"] = "files_stat"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is error_class
    assert (again.message, again.hint, again.__dict__) == ("what", "how", error.__dict__)
    assert str(again) == "what\nhint: how"


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    from sandbox_sdk import _errors

    drawn: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (_errors.__doc__ or "").splitlines():
        if line.lstrip().startswith("* "):
            depth, name = len(line) - len(line.lstrip()), line.split()[1]
            above = [(d, n) for d, n in above if d < depth]
            drawn[name] = above[-1][1] if above else "Exception"
            above.append((depth, name))
    defined = (one for one in vars(_errors).values() if isinstance(one, type) and issubclass(one, SandboxError))
    actual = {one.__name__: one.__bases__[0].__name__ for one in defined}
    assert drawn == actual
