"""What an operating system error means on the wire. Its own text never leaves the server."""

from __future__ import annotations

import errno

from .messages import Refusal

#: Error number -> refusal code and message.
_MEANINGS = {
    errno.ENOENT: ("not_found", "no such file or directory"),
    errno.ENOTDIR: ("not_found", "a parent of the path is not a directory"),
    errno.EISDIR: ("not_found", "the path is a directory"),
    errno.ELOOP: ("not_found", "the path runs through too many links"),
    errno.EACCES: ("forbidden", "the operating system refuses access"),
    errno.EPERM: ("forbidden", "the operating system refuses the operation"),
    errno.EROFS: ("forbidden", "the file system is read-only"),
    errno.EEXIST: ("file_exists", "the target exists"),
    errno.ENOTEMPTY: ("file_exists", "the target directory is not empty"),
    errno.ENOSPC: ("no_space", "no space left on the device"),
    errno.EDQUOT: ("no_space", "the disk quota is used up"),
    errno.EFBIG: ("no_space", "the file system takes no file as large as this"),
    errno.EMLINK: ("no_space", "the directory takes no more entries"),
    errno.EBUSY: ("conflict", "the path is in use, as a mount point is"),
    errno.ETXTBSY: ("conflict", "the file is a program that runs now"),
    errno.EXDEV: ("conflict", "the two paths lie on different file systems"),
    errno.ESTALE: ("not_found", "the file was removed meanwhile"),
    errno.EMFILE: ("busy", "out of file descriptors; try again"),
    errno.ENFILE: ("busy", "out of file descriptors; try again"),
    errno.ENOMEM: ("busy", "out of memory; try again"),
    errno.EAGAIN: ("busy", "out of processes or memory; try again"),
    errno.ENAMETOOLONG: ("invalid_path", "a component of the path is longer than the file system takes"),
    errno.EILSEQ: ("invalid_path", "the file system does not take this name"),
    errno.EINVAL: ("invalid_argument", "the operating system does not take these values"),
}


def refusal(error: OSError) -> Refusal | None:
    """The refusal that tells a caller what went wrong; None where a caller can do nothing about it."""
    meaning = _MEANINGS.get(error.errno or 0)
    return None if meaning is None else Refusal(*meaning)
