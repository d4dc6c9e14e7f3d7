"""What must never stop a thread is told on standard error."""

from __future__ import annotations

import contextlib
import sys


def report(where: str) -> None:
    """Print the exception being handled. Whoever serves must go on serving."""
    import traceback  # not needed by a server that is well

    with contextlib.suppress(Exception):  # standard error may be closed, or its reader gone
        print(f"sandbox_server: fault in {where}", file=sys.stderr)
        traceback.print_exc()
