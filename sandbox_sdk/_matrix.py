"""What policies say, as one table: endpoints down, identities (of one policy, or of several) across."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _wire as wire
from ._display.shown import Shown, frame
from ._models import Decision
from ._public import public
from ._wire import Json

Verdict = Literal["allowed", "limited", "denied"]


@public
@dataclass(frozen=True)
class MatrixCell(Shown):
    """What one policy says to one identity about one endpoint.

    ``rule`` switched the endpoint on or off, where one did. ``roots`` are the directories it takes paths below;
    ``within`` are lists of which each must cover the path, too; ``deny`` are patterns. ``enforcement`` is ``kernel``
    where the kernel keeps programs inside those directories (if it can: discovery of a running sandbox tells), ``api``
    where the server does, empty for what takes no paths. ``asked`` answers the paths that were asked about.
    """

    endpoint: str
    allowed: bool = False
    code: str | None = None
    reason: str | None = None
    rule: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    within: tuple[tuple[str, ...], ...] = ()
    deny: tuple[str, ...] = ()
    read_only: bool = False
    bounded: bool = False  # the directories were written by the policy, or are those of the identity
    enforcement: str = ""
    asked: tuple[Decision, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """``limited`` is allowed within bounds that the policy wrote."""
        if not self.allowed:
            return "denied"
        return "limited" if self.limited else "allowed"

    @property
    def limited(self) -> bool:
        narrowed = self.bounded or self.deny or self.read_only
        return bool(self.limits or self.params or narrowed)

    @classmethod
    def from_json(cls, endpoint: str, data: Json) -> MatrixCell:
        paths = wire.mapping(data, "paths")
        within = paths.get("within")
        return cls(
            endpoint=endpoint,
            allowed=wire.flag(data, "allowed"),
            code=wire.text_or_none(data, "code") or wire.text_or_none(data, "would"),
            reason=wire.text_or_none(data, "reason"),
            rule=wire.text_or_none(data, "rule"),
            limits=dict(wire.mapping(data, "limits")),
            params=dict(wire.mapping(data, "params")),
            roots=wire.texts(paths, "allow"),
            within=tuple(map(tuple, within)) if isinstance(within, list) else (),
            deny=wire.texts(paths, "deny"),
            read_only=wire.flag(paths, "read_only"),
            bounded=wire.flag(paths, "bounded"),
            enforcement=wire.text(paths, "enforcement"),
            asked=tuple(Decision.from_wire({"endpoint": endpoint, **one}) for one in wire.objects(data, "asked")),
        )


@public
@dataclass(frozen=True)
class MatrixColumn:
    """One identity of one policy."""

    title: str  # tells it from its neighbours
    policy: str
    identity: str
    scopes: tuple[str, ...] = ()
    revision: str = ""
    mode: str = "enforce"


@public
@dataclass(frozen=True)
class MatrixRow:
    """One endpoint, with what each column says about it."""

    endpoint: str
    group: str
    summary: str
    cells: tuple[MatrixCell, ...]


@public
@dataclass(frozen=True)
class MatrixChange:
    """One endpoint about which two columns differ. ``becomes`` is what the second one says."""

    endpoint: str
    before: MatrixCell
    after: MatrixCell

    @property
    def becomes(self) -> Verdict:
        return self.after.verdict


@public
@dataclass(frozen=True, repr=False)
class PolicyMatrixData(Shown):
    """The answer of `policy_matrix`; `cell` looks one up, `diff` compares two columns."""

    columns: tuple[MatrixColumn, ...]
    rows: tuple[MatrixRow, ...]
    paths: tuple[str, ...] = ()

    def __repr__(self) -> str:
        titles = ", ".join(column.title for column in self.columns)
        return f"<{type(self).__name__}: {len(self.rows)} endpoints for {titles}>"

    def cell(self, endpoint: str, column: str | int = 0) -> MatrixCell:
        """What a column, by its title or number, says about an endpoint. Raises `KeyError`."""
        row = next((row for row in self.rows if row.endpoint == endpoint), None)
        if row is None:
            raise KeyError(endpoint)
        return row.cells[self._index(column)]

    def diff(self, before: str | int = 0, after: str | int = 1) -> tuple[MatrixChange, ...]:
        """The endpoints to which the policy, or the identity, of column `after` says something else."""
        first, second = self._index(before), self._index(after)
        pairs = ((row.endpoint, row.cells[first], row.cells[second]) for row in self.rows)
        return tuple(MatrixChange(*pair) for pair in pairs if _said(pair[1]) != _said(pair[2]))

    def to_pandas(self) -> Any:
        """A pandas DataFrame: endpoints down, columns across, verdicts in it."""
        titles = [column.title for column in self.columns]
        return frame(
            [
                {"endpoint": row.endpoint} | {t: cell.verdict for t, cell in zip(titles, row.cells, strict=True)}
                for row in self.rows
            ]
        )

    def _index(self, column: str | int) -> int:
        if isinstance(column, int):
            return range(len(self.columns))[column]
        titles = [one.title for one in self.columns]
        if column not in titles:
            raise KeyError(f'no column "{column}"; there are {", ".join(titles)}')
        return titles.index(column)


def _said(cell: MatrixCell) -> tuple[object, ...]:
    """What matters of a cell to a caller: not by which rule, and not in which words."""
    if not cell.allowed:
        return (cell.code,)
    asked = tuple((one.path, one.allowed) for one in cell.asked)
    bounds = (cell.roots, cell.within, frozenset(cell.deny), cell.read_only, cell.enforcement)
    return (None, dict(cell.limits), dict(cell.params), *bounds, asked)
