"""Marks the classes that users see, so that reprs and tracebacks show the path they import them from."""

from __future__ import annotations

from typing import TypeVar

C = TypeVar("C", bound=type)


def public(cls: C) -> C:
    """Let a class say that it lives in `sandbox_sdk`."""
    cls.__module__ = "sandbox_sdk"
    return cls
