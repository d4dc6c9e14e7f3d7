"""Looks at repositories. Git runs over a Git directory of our own, so that no repository can make it run something."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from ..access import Scope
from ..call import Call
from ..guards.location import Location
from ..guards.paths import PathGuard
from ..guards.programs import SearchPath
from ..messages import Refusal, Response, json_response, quoted
from ..process.ring import STDOUT
from ..process.run import Run
from ..process.spawn import Launch
from .repository import Repository, opened
from .text import decoded

SECONDS = 30.0
DIFF_CHARACTERS = 1 << 20
_LIST_BYTES = 64 << 20
_LONGEST_NAME = 1 << 16  # no file system takes one
_CUT = "\n[the diff is cut here: it is longer than 1048576 characters]\n"

#: What a setting of ours forbids even where ours were not the only ones.
_OPTIONS = tuple(
    word
    for setting in (
        "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.attributesFile=/dev/null",
        "core.excludesFile=/dev/null", "core.untrackedCache=false", "core.preloadIndex=false", "core.pager=cat",
        "core.bigFileThreshold=8m", "core.packedGitLimit=256m", "core.quotePath=false", "diff.external=",
        "diff.renames=true", "diff.submodule=short", "diff.ignoreSubmodules=all", "status.submoduleSummary=false",
        "submodule.recurse=false", "protocol.allow=never", "safe.bareRepository=explicit", "safe.directory=*",
        "gc.auto=0", "maintenance.auto=false", "trace2.eventTarget=",
    )
    for word in ("-c", setting)
)  # fmt: skip
_ENVIRONMENT = {
    "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_LITERAL_PATHSPECS": "1",
    "GIT_CEILING_DIRECTORIES": "/", "GIT_EDITOR": "false", "GIT_ASKPASS": "false", "GIT_SSH_COMMAND": "false",
}  # fmt: skip
_LABELS = {
    "M": "modified", "A": "added", "D": "deleted", "R": "renamed", "C": "copied", "U": "unmerged", "?": "untracked",
    "T": "modified",
}  # fmt: skip
#: A path that no index of Git's own making holds: absolute, or with a component that leads elsewhere.
_STRAY = re.compile(rb"(?:\A|[\0/])(?:\.{0,2}|\.git)(?=[\0/])", re.IGNORECASE)
_FIGURES = {"files_changed": rb"(\d+) file", "insertions": rb"(\d+) insertion", "deletions": rb"(\d+) deletion"}


def git_status(call: Call, *, path: Location) -> Response:
    """The branch and what differs from its last commit; files that the path rule hides are left out."""
    guard = call.services.path_guard(call.grant)
    with _git(call, guard, path) as git:
        output = git("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all",
                     limit=_LIST_BYTES)  # fmt: skip
        files = [
            file
            for file in _changes(output)
            if all(_visible(guard, git.repository, name) for name in (file["path"], file.get("old_path", file["path"])))
        ]
        return json_response({"branch": git.repository.branch, "clean": not files, "files": files})


def git_diff(call: Call, *, path: Location, staged: bool, file: str | None) -> Response:
    """The changes as text. Where files may be hidden, exactly one file has to be named."""
    guard = call.services.path_guard(call.grant)
    hides = guard.deny.configured or guard.rule.hardlinks == "deny"
    if hides and not file:
        raise Refusal("path_denied", 'some files are denied by a rule; name one with "file"', field="file")
    wanted = None if not file else _judged(call, path, file)
    with _git(call, guard, path) as git:
        what = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all",
                *(["--cached"] if staged else [])]  # fmt: skip
        which = [] if wanted is None else ["--", _relative(git.repository, wanted)]
        if hides:
            names = git(*what, "--name-only", "--no-renames", "-z", *which, limit=_LIST_BYTES)
            if any(name != which[1] for name in _names(names)):
                raise Refusal("path_denied", f"{quoted(file)} is a directory; name one file", field="file")
        figures = git(*what, "--shortstat", *which, limit=_LIST_BYTES)
        diff = git(*what, "--patch", *which, limit=4 * DIFF_CHARACTERS + 4, cut=True)
        text, _ = decoded(diff)
        if len(text) > DIFF_CHARACTERS:
            text = text[:DIFF_CHARACTERS] + _CUT
        return json_response({"diff": text, "stats": _stats(figures)})


class _Git:
    """Git in one repository, for one call. All runs together may take `SECONDS`."""

    def __init__(self, call: Call, repository: Repository, program: str, scope: Scope | None) -> None:
        self.repository = repository
        self._call = call
        self._program = program
        self._scope = scope
        self._until = time.monotonic() + SECONDS

    def __call__(self, *words: str, limit: int, cut: bool = False) -> bytes:
        """What it prints. `cut`: longer output is cut off instead of refused."""
        pieces, room = [], limit
        with closing(self._printed(words)) as printed:
            for data in printed:
                pieces.append(data[:room])
                room -= len(data)
                if room < 0:
                    break
        if room < 0 and not cut:
            raise Refusal("git_error", f"git printed more than {limit} bytes; ask for less")
        return b"".join(pieces)

    def check_index(self) -> None:
        """Refuse an index that names something outside the work tree. Git checks that when it writes one only."""
        tail = b""
        with closing(self._printed(("ls-files", "-z"))) as printed:
            for data in printed:
                block = tail + data
                tail = block[max(0, block.rfind(b"\0")) :]
                if _STRAY.search(block) or len(tail) > _LONGEST_NAME:
                    raise Refusal("git_error", "the repository's index names files outside the work tree")

    def _printed(self, words: Sequence[str]) -> Generator[bytes, None, None]:
        """What it prints, to a good end; closing this stops it."""
        run = self._run(words)
        try:
            for stream, data in run.pieces():
                if stream == STDOUT:
                    yield data
        finally:
            run.close()
        if run.child.cause == "timeout":
            raise _too_slow()
        if run.exit is None or run.exit.code != 0:
            raise Refusal("git_error", "git could not read this repository; it may be damaged, or of a newer kind")

    def _run(self, words: Sequence[str]) -> Run:
        left = self._until - time.monotonic()
        if left <= 0:
            raise _too_slow()
        repository = self.repository
        launch = Launch(
            program=self._program,
            argv=("git", "--no-pager", "--no-optional-locks", *_OPTIONS, *words),
            cwd=repository.work_tree,
            cwd_path=repository.top,
            env={
                **_ENVIRONMENT,
                "PATH": ":".join(self._call.services.program_path),
                "GIT_DIR": repository.git_directory,
                "GIT_WORK_TREE": ".",
                "GIT_OBJECT_DIRECTORY": f"/proc/self/fd/{repository.objects}",
            },
            inherit=(repository.objects,),
            scope=self._scope,
        )
        return self._call.services.processes.run(launch, self._call.request.peer, timeout=left)


def _too_slow() -> Refusal:
    return Refusal("timeout", f"git took longer than {SECONDS:g} seconds, and was stopped")


@contextmanager
def _git(call: Call, guard: PathGuard, path: Location) -> Iterator[_Git]:
    services = call.services
    program = SearchPath(services.program_path).file("git")
    if not program:
        raise Refusal("not_implemented", "there is no git on this machine")
    scope = Scope(guard.directories(), True) if services.confinement.available else None
    temporary = None if scope is None else services.confinement.temporary(scope)
    with opened(guard, path, temporary) as repository:
        git = _Git(call, repository, program, scope)
        git.check_index()
        yield git


def _judged(call: Call, path: Location, file: str) -> str:
    """The path of one file of the work tree, judged like any path; its content is not read here."""
    whole = f"{path.path}/{file}"
    with call.services.path_guard(call.grant).locate(whole, "read", follow=False):
        pass
    if ".." in file.split("/"):
        raise Refusal(
            "invalid_argument", f'"file" is relative to the path and has no "..": {quoted(file)}', field="file"
        )
    return re.sub(r"/(?:\./|/)*", "/", whole).rstrip("/")


def _relative(repository: Repository, path: str) -> str:
    top = repository.top.rstrip("/") + "/"
    return path[len(top) :] if path.startswith(top) else "."


def _visible(guard: PathGuard, repository: Repository, name: str) -> bool:
    try:
        guard.check(f"{repository.top}/{name}".replace("//", "/"), "read")
    except Refusal:
        return False
    return True


def _names(output: bytes) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in output.split(b"\0") if name]


def _changes(output: bytes) -> Iterator[dict[str, Any]]:
    """The entries of ``status --porcelain -z``: two letters, a blank, a name; of a rename the old name follows."""
    names = iter(_names(output))
    for entry in names:
        index, tree, name = entry[0], entry[1], entry[3:]
        letter = tree if index == " " else index
        change = {"path": name, "status": _LABELS.get(letter, letter)}
        if letter in "RC":
            change["old_path"] = next(names, "")
        yield change


def _stats(figures: bytes) -> dict[str, int]:
    found = {name: re.search(pattern, figures) for name, pattern in _FIGURES.items()}
    return {name: int(match[1]) if match else 0 for name, match in found.items()}
