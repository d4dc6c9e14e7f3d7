"""Code and version control. Off until a policy switches the group on."""

from __future__ import annotations

from ..messages import FRAMES_TYPE, JSON_TYPE, SSE_TYPE
from .model import Endpoint, Field

_RUN = ("devtools:run",)
_READ = ("devtools:read",)
_ID = Field("id", "text", "path", "Context id.")
_CWD = Field("cwd", "path", "body", "Working directory; default: the first allowed root.", None, op="exec")
_ENV = Field("env", "env", "body", "Variables added to the program's environment.", None)


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("code_run", "POST", "/code/run", "dev_tools", "Runs a piece of code.", _RUN,
                 (
                     Field("code", "text", "body", "Source text."),
                     Field("language", "text", "body", "python, node or bash.", "python"),
                     Field("timeout", "number", "body", "Whole seconds.", 30, lenient=True),
                     _CWD, _ENV,
                     Field("stdin", "text", "body", "Text for the standard input, then end of file.", None),
                 ), {"timeout_seconds": 300, "max_output_bytes": 16 << 20}, ("languages",),
                 executes_code=True, takes_paths=True, answers=(JSON_TYPE, FRAMES_TYPE)),
        Endpoint("code_contexts_create", "POST", "/code/contexts", "dev_tools", "Opens a persistent namespace.", _RUN,
                 (
                     Field("language", "text", "body", "python; no other is known.", "python"),
                     Field("name", "text", "body", "What to call it, at most 100 characters.", ""),
                     _CWD, _ENV,
                 ), {"max_sessions": 10, "idle_seconds": 3600}, executes_code=True),
        Endpoint("code_contexts_list", "GET", "/code/contexts", "dev_tools", "Open namespaces.", _RUN),
        Endpoint("code_contexts_delete", "DELETE", "/code/contexts/{id}", "dev_tools", "Closes one.", _RUN, (_ID,)),
        Endpoint("code_contexts_run", "POST", "/code/contexts/{id}/run", "dev_tools", "Runs code in one.", _RUN,
                 (
                     _ID,
                     Field("code", "text", "body", "Source text; the value of its last expression is the result."),
                     Field("timeout", "number", "body", "Seconds; default, and for 0 or less: no bound.", None,
                           lenient=True),
                 ), {"timeout_seconds": None, "max_output_bytes": 16 << 20},
                 executes_code=True, streaming=True, takes_paths=True, answers=(JSON_TYPE, FRAMES_TYPE, SSE_TYPE)),
        Endpoint("code_contexts_interrupt", "POST", "/code/contexts/{id}/interrupt", "dev_tools",
                 "Interrupts what runs in one.", _RUN, (_ID,)),
        Endpoint("code_contexts_restart", "POST", "/code/contexts/{id}/restart", "dev_tools",
                 "Empties one.", _RUN, (_ID,)),
        Endpoint("git_status", "GET", "/git/status", "dev_tools", "Branch and changed files.", _READ,
                 (Field("path", "path", "query", "Work tree.", ".", op="read"),)),
        Endpoint("git_diff", "GET", "/git/diff", "dev_tools", "Changes as a diff.", _READ,
                 (
                     Field("path", "path", "query", "Work tree.", ".", op="read"),
                     Field("staged", "bool", "query", "Compare the index.", False),
                     Field("file", "text", "query", "One file, relative to the work tree.", None),
                 )),
    )  # fmt: skip
