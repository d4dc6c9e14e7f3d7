"""Marks the classes and functions that users see, so that reprs and tracebacks show the path they import them from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C", bound=Callable[..., object])


def public(cls: C) -> C:
    """Let a class or a function say that it lives in `sandbox_sdk`."""
    cls.__module__ = "sandbox_sdk"
    return cls
