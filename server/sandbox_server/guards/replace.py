"""New content for one file: written beside it, then put in its place, so a reader sees the old file or the new one."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from types import EllipsisType, TracebackType

from ..messages import Refusal, quoted
from .parts import make_part

_CANNOT_RENAME = (errno.EXDEV, errno.EPERM, errno.EBUSY)  # for example a file that is a mount point
_CANNOT_LINK = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)  # a file system without hard links


class Replacement:
    """An open temporary file that `commit` turns into the target. Leaving without it leaves the target alone."""

    __slots__ = ("_directory", "_durable", "_name", "_old", "_overwrite", "_part", "_path",
                 "descriptor", "replaced_directly")  # fmt: skip

    def __init__(self, directory: int, name: str, path: str, *, overwrite: bool, durable: bool,
                 old: os.stat_result | None | EllipsisType = ...) -> None:  # fmt: skip
        """Takes over the descriptor of the directory, also when it fails. `old` is what the caller has just seen."""
        self._directory = directory
        self._name = name
        self._path = path
        self._overwrite = overwrite
        self._durable = durable
        self.replaced_directly = False
        try:
            self._old = self._existing() if isinstance(old, EllipsisType) else self._judged(old)
            # Never more open to others than the file that it replaces.
            mode = 0o666 if self._old is None else self._old.st_mode & 0o777
            self._part, self.descriptor = make_part(directory, mode)
        except BaseException:
            os.close(directory)
            raise

    def __enter__(self) -> Replacement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def commit(self, *, mode: int | None = None, mtime: float | None = None) -> os.stat_result:
        """Put the content in place; without `mode` a replaced file keeps its permissions and owner."""
        _dress(self.descriptor, self._old, mode, mtime)
        if self._durable:
            os.fsync(self.descriptor)
        placed = self._replace() if self._overwrite else self._add()
        try:
            if self._durable:
                self._sync(placed)
            return os.fstat(placed)
        finally:
            if placed != self.descriptor:
                os.close(placed)

    def is_for(self, directory: int, name: str) -> bool:
        """Whether this is where the content would go: the very directory, and the name in it."""
        here, there = os.fstat(self._directory), os.fstat(directory)
        return (here.st_dev, here.st_ino, self._name) == (there.st_dev, there.st_ino, name)

    def renew(self, old: os.stat_result | None) -> None:
        """What it will replace has been looked at again."""
        self._old = self._judged(old)

    def close(self) -> None:
        """Drop what was not committed. Closing twice is harmless."""
        if self._directory < 0:
            return
        self._remove_part()
        os.close(self.descriptor)
        os.close(self._directory)
        self.descriptor = self._directory = -1

    def _existing(self) -> os.stat_result | None:
        try:
            old = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not self._overwrite:
            raise self._exists()
        return self._judged(old)

    def _judged(self, old: os.stat_result | None) -> os.stat_result | None:
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise Refusal("not_found", f"{quoted(self._path)} is not a regular file; name a file")
        return old

    def _replace(self) -> int:
        """The descriptor of the file in place."""
        try:
            os.rename(self._part, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError as error:
            if error.errno not in _CANNOT_RENAME:
                raise
            return self._write_directly(os.O_CREAT)
        self._part = ""
        return self.descriptor

    def _add(self) -> int:
        try:
            os.link(self._part, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory,
                    follow_symlinks=False)  # fmt: skip
        except FileExistsError:
            raise self._exists() from None
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            try:
                return self._write_directly(os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                raise self._exists() from None
        self._remove_part()
        return self.descriptor

    def _write_directly(self, how: int) -> int:
        """Where no other way is left, write into the target itself: not atomic, so the receipt tells."""
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        target = os.open(self._name, flags | how, os.fstat(self.descriptor).st_mode & 0o777, dir_fd=self._directory)
        try:
            if not stat.S_ISREG(os.fstat(target).st_mode):
                raise Refusal("not_found", f"{quoted(self._path)} is not a regular file; name a file")
            os.ftruncate(target, 0)
            copy_content(self.descriptor, target)
            self.replaced_directly = True
            made = os.fstat(self.descriptor)
            os.fchmod(target, made.st_mode & 0o7777)
            os.utime(target, ns=(made.st_atime_ns, made.st_mtime_ns))
        except BaseException:
            os.close(target)
            raise
        return target

    def _sync(self, placed: int) -> None:
        os.fsync(placed)
        directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._directory)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _remove_part(self) -> None:
        if self._part:
            with suppress(FileNotFoundError):
                os.unlink(self._part, dir_fd=self._directory)
            self._part = ""

    def _exists(self) -> Refusal:
        return Refusal("file_exists", f"{quoted(self._path)} exists; allow overwriting or choose another name")


def copy_content(source: int, target: int) -> None:
    """All bytes of one open file to the place where another one stands."""
    offset = 0
    while sent := os.sendfile(target, source, offset, 1 << 30):
        offset += sent


def _dress(descriptor: int, old: os.stat_result | None, mode: int | None, mtime: float | None) -> None:
    made = os.fstat(descriptor)
    if old is not None:
        if (old.st_uid, old.st_gid) != (made.st_uid, made.st_gid):
            # Ours to give only as the superuser; otherwise the new file is ours, as any editor's would be.
            with suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
        mode = old.st_mode & 0o777 if mode is None else mode
    if mode is not None and mode != made.st_mode & 0o7777:
        os.fchmod(descriptor, mode)
    if mtime is not None:
        moment = round(mtime * 1_000_000_000)
        os.utime(descriptor, ns=(moment, moment))
