"""``download``: files from the sandbox to this side."""

from __future__ import annotations

import filecmp
import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Table
from ..results import Rows
from ..session import Session
from .piped import to_output
from .transfers import row, verify

if TYPE_CHECKING:
    from sandbox_sdk import Receipt


def download(call: Invocation) -> Outcome:
    remote = call.parsed.text("remote")
    name = posixpath.basename(posixpath.normpath(remote))
    local, into = call.parsed.text("local"), call.parsed.text("to")
    if local and into:
        raise Mistake(f'"{local}" and --to both say where to', "%sandbox download out/plot.svg --to plots")
    if local == "-":
        return to_output(call)
    local = os.path.expanduser(os.path.join(into, "") if into else local or ".")
    target = os.path.normpath(os.path.join(local, name) if os.path.isdir(local) or local.endswith(os.sep) else local)
    asked = call.settings.confirm_overwrite and not call.parsed.flag("overwrite")
    strangers = [path for path in _files(target) if not ours(call.session, path)] if asked else []
    receipt = _aside(call, remote, target, strangers) if strangers else _fetch(call, remote, local)
    for path in _files(target):
        call.session.downloaded[os.path.realpath(path)] = state_of(path)
    return Outcome(receipt, Rows([receipt], Table([row(remote, target, receipt)])))


def _fetch(call: Invocation, remote: str, local: str) -> Receipt:
    progress = call.progress(f"downloading {posixpath.basename(posixpath.normpath(remote))}")
    try:
        return call.entry().sandbox.files.download(remote, local, progress=progress, verify=verify(call))
    finally:
        progress.close()


def _aside(call: Invocation, remote: str, target: str, strangers: list[str]) -> Receipt:
    """Fetch beside the target first: what would change a file that is not ours stays out."""
    with tempfile.TemporaryDirectory(prefix=".sandbox-", dir=os.path.dirname(os.path.abspath(target))) as beside:
        fresh = os.path.join(beside, os.path.basename(target))
        receipt = _fetch(call, remote, fresh)
        for path in strangers:
            new = os.path.join(fresh, os.path.relpath(path, target)) if os.path.isdir(fresh) else fresh
            if os.path.exists(new) and not (os.path.isfile(new) and filecmp.cmp(new, path, shallow=False)):
                raise Mistake(f'"{path}" is here already', "%sandbox download --overwrite … replaces it")
        for new in _files(fresh):
            final = os.path.normpath(os.path.join(target, os.path.relpath(new, fresh)))
            os.makedirs(os.path.dirname(final) or ".", exist_ok=True)
            shutil.move(new, final)
    return receipt


def _files(target: str) -> Iterator[str]:
    """The file, or all files below the directory; nothing where there is nothing."""
    if os.path.isdir(target):
        for directory, _, names in os.walk(target):
            yield from (os.path.join(directory, name) for name in names)
    elif os.path.lexists(target):
        yield target


def ours(session: Session, path: str) -> bool:
    return session.downloaded.get(os.path.realpath(path)) == state_of(path)


def state_of(path: str) -> tuple[int, int]:
    facts = os.lstat(path)
    return facts.st_size, facts.st_mtime_ns
