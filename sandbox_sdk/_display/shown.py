"""What makes a value show itself, and lists that do and become a table of pandas."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from copy import copy
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

if TYPE_CHECKING:
    from .table import Table

T = TypeVar("T")
L = TypeVar("L", bound="Listing[Any]")


class Shown:
    """Shows itself as a table: as text in a terminal, as HTML in a notebook.

    What differs from run to run (times, process ids) is left out of both, so that notebooks can be compared; the
    attributes have it.
    """

    __slots__ = ()

    def _table(self) -> Table:
        from .reports import table_of

        return table_of(self)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        from .table import as_html, as_text

        table = self._table()
        return {"text/plain": as_text(table), "text/html": as_html(table)}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same text. IPython has ways of its own for lists and exceptions, which it would prefer to a bundle."""
        from .table import as_text

        alone = len(printer.stack) == 1  # and not a part of something else
        printer.text(as_text(self._table()) if alone else repr(self))


class Listing(Shown, list[T]):
    """A list of values that shows itself as one table, as its slices do; otherwise a list like any other."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...

    @overload
    def __getitem__(self: L, index: slice, /) -> L: ...

    def __getitem__(self, index: Any, /) -> Any:
        found = super().__getitem__(index)
        if not isinstance(index, slice):
            return found
        part = copy(self)  # what a search knows of its hits holds for some of them, too
        part[:] = found
        return part

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row per value and one column per attribute."""
        return frame([{field.name: getattr(one, field.name) for field in dataclasses.fields(one)} for one in self])  # type: ignore[arg-type]


def frame(records: list[dict[str, Any]]) -> Any:
    """A pandas DataFrame of these rows. Pandas is nobody's duty to have, so the error says how to get it."""
    try:
        import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise ModuleNotFoundError("to_pandas() needs pandas: %pip install pandas", name="pandas") from None
    return pandas.DataFrame(records)
