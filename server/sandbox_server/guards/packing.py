"""Everything that may be packed of a location: itself, and below a directory every entry that the guard lets through.

Links are never gone through. Pipes, sockets and devices are left out, and so is what vanishes meanwhile. However deep
a tree goes, two descriptors are open at a time.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import nullcontext

from ..archives.members import Source
from ..messages import Refusal
from .location import Location

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_PASSED_OVER = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO)


def sources(location: Location, name: str, *, directories: bool, links: bool) -> Iterator[Source]:
    """The members that a location makes, the first one called `name`; what may not be read is passed over.

    With `directories` they are members themselves. Without `links`, a link to a file is that file, and one to a
    directory is left out.
    """
    top = os.fsencode(name)
    facts = location.stat()
    if stat.S_ISREG(facts.st_mode):
        descriptor = location.open()
        try:
            yield _file(top, descriptor)
        finally:
            os.close(descriptor)
        return
    if not stat.S_ISDIR(facts.st_mode):
        return
    if directories and top:
        yield Source(top, facts.st_mode, int(facts.st_mtime))
    waiting: list[tuple[str, bytes]] = [("", top)]
    while waiting:
        below, prefix = waiting.pop()
        deeper: list[tuple[str, bytes]] = []
        for found, entry in _entries(location, below, links):
            member = prefix + b"/" + os.fsencode(entry) if prefix else os.fsencode(entry)
            if found.descriptor < 0 and stat.S_ISDIR(found.mode):
                deeper.append((f"{below}/{entry}" if below else entry, member))
                if not directories:
                    continue
            yield found._replace(name=member)
        waiting += reversed(deeper)


def _entries(top: Location, below: str, links: bool) -> Iterator[tuple[Source, str]]:
    """The visible entries of one directory, files opened, each with its name there."""
    try:
        with top.deeper(below) if below else nullcontext(top) as directory:
            descriptor = directory.open_directory()
            try:
                for name, facts, target in directory.scan(descriptor, ordered=True):
                    yield from _member(directory, descriptor, name, facts, target, links)
            finally:
                os.close(descriptor)
    except (Refusal, OSError) as reason:  # gone, replaced, or one that may not be read or entered
        if not below or (isinstance(reason, OSError) and reason.errno not in _PASSED_OVER):
            raise


def _member(
    directory: Location, descriptor: int, name: str, facts: os.stat_result, target: str | None, links: bool
) -> Iterator[tuple[Source, str]]:
    mode = facts.st_mode
    if stat.S_ISDIR(mode) or (target is not None and links):
        link = b"" if target is None else os.fsencode(target)
        yield Source(b"", mode, int(facts.st_mtime), link=link), name
        return
    if target is None and not stat.S_ISREG(mode):
        return
    try:
        file = os.open(name, _FILE, dir_fd=descriptor) if target is None else _behind_link(directory, name)
    except OSError as error:
        if error.errno not in _PASSED_OVER:
            raise
        return
    if file < 0:
        return
    try:
        source = _file(b"", file)
        if stat.S_ISREG(source.mode) and directory.admits_links(os.fstat(file)):  # what it is now, not what it was
            yield source, name
    finally:
        os.close(file)


def _behind_link(directory: Location, name: str) -> int:
    """The file that an entry of this directory leads to; -1 when it leads to none, or may not be read."""
    try:
        with directory.child(name, follow=True) as target:
            return target.open()
    except Refusal:
        return -1


def _file(name: bytes, descriptor: int) -> Source:
    facts = os.fstat(descriptor)
    return Source(name, facts.st_mode, int(facts.st_mtime), facts.st_size, descriptor)
