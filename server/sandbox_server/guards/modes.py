"""Permission bits by descriptor, so that they are those of the very file that was judged."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from .tree import each_directory

if TYPE_CHECKING:
    from .path_guard import PathGuard

_OBJECT = os.O_PATH | os.O_NOFOLLOW


def set_mode(descriptor: int, mode: int) -> int:
    """Give these bits to what an ``O_PATH`` descriptor stands for; 1 when that changes them, else 0.

    Only files and directories have bits of their own: a link, a pipe or a device stays as it is.
    """
    found = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(found) or stat.S_ISDIR(found)) or stat.S_IMODE(found) == mode:
        return 0
    os.chmod(f"/proc/self/fd/{descriptor}", mode)  # there is no other way to the file of such a descriptor
    return 1


def set_modes_below(directory: int, path: str, mode: int, guard: PathGuard) -> int:
    """The same for everything below an open directory; how many changed. Links are not followed and stay.

    The tree has been judged; what the rule denies and turns up all the same is left alone.
    """
    changed = 0
    top = path.rstrip("/") + "/"
    directories: list[str] = []

    def look(descriptor: int, path: str, names: list[str]) -> None:
        nonlocal changed
        denied = guard.deny.within(path)
        for name in names:
            if denied(name):
                continue
            try:
                entry = os.open(name, _OBJECT, dir_fd=descriptor)
            except FileNotFoundError:
                continue  # gone meanwhile
            try:
                found = os.fstat(entry)
                if stat.S_ISDIR(found.st_mode):
                    directories.append(f"{path}/{name}".removeprefix(top))
                elif guard.admits_links(found):
                    changed += set_mode(entry, mode)
            finally:
                os.close(entry)

    each_directory(directory, ".", path, look)
    # Directories come last, the deepest first: the bits may take away the way to what is in them.
    for relative in reversed(directories):
        try:
            entry = guard.door.open(directory, relative, os.O_PATH | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            changed += set_mode(entry, mode)
        finally:
            os.close(entry)
    return changed
