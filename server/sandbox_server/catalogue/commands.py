"""Custom commands that the operator registers."""

from __future__ import annotations

from .model import Endpoint, Field


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("list_commands", "GET", "/commands", "commands",
                 "Names the custom commands the caller may run.", ("commands:list",)),
        Endpoint("run_command", "POST", "/commands/{name}", "commands",
                 "Invokes one custom command with JSON arguments.", ("commands:run",),
                 (
                     Field("name", "text", "path", "Name of the command, percent-encoded where it needs that."),
                     Field("arguments", "object", "whole", "The command's arguments, by name."),
                 ), {"timeout_seconds": None, "max_output_bytes": 16 << 20}, judges_paths=True),
    )  # fmt: skip
