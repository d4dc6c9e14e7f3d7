"""What the policy lets a browser of files do, in words for its buttons: in general, and with one path."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sandbox_sdk import SandboxError

if TYPE_CHECKING:
    from sandbox_sdk import Capabilities, Decision

# What one does, by the endpoint and the operation on the path that it takes.
_ACTIONS = {
    "preview": ("files_download_stream", "read"),
    "download": ("files_download_stream", "read"),
    "archive": ("files_archive", "read"),
    "upload": ("files_upload_stream", "write"),
    "mkdir": ("files_mkdir", "write"),
    "rename": ("files_move", "delete"),
    "delete": ("files_delete", "delete"),
}
_CHANGES = ("upload", "mkdir", "rename", "delete")
WITH_ENTRY = ("preview", "download", "archive", "rename", "delete")
INTO_FOLDER = ("upload", "mkdir")


class Rights:
    def __init__(self, found: Capabilities) -> None:
        self._found = found
        self.denied = {action: reason for action in _ACTIONS if (reason := self._why(action))}
        """The actions that are denied everywhere, each with the reason."""

    @property
    def read_only(self) -> bool:
        """Nothing can be changed anywhere."""
        return all(action in self.denied for action in _CHANGES)

    def keeps(self, path: str) -> bool:
        """Does the policy let nobody change this absolute path, as far as its roots tell?"""
        if self.read_only:
            return True
        roots: set[str] = set()
        for action in _CHANGES:
            paths = self._found.paths(_ACTIONS[action][0])
            if action in self.denied or paths is None or paths.read_only:
                continue
            if not paths.roots:
                return False  # it says nothing about places
            roots.update(paths.roots)
        return not any(_within(path, root) for root in roots)

    def of(self, paths: Iterable[str], actions: Sequence[str]) -> dict[str, str]:
        """Those of the actions that are denied with one of these paths, each with the reason. The server is asked."""
        denied = {action: reason for action, reason in self.denied.items() if action in actions}
        for path in paths:
            for action in actions:
                if action in denied:
                    continue
                try:
                    decision = self._found.check_path(_ACTIONS[action][0], path, _ACTIONS[action][1])
                except SandboxError:
                    return denied  # nobody may ask, so only trying will tell
                if not decision.allowed:
                    denied[action] = _because(decision)
        return denied

    def _why(self, action: str) -> str:
        endpoint = _ACTIONS[action][0]
        info = self._found.info(endpoint)
        if info is not None and info.allowed:
            return ""
        if info is not None and info.rule:
            return f"denied by rule {info.rule}"
        return "denied: your token does not allow it" if self._found.denial(endpoint) == "missing_scope" else "denied"


def _because(decision: Decision) -> str:
    return f"denied by rule {decision.rule}" if decision.rule else f"denied: {decision.reason or decision.code}"


def _within(path: str, root: str) -> bool:
    return posixpath.commonpath([path, root]) == root if root.startswith("/") else True
