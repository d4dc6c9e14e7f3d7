"""A repository of the caller's, looked at through a Git directory of our own.

Whoever writes a repository's files writes its configuration too, and Git runs what that says: file system monitors,
hooks, filters, external diffs, includes, other work trees. So Git never sees it. What is copied, through the path door,
is data: the name of the branch and its commit, the index, what is ignored, and a few settings that only describe the
work tree. Objects are read where they are, by descriptor. Git itself is started in the work tree by descriptor, and
where the kernel can, it is kept inside the allowed directories.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from ..guards.location import Location
from ..guards.paths import PathGuard
from ..guards.tree import remove_entry
from ..messages import Refusal, quoted

INDEX_BYTES = 256 << 20
TEXT_BYTES = 16 << 20
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"refs/(?!.*(?:\.\.|//|/\.))[^\x00-\x20\x7f~^:?*\[\\]+")
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"[^"]*")?\s*\]\s*(.*)')
_SETTING = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*(\w+)\s*(?:[;#].*)?")
#: Settings that describe the work tree and make nothing run, with what they may say.
_HARMLESS = {
    ("core", "filemode"): ("true", "false"),
    ("core", "symlinks"): ("true", "false"),
    ("core", "ignorecase"): ("true", "false"),
    ("core", "autocrlf"): ("true", "false", "input"),
    ("core", "eol"): ("lf", "crlf", "native"),
    ("extensions", "objectformat"): ("sha1", "sha256"),
}


@dataclass(frozen=True, slots=True)
class Repository:
    """What is needed to run Git: open only inside `opened`."""

    top: str  # the work tree's path
    work_tree: int
    git_directory: str  # ours
    objects: int
    branch: str


@contextmanager
def opened(guard: PathGuard, start: Location, temporary: str | None) -> Iterator[Repository]:
    """The repository that holds a directory. Raises `Refusal`; nothing is left behind."""
    import tempfile  # would be a good part of every start

    with ExitStack() as stack:
        top, own = _found(guard, start)
        common = _common(guard, own)
        tree = stack.enter_context(guard.locate(top, "read"))
        work_tree = tree.open_directory()
        stack.callback(os.close, work_tree)
        objects = _objects(guard, f"{common}/objects")
        stack.callback(os.close, objects)
        ours = tempfile.mkdtemp(prefix="git-", dir=temporary)
        stack.callback(_remove, ours)
        branch, commit = _head(guard, own, common)
        _fill(guard, ours, own, common, commit)
        yield Repository(top, work_tree, ours, objects, branch)


def _found(guard: PathGuard, start: Location) -> tuple[str, str]:
    """The work tree and its Git directory: here, or in the nearest directory above that may be looked at."""
    path = start.path
    while True:
        try:
            with guard.locate(f"{path}/.git".replace("//", "/"), "read") as place:
                if not place.missing:
                    return path, _directory(guard, place, path)
        except Refusal as refusal:
            if refusal.code != "path_not_allowed":
                raise
            break  # above the allowed directories
        if path == "/":
            break
        path = path.rpartition("/")[0] or "/"
    raise Refusal("git_error", f"{quoted(start.path)} is in no repository")


def _directory(guard: PathGuard, place: Location, top: str) -> str:
    """Where ``.git`` is, or what it names: that of a work tree added to a repository, or of a submodule."""
    try:
        os.close(place.open_directory())
        return place.path
    except Refusal as refusal:
        if refusal.code != "not_found":
            raise
    named = _text(place).removeprefix("gitdir:").strip()
    return _inside(guard, os.path.join(top, named))


def _common(guard: PathGuard, own: str) -> str:
    """What several work trees share."""
    named = _optional(guard, f"{own}/commondir").strip()
    return _inside(guard, os.path.join(own, named)) if named else own


def _inside(guard: PathGuard, path: str) -> str:
    try:
        with guard.locate(path, "read") as place:
            os.close(place.open_directory())
            return place.path
    except Refusal:
        raise Refusal("git_error", "the repository keeps its data where this caller may not look") from None


def _objects(guard: PathGuard, path: str) -> int:
    """The objects, all of them here: none borrowed from elsewhere, and no link that leads there."""
    with guard.locate(path, "read") as place:
        descriptor = place.open_directory()
    try:
        if _optional(guard, f"{path}/info/alternates").strip():
            raise Refusal("git_error", "the repository borrows objects of another one, which is not followed")
        for name in ("", "info", "pack"):
            if _has_links(descriptor, name):
                raise Refusal("git_error", "the repository's objects are links, which are not followed")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _has_links(directory: int, name: str) -> bool:
    try:
        inner = os.open(name or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError:
        return False
    try:
        with os.scandir(inner) as entries:
            return any(entry.is_symlink() for entry in entries)
    finally:
        os.close(inner)


def _head(guard: PathGuard, own: str, common: str) -> tuple[str, str]:
    """The branch's name, and its commit, which is empty before the first one."""
    head = _optional(guard, f"{own}/HEAD").strip()
    branch = "HEAD (no branch)"
    for _ in range(6):
        if _HASH.fullmatch(head):
            return branch, head
        ref = head.removeprefix("ref:").strip()
        if not head.startswith("ref:") or not _REF.fullmatch(ref):
            break
        branch = ref.removeprefix("refs/heads/")
        head = (_optional(guard, f"{own}/{ref}") or _optional(guard, f"{common}/{ref}")).strip()
        if not head:
            return branch, _packed(guard, common, ref)
    raise Refusal("git_error", "the repository's HEAD is broken, or of a kind that is not known here")


