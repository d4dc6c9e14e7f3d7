"""What a page shows of a file without fetching all of it: told in plain values that it puts into text nodes.

Nothing here is markup, and nothing is executed: a picture is bytes for an ``<img>``, all the rest is text.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import csv
import io
import json
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from ..text import size

Facts: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[int], bytes]
"""Reads at most so many bytes of the file, from its beginning."""

TEXT = 64 << 10
WHOLE = 1 << 20  # of what can only be read whole
IMAGE = 8 << 20
HEX = 512
_ROWS, _COLUMNS, _CELL = 100, 50, 200
_NODES, _DEPTH = 2000, 40
_CELLS, _SOURCE, _PICTURES = 200, 20_000, 4 << 20

_IMAGES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp", ".svg": "svg+xml"}
_BEGINNINGS = {"png": rb"\x89PNG\r\n\x1a\n", "jpeg": rb"\xff\xd8\xff", "gif": rb"GIF8[79]a", "webp": rb"RIFF....WEBP"}
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


@dataclass(frozen=True, slots=True)
class Preview:
    """``kind`` is image, table, json, notebook, text, binary or none; pictures lie in `buffers`."""

    kind: str
    facts: Facts = field(default_factory=dict)
    buffers: tuple[bytes, ...] = ()


def preview(name: str, length: int, read: Read) -> Preview:
    """The best that can be shown of a file of this name and length."""
    suffix = posixpath.splitext(name)[1].lower()
    if suffix in _IMAGES:
        if length > IMAGE:
            return Preview("none", {"note": f"pictures are shown up to {size(IMAGE)}; this one has {size(length)}"})
        return _image(_IMAGES[suffix], read(IMAGE)) or _plain(read(TEXT), length)
    if suffix in (".json", ".geojson", ".ipynb") and length <= (IMAGE if suffix == ".ipynb" else WHOLE):
        data = read(IMAGE if suffix == ".ipynb" else WHOLE)
        return (_notebook(data) if suffix == ".ipynb" else _json(data)) or _plain(data[:TEXT], length)
    data = read(TEXT)
    if suffix in (".csv", ".tsv", ".tab"):
        return _table(data, length, "," if suffix == ".csv" else "\t") or _plain(data, length)
    return _plain(data, length)


def _image(kind: str, data: bytes) -> Preview | None:
    fits = b"<svg" in data if kind == "svg+xml" else re.match(_BEGINNINGS[kind], data, re.DOTALL)
    return Preview("image", {"media": f"image/{kind}"}, (data,)) if fits else None


def _plain(data: bytes, length: int) -> Preview:
    text = _decoded(data)
    if text is None:
        return Preview("binary", {"text": _hex(data[:HEX]), **_rest(min(len(data), HEX), length)})
    return Preview("text", {"text": text, **_rest(len(data), length)})


def _rest(shown: int, length: int) -> Facts:
    return {"note": f"the first {size(shown)} of {size(length)}"} if shown < length else {}


def _decoded(data: bytes) -> str | None:
    """The text that this is the beginning of, or None when it is none. A character cut in two is left out."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _hex(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), 16):
        part = data[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        lines.append(f"{start:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {shown}")
    return "\n".join(lines)


def _table(data: bytes, length: int, separator: str) -> Preview | None:
    text = _decoded(data)
    if not text:
        return None
    first = text.partition("\n")[0]
    if separator not in first:
        separator = max(",;\t|", key=first.count)
    try:
        rows = list(islice(csv.reader(io.StringIO(text, newline=""), delimiter=separator), _ROWS + 2))
    except csv.Error:
        return None
    cut = len(data) < length
    if cut and len(rows) < _ROWS + 2:
        rows = rows[:-1]  # the last one goes on behind what was read
    if not rows:
        return None
    more = cut or len(rows) > _ROWS + 1
    rows = rows[: _ROWS + 1]
    widest = max(len(row) for row in rows)
    notes = [f"the first {len(rows) - 1} rows"] if more else []
    notes += [f"{_COLUMNS} of {widest} columns"] if widest > _COLUMNS else []
    cells = [[cell if len(cell) <= _CELL else cell[:_CELL] + "…" for cell in row[:_COLUMNS]] for row in rows]
    return Preview("table", {"rows": cells, "note": ", ".join(notes)})


class _Number(str):
    """A number as it is written: none of its digits is lost on the way."""


def _json(data: bytes) -> Preview | None:
    value, ok = _parsed(data)
    if not ok:
        return None
    left = [_NODES]
    tree = _node(None, value, _DEPTH, left)
    return Preview("json", {"tree": tree, "note": "" if left[0] else f"the first {_NODES:,} values"})


def _parsed(data: bytes) -> tuple[Any, bool]:
    text = _decoded(data)
    if text is None:
        return None, False
    try:
        return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number), True
    except (ValueError, RecursionError):
        return None, False


