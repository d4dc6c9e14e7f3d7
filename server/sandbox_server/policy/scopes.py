"""Scopes: the grammar of what an identity may hold. What a scope covers is `access.covers`."""

from __future__ import annotations

import re

_SCOPE = re.compile(
    r"\*"
    r"|[a-z][a-z0-9_]*:(?:\*|[a-z][a-z0-9_:.-]*)"  # a namespace, and everything or something in it
    r"|[a-z][a-z0-9_.-]*"  # a bare word
)


def is_scope(text: str) -> bool:
    """True for ``*``, ``files:*``, ``files:read``, ``files:read:fast`` and bare words such as ``deploy``."""
    return _SCOPE.fullmatch(text) is not None
