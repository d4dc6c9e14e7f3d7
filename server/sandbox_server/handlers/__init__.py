"""Endpoint id -> function of guarded values. A test holds each signature equal to the endpoint's fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..messages import Response
from . import core
from .browser import BROWSER_HANDLERS
from .code import CODE_HANDLERS
from .commands import COMMAND_HANDLERS
from .files import FILE_HANDLERS
from .git import GIT_HANDLERS
from .openapi import openapi
from .process import PROCESS_HANDLERS
from .system import SYSTEM_HANDLERS
from .terminal import TERMINAL_HANDLERS

HANDLERS: Mapping[str, Callable[..., Response]] = {
    "health": core.health,
    "capabilities": core.capabilities,
    "capabilities_check": core.capabilities_check,
    "openapi": openapi,
    **BROWSER_HANDLERS,
    **CODE_HANDLERS,
    **COMMAND_HANDLERS,
    **FILE_HANDLERS,
    **PROCESS_HANDLERS,
    **SYSTEM_HANDLERS,
    **TERMINAL_HANDLERS,
    **GIT_HANDLERS,
}
