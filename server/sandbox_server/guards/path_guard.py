"""One path rule at work: whether a path may be used, and where it leads.

A path is normalised as text and must lie below a root before anything is looked at, so an answer never depends on what
exists outside.
"""

from __future__ import annotations

import os
import posixpath
import stat
from contextlib import suppress

from ..access import Op, PathRule
from ..messages import Refusal, quoted
from .door import HERE, Door
from .encoding import encodable
from .globs import DenyRules
from .location import Location
from .root import Root
from .tree import each_directory, is_directory
from .turns import Turns
from .walk import Found, walk

LONGEST_PATH = 4096
MOST_JUDGED = 100_000  # entries of a tree that are judged before it is touched
_OBJECT = os.O_PATH | os.O_NOFOLLOW
_CHANGES = ("write", "delete")


class PathGuard:
    """Judges paths by one rule."""

    def __init__(self, rule: PathRule, roots: list[Root], door: Door, turns: Turns) -> None:
        self.rule = rule
        self.deny = DenyRules(rule.deny)
        self.roots = tuple(root.path for root in roots)
        self._roots = roots
        self.door = door
        self.turns = turns
        self._spellings: dict[str, Root] = {}
        for root in roots:
            self._spellings.setdefault(root.path, root)
            self._spellings.setdefault(root.resolved, root)
        self._prefixes = [(path.rstrip("/") + "/", root) for path, root in self._spellings.items()]
        self._boundaries = frozenset(root.resolved for root in roots)

    @property
    def base(self) -> str:
        """Where relative paths begin: the first root, links resolved. "/" when nothing is allowed."""
        return self._roots[0].resolved if self._roots else "/"

    def absolute(self, raw: str) -> str:
        """The caller's text from the top; it is not judged."""
        return self._roots[0].prefix + raw if self._roots and raw and raw[0] != "/" else raw

    def directories(self) -> tuple[int, ...]:
        """Descriptors of the roots that are there. They stay ours, and open as long as this server."""
        return tuple(root.fd for root in self._roots if root.present())

    def check(self, raw: object, op: Op) -> str:
        """Judge the text alone; the normalised absolute path."""
        root, relative, path = self._lexical(raw)
        if self._denies(root, relative, path):
            raise _denied(path)
        self._judge_op(op, path)
        return path

    def locate(self, raw: object, op: Op, *, follow: bool = True, cached: bool = False) -> Location:
        """Judge a path and where it leads. `cached` raises `BlockingIOError` where the disk would be needed."""
        root, relative, path = self._lexical(raw)
        return self._locate(root, relative, path, op, follow, cached)

    def default(self, op: Op) -> Location:
        """The first root: where relative paths begin."""
        if not self._roots:
            raise _outside(".")
        root = self._roots[0]
        return self._locate(root, "", root.resolved, op, True, False)

    def child(self, root: Root, relative: str, name: str, op: Op, follow: bool) -> Location:
        """One entry of a directory that was located before."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise Refusal("invalid_path", f"{quoted(name)} is not the name of an entry")
        relative = f"{relative}/{name}" if relative else name
        return self._locate(root, relative, root.at(relative), op, follow, False)

    def inside(self, root: Root, relative: str, op: Op) -> Location:
        """A place below a root, by real names."""
        return self._locate(root, relative, root.at(relative), op, False, False)

    def is_root(self, path: str) -> bool:
        return path in self._boundaries

    def protect(self, path: str) -> None:
        """Refuse to remove or move a root, or a directory that holds one."""
        if any(root == path or root.startswith(path.rstrip("/") + "/") for root in self._boundaries):
            raise Refusal("path_denied", f"{quoted(path)} is, or holds, an allowed directory and must stay")

    def judge_tree(self, directory: int, name: str, path: str) -> None:
        """Refuse a directory whose every entry may not be touched at this path."""
        single = self.rule.hardlinks == "deny"
        if not (self.deny.configured or single) or not is_directory(directory, name):
            return
        count = 0

        def look(descriptor: int, path: str, names: list[str]) -> None:
            nonlocal count
            count += len(names)
            if count > MOST_JUDGED or self.deny.whole_paths and len(path) > LONGEST_PATH:
                raise Refusal("path_denied", f"{quoted(path)} is too large to be judged entry by entry; take its parts")
            denied = self.deny.matches_within(path)
            for entry in names:
                if denied(entry):
                    raise Refusal("path_denied", f"{quoted(path)} holds an entry that a rule denies; take its parts")
                if single:
                    with suppress(FileNotFoundError):
                        self.judge_links(os.stat(entry, dir_fd=descriptor, follow_symlinks=False), path)

        each_directory(directory, name, path, look)

    def admits_link(self, path: str) -> bool:
        """Whether a link in a listing leads to an allowed place."""
        if self.rule.symlinks == "never":
            return False
        try:
            self.locate(path, "read").close()
        except (Refusal, PermissionError):
            return False
        return True

    def admits_links(self, found: os.stat_result) -> bool:
        """Whether the rule lets a file have as many names as it has."""
        return self.rule.hardlinks == "allow" or found.st_nlink < 2 or not stat.S_ISREG(found.st_mode)

    def judge_links(self, found: os.stat_result, path: str) -> None:
        if not self.admits_links(found):
            raise Refusal("hardlink_denied", f"{quoted(path)} has more than one name; copy it and use the copy")

    def _lexical(self, raw: object) -> tuple[Root, str, str]:
        """Root, path below it, and the whole path, by the text alone."""
        if not isinstance(raw, str) or not raw or len(raw) > LONGEST_PATH or "\0" in raw or not encodable(raw):
            raise Refusal("invalid_path", f"a path is text of 1 to {LONGEST_PATH} characters without NUL")
        if not self._roots:
            raise _outside(raw)
        path = normalised(raw if raw[0] == "/" else self._roots[0].prefix + raw)
        for prefix, root in self._prefixes:
            if path.startswith(prefix):
                return root, path[len(prefix) :], path
        root_itself = self._spellings.get(path)
        if root_itself is None:
            raise _outside(raw)
        return root_itself, "", path

    def _locate(self, root: Root, relative: str, path: str, op: Op, follow: bool, cached: bool) -> Location:
        denied = self._denies(root, relative, path)
        if denied and self.rule.symlinks == "within":
            raise _denied(path)
        if not relative:
            root.present()  # a directory removed and made again is another one
        descriptor = self.door.try_open(root.fd, relative, os.O_PATH if follow else _OBJECT, cached)
        if descriptor >= 0:
            location = Location(self, op, root, relative, follow=follow, descriptor=descriptor)
        elif cached:
            raise BlockingIOError
        else:
            found = self._find(root, relative, follow)
            if found is None:
                raise _outside(path)
            location = Location(
                self, op, found.root, found.relative, follow=follow, missing=found.missing, link=found.link
            )
            denied = self._denies_target(location.path, root.at(relative), path) or denied
        try:
            if self.rule.symlinks == "never" and not follow and location.readlink() is not None:
                raise _linked(path)
            if denied:
                raise _denied(path)
            self._judge_op(op, path)
            if self.rule.hardlinks == "deny" and not location.missing:
                self.judge_links(location.stat(), path)
        except BaseException:
            location.close()
            raise
        return location

    def _find(self, root: Root, relative: str, follow: bool) -> Found | None:
        parent, _, name = relative.rpartition("/")
        if relative and (parent or root.present()):
            # A new name in a directory without links on the way is the usual case of a path that leads nowhere.
            directory = self.door.try_open(root.fd, parent, HERE)
            if directory >= 0:
                try:
                    os.readlink(name, dir_fd=directory)
                except FileNotFoundError:
                    return Found(root, relative, True, None)
                except OSError:
                    pass  # anything else is for the walk to find out
                finally:
                    os.close(directory)
        return walk(self._spellings, root, relative, follow)

    def _denies(self, root: Root, relative: str, path: str) -> bool:
        if self.deny.denies(path):
            return True
        real = root.at(relative)
        return real != path and self.deny.denies(real)

    def _denies_target(self, real: str, asked: str, path: str) -> bool:
        if real == asked:
            return False
        if self.rule.symlinks == "never":
            raise _linked(path)
        return self.deny.denies(real)

    def _judge_op(self, op: Op, path: str) -> None:
        if self.rule.read_only and op in _CHANGES:
            raise Refusal("read_only", f"{quoted(path)} may be read only; the rule forbids changes")


def normalised(path: str) -> str:
    if "//" in path or "/." in path or path[-1] == "/":
        # Two leading slashes stay in POSIX; here they mean what one means.
        return "/" + posixpath.normpath(path).lstrip("/")
    return path


def _outside(path: str) -> Refusal:
    return Refusal("path_not_allowed", f"{quoted(path)} lies outside the allowed directories; use a path below one")


def _linked(path: str) -> Refusal:
    return Refusal("symlink_denied", f"{quoted(path)} is or goes through a symbolic link; use the real path")


def _denied(path: str) -> Refusal:
    return Refusal("path_denied", f"{quoted(path)} is denied by a rule; use another path")
