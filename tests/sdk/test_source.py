"""Sources know their size before they are sent, and never hold more than a piece in memory."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sandbox_sdk.transfer import source as sources
from sandbox_sdk.transfer.source import PIECE


def content(source: sources.Source) -> bytes:
    with source:
        data = b"".join(source.pieces())
        assert len(data) == source.size
        assert b"".join(source.pieces()) == data, "a source can be sent again"
    return data


@pytest.mark.field(19)
@pytest.mark.field(20)
@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_field_019_020_every_kind_of_source_gives_the_same_bytes(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    assert content(sources.of_path(str(tmp_path / "f"))) == data
    assert content(sources.of_data(data)) == data
    assert content(sources.of_data(bytearray(data))) == data
    assert content(sources.of_data(memoryview(data))) == data
    assert content(sources.of_data(io.BytesIO(data))) == data
    assert content(sources.of_data(data[i : i + 1000] for i in range(0, size, 1000))) == data
    with (tmp_path / "f").open("rb") as file:
        assert content(sources.of_data(file)) == data
        assert not file.closed, "the caller's file stays open"


def test_a_file_object_is_taken_from_where_it_stands() -> None:
    file = io.BytesIO(b"0123456789")
    file.seek(4)
    assert content(sources.of_data(file)) == b"456789"


def test_text_is_sent_as_utf8() -> None:
    assert content(sources.of_data("é\r\n")) == b"\xc3\xa9\r\n"


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(b"x" * 100_000,))
    writer.start()
    assert content(sources.of_path(str(tmp_path / "pipe"))) == b"x" * 100_000
    writer.join()


def test_a_pipe_that_is_open_is_read_to_its_end() -> None:
    read, write = os.pipe()
    os.write(write, b"abc")
    os.close(write)
    with open(read, "rb") as file:
        assert content(sources.of_data(file)) == b"abc"


@pytest.mark.parametrize("bad", [7, None, object()])
def test_what_is_no_source_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match=type(bad).__name__):
        sources.of_data(bad)


def test_text_files_and_text_pieces_are_refused() -> None:
    with pytest.raises(TypeError, match="binary mode"):
        sources.of_data(io.StringIO("x"))
    with pytest.raises(TypeError, match="yields str"):
        sources.of_data(iter(["x"]))


def test_a_file_that_shrinks_while_it_is_sent_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * (PIECE + 10))
    with sources.of_path(str(tmp_path / "f")) as source:
        pieces = source.pieces()
        next(pieces)
        os.truncate(tmp_path / "f", 0)
        with pytest.raises(EOFError, match=r"10 of 1048586 bytes are missing"):
            next(pieces)


def test_a_file_that_grows_while_it_is_sent_is_sent_as_it_was_announced(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10)
    with sources.of_path(str(tmp_path / "f")) as source:
        with (tmp_path / "f").open("ab") as file:
            file.write(b"y")
        assert b"".join(source.pieces()) == b"x" * 10


@pytest.mark.field(29)
def test_field_029_an_iterator_goes_through_a_file_not_through_memory() -> None:
    tracemalloc.start()
    try:
        with sources.of_data(bytes(PIECE) for _ in range(64)) as source:
            assert source.size == 64 * PIECE
            assert sum(len(piece) for piece in source.pieces()) == 64 * PIECE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * PIECE


def test_an_iterator_that_fails_leaves_nothing_open() -> None:
    def broken() -> Any:
        yield b"x" * (2 * PIECE)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        sources.of_data(broken())
