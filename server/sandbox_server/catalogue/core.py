"""Liveness and discovery. Never off."""

from __future__ import annotations

from .model import Endpoint, Field


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("health", "GET", "/health", "core", "Answers ok to anyone; for liveness and readiness.",
                 public=True, inline=True),
        Endpoint("capabilities", "GET", "/capabilities", "core",
                 "Describes what the calling identity may do, endpoint by endpoint.", ("core:read",)),
        Endpoint("capabilities_check", "POST", "/capabilities/check", "core",
                 "Answers whether a hypothetical call would be admitted, from the policy alone.", ("core:read",),
                 (
                     Field("endpoint", "text", "body", "Endpoint id."),
                     Field("path", "object", "body", "A path to judge.", None),
                     Field("paths", "object", "body", "Several paths to judge; the first refusal is reported.", None),
                     Field("op", "text", "body", "read, write, delete or exec; default: the endpoint's own.", None),
                 )),
        Endpoint("openapi", "GET", "/openapi.json", "core", "This server's OpenAPI 3.1 document.", ("core:read",)),
    )  # fmt: skip
