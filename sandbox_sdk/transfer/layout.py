"""Where a file or directory ends up, and what belongs to a directory.

The same rules hold in both directions; they are those of ``cp -r``, but a missing parent is made:

==========================  ==========================  =====================================
source                      target                      result
==========================  ==========================  =====================================
file ``a``                  absent, or a file           the target itself
file ``a``                  a directory, or ends in /   ``target/a``
directory ``d``             absent                      the target itself, holding d's content
directory ``d``             a directory, or ends in /   ``target/d``
``d/``, ``d/.``, ``.``      anything but a file         d's content, inside the target
==========================  ==========================  =====================================

Names that begin with a dot are names like any other. A link to a file is copied as the file it points to; a link to a
directory, and whatever is neither file nor directory, is left out and reported.
"""

from __future__ import annotations

import os
import posixpath
import stat
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LocalFile:
    path: str
    relative: str  # below the tree, with forward slashes
    size: int


@dataclass
class LocalTree:
    """Everything below a local directory."""

    files: list[LocalFile] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)  # empty ones; the others come into being with their files
    skipped: list[tuple[str, str, str]] = field(default_factory=list)  # path, relative path, reason
    unreadable: list[tuple[str, str, str]] = field(default_factory=list)  # directories: the same

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def content_only(path: str) -> bool:
    """True when a source means what is in a directory, not the directory itself."""
    return path.endswith("/") or posixpath.basename(path) in ("", ".", "..")


def base_name(path: str) -> str:
    """The name a source brings along."""
    return posixpath.basename(posixpath.normpath(path))


def is_name(name: str) -> bool:
    """Whether a server's word for an entry of a directory can only mean something in that directory.

    A server may have been taken over by what runs beside it; then it must not choose where on this machine we write.
    """
    separators = {"/", os.sep, os.altsep or "/"}
    return name not in ("", os.curdir, os.pardir) and "\0" not in name and separators.isdisjoint(name)


def inside(directory: str, name: str) -> str:
    return posixpath.join(directory, name)


def tree_target(source: str, target: str, target_is_directory: bool) -> str:
    """Where the content of a source directory goes."""
    if content_only(source):
        return target
    return inside(target, base_name(source)) if target_is_directory or target.endswith("/") else target


def scan(root: str) -> LocalTree:
    """All files below a directory, in the order of their names. `OSError` where it cannot be read itself."""
    tree = LocalTree()
    _scan(_entries(root), "", tree)
    return tree


def _entries(directory: str) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as found:
        return sorted(found, key=lambda entry: entry.name)


def _scan(entries: list[os.DirEntry[str]], prefix: str, tree: LocalTree) -> None:
    empty = True
    for entry in entries:
        empty = False
        relative = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            try:
                below = _entries(entry.path)
            except OSError as error:
                tree.unreadable.append((entry.path, relative, error.strerror or ""))
            else:
                _scan(below, relative + "/", tree)
            continue
        try:
            facts = entry.stat()
        except OSError:
            tree.skipped.append((entry.path, relative, "a link to nothing"))
            continue
        if stat.S_ISREG(facts.st_mode):
            tree.files.append(LocalFile(entry.path, relative, facts.st_size))
        else:
            reason = "a link to a directory" if stat.S_ISDIR(facts.st_mode) else "neither a file nor a directory"
            tree.skipped.append((entry.path, relative, reason))
    if empty and prefix:
        tree.directories.append(prefix.rstrip("/"))
