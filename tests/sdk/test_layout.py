"""Where files end up, and what a directory holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_sdk.transfer import layout


@pytest.mark.field(17)
@pytest.mark.field(44)
@pytest.mark.parametrize(
    ("source", "target", "is_directory", "expected"),
    [
        ("/abs/dir", "new", False, "new"),
        ("/abs/dir", "old", True, "old/dir"),
        ("/abs/dir", "any/", False, "any/dir"),
        ("/abs/dir/", "new", False, "new"),
        ("/abs/dir/", "old", True, "old"),
        ("/abs/dir/.", "old", True, "old"),
        (".", "old", True, "old"),
        ("./", "new", False, "new"),
        ("..", "old", True, "old"),
        ("a//b", "old", True, "old/b"),
    ],
)
def test_field_017_044_a_tree_goes_where_cp_would_put_it(
    source: str, target: str, is_directory: bool, expected: str
) -> None:
    assert layout.tree_target(source, target, is_directory) == expected


def test_the_table_in_the_docstring_covers_every_case() -> None:
    assert (layout.__doc__ or "").count("\ndirectory ``d``") == 2


@pytest.mark.field(16)
def test_field_016_a_scan_finds_every_file_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    (tmp_path / ".env").write_text("secret")
    (tmp_path / "empty").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "-rf").write_text("12345")
    (tmp_path / "alias").symlink_to("sub/-rf")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "nowhere").symlink_to("absent")
    os.mkfifo(tmp_path / "pipe")
    tree = layout.scan(str(tmp_path))
    assert [(file.relative, file.size) for file in tree.files] == [
        (".env", 6),
        (".git/config", 1),
        ("alias", 5),
        ("sub/-rf", 5),
    ]
    assert tree.directories == ["empty"]
    assert tree.size == 17
    assert {(relative, reason) for _, relative, reason in tree.skipped} == {
        ("loop", "a link to a directory"),
        ("nowhere", "a link to nothing"),
        ("pipe", "neither a file nor a directory"),
    }


@pytest.mark.field(46)
def test_field_046_a_scan_goes_as_deep_as_the_tree(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdefghij")
    deep.mkdir(parents=True)
    (deep / "leaf").write_text("")
    assert [file.relative for file in layout.scan(str(tmp_path)).files] == ["a/b/c/d/e/f/g/h/i/j/leaf"]
