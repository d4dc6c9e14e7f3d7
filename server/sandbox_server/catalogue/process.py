"""Commands: run to the end, stream, or start in the background."""

from __future__ import annotations

from ..messages import FRAMES_TYPE, JSON_TYPE, SSE_TYPE
from .model import Endpoint, Field

_COMMAND = Field("command", "command", "body", "Command line, split like a POSIX shell would; no shell runs it.")
_CWD = Field("cwd", "path", "body", "Working directory; default: the first allowed root.", None, op="exec")
_ENV = Field("env", "env", "body", "Variables added to the child's environment.", None)
_TIMEOUT = Field("timeout", "number", "body", "Seconds; default 300.", None, lenient=True)
_STDIN_TEXT = Field("stdin", "text", "body", "Text for the standard input, then end of file.", None)
_DIGEST = "SHA-256 of what was carried, in the end record (framed form only)."
_PID = Field("pid", "text", "path", "Process id, or our own id.")
_RULES = ("allow_commands", "deny_commands")


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("shell", "POST", "/shell", "process", "Runs a command to its end.", ("process:run",),
                 (_COMMAND, _CWD, _ENV, _TIMEOUT, _STDIN_TEXT),
                 {"timeout_seconds": None, "max_output_bytes": 16 << 20, "max_processes": None},
                 _RULES, executes_code=True),
        Endpoint("shell_stream", "POST", "/shell/stream", "process", "Runs a command and streams its output.",
                 ("process:run",),
                 (
                     _COMMAND, _CWD, _ENV, _TIMEOUT, _STDIN_TEXT,
                     Field("digest", "bool", "body", _DIGEST, False),
                 ),
                 {"timeout_seconds": None, "max_output_bytes": None, "max_processes": None},
                 _RULES, executes_code=True, streaming=True, answers=(SSE_TYPE, FRAMES_TYPE)),
        Endpoint("process_start", "POST", "/process/start", "process", "Starts a command in the background.",
                 ("process:run",),
                 (
                     _COMMAND, _CWD, _ENV,
                     Field("capture_output", "bool", "body", "Keep the output in a ring.", False),
                     Field("stdin", "bool", "body", "Open a standard input to write to.", False),
                 ),
                 {"max_processes": 100, "max_output_bytes": 1 << 20, "timeout_seconds": None},
                 _RULES, executes_code=True),
        Endpoint("process_list", "GET", "/process/list", "process", "The caller's processes.", ("process:read",),
                 (Field("all", "bool", "query", "Finished ones too.", False),), inline=True),
        Endpoint("process_detail", "GET", "/process/{pid}", "process", "One process.", ("process:read",), (_PID,),
                 inline=True),
        Endpoint("process_signal", "POST", "/process/{pid}/signal", "process", "Signals a process and its group.",
                 ("process:manage",), (_PID, Field("signal", "int", "body", "2, 9, 15, 18 or 20.")),
                 params=("allowed_signals",)),
        Endpoint("process_stdin", "POST", "/process/{pid}/stdin", "process", "Writes to a standard input.",
                 ("process:manage",),
                 (
                     _PID,
                     Field("data", "text", "body", "Text.", None),
                     Field("data_base64", "base64", "body", "Bytes; wins over data.", None),
                     Field("eof", "bool", "body", "Close it afterwards.", False),
                 )),
        Endpoint("process_output", "GET", "/process/{pid}/output", "process", "Captured output, once or followed.",
                 ("process:read",),
                 (
                     _PID,
                     Field("since", "int", "query", "First sequence number to answer.", 0),
                     Field("wait", "number", "query", "Seconds to wait for news, at most 30.", 0),
                     Field("follow", "bool", "query", "Stream until the process ends (framed form only).", False),
                     Field("stdout_from", "int", "query", "Byte offset into stdout (framed form only).", 0),
                     Field("stderr_from", "int", "query", "Byte offset into stderr (framed form only).", 0),
                     Field("digest", "bool", "query", _DIGEST, False),
                 ), answers=(JSON_TYPE, FRAMES_TYPE)),
    )  # fmt: skip
