"""Endpoint id -> function of guarded values. A test holds each signature equal to the endpoint's fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..messages import Response
from . import core
from .files import FILE_HANDLERS
from .process import PROCESS_HANDLERS

HANDLERS: Mapping[str, Callable[..., Response]] = {
    "health": core.health,
    "capabilities": core.capabilities,
    "capabilities_check": core.capabilities_check,
    **FILE_HANDLERS,
    **PROCESS_HANDLERS,
}
