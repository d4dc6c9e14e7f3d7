"""Reading JSON objects of any server: keys may be missing, unknown, or of the wrong type, and nothing raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, TypeAlias

Json: TypeAlias = Mapping[str, Any]


def text(data: Json, name: str, default: str = "") -> str:
    value = data.get(name)
    return value if isinstance(value, str) else default


def text_or_none(data: Json, name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) else None


def whole(data: Json, name: str, default: int = 0) -> int:
    value = whole_or_none(data, name)
    return default if value is None else value


def whole_or_none(data: Json, name: str) -> int | None:
    value = data.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(data: Json, name: str, default: float = 0.0) -> float:
    value = data.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else default


def number_or_none(data: Json, name: str) -> float | None:
    value = data.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def flag(data: Json, name: str, default: bool = False) -> bool:
    value = flag_or_none(data, name)
    return default if value is None else value


def flag_or_none(data: Json, name: str) -> bool | None:
    value = data.get(name)
    return value if isinstance(value, bool) else None


def texts(data: Json, name: str) -> tuple[str, ...]:
    return tuple(value for value in _items(data, name) if isinstance(value, str))


def objects(data: Json, name: str) -> list[Json]:
    return [value for value in _items(data, name) if isinstance(value, dict)]


def mapping(data: Json, name: str) -> Json:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _items(data: Json, name: str) -> Sequence[Any]:
    value = data.get(name)
    return value if isinstance(value, list) else ()


def moment(data: Json, name: str) -> datetime | None:
    """A time as an aware UTC datetime, from ISO 8601 text or Unix seconds."""
    value = data.get(name)
    try:
        if isinstance(value, str) and value:
            parsed = datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith("Z") else value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, timezone.utc)
    except (ValueError, OverflowError, OSError):
        pass
    return None
