"""A bare ``%sandbox ls`` shows its result wherever it stands in a cell; ``x = %sandbox ls`` shows nothing.

IPython shows only a cell's last expression, and a magic cannot see whether its value is used. So calls that stand
alone are marked in the cell's syntax tree before it runs, and the magic shows what it would otherwise return.
A body that is empty is marked, too: IPython would raise its ``UsageError``, which no tool takes for an error.
"""

from __future__ import annotations

import ast
import sys
from types import FrameType

MARK = "\0"
_CALLS = {"run_line_magic", "run_cell_magic"}


class BareMagics(ast.NodeTransformer):
    """Puts `MARK` before the line of each ``%sandbox`` call whose value nobody takes, and in place of an empty body."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        match node.value:
            case ast.Call(
                func=ast.Attribute(attr=attr),
                args=[ast.Constant(value="sandbox"), ast.Constant(value=str()) as line, *rest],
            ) if attr in _CALLS and not str(line.value).startswith(MARK):
                line.value = MARK + str(line.value)
                match rest:
                    case [ast.Constant(value="") as body]:
                        body.value = MARK
        return node


def mark_running_cell(transformer: BareMagics) -> None:
    """Mark the cell that is running, too: it is read already, but its later statements are not compiled yet.

    So what stands below ``%load_ext`` in one cell shows as it would in the next.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "run_ast_nodes":
        frame = frame.f_back
    for node in frame.f_locals.get("nodelist", ()) if frame is not None else ():
        transformer.visit(node)
