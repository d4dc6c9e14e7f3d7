"""Ports and packages, as the kernel and the disk tell them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox_server.system.packages import node_packages, python_packages
from sandbox_server.system.ports import Listener, listening


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as made:
        yield made


def test_a_listening_socket_is_told_with_its_process(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert Listener(port, "tcp", "127.0.0.1", os.getpid()) in listening()


@pytest.mark.skipif(not socket.has_ipv6, reason="no way here: this Python has no IPv6")
def test_an_ipv6_address_is_told_whole() -> None:
    try:
        made = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no way here: the machine has no IPv6")
    with closing(made):
        assert Listener(made.getsockname()[1], "tcp6", "[::1]", os.getpid()) in listening()


def test_a_connected_socket_is_no_listener(listener: socket.socket) -> None:
    with closing(socket.create_connection(listener.getsockname())) as client:
        ports = {found.port for found in listening()}
    assert client.fileno() == -1
    assert listener.getsockname()[1] in ports
    assert len([found for found in listening() if found.port == listener.getsockname()[1]]) == 1


def test_a_machine_without_tables_has_no_listeners(tmp_path: Path) -> None:
    assert listening(str(tmp_path)) == []


@pytest.fixture
def program_path(tmp_path: Path) -> list[str]:
    """A prefix with a python3, a node, and what is installed for both."""
    bin_directory = tmp_path / "usr" / "bin"
    bin_directory.mkdir(parents=True)
    for name, target in (("python3", "python3.11"), ("python3.11", None), ("node", None)):
        if target:
            (bin_directory / name).symlink_to(target)
        else:
            (bin_directory / name).write_text("#!/bin/sh\nexit 1\n")
            (bin_directory / name).chmod(0o755)
    site = tmp_path / "usr" / "lib" / "python3.11" / "site-packages"
    packages = {
        "six-1.16.dist-info/METADATA": "Metadata-Version: 2.1\nName: six\nVersion: 1.16.0\n\nName: body\n",
        "Zed_Lib-2.dist-info/METADATA": "Name: Zed_Lib\nVersion: 2\n",
        "old-0.1.egg-info": "Name: old\nVersion: 0.1\n",
        "eggs-3.egg-info/PKG-INFO": "Name: eggs\nVersion: 3\n",
        "broken-1.dist-info/METADATA": "no metadata\n",
        "empty-1.dist-info/RECORD": "",
    }
    modules = tmp_path / "usr" / "lib" / "node_modules"
    manifests = {
        "npm/package.json": '{"name": "npm", "version": "10.0.0"}',
        "@scope/tool/package.json": '{"name": "@scope/tool", "version": "1.2.3"}',
        "broken/package.json": "{",
        "nameless/package.json": "[]",
    }
    for folder, files in ((site, packages), (modules, manifests)):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return [str(tmp_path / "nowhere"), str(bin_directory)]


def test_python_packages_are_read_from_metadata_and_nothing_is_run(program_path: list[str]) -> None:
    assert python_packages(program_path) == [("eggs", "3"), ("old", "0.1"), ("six", "1.16.0"), ("Zed_Lib", "2")]


def test_node_packages_are_read_from_their_manifests(program_path: list[str]) -> None:
    assert node_packages(program_path) == [("@scope/tool", "1.2.3"), ("npm", "10.0.0")]


def test_a_missing_program_has_no_packages(tmp_path: Path) -> None:
    assert python_packages([str(tmp_path)]) == node_packages([str(tmp_path)]) == []


def test_a_pipe_in_the_place_of_metadata_holds_nobody_up(program_path: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "usr" / "lib" / "python3.11" / "site-packages" / "trap-1.dist-info"
    folder.mkdir()
    os.mkfifo(folder / "METADATA")
    assert ("six", "1.16.0") in python_packages(program_path)


def test_a_deeply_nested_manifest_is_passed_over(program_path: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "usr" / "lib" / "node_modules" / "deep"
    folder.mkdir()
    (folder / "package.json").write_text('{"a":' * 50_000 + "1" + "}" * 50_000)
    assert ("npm", "10.0.0") in node_packages(program_path)


def test_what_the_packages_are_is_json(program_path: list[str]) -> None:
    assert json.loads(json.dumps(python_packages(program_path)))
