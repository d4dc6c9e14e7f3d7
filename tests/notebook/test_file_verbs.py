"""The magics that read, search and change files, on real sandboxes of this machine."""

from __future__ import annotations

import os
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from sandbox_sdk import EditResult, FileChange, SearchHit

from .conftest import Run, failure

FILES = (
    "mkdir -p d/e/f/g/h; printf 'one\\ntwo Error\\nthree\\n' > d/a.txt\n"
    "printf x > d/e/f/g/h/deep.txt; printf '\\0' > bin"
)


@pytest.fixture
def filled(started: Run) -> Run:
    assert started(f"%%sandbox run --lang sh\n{FILES}").error is None
    return started


# tree, ls of a file


def test_a_tree_is_drawn_to_its_deepest_leaf(filled: Run) -> None:
    drawn = filled("%sandbox tree").text.splitlines()
    assert drawn[:5] == [".", "├── bin", "└── d/", "    ├── a.txt", "    └── e/"]
    assert drawn[-2:] == ["                    └── deep.txt", "3 files, 5 directories, 22 B"]
    assert filled("%sandbox tree -L 1").text.splitlines() == [".", "├── bin", "└── d/", "1 file, 1 directory, 1 B"]
    assert [entry.name for entry in filled("x = %sandbox tree d -L1\nx").result] == ["a.txt", "e"]


def test_ls_of_a_file_shows_that_file(filled: Run) -> None:
    assert filled("%sandbox ls d/a.txt").text.splitlines()[1].split() == ["d/a.txt", "20", "B"]
    assert failure(filled("%sandbox ls nosuch"))[1] == "%sandbox ls shows what is there"


# cat, head


def test_text_is_shown_as_it_is_and_returned(filled: Run) -> None:
    done = filled("text = %sandbox cat d/a.txt d/a.txt\ntext")
    assert done.result == "one\ntwo Error\nthree\n" * 2
    assert done.stdout.startswith(done.result)


@pytest.mark.parametrize("verb", ["cat", "head"])
def test_what_is_no_text_is_to_be_downloaded(filled: Run, verb: str) -> None:
    assert failure(filled(f"%sandbox {verb} bin")) == ('"bin" is no text', "%sandbox download bin brings it here")


def test_the_beginning_of_a_huge_file_is_read_without_the_rest(started: Run) -> None:
    started("%%sandbox run --lang sh\nseq 5 > 'my huge'; truncate -s 3G 'my huge'")
    assert started("%sandbox head -n 3 'my huge'").stdout == "1\n2\n3\n"
    message, hint = failure(started("%sandbox cat 'my huge'"))
    assert message == '"my huge" is too large to be shown whole'
    assert hint.startswith("%sandbox head 'my huge' shows its beginning")


def test_head_takes_as_many_pieces_as_its_lines_need(started: Run) -> None:
    started(
        "%%sandbox run\nopen('long', 'w').writelines('é' * 70_000 + '\\n' for _ in range(4))\n"
        "open('short', 'w').write('a\\nb')"
    )
    assert started("%sandbox head long -n 3").stdout == ("é" * 70_000 + "\n") * 3
    assert started("%sandbox head short").stdout == "a\nb"


# find, grep


def test_files_are_found_by_name_however_deep(filled: Run) -> None:
    assert filled("%sandbox find '*.txt'").text.splitlines() == ["d/a.txt", "d/e/f/g/h/deep.txt", "2 files"]
    assert filled("%sandbox find d/e '*.txt'").text.splitlines() == ["d/e/f/g/h/deep.txt", "1 file"]
    assert filled("%sandbox find *.py").text == "nothing found"
    assert filled("%sandbox find '*.txt' --most 1").text.splitlines()[1:] == [
        "1 file",
        "there is more: --most 5 shows it",
    ]


def test_what_is_found_comes_in_order_and_no_more_of_it_than_a_cell_shows(started: Run) -> None:
    started("%sandbox config max_lines 3")
    started("%%sandbox run\nfor name in 'hbdfaceg':\n    open(name, 'w').write('1\\n2\\n')")
    assert started("%sandbox find '?'").text.splitlines() == [
        *"abc",
        "and 5 more: found = %sandbox find '?' takes all of them",
        "8 files",
    ]
    assert started("%sandbox ls").text.splitlines()[-2] == "and 5 more: found = %sandbox ls takes all of them"
    assert [line.split()[0] for line in started("%sandbox grep -E [12]").text.splitlines()[:3]] == ["a:1", "a:2", "b:1"]
    assert len(started("found = %sandbox ls\nfound").result) == 8


