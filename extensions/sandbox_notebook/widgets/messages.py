"""What a page says, read strictly: a message that is not as ours are is refused, whoever sent it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox_sdk import SandboxConnectionError, SandboxError

# Bytes of names that are not UTF-8: halves of characters in Python, which no message can carry, and other ones there.
_CARRIED = {0xDC80 + number: 0x10FF80 + number for number in range(128)}
_MEANT = {there: here for here, there in _CARRIED.items()}


def known(message: Mapping[str, Any], name: str, kind: type) -> Any:
    """A fact of a message, of the kind it must be; a number is never negative."""
    value = message.get(name)
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise SandboxError(f"the page sent no {name}")
    return value


def relative(path: object) -> str:
    """A path below the widget's own directory, which the empty one stands for."""
    if not isinstance(path, str) or "\0" in path or path.startswith("/") or ".." in path.split("/"):
        raise SandboxError("the page sent no path")
    return path.translate(_MEANT)


def carried(text: str) -> str:
    """A name, or a text with names in it, so that a message can carry it; `relative` takes it back."""
    return text.translate(_CARRIED)


def worded(error: SandboxError, alive: bool = True) -> str:
    """What has failed. Where the sandbox is, which errors of a connection tell, is no business of the page."""
    if not isinstance(error, SandboxConnectionError):
        return error.message
    return "the connection to the sandbox broke" if alive and not error.gone else "the sandbox is gone"


def known_name(message: Mapping[str, Any]) -> str:
    """What a person typed as the name of one entry."""
    name: str = known(message, "name", str)
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise SandboxError(f'"{name}" is no name for a file')
    return name