def _node(name: str | None, value: Any, depth: int, left: list[int]) -> list[Any]:
    """``[name, kind, text or count, children]``. `left` is how many values may still be told."""
    left[0] -= 1
    if not isinstance(value, (dict, list)):
        kind = "number" if isinstance(value, _Number) else "string" if isinstance(value, str) else "word"
        text = _sound(str(value) if kind == "number" else json.dumps(value, ensure_ascii=False))
        return [name, kind, text if len(text) <= 10 * _CELL else text[: 10 * _CELL] + "…"]
    pairs: Iterator[tuple[str, Any]] = (
        iter(value.items()) if isinstance(value, dict) else ((str(index), one) for index, one in enumerate(value))
    )
    children = []
    if depth:
        for key, one in pairs:
            if left[0] <= 0:
                break
            children.append(_node(_sound(key[:_CELL]), one, depth - 1, left))
    return [name, "object" if isinstance(value, dict) else "list", len(value), children]


def _notebook(data: bytes) -> Preview | None:
    document, _ = _parsed(data)
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        return None
    pictures: list[bytes] = []
    shown = [_cell(cell, pictures) for cell in cells[:_CELLS] if isinstance(cell, dict)]
    note = f"the first {_CELLS} of {len(cells):,} cells" if len(cells) > _CELLS else ""
    return Preview("notebook", {"cells": shown, "note": note}, tuple(pictures))


def _cell(cell: Facts, pictures: list[bytes]) -> Facts:
    outputs = cell.get("outputs")
    return {
        "type": "code" if cell.get("cell_type") == "code" else "text",
        "count": _sound(str(cell.get("execution_count") or ""))[:_CELL],
        "source": _joined(cell.get("source")),
        "outputs": [
            shown
            for output in (outputs if isinstance(outputs, list) else [])[:_ROWS]
            if isinstance(output, dict) and (shown := _output(output, pictures))
        ],
    }


def _output(output: Facts, pictures: list[bytes]) -> Facts | None:
    """A picture where there is one, else text. HTML is not looked at."""
    if output.get("output_type") == "stream":
        return {"text": _joined(output.get("text")), "error": output.get("name") == "stderr"}
    if output.get("output_type") == "error":
        trace = output.get("traceback")
        text = "\n".join(line for line in trace if isinstance(line, str)) if isinstance(trace, list) else ""
        return {"text": _joined(text or f"{output.get('ename')}: {output.get('evalue')}"), "error": True}
    data = output.get("data")
    if not isinstance(data, dict):
        return None
    for kind in ("png", "jpeg", "gif", "webp", "svg+xml"):
        picture = _picture(kind, _whole(data.get(f"image/{kind}")))
        if picture is not None and sum(map(len, pictures)) + len(picture) <= _PICTURES:
            pictures.append(picture)
            return {"picture": len(pictures) - 1, "type": f"image/{kind}"}
    return {"text": _joined(data.get("text/plain", "(an output without text)")), "error": False}


def _picture(kind: str, text: str) -> bytes | None:
    if kind == "svg+xml":
        data = text.encode("utf-8", "replace")
    else:
        try:
            data = base64.b64decode(text)
        except (binascii.Error, ValueError):
            return None
    return data if text and _image(kind, data) else None


def _whole(value: object) -> str:
    """Notebooks keep text as one string or as a list of lines."""
    lines = value if isinstance(value, list) else [value]
    return "".join(line for line in lines if isinstance(line, str))


def _joined(value: object) -> str:
    text = _sound(_ESCAPES.sub("", _whole(value)))
    return text if len(text) <= _SOURCE else text[:_SOURCE] + "…"


def _sound(text: str) -> str:
    """Without halves of characters, which JSON can spell and no message can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
