"""Objects between this kernel and a code context, as bytes that say what they are.

The text of this module runs on both sides, so it needs nothing of ours. Bytes from a sandbox are data: nothing in them
runs here, unless the caller takes pickles.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")
_TEXTS = ("object", "str", "string")
_MOMENTS = ("datetime64[ns]", "datetime64[us]", "datetime64[ms]", "datetime64[s]")
_SAFE_ARROW = (14, 0, 1)  # older ones run code that a file brings along


class Unfit(Exception):
    """An object that does not travel, and why."""


def has_parquet() -> bool:
    """Is there a pyarrow to read and write tables with?"""
    if find_spec("pyarrow") is None:
        return False
    numbers = metadata.version("pyarrow").split(".")[:3]
    return tuple(int(number) for number in numbers if number.isdigit()) >= _SAFE_ARROW


def pack(value: Any, *, parquet: bool, pickled: bool) -> bytes:
    """``parquet``: both sides have pyarrow. ``pickled``: what fits nothing else goes as a pickle."""
    try:
        facts, data = _packed(value, parquet)
    except Unfit:
        if not pickled:
            raise
        facts, data = {"kind": "pickle"}, _pickled(value)
    return json.dumps(facts).encode() + b"\n" + data


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:  # whatever an object has against it
        raise Unfit(f"not even as a pickle: {type(error).__name__}: {error}") from None


def unpack(packed: bytes, *, pickled: bool) -> Any:
    head, _, data = packed.partition(b"\n")
    facts = json.loads(head)
    kind = facts["kind"]
    if kind == "plain":
        return json.loads(data)
    if kind == "pickle":
        if not pickled:
            raise Unfit("it is a pickle")
        return pickle.loads(data)
    if kind == "array":
        array = _library("numpy").load(io.BytesIO(data), allow_pickle=False)
        return array[()] if facts["scalar"] else array
    if kind == "arrow":
        return _library("pyarrow.parquet").read_table(io.BytesIO(data))
    pandas = _library("pandas")
    if kind == "parquet":
        frame = pandas.read_parquet(io.BytesIO(data), engine="pyarrow")
    else:
        frame = _frame(pandas, facts["types"], json.loads(data))
    return frame["value"].rename(facts["name"]) if facts["series"] else frame


def _packed(value: Any, parquet: bool) -> tuple[dict[str, Any], bytes]:
    if _plain(value):
        return {"kind": "plain"}, json.dumps(value).encode()
    numpy, pandas, pyarrow = (sys.modules.get(name) for name in ("numpy", "pandas", "pyarrow"))
    if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
        if value.dtype.hasobject:
            raise Unfit("an array of Python objects is no array of numbers")
        buffer = io.BytesIO()
        numpy.save(buffer, value, allow_pickle=False)
        return {"kind": "array", "scalar": isinstance(value, numpy.generic)}, buffer.getvalue()
    if pandas is not None and type(value) in (pandas.DataFrame, pandas.Series):
        return _table(value, type(value) is pandas.Series, parquet)
    if pyarrow is not None and isinstance(value, pyarrow.Table):
        if not parquet:
            raise Unfit("a table of pyarrow needs pyarrow (14.0.1 or newer) on both sides")
        buffer = io.BytesIO()
        _library("pyarrow.parquet").write_table(value, buffer)
        return {"kind": "arrow"}, buffer.getvalue()
    raise Unfit(f"it is of type {type(value).__name__}; plain values, arrays of numpy and tables travel")


def _plain(value: Any) -> bool:
    """Would JSON give back the very same?"""
    if type(value) is dict:
        return all(type(key) is str and _plain(member) for key, member in value.items())
    if type(value) is list:
        return all(map(_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _table(value: Any, series: bool, parquet: bool) -> tuple[dict[str, Any], bytes]:
    name = value.name if series else None
    if not _plain(name):
        raise Unfit("its name is no plain value")
    frame = value.to_frame("value") if series else value
    facts = {"series": series, "name": name}
    if not parquet:
        columns, types = _columns(frame)
        return {"kind": "columns", "types": types, **facts}, json.dumps(columns).encode()
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, engine="pyarrow")
    except Exception as error:  # whichever pyarrow has for a column that fits no type of a file
        raise Unfit(f"it does not go into a Parquet file: {error}") from None
    return {"kind": "parquet", **facts}, buffer.getvalue()


def _columns(frame: Any) -> tuple[list[list[Any]], dict[str, str]]:
    """Without pyarrow: simple columns only, and nothing that would come out as something else."""
    needs = "needs pyarrow (14.0.1 or newer) on both sides"
    index = frame.index
    if type(index).__name__ != "RangeIndex" or index.name is not None or (index.start, index.step) != (0, 1):
        raise Unfit(f"a table with an index of its own {needs}; reset_index() makes columns of it")
    if len(set(frame.columns)) < len(frame.columns) or any(type(name) is not str for name in frame.columns):
        raise Unfit(f"a table whose columns have not each a name of text {needs}")
    columns, types = [], {}
    for name in frame.columns:
        column, kind = frame[name], str(frame[name].dtype)
        if kind in _MOMENTS:
            values = column.astype("int64").tolist()
        elif kind in _NUMBERS:
            values = column.tolist()
        else:
            values = column.tolist()
            if kind not in _TEXTS or any(type(one) is not str for one in values):
                raise Unfit(f'column "{name}" of type {kind} {needs}')
        columns.append(values)
        types[name] = kind
    return columns, types


def _frame(pandas: Any, types: dict[str, str], columns: list[list[Any]]) -> Any:
    made = {}
    for (name, kind), values in zip(types.items(), columns, strict=True):
        if kind not in (*_NUMBERS, *_TEXTS, *_MOMENTS):
            raise Unfit(f'column "{name}" is of no type that travels')
        made[name] = pandas.Series(values, dtype="int64" if kind in _MOMENTS else kind).astype(kind)
    return pandas.DataFrame(made)


def _library(name: str) -> Any:
    package = name.partition(".")[0]
    if find_spec(package) is None:
        raise Unfit(f"{package} is missing there")
    return import_module(name)
