"""What becomes of code: its output, what it showed, how it ended. And the contexts that code runs in."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from . import _wire as wire
from ._display.shown import Listing, Shown
from ._errors import CodeFailedError
from ._public import public
from ._wire import Json

Bundle = tuple[dict[str, Any], dict[str, Any]]


@public
@dataclass(frozen=True, repr=False)
class Result:
    """One value that code has shown, in every representation that it has: MIME type -> text, or JSON value.

    ``kind`` is ``result`` for the value of the last expression, ``display`` for what `display` was called with. A
    notebook shows it as it would have shown the value itself.
    """

    data: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "result"

    @property
    def text(self) -> str:
        """The plain representation."""
        return self._text("text/plain") or ""

    @property
    def html(self) -> str | None:
        return self._text("text/html")

    @property
    def png(self) -> bytes | None:
        """The bytes of the picture, as those of a figure."""
        encoded = self._text("image/png")
        return None if encoded is None else base64.b64decode(encoded)

    @property
    def json(self) -> Any:
        return self.data.get("application/json")

    def _text(self, mime: str) -> str | None:
        value = self.data.get(mime)
        return value if isinstance(value, str) else None

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> Bundle:
        return _chosen(self.data, include, exclude), dict(self.metadata)

    def __repr__(self) -> str:
        return self.text

    @classmethod
    def from_wire(cls, data: Json, kind: str) -> Result:
        return cls(dict(wire.mapping(data, "data")), dict(wire.mapping(data, "metadata")), kind)


@public
@dataclass(frozen=True)
class ErrorInfo(Shown):
    """The exception that ended the code: the name of its class, its text, and the lines of its traceback."""

    name: str
    value: str = ""
    traceback: tuple[str, ...] = ()

    @classmethod
    def from_wire(cls, data: Json) -> ErrorInfo:
        return cls(wire.text(data, "name"), wire.text(data, "value"), wire.texts(data, "traceback"))


@public
@dataclass(frozen=True, repr=False)
class Execution:
    """One run of code in a context that has ended.

    ``status`` is ``ok``, ``error``, ``interrupted``, ``timeout``, ``output_limit``, or ``died`` when the program is
    gone, and all variables with it; then there is an ``exit_code``, and the context has to be restarted.
    """

    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    results: tuple[Result, ...] = ()
    error: ErrorInfo | None = None
    status: str = "ok"
    execution_count: int = 0
    execution_time_ms: float = 0.0
    exit_code: int | None = None
    truncated: bool = False

    @property
    def stdout(self) -> str:
        """The output as text; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def result(self) -> Result | None:
        """The value of the last expression; None when there was none."""
        return next((shown for shown in reversed(self.results) if shown.kind == "result"), None)

    def check(self) -> Execution:
        """Answer itself, or raise `CodeFailedError` when the code did not run to its end."""
        if self.ok:
            return self
        why = f"the code ended with status {self.status}"
        if self.error is not None:
            why = f"{self.error.name}: {self.error.value}" if self.error.value else self.error.name
        raise CodeFailedError(why, execution=self)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> Bundle:
        last = self.results[-1] if self.results else Result({})
        return _chosen({**last.data, "text/plain": repr(self)}, include, exclude), dict(last.metadata)

    def __repr__(self) -> str:
        """All of it as text, in the order in which a terminal would show it."""
        parts = [self.stdout, self.stderr, *(shown.text for shown in self.results)]
        if self.error is not None:
            parts.append("\n".join(self.error.traceback))
        elif not self.ok:
            parts.append(f"[{self.status}]")
        return "\n".join(part.rstrip("\n") for part in parts if part) or f"[{self.status}]"


@public
@dataclass(frozen=True)
class ContextInfo(Shown):
    """A code context. ``state`` is ``idle``, ``busy``, or ``dead`` when its program is gone."""

    id: str
    name: str = ""
    language: str = "python"
    state: str = "idle"
    pid: int | None = None
    cwd: str = ""
    created_at: datetime | None = None
    last_used_at: datetime | None = None
    execution_count: int = 0

    @classmethod
    def from_wire(cls, data: Json) -> ContextInfo:
        return cls(
            id=wire.text(data, "id"),
            name=wire.text(data, "name"),
            language=wire.text(data, "language", "python"),
            state=wire.text(data, "state", "idle"),
            pid=wire.whole_or_none(data, "pid"),
            cwd=wire.text(data, "cwd"),
            created_at=wire.moment(data, "created_at"),
            last_used_at=wire.moment(data, "last_used_at"),
            execution_count=wire.whole(data, "execution_count"),
        )


class _Context(Protocol):
    @property
    def info(self) -> ContextInfo: ...


C = TypeVar("C", bound=_Context)


@public
class ContextList(Listing[C]):
    """Open code contexts: a list with `to_pandas`, which has what was last heard about each."""

    def to_pandas(self) -> Any:
        return Listing(one.info for one in self).to_pandas()


def _chosen(
    data: Mapping[str, Any], include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    return {
        mime: value
        for mime, value in data.items()
        if (not include or mime in include) and (not exclude or mime not in exclude)
    }
