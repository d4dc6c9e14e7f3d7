"""Git repositories for tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_ENVIRON = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
       for what, value in (("NAME", "Ann"), ("EMAIL", "ann@example.invalid"))},
}  # fmt: skip


def git(directory: Path, *words: str) -> str:
    """What Git prints. Newer ones tidy up behind our backs after a commit, and leave and remove files meanwhile."""
    return subprocess.run(
        ["git", "-c", "maintenance.auto=false", *words],
        cwd=directory,
        env=_ENVIRON,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def repository(directory: Path, *, commit: bool = True) -> Path:
    """A new one, with ``f.txt`` committed."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    if commit:
        (directory / "f.txt").write_text("one\n")
        git(directory, "add", "f.txt")
        git(directory, "commit", "-q", "-m", "first")
    return directory


def as_told(directory: Path, words: str) -> None:
    """What the recorded exchanges say of a repository, in their words."""
    repository(directory, commit="(no commits)" not in words and "clean" not in words)
    if "(no commits)" in words:
        (directory / "a b.txt").write_text("x")
    if "git mv" in words:
        repository(directory)
        git(directory, "mv", "f.txt", "g.txt")
    if "then modify" in words:
        (directory / "f.txt").write_text("one\ntwo\n")
        (directory / "u.txt").write_text("u\n")
        (directory / "s.txt").write_text("s\n")
        git(directory, "add", "s.txt")
