"""Endpoint id -> function of guarded values. A test holds each signature equal to the endpoint's fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..messages import Response
from . import core
from .files import FILE_HANDLERS
from .later import Later, later

HANDLERS: Mapping[str, Callable[..., Response]] = {
    "health": core.health,
    "capabilities": core.capabilities,
    "capabilities_check": core.capabilities_check,
    **FILE_HANDLERS,
    **later("shell", "shell", "shell_stream"),
    **later("process", "process_start", "process_list", "process_detail", "process_signal", "process_stdin"),
    **later("output", "process_output"),
    **later("openapi", "openapi"),
    **later("search", "files_search"),
    **later("watch", "files_watch"),
    **later("edit", "files_edit"),
    **later("chmod", "files_chmod"),
    **later("archive", "files_archive"),
    **later("unpack", "files_unpack"),
    "files_upload_stream.status": Later("resumable", "status"),
    "files_upload_stream.append": Later("resumable", "append"),
    "files_upload_stream.cancel": Later("resumable", "cancel"),
    **later("code", "code_run"),
    **later(
        "contexts",
        "code_contexts_create",
        "code_contexts_list",
        "code_contexts_delete",
        "code_contexts_run",
        "code_contexts_interrupt",
        "code_contexts_restart",
    ),
    **later("commands", "list_commands", "run_command"),
    **later("system", "system_info", "system_metrics", "ports", "packages"),
    **later("environment", "env_get", "env_set"),
    **later("metrics", "metrics"),
    **later("git", "git_status", "git_diff"),
    **later(
        "terminal",
        "pty_create_session",
        "pty_list_sessions",
        "pty_detail",
        "pty_resize",
        "pty_delete_session",
        "pty_connect",
    ),
    **later(
        "browser",
        "browser_navigate",
        "browser_screenshot",
        "browser_content",
        "browser_click",
        "browser_type",
        "browser_evaluate",
        "browser_pdf",
        "browser_console",
    ),
}
