"""Running a piece of a test in a forked copy of this process, with its coverage measured too."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable


def fork(work: Callable[[], object]) -> int:
    """Run `work` in a child; answers its pid. The child ends with 0, or with 1 and a traceback."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        _measured(work)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _measured(work: Callable[[], object]) -> None:
    try:
        import coverage
    except ImportError:
        work()
        return
    running = coverage.Coverage.current()
    if running is None:
        work()
        return
    running.stop()
    own = coverage.Coverage(data_suffix=True)
    own.start()
    try:
        work()
    finally:
        own.stop()
        warnings.simplefilter("ignore")  # what was imported before the fork is measured there
        own.save()
