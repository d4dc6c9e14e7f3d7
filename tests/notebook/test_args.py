"""The tokenizer: quotes group, nothing escapes, positions are exact."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_notebook.args import UnclosedQuote, escaped, quote, split


def texts(line: str) -> list[str]:
    return [word.text for word in split(line)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("   ", []),
        ("ls -l", ["ls", "-l"]),
        ("upload 'my file.txt'", ["upload", "my file.txt"]),
        ('upload "my file.txt" --to="a b"', ["upload", "my file.txt", "--to=a b"]),
        (r"upload C:\Users\x 'C:\a b'", ["upload", r"C:\Users\x", r"C:\a b"]),
        ("run echo '' x", ["run", "echo", "", "x"]),
        ("""run echo "it's" 'say "hi"'""", ["run", "echo", "it's", 'say "hi"']),
        ("run a'b c'd", ["run", "ab cd"]),
        ("run # no comment", ["run", "#", "no", "comment"]),
        ('run {"k": 1} {name} $HOME', ["run", "{k:", "1}", "{name}", "$HOME"]),
    ],
)
def test_a_line_is_split_into_these_words(line: str, words: list[str]) -> None:
    assert texts(line) == words


def test_words_know_where_they_stood_and_whether_they_were_quoted() -> None:
    first, second = split("  run 'a b'")
    assert (first.start, first.end, first.quoted) == (2, 5, False)
    assert (second.start, second.end, second.quoted) == (6, 11, True)


def test_an_open_quote_is_reported_where_it_stands() -> None:
    with pytest.raises(UnclosedQuote) as caught:
        split("run it's late")
    assert caught.value.position == 6
    assert [word.text for word in caught.value.words] == ["run"]
    assert caught.value.open_word.text == "its late"
    assert caught.value.open_word.start == 4


def reference(line: str) -> list[str] | None:
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        return None


@given(st.text(alphabet="ab'\" \t\\#{}=-é", max_size=30))
def test_it_splits_as_shlex_does_without_escapes(line: str) -> None:
    try:
        ours: list[str] | None = texts(line)
    except UnclosedQuote:
        ours = None
    assert ours == reference(line)


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12), max_size=5))
def test_quoted_words_come_back_unchanged(words: list[str]) -> None:
    assert texts(" ".join(quote(word) for word in words)) == words


@given(st.text(max_size=40))
def test_positions_cover_exactly_the_word(line: str) -> None:
    try:
        words = split(line)
    except UnclosedQuote:
        return
    for word in words:
        assert texts(line[word.start : word.end]) == [word.text]


@pytest.mark.parametrize(
    ("line", "message", "meant"),
    [
        ("upload my\\ file.csv --to in", 'no file "my\\" on this side', "'my file.csv'"),
        ("head a\\ b\\ c.csv", '"b\\" is one argument too many', "'a b c.csv'"),
        ("head -n 3 it\\ file.csv", '"file.csv" is one argument too many', "'it file.csv'"),
        ("cat my\\ file.csv gone", 'no file at "/w/gone"', ""),
        ("cat C:\\x gone", 'no file at "C:\\x"', ""),
        ("cat 'C:\\a\\ b'", 'no file at "C:\\a\\ b"', ""),
        ("cat 'a\\' b", 'no file at "a\\"', ""),
        ("cat my\\ file 'it", "no closing quote", ""),
    ],
)
def test_blanks_behind_backslashes_are_noticed_where_they_went_wrong(line: str, message: str, meant: str) -> None:
    assert escaped(line, message) == meant
