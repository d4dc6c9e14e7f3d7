"""This server as an OpenAPI 3.1 document, made of the same declarations that bind and guard its requests."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from .._version import __version__
from ..call import Call
from ..catalogue import LIMITS, Catalogue, Endpoint, Field
from ..messages import FRAMES_TYPE, JSON_TYPE, OCTETS_TYPE, REFUSALS, SSE_TYPE, Response, json_response
from ..services import Rules

_PATH = {"type": "string", "minLength": 1, "maxLength": 4096}
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "base64": {"type": "string", "contentEncoding": "base64"},
    "object": {},
    "path": _PATH,
    "paths": {"type": "array", "items": _PATH, "minItems": 1},
    "command": {"type": "string", "minLength": 1},
    "env": {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": {"type": "string"},
    },
    "url": {"type": "string", "format": "uri"},
}
#: Statuses of refusals: of any call, of one with a body, of one that moves a file's bytes.
_ALWAYS = (400, 401, 403, 404, 408, 409, 421, 429, 500, 501, 503)
_WITH_BODY = (413, 415)
_WITH_PATHS = (412, 413, 507)
_WITH_BYTES = (412, 413, 416, 507)
_MEANINGS = {200: "done", 201: "made", 202: "begun", 204: "done", 206: "the part that was asked for",
             304: "not changed"}  # fmt: skip
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "accessToken": {"type": "apiKey", "in": "header", "name": "X-Access-Token"},
}


def openapi(call: Call) -> Response:
    services = call.services
    return json_response(document(services.catalogue, services.rules, services.implemented))


def document(catalogue: Catalogue, rules: Rules, implemented: Container[str]) -> dict[str, Any]:
    """The endpoints that a server offers and its policy has switched on, whoever may call them."""
    paths: dict[str, dict[str, Any]] = {}
    groups: dict[str, None] = {}
    for endpoint in catalogue.values():
        rule = rules.rule(endpoint.id)
        if endpoint.virtual or not rule.enabled or endpoint.id not in implemented:
            continue
        groups[endpoint.group] = None
        for route in endpoint.routes:
            operation = _operation(route, rule.scopes)
            paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Notebook Sandbox server", "version": __version__},
        "tags": [{"name": group} for group in groups],
        "paths": paths,
        "components": {
            "securitySchemes": _SECURITY,
            "schemas": {"Refusal": _refusal_schema()},
            "responses": {f"Refusal{status}": _refusals(status) for status in sorted(_statuses())},
        },
    }


def _operation(route: Endpoint, scopes: tuple[str, ...]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "operationId": route.route.replace(".", "-"),
        "tags": [route.group],
        "summary": route.summary,
        "security": [] if route.public else [{scheme: list(scopes)} for scheme in _SECURITY],
        "parameters": [_parameter(field, field.place) for field in route.fields if field.place in ("path", "query")],
        "responses": _responses(route),
    }
    body = [field for field in route.fields if field.place in ("body", "whole")]
    if route.raw_types:
        # The payload is the body then, and what else there is to say stands in the query.
        about["parameters"] += [
            {**_parameter(field, "query"), "required": False, "description": f"{field.doc} With a raw body only."}
            for field in body
            if field.kind != "base64"
        ]
    if body or route.raw_types:
        about["requestBody"] = _request_body(route, body)
    if route.limits:
        about["x-limits"] = {
            name: {"default": value, "meaning": LIMITS[name][1]} for name, value in route.limits.items()
        }
    return about


def _parameter(field: Field, place: str) -> dict[str, Any]:
    required = field.required or place == "path"
    return {"name": field.name, "in": place, "required": required, "description": field.doc, "schema": _schema(field)}


def _schema(field: Field) -> dict[str, Any]:
    schema = dict(_SCHEMAS[field.kind])
    if field.required and field.kind == "text":
        schema["minLength"] = 1
    if not field.required and field.default is not None:
        schema["default"] = field.default
    return schema


def _request_body(route: Endpoint, body: list[Field]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if any(field.place == "whole" for field in body):
        content["application/json"] = {"schema": {"type": "object"}}
    elif body:
        properties = {field.name: {**_schema(field), "description": field.doc} for field in body}
        required = [field.name for field in body if field.required]
        schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
        content["application/json"] = {"schema": schema}
    content |= {media_type: {} for media_type in route.raw_types}
    return {"content": content, "required": any(field.required for field in body) and not route.raw_types}


def _responses(route: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {"200": {"description": _MEANINGS[200], "content": _content(route.answers)}}
    for status in route.also:
        bodiless = status in (204, 304)
        found[str(status)] = {
            "description": _MEANINGS[status],
            **({} if bodiless else {"content": _content(route.answers)}),
        }
    for status in sorted(_statuses(route)):
        found[str(status)] = {"$ref": f"#/components/responses/Refusal{status}"}
    return found


def _statuses(route: Endpoint | None = None) -> set[int]:
    """Those that refusals of a route may have; of any route at all without one."""
    found = set(_ALWAYS)
    if route is None or route.method in ("POST", "PUT", "PATCH"):
        found.update(_WITH_BODY)
    if route is None or route.path_fields:
        found.update(_WITH_PATHS)
    if route is None or route.raw_types or OCTETS_TYPE in route.answers:
        found.update(_WITH_BYTES)
    return found


def _content(media_types: Iterable[str]) -> dict[str, Any]:
    schemas: Mapping[str, dict[str, Any]] = {
        JSON_TYPE: {"schema": {"type": "object"}},
        SSE_TYPE: {"schema": {"description": "server-sent events"}},
        FRAMES_TYPE: {"schema": {"description": "frames: stream, three zero bytes, length, payload"}},
    }
    return {media_type.partition(";")[0]: schemas.get(media_type, {}) for media_type in media_types}


def _refusal_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["error", "type", "code"],
        "properties": {
            "error": {"type": "string", "description": "for people; the wording may change"},
            "type": {"type": "string"},
            "code": {"type": "string", "enum": list(REFUSALS)},
            "endpoint": {"type": "string"},
        },
    }


def _refusals(status: int) -> dict[str, Any]:
    codes = {code: reason.doc for code, reason in REFUSALS.items() if reason.status == status}
    schema = {
        "allOf": [{"$ref": "#/components/schemas/Refusal"}],
        "properties": {"code": {"enum": list(codes)}},
    }
    described = "; ".join(f"{code}: {meaning}" for code, meaning in codes.items())
    return {"description": described, "content": {"application/json": {"schema": schema}}}
