"""Swap a directory for a link to the outside, as fast as it goes, while every operation goes through it.

Prints tries and escapes per operation and exits 1 when there was one:

    python tests/benchmarks/swap_race.py --seconds 10

An escape is: content of the outside read, an outside name seen, a file made, changed or gone outside, or its permission
bits changed. The last row is
the control: a path that is resolved, checked and then used as text does escape, so the swapping is fast enough.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "server"))

from sandbox_server.access import PathRule
from sandbox_server.archives.members import content
from sandbox_server.guards.openat2 import OpenAt2
from sandbox_server.guards.packing import sources
from sandbox_server.guards.paths import PathGuard, PathGuards
from sandbox_server.messages import Refusal
from sandbox_server.searching.search import Found, Search
from sandbox_server.watching.tree import Tree

INSIDE, OUTSIDE = b"inside", b"outside"
_HERE, _EXCHANGE = -100, 2
Operation = Callable[[PathGuard], bool]  # True: it escaped


class Scene:
    """A base directory in which ``swapped`` is a directory now, and a link to the directory outside a moment later."""

    def __init__(self, top: Path) -> None:
        self.base, self.outside = top / "base", top / "outside"
        for directory in (self.base, self.outside, self.base / "swapped"):
            directory.mkdir()
        for directory, data in ((self.base / "swapped", INSIDE), (self.outside, OUTSIDE)):
            (directory / "file").write_bytes(data)
            (directory / "sub").mkdir()
            (directory / "sub/file").write_bytes(data)
        (self.outside / "only_outside").write_bytes(OUTSIDE)
        (self.base / "link").symlink_to(self.outside)
        # Whatever it is called at the moment: what a try used up is put back through this.
        self.inside = os.open(self.base / "swapped", os.O_PATH)
        self._expected = self._names()
        self._modes = self._bits()

    def swap(self, stop: float) -> None:
        exchange = ctypes.CDLL(None).renameat2
        one, other = os.fsencode(self.base / "swapped"), os.fsencode(self.base / "link")
        while time.monotonic() < stop:
            for _ in range(100):
                exchange(_HERE, one, _HERE, other, _EXCHANGE)

    def _names(self) -> set[str]:
        return {str(path.relative_to(self.outside)) for path in self.outside.rglob("*")}

    def _bits(self) -> list[int]:
        places = (self.outside, self.outside / "file", self.outside / "sub", self.outside / "sub/file")
        return [path.stat().st_mode for path in places if path.exists()]

    def damage(self) -> int:
        """How much was made, lost or changed outside."""
        changed = self._names() ^ self._expected
        kept = [self.outside / name for name in ("file", "sub/file") if (self.outside / name).exists()]
        changes = len(changed) + sum(path.read_bytes() != OUTSIDE for path in kept)
        return changes + (self._bits() != self._modes)

    def operations(self) -> dict[str, Operation]:
        return {
            "read": lambda guard: self._read(guard, "swapped/file"),
            "read deeper": lambda guard: self._read(guard, "swapped/sub/file"),
            "stat": self._stat,
            "list": self._list,
            "create": lambda guard: self._create(guard, "swapped/file", overwrite=True),
            "create only": lambda guard: self._create(guard, "swapped/new", overwrite=False),
            "make directories": self._make_directories,
            "delete": lambda guard: self._delete(guard, "swapped/file"),
            "delete tree": lambda guard: self._delete(guard, "swapped/sub"),
            "move out of": lambda guard: self._move(guard, "swapped/file", "taken"),
            "move into": lambda guard: self._move(guard, "given", "swapped/given"),
            "search": self._search,
            "archive": self._archive,
            "watch": self._watch,
            "unpack": lambda guard: self._unpack(guard, "swapped"),
            "unpack deeper": lambda guard: self._unpack(guard, "swapped/sub"),
            "edit": self._edit,
            "append": self._append,
            "parts": self._parts,
            "chmod": lambda guard: self._chmod(guard, "swapped/file", recursive=False),
            "chmod tree": lambda guard: self._chmod(guard, ".", recursive=True),
            "control": self._checked_text,
        }

    def _put_back(self) -> None:
        for name in ("new", "given", "unpacked/file"):
            with suppress(OSError):
                os.unlink(name, dir_fd=self.inside)
        for name in ("made/deep", "made", "unpacked"):
            with suppress(OSError):
                os.rmdir(name, dir_fd=self.inside)
        with suppress(OSError):
            os.mkdir("sub", dir_fd=self.inside)
        for name in ("file", "sub/file"):
            with suppress(OSError):
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=self.inside))

    def _read(self, guard: PathGuard, path: str) -> bool:
        with guard.locate(path, "read") as location:
            descriptor = location.open()
        try:
            return os.read(descriptor, 100) == OUTSIDE
        finally:
            os.close(descriptor)

    def _stat(self, guard: PathGuard) -> bool:
        with guard.locate("swapped/only_outside", "read") as location:
            return not location.missing

    def _list(self, guard: PathGuard) -> bool:
        with guard.locate("swapped", "read") as location:
            descriptor = location.open_directory()
            try:
                return any(name == "only_outside" for name, _, _ in location.scan(descriptor, ordered=False))
            finally:
                os.close(descriptor)

    def _create(self, guard: PathGuard, path: str, *, overwrite: bool) -> bool:
        self._put_back()
        with guard.locate(path, "write") as location, location.replace(overwrite=overwrite) as replacement:
            os.write(replacement.descriptor, INSIDE)
            replacement.commit()
        return False

    def _make_directories(self, guard: PathGuard) -> bool:
        self._put_back()
        with guard.locate("swapped/made/deep", "write") as location:
            location.make_directories()
        return False

    def _delete(self, guard: PathGuard, path: str) -> bool:
        self._put_back()
        with guard.locate(path, "delete", follow=False) as location:
            location.remove()
        return False

    def _move(self, guard: PathGuard, source: str, destination: str) -> bool:
        self._put_back()
        (self.base / "given").touch()
        with (
            guard.locate(source, "delete", follow=False) as origin,
            guard.locate(destination, "write") as target,
        ):
            origin.move_to(target)
        return False

    def _search(self, guard: PathGuard) -> bool:
        with guard.locate("swapped", "read") as location:
            below = location.inside()
        search = Search(below, name_glob=None, depth=9, most=9, context=0, seconds=9)
        return any(isinstance(step, Found) for step in search.text(OUTSIDE))

    def _archive(self, guard: PathGuard) -> bool:
        with guard.locate("swapped", "read") as location:
            return any(
                source.name == b"only_outside" or (source.descriptor >= 0 and b"".join(content(source)) == OUTSIDE)
                for source in sources(location, "", directories=True, links=False)
            )

    def _watch(self, guard: PathGuard) -> bool:
        with guard.locate("swapped", "read") as location:
            tree = Tree(location.inside(), recursive=True, renames=False, interval=0.1)
        try:
            self._put_back()
            tree.advance(at_once=True)
            _, told = tree.since(0)
            known = [name for names in tree._snapshot.directories.values() for name in names]
            return "only_outside" in known or any("only_outside" in change.path for change in told)
        finally:
            tree.close()

    def _unpack(self, guard: PathGuard, path: str) -> bool:
        self._put_back()
        with guard.locate(path, "write") as location, location.stage() as staging:
            staging.add_file("unpacked/file", [INSIDE], 0o600, 0)
            staging.add_file("file", [INSIDE], 0o600, 0)
            staging.commit(overwrite=True)
        return False

    def _edit(self, guard: PathGuard) -> bool:
        self._put_back()
        with guard.locate("swapped/file", "write") as location:
            descriptor = location.open()
            try:
                data, seen = os.read(descriptor, 100), os.fstat(descriptor)
            finally:
                os.close(descriptor)
            with location.replace(old=seen) as replacement:
                os.write(replacement.descriptor, INSIDE)
                location.stat_now()
                replacement.commit()
        return data == OUTSIDE

    def _append(self, guard: PathGuard) -> bool:
        self._put_back()
        with guard.locate("swapped/file", "write") as location:
            descriptor = location.open_for_writing(append=True)
            try:
                os.write(descriptor, INSIDE)
            finally:
                os.close(descriptor)
        return False

    def _parts(self, guard: PathGuard) -> bool:
        """A resumable upload: the part is begun at one moment, and put in its place at another."""
        self._put_back()
        with guard.locate("swapped/file", "write") as location:
            part = location.replace()
        try:
            os.write(part.descriptor, INSIDE)
            with guard.locate("swapped/file", "write") as location:
                if location.is_target_of(part):
                    part.renew(location.stat_now())
                    part.commit()
        finally:
            part.close()
        return False

    def _chmod(self, guard: PathGuard, path: str, *, recursive: bool) -> bool:
        with guard.locate(path, "write") as location:
            location.set_mode(0o701 if recursive else 0o604, recursive=recursive)
        return False

    def _checked_text(self, guard: PathGuard) -> bool:
        path = os.path.realpath(self.base / "swapped/file")
        if not path.startswith(f"{self.base}/"):
            raise PermissionError
        return Path(path).read_bytes() == OUTSIDE


def attack(operation: Operation, guard: PathGuard, stop: float, seen: Counter[str]) -> None:
    while time.monotonic() < stop:
        seen["tries"] += 1
        try:
            if operation(guard):
                seen["escapes"] += 1
        except (OSError, Refusal):
            seen["refused"] += 1


def run(name: str, seconds: float) -> Counter[str]:
    """One operation, from two threads, on a fresh scene that another process keeps swapping."""
    top = Path(tempfile.mkdtemp(prefix="swap-race-"))
    scene = Scene(top)
    guards = PathGuards(str(scene.base))
    guard = guards.of(PathRule(deny=("*.pem",)))
    stop = time.monotonic() + seconds
    swapper = multiprocessing.get_context("fork").Process(target=scene.swap, args=(stop,))
    swapper.start()
    operation = scene.operations()[name]
    counts = [Counter[str](), Counter[str]()]
    workers = [threading.Thread(target=attack, args=(operation, guard, stop, seen)) for seen in counts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    swapper.join()
    guards.close()
    os.close(scene.inside)
    seen = counts[0] + counts[1]
    seen["escapes"] += scene.damage()
    shutil.rmtree(top)
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10, help="for all operations together")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        names = list(Scene(Path(directory)).operations())
    escaped = 0
    works = OpenAt2.works
    print(f"{'operation':20}{'door':10}{'tries':>10}{'refused':>10}{'escapes':>10}")
    for door in ("openat2", "walk"):
        OpenAt2.works = works if door == "openat2" else lambda self, directory: False  # type: ignore[method-assign]
        for name in names:
            seen = run(name, options.seconds / len(names) / 2)
            print(f"{name:20}{door:10}{seen['tries']:>10}{seen['refused']:>10}{seen['escapes']:>10}", flush=True)
            if name != "control":
                escaped += seen["escapes"]
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
