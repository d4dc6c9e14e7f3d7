"""The parts of a client, ``files`` to ``commands``: what one is, of which sandbox, and what the caller may do there."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from ._capabilities import Snapshot
from ._contract import EndpointId
from ._display.shown import Shown
from ._display.table import Cell, Row, Table, Tone
from ._known import Known


class Server(Protocol):
    """As much of a connection as is shown."""

    known: Known

    @property
    def where(self) -> str: ...


C = TypeVar("C", bound=Server)

#: Part -> method -> the endpoint that it calls, or calls first.
ENDPOINT_OF: Mapping[str, Mapping[str, EndpointId]] = {
    "files": {
        "list": "files_list",
        "stat": "files_stat",
        "exists": "files_stat",
        "read": "files_download_stream",
        "read_text": "files_download_stream",
        "download": "files_download_stream",
        "write": "files_upload_stream",
        "upload": "files_upload_stream",
        "append": "files_upload_stream",
        "begin_upload": "files_upload_stream",
        "edit": "files_edit",
        "chmod": "files_chmod",
        "mkdir": "files_mkdir",
        "move": "files_move",
        "delete": "files_delete",
        "search": "files_search",
        "archive": "files_archive",
        "unpack": "files_unpack",
        "watch": "files_watch",
    },
    "processes": {
        "run": "shell_stream",
        "stream": "shell_stream",
        "shell": "shell",
        "start": "process_start",
        "list": "process_list",
        "get": "process_detail",
        "attach": "process_detail",
        "follow": "process_output",
        "signal": "process_signal",
    },
    "terminals": {
        "create": "pty_create_session",
        "connect": "pty_connect",
        "list": "pty_list_sessions",
        "get": "pty_detail",
        "resize": "pty_resize",
        "close": "pty_delete_session",
    },
    "code": {
        "run": "code_run",
        "create_context": "code_contexts_create",
        "contexts": "code_contexts_list",
    },
    "git": {"status": "git_status", "diff": "git_diff"},
    "browser": {
        "navigate": "browser_navigate",
        "content": "browser_content",
        "screenshot": "browser_screenshot",
        "pdf": "browser_pdf",
        "click": "browser_click",
        "type": "browser_type",
        "evaluate": "browser_evaluate",
        "console": "browser_console",
    },
    "system": {
        "info": "system_info",
        "metrics": "system_metrics",
        "ports": "ports",
        "packages": "packages",
        "env": "env_get",
        "set_env": "env_set",
        "prometheus": "metrics",
    },
    "commands": {"list": "list_commands", "run": "run_command"},
}

#: What a method needs besides, and what it does with instead.
ALSO: Mapping[str, EndpointId] = {"terminals.create": "pty_connect"}
INSTEAD: Mapping[str, EndpointId] = {"processes.run": "shell"}


class Part(Shown, Generic[C]):
    """Shows its methods: once `discover` has asked, those that are allowed, and why the others are not."""

    def __init__(self, connection: C) -> None:
        self._connection = connection

    def _table(self) -> Table:
        denials, snapshot = self._denials(), self._connection.known.snapshot
        tone: Tone = "strong" if snapshot is None else "good"
        rows: list[Row] = [[Cell(name, tone), self._purpose(name)] for name, why in denials.items() if not why]
        denied = defaultdict[str, list[str]](list)
        for name, why in denials.items():
            if why:
                denied[why].append(name)
        notes: list[str | Cell] = [Cell(f"{why}: {', '.join(names)}", "bad") for why, names in sorted(denied.items())]
        head = f"{self._kind()} of {self._connection.where}"
        if snapshot is None:
            notes.append("discover() tells which of them are allowed")
        else:
            observing = " (only observed)" if snapshot.mode == "observe" else ""
            head += f': {len(rows)} of {len(denials)} methods are allowed to "{snapshot.identity_id}"{observing}'
        return Table(rows, headline=Cell(head, "strong"), notes=notes)

    def __repr__(self) -> str:
        denials, share = self._denials(), ""
        if self._connection.known.snapshot is not None:
            share = f": {sum(not why for why in denials.values())} of {len(denials)} methods allowed"
        return f"<{type(self).__name__} of {self._connection.where}{share}>"

    def _denials(self) -> dict[str, str]:
        """Of each method why it is denied, as far as that is known; an empty text where nothing stands against it."""
        snapshot, kind = self._connection.known.snapshot, self._kind()
        calls = ENDPOINT_OF[kind]
        if snapshot is None:
            return dict.fromkeys(calls, "")
        return {name: _why(snapshot, f"{kind}.{name}", endpoint) for name, endpoint in calls.items()}

    def _kind(self) -> str:
        return type(self).__name__.removeprefix("Async").lower()

    def _purpose(self, name: str) -> str:
        """The first words of what its documentation says."""
        first = (inspect.getdoc(getattr(self, name)) or "").partition("\n")[0].replace("`", "")
        return re.split(r"(?<=\?) |[.:;](?: |$)", first, maxsplit=1)[0]


def _why(snapshot: Snapshot, method: str, endpoint: str) -> str:
    from ._display.forms import REASONS

    if method in INSTEAD and snapshot.can(INSTEAD[method]):
        return ""
    for needed in (endpoint, ALSO.get(method, endpoint)):
        if code := snapshot.denial(needed):
            rule = snapshot.rule(needed)
            return REASONS.get(code, code) + (f" by {rule}" if rule else "")
    return ""
