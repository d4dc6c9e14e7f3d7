"""What a page answers, as JSON can hold it and no larger than allowed. Nothing here needs the browser."""

from __future__ import annotations

import math
from typing import Any

from ..messages import Refusal

_MOST_LEVELS = 100

#: A script, an expression or a function; its value, where that is not larger than allowed. A page may mislead this,
#: not what counts again on our side. What is there at once is answered at once: the script may leave the page.
EVALUATION = f"""([script, most]) => {{
    let left = most
    const count = (part, level) => {{
        left -= typeof part === 'string' ? part.length : 1
        if (level > {_MOST_LEVELS} || !part || typeof part !== 'object') return
        if (part instanceof Window || part instanceof Node) return
        for (const key of Object.keys(part)) {{
            if (left < 0) return
            left -= key.length
            count(part[key], level + 1)
        }}
    }}
    const measured = value => {{
        count(value, 0)
        return left < 0 ? {{}} : {{value}}
    }}
    script = script.trim()
    let value = (0, eval)(/^(async)?\\s*function(\\s|\\()/.test(script) ? `(${{script}})` : script)
    value = typeof value === 'function' ? value() : value
    return value && typeof value.then === 'function' ? value.then(measured) : measured(value)
}}"""


def content(kind: str, most: int) -> str:
    """An expression for the text of a page, or its length where that is more: what is too large stays there."""
    if kind == "html":
        text = "(type ? new XMLSerializer().serializeToString(type) : '') + (root ? root.outerHTML : '')"
    else:
        text = "body ? body.innerText : ''"
    return f"""(({{doctype: type, documentElement: root, body}}) => {{
        const text = {text}
        return text.length > {most} ? text.length : text
    }})(document)"""


def too_large(what: str, most: int) -> Refusal:
    return Refusal("payload_too_large", f"{what} has more than {most} bytes; ask for less of it", limit=most)


def plain(value: Any, most: int) -> Any:
    """No endless structures, no numbers that are none; anything else as text.

    One object may be found at many places; JSON has a copy at each, and all of them count.
    """
    return _Copy(most).of(value, _MOST_LEVELS)


class _Copy:
    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def of(self, value: Any, levels: int) -> Any:
        self._count(1)
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if levels == 0:
            raise Refusal("script_failed", f"the script's value has more than {_MOST_LEVELS} levels, or holds itself")
        if isinstance(value, (list, tuple)):
            return [self.of(item, levels - 1) for item in value]
        if isinstance(value, dict):
            return {self._text(str(key)): self.of(item, levels - 1) for key, item in value.items()}
        return self._text(str(value))

    def _text(self, value: str) -> str:
        """Halves of characters, which JavaScript lets stand alone, become question marks."""
        self._count(len(value))
        return value.encode("utf-8", "replace").decode()

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise too_large("the script's value", self._most)
