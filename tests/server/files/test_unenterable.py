"""A directory whose names may be read, but which may not be entered, breaks nothing off that is around it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_server.access import PathRule
from sandbox_server.guards.packing import sources
from sandbox_server.guards.paths import Location, PathGuards
from sandbox_server.handlers.listing import _walk
from sandbox_server.searching.search import Found, Search
from tests.support.forks import fork

_NOBODY = 65534


@pytest.mark.finding("R2-S2")
def test_listing_packing_and_searching_go_on_beside_a_directory_that_may_not_be_entered(tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "closed/deeper").mkdir(parents=True)
    (base / "closed/file").write_text("needle")
    (base / "later").write_text("needle")
    base.chmod(0o755)
    (base / "closed").chmod(0o444)
    guards = PathGuards(str(base))

    def look() -> None:
        if os.getuid() == 0:  # nothing is forbidden to root
            os.setgroups([])
            os.setegid(_NOBODY)
            os.seteuid(_NOBODY)
        try:
            compare()
        finally:  # what was measured goes where only root may write
            os.seteuid(os.getuid())
            os.setegid(os.getgid())

    def compare() -> None:
        with guards.of(PathRule()).locate(".", "read") as top:
            assert [prefix + name for prefix, name, _, _ in _walk(top, 3, True, [])] == ["closed", "later"]
            assert [source.name for source in sources(top, "", directories=True, links=True)] == [b"closed", b"later"]
            assert _searched(top, contents=False) == (["later"], 2)
            assert _searched(top, contents=True) == (["later"], 2)
        with guards.of(PathRule()).locate("closed", "read") as closed, pytest.raises(PermissionError):
            list(_walk(closed, 3, True, []))  # asked for by name, it is not taken for an empty one

    _, status = os.waitpid(fork(look), 0)
    (base / "closed").chmod(0o755)
    guards.close()
    assert os.waitstatus_to_exitcode(status) == 0


def _searched(top: Location, *, contents: bool) -> tuple[list[str], int]:
    search = Search(top.inside(), name_glob=None, depth=3, most=9, context=0, seconds=9)
    steps = search.text(b"needle") if contents else search.names()
    return [step.name for step in steps if isinstance(step, Found)], search.skipped["unreadable"]
