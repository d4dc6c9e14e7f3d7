"""One function for each endpoint that runs code."""

from __future__ import annotations

from collections.abc import Mapping

from ._call import Call, call, each, nothing, stdin_text
from ._calls import DEFAULT_CODE_SECONDS, FRAMES
from ._code_models import ContextInfo
from ._reports import CodeResult
from ._wire import Json


def run(
    code: str,
    language: str,
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    stdin: str | bytes | None,
    timeout: float | None,
) -> Call[CodeResult]:
    return call(
        "code_run",
        CodeResult.from_wire,
        patience=DEFAULT_CODE_SECONDS if timeout is None else timeout,
        code=code,
        language=language,
        timeout=timeout,
        cwd=cwd,
        env=None if env is None else dict(env),
        stdin=stdin_text(stdin),
    )


def framed(call: Call[CodeResult]) -> Call[None]:
    """The same, but its output as it comes."""
    headers = {**call.headers, "Accept": FRAMES}
    return Call(call.endpoint, call.method, call.target, nothing, call.body, headers, call.patience)


def create_context(*, cwd: str | None, env: Mapping[str, str] | None, name: str) -> Call[ContextInfo]:
    variables = None if env is None else dict(env)
    return call("code_contexts_create", ContextInfo.from_wire, cwd=cwd, env=variables, name=name or None)


def contexts() -> Call[list[ContextInfo]]:
    return call("code_contexts_list", each("contexts", ContextInfo.from_wire))


def delete_context(id: str) -> Call[None]:
    return call("code_contexts_delete", nothing, id=id)


def run_in_context(id: str, code: str, timeout: float | None) -> Call[None]:
    return call("code_contexts_run", nothing, headers={"Accept": FRAMES}, id=id, code=code, timeout=timeout)


def interrupt_context(id: str) -> Call[bool]:
    return call("code_contexts_interrupt", _interrupted, id=id)


def restart_context(id: str) -> Call[ContextInfo]:
    return call("code_contexts_restart", ContextInfo.from_wire, id=id)


def _interrupted(data: Json) -> bool:
    return data.get("interrupted") is True
