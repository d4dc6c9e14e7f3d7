"""What a magic returns: ordinary values that also know how to show themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from .coloured import coloured
from .render import Cell, Table, as_html, as_text, pairs

T = TypeVar("T")


class Shown:
    """Shows a table: as text everywhere, as HTML where ``html`` is left on."""

    html = True
    terminal = False
    """It is shown in one, whose colours and width it takes."""
    quotes = False
    """Shows the text of others, which no front end may change."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __repr__(self) -> str:
        return as_text(self._table)

    def words(self) -> str:
        """What a terminal prints of it."""
        return (coloured(self._table) if self.terminal else None) or repr(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        bundle = {"text/plain": self.words()}
        if self.html:
            bundle["text/html"] = as_html(self._table)
        return bundle


class Still(Shown):
    """What a widget would show, where nothing is live."""

    quotes = True

    def __init__(self, html: str, text: str) -> None:
        self._page, self._text = html, text

    def __repr__(self) -> str:
        return self._text

    def words(self) -> str:
        return self._text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self._text, **({"text/html": self._page} if self.html else {})}


class Notice(Shown):
    """One line that something was done, and the facts about it."""

    def __init__(self, message: str, *facts: tuple[str, str], good: bool = True) -> None:
        super().__init__(Table(pairs(facts), headline=Cell(message, "good" if good else "")))


class Answer(Shown):
    """Yes or no, with the reason; true when allowed."""

    def __init__(self, decision: object, allowed: bool, table: Table) -> None:
        super().__init__(table)
        self.decision = decision
        self.allowed = allowed

    def __bool__(self) -> bool:
        return self.allowed


class Rows(Shown, Sequence[T], Generic[T]):
    """A list of the client's own objects; ``to_pandas()`` makes a frame of their fields."""

    quotes = True

    def __init__(self, items: Sequence[T], table: Table, record: Callable[[T], dict[str, Any]] | None = None) -> None:
        super().__init__(table)
        self._items = tuple(items)
        self._record = record or _fields

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def records(self) -> list[dict[str, Any]]:
        """The fields of each."""
        return [self._record(item) for item in self._items]

    def to_pandas(self) -> Any:
        """A pandas DataFrame, one row per item."""
        try:
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ModuleNotFoundError as error:
            if error.name != "pandas":
                raise
            raise ModuleNotFoundError("to_pandas() needs pandas: %pip install pandas", name="pandas") from None
        return pandas.DataFrame(self.records())


def _fields(item: object) -> dict[str, Any]:
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    return {"value": item}