def _packed(guard: PathGuard, common: str, ref: str) -> str:
    for line in _optional(guard, f"{common}/packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref and _HASH.fullmatch(commit):
            return commit
    return ""


def _fill(guard: PathGuard, ours: str, own: str, common: str, commit: str) -> None:
    """Our own Git directory."""
    for name in ("refs", "objects", "info"):
        os.mkdir(f"{ours}/{name}", 0o700)
    _write(f"{ours}/HEAD", commit or "ref: refs/heads/unborn")
    _write(f"{ours}/config", _config(_optional(guard, f"{common}/config")))
    _write(f"{ours}/info/exclude", _optional(guard, f"{common}/info/exclude"))
    with guard.locate(f"{own}/index", "read") as index:
        if not index.missing:
            _copy(index, f"{ours}/index")


def _config(theirs: str) -> str:
    """What is harmless of it, spelt anew. Includes and continued lines are not understood, on purpose."""
    kept: dict[tuple[str, str], str] = {}
    section = ""
    for line in theirs.splitlines():
        if head := _SECTION.fullmatch(line):
            section, line = head[1].lower(), head[2]
        setting = _SETTING.fullmatch(line)
        if setting and setting[2].lower() in _HARMLESS.get((section, setting[1].lower()), ()):
            kept[section, setting[1].lower()] = setting[2].lower()
    version = int(("extensions", "objectformat") in kept)
    lines = ["[core]", f"repositoryformatversion = {version}", "bare = false", "logallrefupdates = false"]
    lines += [line for (where, name), value in kept.items() for line in (f"[{where}]", f"{name} = {value}")]
    return "\n".join(lines) + "\n"


def _optional(guard: PathGuard, path: str) -> str:
    """A text file; empty where there is none, or none that may be looked at."""
    try:
        with guard.locate(path, "read") as place:
            return "" if place.missing else _text(place)
    except Refusal:
        return ""


def _remove(path: str) -> None:
    parent, _, name = path.rpartition("/")
    with suppress(OSError, Refusal):
        directory = os.open(parent, os.O_PATH | os.O_DIRECTORY)
        try:
            remove_entry(directory, name)
        finally:
            os.close(directory)


def _text(place: Location) -> str:
    descriptor = place.open()
    with os.fdopen(descriptor, "rb") as file:
        return file.read(TEXT_BYTES).decode("utf-8", "surrogateescape")


def _write(path: str, content: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode("utf-8", "surrogateescape"))


def _copy(place: Location, path: str) -> None:
    with (
        os.fdopen(place.open(), "rb") as source,
        os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target,
    ):
        theirs = os.fstat(source.fileno())
        if theirs.st_size > INDEX_BYTES:
            raise Refusal("git_error", f"the repository's index is larger than {INDEX_BYTES} bytes")
        while block := source.read(1 << 20):
            target.write(block)
        target.flush()
        # Git reads again what changed in the second in which the index was written, and knows that second from here.
        os.utime(target.fileno(), ns=(theirs.st_atime_ns, theirs.st_mtime_ns))
