"""Variables between this kernel and a code context: through a file in the sandbox, which does not stay."""

from __future__ import annotations

import posixpath
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import objects
from ..grammar import Mistake

if TYPE_CHECKING:
    from sandbox_sdk import CodeContext, Sandbox

# Runs in the context and leaves nothing there but the variable.
_THERE = """\
def _carry():
    import os
    tools = {{"__name__": "objects"}}
    exec(compile({source!r}, "objects", "exec"), tools)
    {work}
try:
    _carry()
finally:
    del _carry
"""
_TAKE = """\
with open({path!r}, "rb") as file:
        data = file.read()
    os.unlink({path!r})
    globals()[{name!r}] = tools["unpack"](data, pickled={pickled})"""
_GIVE = """\
if {name!r} not in globals():
        raise tools["Unfit"]("there is no such variable")
    data = tools["pack"](globals()[{name!r}], parquet={parquet} and tools["has_parquet"](), pickled={pickled})
    with open({path!r}, "xb") as file:
        file.write(data)"""
_HAS_PARQUET = 'raise tools["Unfit"](str(tools["has_parquet"]()))'


def push(sandbox: Sandbox, context: CodeContext, name: str, value: Any, *, pickled: bool) -> None:
    """Set a variable there to the value."""
    try:
        parquet = type(value).__module__.startswith(("pandas", "pyarrow")) and _both_have_parquet(context)
        data = objects.pack(value, parquet=parquet, pickled=pickled)
    except objects.Unfit as error:
        raise _stays(name, str(error), "go along") from None
    path = _place(sandbox)
    sandbox.files.write(path, data)
    try:
        wrong = _do(context, _TAKE.format(path=path, name=name, pickled=pickled))
    finally:
        _clear(sandbox, path)
    if wrong:
        raise _stays(name, wrong, "go along")


def pull(sandbox: Sandbox, context: CodeContext, name: str, *, pickled: bool) -> Any:
    """The value of a variable there."""
    path = _place(sandbox)
    work = _GIVE.format(path=path, name=name, parquet=objects.has_parquet(), pickled=pickled)
    try:
        if wrong := _do(context, work):
            raise _stays(name, wrong, "come back")
        data = sandbox.files.read(path)
    finally:
        _clear(sandbox, path)
    try:
        return objects.unpack(data, pickled=pickled)
    except objects.Unfit as error:
        raise _stays(name, str(error).replace("there", "here"), "come back") from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError, MemoryError) as error:
        raise _stays(name, f"what came is damaged ({type(error).__name__})", "come back") from error


def _place(sandbox: Sandbox) -> str:
    return posixpath.join(sandbox.root, f".carried-{secrets.token_hex(8)}")


def _clear(sandbox: Sandbox, path: str) -> None:
    """Mostly nothing is left; to remove it all the same would stand among the refusals."""
    from sandbox_sdk import EndpointNotAvailableError, PolicyDeniedError, SandboxError

    with suppress(SandboxError):
        with suppress(PolicyDeniedError, EndpointNotAvailableError):  # who may not look, tries
            if not sandbox.files.exists(path):
                return
        sandbox.files.delete(path)


def _both_have_parquet(context: CodeContext) -> bool:
    return objects.has_parquet() and _do(context, _HAS_PARQUET) == "True"


def _do(context: CodeContext, work: str) -> str:
    """Do it there; answers what stood against it."""
    source = Path(objects.__file__).read_text("utf-8")
    execution = context.run(_THERE.format(source=source, work=work))
    if execution.error is not None:
        plain = execution.error.name == "Unfit"
        return execution.error.value if plain else f"{execution.error.name}: {execution.error.value}"
    return "" if execution.ok else f"the code ended with status {execution.status}"


def _stays(name: str, why: str, how: str) -> Mistake:
    hint = "--pickle moves any object, if you trust the sandbox with this kernel"
    if "no such variable" in why:
        hint = "%sandbox code dir() shows what there is"
    elif "not even as a pickle" in why:
        hint = "make plain values, arrays of numpy or tables of it"
    elif "missing" in why:
        hint = "install it on that side, or make plain values of it"
    elif "pyarrow" in why:
        hint = "install pyarrow on both sides; --pickle moves any object, if you trust the sandbox with this kernel"
    return Mistake(f'"{name}" does not {how}: {why}', hint)
