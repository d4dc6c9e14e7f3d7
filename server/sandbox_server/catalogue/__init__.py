"""Every endpoint, once: the single source of truth for paths, scopes, fields, limits and params."""

from __future__ import annotations

from . import browser, commands, core, dev_tools, files, process, system, terminal
from .model import (
    COMMON_LIMITS,
    GROUPS,
    LIMITS,
    OPT_IN_GROUPS,
    PARAMS,
    REQUIRED,
    Catalogue,
    Endpoint,
    Field,
    Param,
    Step,
)

__all__ = [
    "COMMON_LIMITS",
    "GROUPS",
    "LIMITS",
    "OPT_IN_GROUPS",
    "PARAMS",
    "REQUIRED",
    "Catalogue",
    "Endpoint",
    "Field",
    "Param",
    "Step",
    "builtin",
]


def builtin() -> Catalogue:
    """The endpoints every server has."""
    groups = (core, commands, files, process, terminal, system, dev_tools, browser)
    return Catalogue(endpoint for group in groups for endpoint in group.endpoints())
