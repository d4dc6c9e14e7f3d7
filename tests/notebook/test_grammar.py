"""Subcommand lines: values, mistakes with a hint that can be typed, and nothing that slips through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_notebook.dispatch import read
from sandbox_notebook.grammar import Mistake, Parsed
from sandbox_notebook.vocabulary import commands


def mistake(line: str, cell: bool = False) -> Mistake:
    with pytest.raises(Mistake) as caught:
        read(line, cell)
    return caught.value


def test_options_take_values_attached_or_apart() -> None:
    for line in ("start --policy read-only --keep", "start --keep --policy=read-only"):
        parsed = read(line)
        assert parsed.text("policy") == "read-only"
        assert parsed.flag("keep") and not parsed.flag("network")
        assert parsed.text("root") == ""


def test_short_switches_can_be_joined() -> None:
    parsed = read("ls -lR out")
    assert parsed.flag("long") and parsed.flag("recursive")
    assert parsed.text("path") == "out"


def test_options_may_follow_arguments() -> None:
    parsed = read("upload a.csv 'b c.csv' --to in --overwrite")
    assert parsed.many("path") == ["a.csv", "b c.csv"]
    assert parsed.text("to") == "in" and parsed.flag("overwrite")


def test_everything_after_two_dashes_is_an_argument() -> None:
    assert read("upload -- --to -l").many("path") == ["--to", "-l"]


def test_a_quoted_dash_is_no_option() -> None:
    assert read("upload '-l'").many("path") == ["-l"]


def test_numbers_and_pairs_are_read_as_such() -> None:
    parsed = read("run --timeout 2.5 --env A=1 --env B=x=y --file data.csv=frame", cell=True)
    assert parsed.number("timeout") == 2.5
    assert parsed.pairs("env") == {"A": "1", "B": "x=y"}
    assert parsed.pairs("file") == {"data.csv": "frame"}


def words(parsed: Parsed) -> list[str]:
    return [word.text for word in parsed.rest]


def test_after_the_command_nothing_is_ours() -> None:
    parsed = read("run --quiet grep -r --color 'a b' --help .")
    assert parsed.flag("quiet") and not parsed.verbatim
    assert words(parsed) == ["grep", "-r", "--color", "a b", "--help", "."]


def test_two_dashes_before_the_command_are_remembered() -> None:
    parsed = read("run -- --weird x")
    assert parsed.verbatim and words(parsed) == ["--weird", "x"]


def test_braces_and_dollars_reach_the_command_as_written() -> None:
    assert words(read('run echo {name} $HOME {"k":1}')) == ["echo", "{name}", "$HOME", "{k:1}"]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("uplod x", '"uplod" is no subcommand', "did you mean %sandbox upload?"),
        ("zzzzz", '"zzzzz" is no subcommand', "%sandbox help; a program runs by %sandbox run zzzzz"),
        ("git clone 'a b'", '"git" is no subcommand', "%sandbox help; a program runs by %sandbox run git clone 'a b'"),
        ("-zzzzz", '"-zzzzz" is no subcommand', "%sandbox help"),
        ("start --polcy x", 'option "--polcy" is unknown', "did you mean --policy?"),
        ("ls -q", 'option "-q" is unknown', "%sandbox ls --help"),
        ("upload --pick --wait", 'option "--wait" is unknown', "%sandbox upload --help"),
        ("start --policy", 'option "--policy" needs a value', "%sandbox start --policy P"),
        ("start --keep=yes", 'option "--keep" takes no value', "%sandbox start --keep"),
        (
            "start --isolation bublewrap",
            '"bublewrap" is no value of "--isolation", expected one of auto, bubblewrap, landlock, none',
            "%sandbox start --isolation bubblewrap",
        ),
        ("run --timeout soon ls", '"soon" is no positive number for "--timeout"', "%sandbox run --timeout S"),
        ("run --timeout -1 ls", '"-1" is no positive number for "--timeout"', "%sandbox run --timeout S"),
        ("run --timeout nan ls", '"nan" is no positive number for "--timeout"', "%sandbox run --timeout S"),
        ("run --env A ls", '"A" is no pair for "--env", expected K=V', "%sandbox run --env K=V"),
        ("run --env =1 ls", '"=1" is no pair for "--env", expected K=V', "%sandbox run --env K=V"),
        ("download", "remote is missing: path in the sandbox", "%sandbox download out/plot.svg"),
        ("use", "name is missing: which one", "%sandbox use second"),
        ("use a b", '"b" is one argument too many', "%sandbox use [--fill] name"),
        ("start # mine", '"#" begins no comment here', "put it on a line of its own, or into quotes"),
        ("run --out x # the body", '"#" begins no comment here', "put it on a line of its own, or into quotes"),
        ("--policy x", 'option "--policy" comes after a subcommand', "%sandbox start --policy x"),
        ("--in x ls -l 'a b'", 'option "--in" comes after a subcommand', "%sandbox ls --in x -l 'a b'"),
    ],
)
def test_a_mistake_says_what_and_what_to_type(line: str, message: str, hint: str) -> None:
    found = mistake(line)
    assert (found.message, found.hint) == (message, hint)


def test_an_unknown_option_before_a_command_offers_the_way_to_pass_it_on() -> None:
    assert mistake("run -zz").hint == "%sandbox run -- -zz …  if it is part of the command"


def test_a_mistake_points_at_its_place() -> None:
    found = mistake("start --polcy x")
    assert found.line[found.column :].startswith("--polcy")
    found = mistake("run it's")
    assert found.line[found.column] == "'" and found.column == 6
    assert found.hint == """opened here; write "it's" for the characters themselves"""


def test_only_run_heads_a_cell() -> None:
    assert mistake("ls", cell=True).message == '"ls" takes no cell'
    assert mistake("", cell=True).hint == "%%sandbox run --lang python"
    assert mistake("--lang python", cell=True).hint == "%%sandbox run --lang python"


@pytest.mark.parametrize("line", ["", "help", "-l"])
def test_no_subcommand_means_help(line: str) -> None:
    if line == "-l":
        assert mistake(line).message == 'option "-l" comes after a subcommand'
    else:
        assert read(line).command.name == "help"


@pytest.mark.parametrize("name", list(commands()))
def test_every_subcommand_explains_itself(name: str) -> None:
    for flag in ("--help", "-h"):
        parsed = read(f"{name} {flag}")
        assert parsed.command.name == "help" and parsed.text("command") == name


@pytest.mark.parametrize("command", commands().values(), ids=lambda command: command.name)
def test_every_example_is_a_line_that_parses(command) -> None:  # type: ignore[no-untyped-def]
    line = command.example.partition("%sandbox ")[2]
    assert read(line).command.name == command.name


@given(st.text(alphabet="abcdeflnorstuw-= '\"/.", max_size=40))
def test_no_line_does_more_than_be_read_or_refused(line: str) -> None:
    try:
        read(line)
    except Mistake as found:
        assert found.message and found.hint


def test_what_must_be_there_is_taken_before_what_may_be() -> None:
    assert (read("find x").text("name"), read("find x").text("path", "?")) == ("x", "?")
    assert (read("find d x").text("path"), read("find d x").text("name")) == ("d", "x")


def test_a_count_is_whole_and_may_stand_at_its_letter() -> None:
    assert read("head f -n5").count("lines", 10) == read("head f -n 5").count("lines", 10) == 5
    assert read("head f").count("lines", 10) == 10
    for wrong in ("0", "-1", "1.5", "x", "inf"):
        assert mistake(f"head f --lines={wrong}").message == f'"{wrong}" is no positive whole number for "--lines"'


def test_an_argument_with_choices_takes_no_other() -> None:
    found = mistake("policy dif a b")
    assert found.message == '"dif" is no action, expected one of show, lint, diff'
    assert found.hint == "%sandbox policy diff"
