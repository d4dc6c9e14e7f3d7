"""Wheel and zipapp, on every Python, as root and as anybody: also what needs a program of the server's own works."""

from __future__ import annotations

import io
import os
import pwd
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.running import FROM_A_FOLDER, Running, serving
from tests.support.interpreters import VERSIONS, interpreters
from tests.support.landlock import abi

pytestmark = [pytest.mark.finding("R2-C7"), pytest.mark.slow]

NOBODY = pwd.getpwnam("nobody").pw_uid
ALONE = ("-I", "-S", "-W", "error")


@pytest.fixture(params=["wheel", "zipapp"])
def program(request: pytest.FixtureRequest) -> list[str]:
    """What follows the interpreter on the command line."""
    if request.param == "zipapp":
        return [*ALONE, str(request.getfixturevalue("archive"))]
    return [*ALONE, "-c", FROM_A_FOLDER, str(request.getfixturevalue("installed"))]


@pytest.fixture
def base(public: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    base = public / "base"
    base.mkdir()
    (base / "a.txt").write_text("alpha\nbeta 42\n")
    yield base
    shutil.rmtree(base)


@cache
def anybodys() -> list[str]:
    """Interpreters that every user of this machine can run; those below a home are not."""
    names = [f"{folder}/python{version}" for version in VERSIONS for folder in ("/usr/local/bin", "/usr/bin")]
    found = [name for name in names if os.access(name, os.X_OK)]
    return [name for name in found if subprocess.run([name, "-c", "pass"], user=NOBODY).returncode == 0]


def try_everything(server: Running) -> None:
    """One call for each thing that the server starts a program for, and one for each that it does itself."""
    assert server.tell("/health") == {"status": "ok"}
    assert server.tell("/files/stat?path=a.txt")["size"] == 14
    assert server.tell("/shell", {"command": "cat a.txt"})["stdout"] == "alpha\nbeta 42\n"

    found = server.tell("/files/search", {"path": ".", "contents": r"\d+", "regex": True})["results"]
    assert [(hit["name"], hit["line"], hit["text"]) for hit in found] == [("a.txt", 2, "beta 42")]

    packed = server.ask("/files/archive", {"paths": ["."], "format": "tar.gz"}, accept="application/gzip")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert [member.size for member in archive if member.name.endswith("a.txt")] == [14]

    assert server.tell("/code/run", {"code": "print(6 * 7)", "language": "python"})["stdout"] == "42\n"
    context = server.tell("/code/contexts", {})["id"]
    for code, count in (("x = 20", 1), ("print('out')\nx + 1", 2)):
        answer = server.tell(f"/code/contexts/{context}/run", {"code": code})
        assert (answer["status"], answer["execution_count"]) == ("ok", count), answer
    assert (answer["stdout"], answer["results"][0]["data"]["text/plain"]) == ("out\n", "21")
    assert server.tell(f"/code/contexts/{context}", method="DELETE")["closed"]

    with server.terminal() as viewer:
        viewer.type("echo $((6 * 7))$((6 * 7))\n")
        viewer.until("4242")
        viewer.type("exit 3\n")
        assert viewer.event("exited")["exit_code"] == 3


@pytest.mark.parametrize("version", sorted(interpreters()))
def test_all_of_it_works_with_nothing_but_the_standard_library(version: str, program: list[str], base: Path) -> None:
    with serving([interpreters()[version], *program], base, ABX_SERVER_ENABLED_GROUPS="dev_tools") as server:
        try_everything(server)


@pytest.mark.parametrize("confined", [False, True], ids=["free", "confined"])
def test_all_of_it_works_for_an_ordinary_user(confined: bool, program: list[str], base: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("no way here: the other tests run as an ordinary user already, and cannot become another")
    if not anybodys():
        pytest.skip("no way here: no Python that every user may run")
    if confined and not abi():
        pytest.skip("no way here: this kernel has no Landlock")
    os.chown(base, NOBODY, NOBODY)
    confine = ("--confine", "landlock") if confined else ()
    for python in anybodys():
        with serving([python, *program], base, *confine, user=NOBODY, ABX_SERVER_ENABLED_GROUPS="dev_tools") as server:
            try_everything(server)
            assert server.tell("/shell", {"command": "id -u"})["stdout"] == f"{NOBODY}\n"


@pytest.mark.parametrize("version", sorted(interpreters()))
def test_all_of_it_works_confined(version: str, program: list[str], base: Path) -> None:
    if not abi():
        pytest.skip("no way here: this kernel has no Landlock")
    command = [interpreters()[version], *program]
    with serving(command, base, "--confine", "landlock", ABX_SERVER_ENABLED_GROUPS="dev_tools") as server:
        try_everything(server)
