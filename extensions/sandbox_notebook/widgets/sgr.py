"""Colour codes (Select Graphic Rendition, ECMA-48, 8.3.117): text as pieces with a style; other sequences vanish."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Control sequences, operating system commands (titles, links), and two-character escapes.
_ESCAPE = re.compile(r"\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# What moves the cursor or sets a mode; colours alone mean something in plain lines.
_MOVES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-ln-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])")
#: Mid tones that can be read on white and on near-black: 3:1 or better against both.
_COLOURS = ("#808080", "#d1453b", "#1f9254", "#a87b00", "#3b78d8", "#b04fc4", "#0e8f99", "#8a8a8a")
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 39: ("colour",), 49: ("ground",)}
_ON = {
    1: ("bold", "font-weight:600"),
    2: ("dim", "opacity:.7"),
    3: ("italic", "font-style:italic"),
    4: ("underline", "text-decoration:underline"),
}


def spans(text: str) -> Iterator[tuple[str, str]]:
    """(text, CSS) pieces; the CSS is empty for plain text."""
    style: dict[str, str] = {}
    position = 0
    for escape in _ESCAPE.finditer(text):
        if plain := _HIDDEN.sub("", text[position : escape.start()]):
            yield plain, ";".join(style.values())
        position = escape.end()
        if escape[2] == "m":
            _apply(escape[1], style)
    if plain := _HIDDEN.sub("", text[position:].replace("\x1b", "")):
        yield plain, ";".join(style.values())


def without_moves(data: bytes) -> bytes:
    """What a terminal shows, as lines."""
    return _MOVES.sub(b"", data)


def _apply(parameters: str, style: dict[str, str]) -> None:
    groups = [
        [int(code) if code.isdigit() and len(code) < 6 else 0 for code in group.split(":")]
        for group in parameters.split(";")
    ]
    while groups:
        code, *rest = groups.pop(0)
        if code == 0:
            style.clear()
        elif code in _ON:
            name, css = _ON[code]
            style[name] = css
        elif code in _OFF:
            for name in _OFF[code]:
                style.pop(name, None)
        elif code in (38, 48):
            if colour := _extended(rest or _following(groups)):
                style["colour" if code == 38 else "ground"] = f"{'color' if code == 38 else 'background'}:{colour}"
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["colour"] = f"color:{_COLOURS[code % 10]}"
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style["ground"] = f"background:{_COLOURS[code % 10]}55"


def _following(groups: list[list[int]]) -> list[int]:
    """Written with semicolons, a colour is the next two or four parameters; they are taken off the list."""
    taken = 2 if groups and groups[0] == [5] else 4
    codes = [group[0] for group in groups[:taken]]
    del groups[:taken]
    return codes


def _extended(codes: list[int]) -> str:
    """The colour of ``5, n`` (a table of 256) or of ``2, …, r, g, b``; empty when it is neither."""
    if len(codes) >= 2 and codes[0] == 5:
        return _indexed(codes[1])
    if len(codes) >= 4 and codes[0] == 2:
        return "rgb({},{},{})".format(*(min(255, code) for code in codes[-3:]))
    return ""


def _indexed(number: int) -> str:
    if number < 16:
        return _COLOURS[number % 8]
    if number < 232:
        steps = (0, 95, 135, 175, 215, 255)
        number -= 16
        return f"rgb({steps[number // 36 % 6]},{steps[number // 6 % 6]},{steps[number % 6]})"
    grey = 8 + 10 * min(23, number - 232)
    return f"rgb({grey},{grey},{grey})"