def test_lines_are_found_with_their_place_and_the_hit_is_marked(filled: Run) -> None:
    done = filled("%sandbox grep -i error")
    assert done.text.splitlines() == ["d/a.txt:2  two Error", "1 line in 1 file", "left out: 1 no text"]
    assert ">Error</mark>" in done.outputs[0]["text/html"]
    assert filled("%sandbox grep error").text.splitlines()[0] == "nothing found"
    assert filled("%sandbox grep Error d/a.txt").text.splitlines()[0] == "d/a.txt:2  two Error"
    around = filled("%sandbox grep Error -C 1 --name '*.txt'").text.splitlines()
    assert around[:3] == ["d/a.txt-1  one", "d/a.txt:2  two Error", "d/a.txt-3  three"]
    (hit,) = filled("hits = %sandbox grep -E 'E.+r$'\nhits").result
    assert isinstance(hit, SearchHit) and (hit.line, hit.column) == (2, 5)


def test_indented_lines_stay_indented_and_the_hit_is_still_marked(started: Run) -> None:
    started("%%sandbox run\nopen('[x]*', 'w').write('\\tif a:\\n\\t\\treturn a\\n')")
    done = started("%sandbox grep 'return a' '[x]*'")
    assert done.text.splitlines()[0] == "[x]*:2          return a"
    assert ">return a</mark>" in done.outputs[0]["text/html"]


# edit


def test_an_edit_shows_what_went_and_what_came(filled: Run) -> None:
    done = filled("%sandbox edit d/a.txt --old two --new 2")
    assert done.text.splitlines()[0] == "✓ d/a.txt: 1 line added, 1 removed"
    assert "  -two Error" in done.text.splitlines() and "  +2 Error" in done.text.splitlines()
    assert "rgba(46,160,67" in done.outputs[0]["text/html"]
    done = filled("r = %sandbox edit d/a.txt --old e --new E --all --dry-run\nr")
    assert isinstance(done.result, EditResult) and done.result.dry_run and done.result.replacements == (3,)
    assert filled("%sandbox cat d/a.txt").stdout == "one\n2 Error\nthree\n"


