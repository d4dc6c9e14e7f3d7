"""``download``: files from the sandbox to this side."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Table
from ..results import Rows
from ..session import Session
from .transfers import row


def download(call: Invocation) -> Outcome:
    entry, remote = call.entry(), call.parsed.text("remote")
    name = posixpath.basename(posixpath.normpath(remote))
    local = os.path.expanduser(call.parsed.text("local") or ".")
    target = os.path.join(local, name) if os.path.isdir(local) or local.endswith(os.sep) else local
    if call.settings.confirm_overwrite and not call.parsed.flag("overwrite"):
        _only_ours(call.session, target)
    progress = call.progress(f"downloading {name}")
    try:
        receipt = entry.sandbox.files.download(
            remote, local, progress=progress, verify="sha256" if call.parsed.flag("verify") else "size"
        )
    finally:
        progress.close()
    for path in _files(target):
        call.session.downloaded[os.path.realpath(path)] = _state(path)
    target = os.path.normpath(target)
    return Outcome(receipt, Rows([receipt], Table([row(remote, target, receipt)])))


def _only_ours(session: Session, target: str) -> None:
    for path in _files(target):
        if session.downloaded.get(os.path.realpath(path)) != _state(path):
            raise Mistake(f'"{os.path.normpath(path)}" is here already', "%sandbox download --overwrite … replaces it")


def _files(target: str) -> Iterator[str]:
    """The file, or all files below the directory; nothing where there is nothing."""
    if os.path.isdir(target):
        for directory, _, names in os.walk(target):
            yield from (os.path.join(directory, name) for name in names)
    elif os.path.lexists(target):
        yield target


def _state(path: str) -> tuple[int, int]:
    facts = os.lstat(path)
    return facts.st_size, facts.st_mtime_ns
