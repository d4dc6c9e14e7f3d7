"""Completion: the right words for every place in a line."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sandbox_notebook.grammar import Offers
from sandbox_notebook.suggest import suggest
from sandbox_notebook.vocabulary import ISOLATIONS, LANGUAGES, commands

WORLD: dict[Offers, list[str]] = {
    "sandbox": ["local", "second"],
    "local": ["data.csv", "my file.txt", "notes/"],
    "remote": ["in/", "out/"],
    "endpoint": ["files_list", "files_stat", "shell"],
    "process": ["1", "2"],
    "command": list(commands()),
    "setting": ["tracebacks", "ui"],
    "terminal": ["t1"],
    "environment": ["HOME", "MY_TOKEN"],
    "variable": ["df", "x2"],
}


def source(offers: Offers, typed: str, sandbox: str) -> Iterable[str]:
    return [f"{sandbox}!"] if sandbox and offers == "remote" else WORLD.get(offers, [])


@pytest.mark.parametrize(
    ("line", "fragment", "words"),
    [
        ("st", "st", ["start", "stop", "stdin"]),
        ("start --iso", "--iso", ["--isolation"]),
        ("start --isolation ", "", list(ISOLATIONS)),
        ("start --isolation=b", "b", ["bubblewrap"]),
        ("start --policy r", "r", ["read-only"]),
        ("start --keep --k", "--k", []),
        ("start --only files_list,files_s", "files_s", ["files_stat"]),
        ("start --only=t", "t", ["transfer"]),
        ("run --lang ", "", list(LANGUAGES)),
        ("run --env A=1 --en", "--en", ["--env"]),
        ("run ls --", "--", []),
        ("upload ", "", ["data.csv", "'my file.txt'", "notes/"]),
        ("upload m", "m", ["'my file.txt'"]),
        ("upload 'my f", "'my f", ["'my file.txt'"]),
        ("upload data.csv n", "n", ["notes/"]),
        ("upload data.csv --to o", "o", ["out/"]),
        ("download o", "o", ["out/"]),
        ("download out/x ", "", ["data.csv", "'my file.txt'", "notes/"]),
        ("ls -l o", "o", ["out/"]),
        ("ls --in second ", "", ["second!"]),
        ("ls --in=second ", "", ["second!"]),
        ("ls --in s", "s", ["second"]),
        ("check files_s", "files_s", ["files_stat"]),
        ("check files_stat i", "i", ["in/"]),
        ("check files_stat x y", "y", []),
        ("kill ", "", ["1", "2"]),
        ("use ", "", ["local", "second"]),
        ("help ru", "ru", ["run"]),
        ("policy ", "", ["show", "lint", "diff"]),
        ("policy lint d", "d", ["default", "data.csv"]),
        ("policy diff workspace tr", "tr", ["transfer-only"]),
        ("find ", "", ["in/", "out/"]),
        ("grep text o", "o", ["out/"]),
        ("cat in/x o", "o", ["out/"]),
        ("stdin ", "", ["1", "2"]),
        ("code --pu", "--pu", ["--push", "--pull"]),
        ("code --push d", "d", ["df"]),
        ("code --push df,x", "x", ["x2"]),
        ("code --pull df,x", "x", ["x2"]),
        ("run --out d", "d", ["df"]),
        ("run --file in.csv=", "", ["df", "x2"]),
        ("run --file=in.csv=x", "x", ["x2"]),
        ("run --file 'my in.csv=x", "x", ["x2"]),
        ("run --file d", "d", []),
        ("run --env A=d", "d", []),
        ("term --id ", "", ["t1"]),
        ("connect --token-env M", "M", ["MY_TOKEN"]),
        ("config t", "t", ["tracebacks"]),
        ("config ui te", "te", ["text"]),
        ("nosuch ", "", []),
    ],
)
def test_these_words_are_offered(line: str, fragment: str, words: list[str]) -> None:
    found = suggest(line, source)
    assert found.fragment == fragment
    assert list(found.words) == words


# Values that are new names, numbers or words of one's own: there is nothing to offer.
FREE = {
    "tree --level", "head --lines", "find --depth", "find --most", "grep --context", "grep --name", "grep --most",
    "watch --timeout", "edit --old", "edit --new", "edit --lines", "run --timeout", "run --env", "code --timeout",
    "audit --lines", "start --download-from", "start --upload-to", "start --name", "connect --name",
}  # fmt: skip


def test_every_option_with_a_value_offers_some_or_has_none_to_offer() -> None:
    lines = [(command, option) for command in commands().values() for option in command.options if option.value]
    for command, option in lines:
        found = suggest(f"{command.name} {option.name} {'x=' * (option.kind == 'pair')}", source)
        assert not found.foreign and bool(found.words) is (f"{command.name} {option.name}" not in FREE), option.name


@pytest.mark.parametrize(
    ("line", "foreign"),
    [
        ("run pyth", True),
        ("run ls -l d", True),
        ("code len(d", True),
        ("run --timeout ", False),
        ("ls x y", False),
        ("nosuch ", False),
        ("nosuch", False),
    ],
)
def test_only_programs_and_code_are_left_to_others(line: str, foreign: bool) -> None:
    assert suggest(line, source).foreign is foreign


def test_at_first_every_subcommand_is_offered() -> None:
    assert list(suggest("", source).words) == list(commands())


def test_a_cell_is_headed_by_what_takes_a_body() -> None:
    assert list(suggest("", source, cell=True).words) == ["edit", "run", "code", "stdin"]