def test_a_cell_is_the_new_text_of_lines(filled: Run) -> None:
    assert filled("%%sandbox edit d/a.txt --lines 2:3\nzwei\n  drei\nvier").error is None
    assert filled("%sandbox cat d/a.txt").stdout == "one\nzwei\n  drei\nvier\n"
    filled("%sandbox edit d/a.txt --lines 2:1 --new between")
    assert filled("%sandbox cat d/a.txt").stdout == "one\nbetween\nzwei\n  drei\nvier\n"


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--old nope --new x", 'the old text is not in "d/a.txt"', "%sandbox cat d/a.txt shows it"),
        ("--old e --new x", 'the old text stands in "d/a.txt" in 3 places, in lines 1, 3', "--all replaces"),
        ("--lines 9 --new x", 'the lines are not in "d/a.txt"', "%sandbox cat d/a.txt"),
        ("--lines x --new y", '"x" names no lines', "--lines 3:5"),
        ("--new y", "give the old text, or the lines", "--old DEBUG=1"),
        ("--old x", "give the new text by --new, or as the body of a cell", "%%sandbox edit"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why(filled: Run, line: str, message: str, hint: str) -> None:
    found, told = failure(filled(f"%sandbox edit d/a.txt {line}"))
    assert found.startswith(message) and hint in told


def test_text_that_stands_twice_in_one_line_stands_in_a_line(filled: Run) -> None:
    filled("%sandbox edit d/a.txt --old Error --new EE")
    found, _ = failure(filled("%sandbox edit d/a.txt --old E --new x"))
    assert found == 'the old text stands in "d/a.txt" in 2 places, in line 2'


# rm, mv, mkdir


def test_directories_are_removed_only_when_that_is_said(filled: Run) -> None:
    assert failure(filled("%sandbox rm bin d")) == (
        '"d" is a directory',
        "%sandbox rm -r d removes it and all that is in it",
    )
    filled("%%sandbox run --lang sh\nln -s d link")
    assert filled("%sandbox rm link bin").text == "✓ removed link, bin"
    assert filled("%sandbox rm -r d").error is None
    assert filled("%sandbox ls").text == "nothing there"
    assert "nosuch" in failure(filled("%sandbox rm nosuch"))[0]


def test_files_move_and_directories_are_made(filled: Run) -> None:
    assert filled("%sandbox mkdir new/place").text == "✓ new/place/ is there"
    assert filled("%sandbox mv d/a.txt new/place").text == "✓ d/a.txt  →  new/place/a.txt"
    assert filled("%sandbox mv new/place/a.txt b.txt").text == "✓ new/place/a.txt  →  b.txt"
    assert filled("%sandbox cat b.txt").stdout.startswith("one\n")


# archive, unpack


def _link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def test_an_archive_comes_back_and_goes_in_again(filled: Run, here: Path) -> None:
    assert filled("%sandbox archive d --to all.zip").text.startswith("✓ d  →  all.zip  ")
    assert "d/a.txt" in zipfile.ZipFile(here / "all.zip").namelist()
    assert filled("%sandbox archive d").text.startswith("✓ d  →  ./d.tar.gz  ") or (here / "d.tar.gz").exists()
    assert filled("%sandbox unpack all.zip --to copy").text.startswith("✓ all.zip  →  copy/  2 files, 21 B")
    assert filled("%sandbox cat copy/d/a.txt").stdout.startswith("one\n")
    message, hint = failure(filled("%sandbox unpack all.zip --to copy"))
    assert "is in the way" in message and hint == "%sandbox unpack --overwrite … replaces it"
    assert filled("%sandbox unpack all.zip --to copy --overwrite").error is None


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (tarfile.TarInfo("../evil"), 'the member "../evil" is absolute or has ".."'),
        (tarfile.TarInfo("/etc/cron.d/x"), 'the member "/etc/cron.d/x" is absolute or has ".."'),
        (_link("l", "/etc"), 'the link "l" leads out of the allowed directories'),
        (None, "this is neither a tar, a tar.gz nor a zip"),
    ],
    ids=["up", "absolute", "link", "no archive"],
)
def test_a_hostile_archive_is_refused_with_something_to_do(
    filled: Run, here: Path, member: tarfile.TarInfo | None, message: str
) -> None:
    with tarfile.open(here / "bad.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("good"))
        if member is not None:
            archive.addfile(member)
    if member is None:
        (here / "bad.tar").write_bytes(b"no archive at all")
    found, hint = failure(filled("%sandbox unpack bad.tar --to copy"))
    assert found.startswith(message)
    assert hint == "nothing was unpacked; %sandbox upload brings it in as it is, to be looked at there"
    assert filled("names = %sandbox ls\n'copy' in [one.name for one in names]").result is False


def test_an_archive_replaces_only_our_own(filled: Run, here: Path) -> None:
    (here / "all.zip").write_text("theirs")
    assert failure(filled("%sandbox archive d --to all.zip"))[0] == '"all.zip" is here already'
    assert filled("%sandbox archive d --to all.zip --overwrite").error is None
    assert filled("%sandbox archive d --to all.zip").error is None
    assert failure(filled("%sandbox archive d --to x.zip --format tar"))[0] == '"x.zip" is no name for a tar archive'
    assert failure(filled("%sandbox archive d --to x.foo"))[0] == '"x.foo" does not say which kind of archive'
    assert filled("%sandbox archive d --to x.foo --format tar").error is None
    with tarfile.open(here / "x.foo", "r:") as packed:
        assert "d/a.txt" in packed.getnames()


# watch, browse, term


def test_changes_are_told_while_they_happen(started: Run, shell: InteractiveShell) -> None:
    started("sb = %sandbox use local")
    files = shell.user_ns["sb"].files
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.wait(0.05):
            files.write(f"in/{(number := number + 1)}.txt", "x")

    thread = threading.Thread(target=change)
    started("%sandbox mkdir in")
    thread.start()
    try:
        done = started("seen = %sandbox watch -R --timeout 4\nseen")
    finally:
        stop.set()
        thread.join()
    assert done.stdout.splitlines()[0] == "watching ."
    assert any(line.startswith("created    in/") and line.endswith(".txt") for line in done.stdout.splitlines())
    assert all(isinstance(change, FileChange) for change in done.result)


def test_where_there_is_no_page_a_tree_stands_for_the_browser(filled: Run) -> None:
    assert filled("%sandbox browse d").text.splitlines()[0] == "d"
    assert filled("%sandbox term").text == "terminal · open"


def test_a_loop_moves_files_by_their_names_in_variables(started: Run, here: Path) -> None:
    for name in ("a b.txt", "c.txt"):
        (here / name).write_text(name)
    done = started(
        "for name in ('a b.txt', 'c.txt'):\n    %sandbox upload --fill {name} --to {name}.d\n"
        "    %sandbox cat --fill {name}.d/{name}\n    %sandbox mv --fill {name}.d/{name} {name}\n"
        "    %sandbox rm -r --fill {name}.d\n    %sandbox download --fill {name} back/{name}"
    )
    assert (done.error, done.stdout) == (None, "a b.txtc.txt")
    assert started("[one.name for one in get_ipython().run_line_magic('sandbox', 'ls')]").result == ["a b.txt", "c.txt"]
    assert [(here / "back" / name).read_text() for name in ("a b.txt", "c.txt")] == ["a b.txt", "c.txt"]
    started("%%sandbox edit c.txt --lines 1 --fill\n{name}, {{x}}\n")
    assert started("%sandbox cat c.txt").stdout == "c.txt, {x}"


@pytest.mark.parametrize("line", ["upload {name} --to in", "cat {name}", "ls {name}", "rm {name}", "download {name}"])
def test_a_name_that_was_not_filled_in_is_told_how(started: Run, shell: InteractiveShell, line: str) -> None:
    shell.user_ns["name"] = "x.csv"
    message, hint = failure(started(f"%sandbox {line}"))
    verb, rest = line.split(" ", 1)
    assert '{name}"' in message
    assert hint == f"%sandbox {verb} --fill {rest} puts the variable in"
    del shell.user_ns["name"]
    assert "--fill" not in failure(started(f"%sandbox {line}"))[1]


def test_what_is_filled_in_is_no_option_and_no_operator(started: Run, shell: InteractiveShell) -> None:
    shell.user_ns.update(option="-r", operator=">")
    assert '"-r"' in failure(started("%sandbox cat --fill {option}"))[0].replace("/-r", '"-r')
    assert started("%sandbox run --fill echo a {operator} b").stdout == "a > b\n"


@pytest.mark.parametrize("line", ["upload fifo", "upload f*", "unpack fifo", "upload /dev/null"])
def test_what_is_neither_file_nor_directory_is_refused_and_not_waited_for(started: Run, here: Path, line: str) -> None:
    os.mkfifo(here / "fifo")
    message, hint = failure(started(f"%sandbox {line}"))
    assert message == f'"{"/dev/null" if "null" in line else "fifo"}" is neither a file nor a directory'
    assert hint.startswith("nbsandbox upload - --to NAME takes what comes through a pipe")


def test_a_notebook_has_no_standard_input_and_output(started: Run, here: Path) -> None:
    (here / "-").write_text("dash")
    message, hint = failure(started("%sandbox upload -"))
    assert message == '"-" is standard input, and only nbsandbox has one'
    assert hint == "%sandbox upload ./- for a file of that name"
    assert started("%sandbox upload ./-").error is None
    message, hint = failure(started("%sandbox download ./- -"))
    assert message == '"-" is standard output, and only nbsandbox has one'
    assert hint == "text = %sandbox cat ./-, or %sandbox download ./- ./- for a file of that name"
    assert started("%sandbox download --overwrite ./- ./-").error is None
    assert (here / "-").read_text() == "dash"


@pytest.mark.parametrize("verb", ["upload", "download", "cat", "head", "ls", "rm", "unpack"])
def test_a_backslash_before_a_blank_is_told_of_quotes(started: Run, here: Path, verb: str) -> None:
    (here / "my file.csv").touch()
    _, hint = failure(started(f"%sandbox {verb} my\\ file.csv"))
    assert hint == "nothing escapes here; a name with blanks needs quotes: 'my file.csv'"


def test_the_progress_of_a_directory_counts_its_files(
    started: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, amount in (("src/b", 5), ("src/a/z", 300), ("src/c", 0)):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes(b"x" * amount)
    monkeypatch.setattr("sandbox_notebook.progress._PATIENCE", -1.0)
    monkeypatch.setattr("sandbox_notebook.progress._NOTEBOOK_PAUSE", -1.0)
    told = started("%sandbox upload src").stdout.splitlines()
    assert " 1 of 3 files  300 B of 305 B " in told[0]
    assert " 3 of 3 files  305 B of 305 B " in told[-1]
    assert "files" not in started("%sandbox upload src/b --to one").stdout
