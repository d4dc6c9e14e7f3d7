"""How an error of ours is shown in a notebook: what, what to do, and which line of the user's asked for it."""

from __future__ import annotations

import os
import traceback

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_WIDGETS = "sandbox_notebook."
_BOLD, _OFF = "\x1b[1m", "\x1b[0m"


def short(error: BaseException, message: str, hint: str) -> list[str]:
    """The lines for IPython's ``_render_traceback_``: frames of this package and of what it stands on are left out."""
    lines = [f"{_BOLD}{type(error).__name__}: {message}{_OFF}"]
    lines += [f"  hint: {hint}"] if hint else []
    return lines + [f"  {_place(frame)}" for frame in _own_frames(error)]


def left_a_call(error: BaseException) -> bool:
    """Whether it came out of a call into this package."""
    return any(_in_package(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


def _in_package(filename: str) -> bool:
    return filename.startswith(_PACKAGE + os.sep)


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """From the user's cell down to the call into this package, or into a widget that calls it."""
    frames: list[traceback.FrameSummary] = []
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame, module in zip(traceback.extract_tb(error.__traceback__), modules, strict=True):
        if _in_package(frame.filename) or module.startswith(_WIDGETS):
            break
        if f"{os.sep}IPython{os.sep}core{os.sep}" in frame.filename:
            frames.clear()
        else:
            frames.append(frame)
    return frames


def _place(frame: traceback.FrameSummary) -> str:
    cell = "ipykernel_" in frame.filename or frame.filename.startswith("<")
    where = f"line {frame.lineno}" if cell else f"{os.path.basename(frame.filename)}, line {frame.lineno}"
    inside = "" if frame.name.startswith("<") else f", in {frame.name}"
    return f"{where}{inside}: {frame.line}" if frame.line else f"{where}{inside}"
