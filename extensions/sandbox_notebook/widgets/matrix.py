"""Policies side by side: who may call what, within which bounds, and what would change from one to another."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from traitlets import List

from sandbox_sdk import MatrixCell, MatrixRow, PolicyMatrixData, policy_matrix
from sandbox_sdk._display.forms import cell_bounds, table_of

from ..render import Table
from .base import STATIC, Message, Widget

_OPS = ("read", "write", "delete", "exec")
_LONGEST = 4096

PolicySource = str | os.PathLike[str] | Mapping[str, Any]


class PolicyMatrix(Widget):
    """Endpoints down, identities of one policy (or of several) across; ``data`` holds what is shown.

    `policies` are what `policy_matrix` takes; the paths that the page tries are judged by all of them at once.
    """

    _esm = STATIC / "matrix.js"
    _css = STATIC / "rules.css"

    columns: Any = List().tag(sync=True)
    rows: Any = List().tag(sync=True)
    paths: Any = List().tag(sync=True)
    ops: Any = List(list(_OPS)).tag(sync=True)

    def __init__(
        self,
        policies: PolicySource | Sequence[PolicySource],
        *,
        paths: str | Sequence[str] = (),
        root: str = "/workspace",
    ) -> None:
        self._policies, self._root = policies, root
        self.data: PolicyMatrixData = policy_matrix(policies, paths=paths, root=root)
        super().__init__({"try": self._try, "diff": self._diff}, columns=_columns(self.data), **_content(self.data))

    def face(self) -> Table:
        return table_of(self.data)

    def _try(self, message: Message, _: Sequence[memoryview]) -> None:
        path, op = message.get("path"), message.get("op")
        if not isinstance(path, str) or len(path) > _LONGEST:
            return
        asked = [path] if path else []
        self.data = policy_matrix(self._policies, paths=asked, op=op if op in _OPS else None, root=self._root)
        for name, value in _content(self.data).items():
            setattr(self, name, value)
        self.tell("tried", path=path)

    def _diff(self, message: Message, _: Sequence[memoryview]) -> None:
        before, after = message.get("before"), message.get("after")
        known = range(len(self.data.columns))
        if not isinstance(before, int) or not isinstance(after, int) or not {before, after} <= {*known}:
            return
        changes = self.data.diff(before, after)
        self.tell("diff", before=before, after=after, endpoints=[change.endpoint for change in changes])


def _columns(data: PolicyMatrixData) -> list[dict[str, Any]]:
    return [
        {
            "title": column.title,
            "about": f"{column.identity}, scopes: {', '.join(column.scopes) or 'none'}"
            + ("; only observed" if column.mode == "observe" else ""),
        }
        for column in data.columns
    ]


def _content(data: PolicyMatrixData) -> dict[str, Any]:
    return {"rows": [_row(row) for row in data.rows], "paths": list(data.paths)}


def _row(row: MatrixRow) -> dict[str, Any]:
    cells = [_cell(cell) for cell in row.cells]
    return {"id": row.endpoint, "group": row.group or "other", "summary": row.summary, "cells": cells}


def _cell(cell: MatrixCell) -> dict[str, Any]:
    facts = [("reason", cell.reason or ""), ("code", cell.code or ""), ("rule", cell.rule or "")]
    return {
        "verdict": cell.verdict,
        "asked": [one.allowed for one in cell.asked],
        "facts": [fact for fact in facts if fact[1]] + (cell_bounds(cell) if cell.allowed else []),
    }
