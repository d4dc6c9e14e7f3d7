"""Which files of this Python a sandbox gets to see."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox_sdk._errors import SandboxError
from sandbox_sdk.sandbox import interpreter
from sandbox_sdk.sandbox.interpreter import compile_server, find_server, follow, is_inside, outermost, this_interpreter


def test_paths_are_compared_by_components() -> None:
    assert is_inside("/a/b", ["/a"])
    assert is_inside("/a", ["/a"])
    assert is_inside("/a/b", ["/a/"])
    assert is_inside("/a", ["/"])
    assert not is_inside("/ab", ["/a"])
    assert not is_inside("/a", ["/a/b"])


def test_only_the_outermost_paths_outside_the_system_are_kept() -> None:
    assert outermost(["/x/lib/python", "/x/lib", "/usr/lib/python3", "/x/libexec", "/x/lib"]) == (
        "/x/lib",
        "/x/libexec",
    )


def test_links_on_the_way_to_the_program_are_found(tmp_path: Path) -> None:
    real = tmp_path / "store" / "python3"
    real.parent.mkdir()
    real.touch()
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims" / "python").symlink_to("../store/python3")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    first = tmp_path / "venv" / "bin" / "python"
    first.symlink_to(tmp_path / "shims" / "python")
    links, program = follow(str(first), [str(tmp_path / "venv" / "bin")])
    assert links == ((str(tmp_path / "shims" / "python"), "../store/python3"),)
    assert program == str(real)


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to("python")
    with pytest.raises(SandboxError, match="link to itself"):
        follow(str(tmp_path / "python"), [])


def test_this_interpreter_shows_its_prefixes_and_never_a_whole_home_directory() -> None:
    found = this_interpreter()
    assert found.executable == sys.executable
    assert found.bin == os.path.dirname(sys.executable)
    visible = (*found.files, *interpreter.SYSTEM)
    assert is_inside(os.path.realpath(os.__file__), visible)
    assert is_inside(os.path.realpath(sys.executable), visible)
    assert is_inside(found.server, visible)
    assert not is_inside(str(Path.home()), found.files)
    assert not is_inside(sys.prefix, found.files) or is_inside(sys.prefix, interpreter.SYSTEM)


def test_a_virtual_environment_in_a_project_shows_nothing_else_of_it(tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("bin", "lib", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "pyvenv.cfg").touch()
    for name in ("prefix", "base_prefix", "exec_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path))
    shown = [path for path in this_interpreter().files if is_inside(path, [str(tmp_path)])]
    assert shown == [str(tmp_path / name) for name in ("bin", "lib", "pyvenv.cfg")]


def test_an_interpreter_without_a_program_cannot_run_a_sandbox(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(SandboxError, match="program file"):
        this_interpreter()


def test_a_missing_server_is_said_with_the_way_to_get_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SandboxError, match="not installed") as failure:
        find_server()
    assert failure.value.hint == "pip install notebook-sandbox-server"


def test_the_server_is_found_without_importing_it() -> None:
    script = "import sys; from sandbox_sdk.sandbox.interpreter import find_server; find_server()"
    program = [sys.executable, "-c", script + "; print('sandbox_server' in sys.modules)"]
    assert subprocess.run(program, capture_output=True, text=True, timeout=60).stdout == "False\n"


def package(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "__init__.py").write_text("a = 1\n")
    (folder / "sub" / "b.py").write_text("b = 2\n")
    (folder / "sub" / "notes.txt").write_text("no code\n")
    return folder


def test_bytecode_is_written_once_and_again_after_a_change(tmp_path: Path) -> None:
    folder = package(tmp_path / "p")
    compile_server(str(folder))
    compiled = [Path(importlib.util.cache_from_source(str(folder / name))) for name in ("__init__.py", "sub/b.py")]
    stamps = [path.stat().st_mtime_ns for path in compiled]
    compile_server(str(folder))
    assert [path.stat().st_mtime_ns for path in compiled] == stamps
    os.utime(folder / "sub" / "b.py", ns=(stamps[1] + 10**9, stamps[1] + 10**9))
    compile_server(str(folder))
    assert compiled[0].stat().st_mtime_ns == stamps[0]
    assert importlib.util.spec_from_file_location("b", compiled[1]) is not None
    assert compiled[1].read_bytes()[8:12] == int((stamps[1] + 10**9) // 10**9).to_bytes(4, "little")


def test_code_that_does_not_compile_is_left_to_the_server(tmp_path: Path) -> None:
    folder = package(tmp_path / "p")
    (folder / "bad.py").write_text("def\n")
    compile_server(str(folder))
    assert not Path(importlib.util.cache_from_source(str(folder / "bad.py"))).exists()


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path, monkeypatch: Any) -> None:
    import py_compile

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(py_compile, "compile", refuse)
    compile_server(str(package(tmp_path / "p")))
