"""The magics on real sandboxes of this machine."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from IPython.core.interactiveshell import InteractiveShell

from sandbox_notebook.verbs import processes
from sandbox_notebook.widgets.views import Views
from sandbox_sdk import CommandResult, Files, Process, Receipt, Sandbox
from sandbox_sdk.sandbox.local import IsolationWarning
from tests.support.waiting import eventually

from .conftest import Run, failure
from .test_extension import complete, strip

# start, list, use, stop


def test_start_says_what_it_started_and_can_be_repeated(run: Run, here: Path) -> None:
    first = run("%sandbox start")
    assert first.text.splitlines()[:2] == ['✓ sandbox "local" is ready', "  policy     workspace"]
    assert run("%sandbox start").text.startswith('✓ sandbox "local" is running already')
    assert len(listed(run, "local")) == 1


def test_other_options_under_the_same_name_are_refused(started: Run) -> None:
    message, hint = failure(started("%sandbox start --policy read-only"))
    assert message == 'a sandbox "local" with other options is running'
    assert hint == "%sandbox stop local, or give this one a name of its own: --name NAME"


def listed(run: Run, *names: str) -> list[list[str]]:
    """What the list says of these; whatever else is kept on this machine is nobody's business here."""
    rows = [line.split()[:2] for line in run("%sandbox list").text.splitlines()[1:]]
    return [row for row in rows if row[0] in names]


def test_several_sandboxes_are_told_apart_by_name(started: Run) -> None:
    started("%sandbox start --name second --policy read-only")
    assert listed(started, "local", "second") == [["local", "running"], ["second", "current"]]
    started("%%sandbox run --in local --lang sh\ntouch here")
    assert started("%sandbox ls --in local").text.splitlines()[1].split() == ["here", "0", "B"]
    assert started("%sandbox use local").text == '✓ sandbox "local" is the current one'
    assert failure(started("%sandbox use secnd"))[1] == 'did you mean "second"?'
    assert started("%sandbox stop second").text == '✓ sandbox "second" stopped\n  current now  local'
    assert started("%sandbox stop --all").text == '✓ sandbox "local" stopped'
    assert started("%sandbox stop --all").text == "no sandbox is running here"


def test_a_sandbox_made_in_python_can_be_named(run: Run, shell: InteractiveShell, here: Path) -> None:
    with Sandbox.local() as mine:
        shell.user_ns["mine"] = mine
        assert run("%sandbox run --in mine echo hi").stdout == "hi\n"
        assert run("x = %sandbox use mine\nx is mine").result is True


def test_a_kept_sandbox_is_found_again_by_name(run: Run, shell: InteractiveShell, here: Path) -> None:
    run("%sandbox start --keep --name kept-by-test")
    try:
        run("%%sandbox run --lang sh\necho 1 > file")
        session = shell.meta["sandbox_notebook"]["session"]
        session.entries.pop("kept-by-test").sandbox.close()  # as a restart of the kernel leaves it
        session.current = ""
        assert listed(run, "kept-by-test") == [["kept-by-test", "kept"]]
        assert run("%sandbox use kept-by-test").error is None
        assert run("%sandbox run cat file").stdout == "1\n"
        assert "kept" in run("%sandbox info").text
        again = run("%sandbox start --keep --name kept-by-test")
        assert again.text.startswith('✓ sandbox "kept-by-test" is running already')
        assert run("%sandbox run cat file").stdout == "1\n"
    finally:
        run("%sandbox stop kept-by-test")
    assert failure(run("%sandbox use kept-by-test"))[0] == 'no sandbox is called "kept-by-test"'


def test_a_kept_sandbox_taken_by_its_name_is_not_started_with_other_options(
    run: Run, shell: InteractiveShell, here: Path
) -> None:
    run("%sandbox start --keep --name kept-by-test")
    try:
        shell.meta["sandbox_notebook"]["session"].entries.pop("kept-by-test").sandbox.close()
        run("%sandbox use kept-by-test")
        for other in ("--keep --policy read-only", ""):
            message, _ = failure(run(f"%sandbox start --name kept-by-test {other}"))
            assert message == 'a sandbox "kept-by-test" with other options is running'
    finally:
        run("%sandbox stop kept-by-test")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--keep", "--keep needs a name to find it again by"),
        ("--only transfer --policy locked", "--policy and --only exclude each other"),
        ("--download-from out", "--download-from and --upload-to go with --only"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, line: str, message: str) -> None:
    assert failure(run(f"%sandbox start {line}"))[0] == message


def test_a_policy_that_the_server_refuses_is_an_error_with_its_reason(run: Run, here: Path) -> None:
    (here / "bad.json").write_text('{"presett": "locked"}')
    message, _ = failure(run("%sandbox start --policy bad.json"))
    assert "presett" in message
    assert failure(run("%sandbox ls"))[0] == "no sandbox is running in this kernel"


def test_weaker_isolation_is_told_in_the_result(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Sandbox.local

    def weak(*args: object, **options: object) -> Sandbox:
        warnings.warn("bubblewrap is missing", IsolationWarning, stacklevel=2)
        return real(**{**options, "isolation": "none"})  # type: ignore[arg-type]

    monkeypatch.setattr(Sandbox, "local", weak)
    done = run("%sandbox start")
    assert done.stderr == ""
    assert "  isolation  none" in done.text and "  note       bubblewrap is missing" in done.text


def test_a_sandbox_that_has_ended_says_so(started: Run, shell: InteractiveShell) -> None:
    started("sb = %sandbox use local")
    shell.user_ns["sb"]._local.stop()
    assert failure(started("%sandbox ls")) == ('sandbox "local" has ended', "%sandbox start")
    assert started("%sandbox info").text.splitlines()[0] == 'sandbox "local" has ended'
    assert "ended" in started("%sandbox list").text
    started("sb = %sandbox start --name other")
    shell.user_ns["sb"]._local.stop()
    assert failure(started("%sandbox ls"))[1] == "%sandbox start --name other"
    assert started("%sandbox start").text.startswith('✓ sandbox "local" is ready')


# upload, download, ls


def test_a_file_goes_in_and_comes_back(started: Run, here: Path) -> None:
    (here / "my file.bin").write_bytes(bytes(range(256)) * 10)
    done = started("%sandbox upload 'my file.bin' --to in --verify")
    assert done.text.startswith("✓ my file.bin  →  in/my file.bin  2.6 kB  sha256 ")
    (here / "back").mkdir()
    done = started("r = %sandbox download 'in/my file.bin' back\nr")
    assert isinstance(done.result, Receipt) and done.result.bytes == 2560
    assert (here / "back/my file.bin").read_bytes() == bytes(range(256)) * 10


def test_patterns_and_directories_are_uploaded(started: Run, here: Path) -> None:
    for name in ("a.txt", "b.txt", "c.csv", "d/e.txt", "d/f/g.txt"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(name)
    done = started("%sandbox upload *.txt d")
    assert [line.split("  ")[0] for line in done.text.splitlines()] == ["✓ a.txt", "✓ b.txt", "✓ d"]
    assert "2 files, 16 B" in done.text
    names = started("[entry.path for entry in get_ipython().run_line_magic('sandbox', 'ls -R')]").result
    assert names == ["./a.txt", "./b.txt", "./d", "./d/e.txt", "./d/f", "./d/f/g.txt"]
    started("%sandbox download d copy")
    assert (here / "copy/f/g.txt").read_text() == "d/f/g.txt"


def test_a_missing_file_offers_the_nearest_name(started: Run, here: Path) -> None:
    (here / "data.csv").touch()
    assert failure(started("%sandbox upload dta.csv")) == ('no file "dta.csv" on this side', "did you mean data.csv?")
    assert failure(started("%sandbox unpack dta.csv")) == ('no file "dta.csv" on this side', "did you mean data.csv?")


def test_a_missing_file_that_is_like_no_other_is_looked_for_from_here(
    started: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = f"check the path, which counts from {here}"
    assert failure(started("%sandbox upload 'no file'")) == ('no file "no file" on this side', start)
    assert failure(started("%sandbox unpack no.zip")) == ('no file "no.zip" on this side', start)
    assert failure(started(f"%sandbox upload {here}/no"))[1] == "check the path"
    monkeypatch.setattr("sandbox_notebook.magics.views_for", lambda shell: Views())
    assert failure(started("%sandbox upload 'no file'"))[1] == f"{start}; %sandbox upload alone lets you choose"


def test_a_directory_is_no_archive(started: Run, here: Path) -> None:
    (here / "my d").mkdir()
    assert failure(started("%sandbox unpack 'my d'")) == (
        '"my d" is a directory',
        "%sandbox upload 'my d' brings it in as it is",
    )


def test_a_name_with_blanks_and_no_quotes_is_told_how_to_quote(started: Run, here: Path) -> None:
    (here / "Übersicht 2024 (neu).csv").touch()
    (here / "x.csv").touch()
    message, hint = failure(started("%sandbox upload x.csv Übersicht 2024 (neu).csv x.csv"))
    assert message == 'no file "Übersicht" on this side'
    assert hint == "a name with blanks needs quotes: 'Übersicht 2024 (neu).csv'"
    assert started("%sandbox upload 'Übersicht 2024 (neu).csv'").error is None


def test_both_directions_take_a_directory_by_to(started: Run, here: Path) -> None:
    (here / "x y.csv").write_text("1")
    started("%sandbox upload 'x y.csv' --to in")
    assert started("%sandbox download 'in/x y.csv' --to back").error is None
    assert (here / "back/x y.csv").read_text() == "1"
    assert started("%sandbox download in --to back").error is None
    assert (here / "back/in/x y.csv").read_text() == "1"
    assert started("%sandbox download in --to back").error is None
    assert failure(started("%sandbox download in there --to back"))[0] == '"there" and --to both say where to'


def test_a_file_where_a_directory_is_needed_is_no_matter_of_overwriting(started: Run, here: Path) -> None:
    (here / "x.csv").touch()
    started("%sandbox upload x.csv")
    for line in ("%sandbox upload x.csv --to x.csv/d", "%sandbox upload x.csv --to x.csv/d --overwrite"):
        message, hint = failure(started(line))
        assert message == 'a file is in the way of "/workspace/x.csv/d/x.csv"; choose another path'
        assert hint == "%sandbox ls -l shows what is there"


def test_what_we_put_there_ourselves_may_be_replaced(started: Run, here: Path) -> None:
    for content in ("one", "three"):
        (here / "x.txt").write_text(content)
        assert started("%sandbox upload x.txt").error is None
    started("%sandbox download x.txt back.txt")
    (here / "x.txt").write_text("four")
    started("%sandbox upload x.txt")
    assert started("%sandbox download x.txt back.txt").error is None
    assert (here / "back.txt").read_text() == "four"


def test_what_somebody_else_put_there_needs_the_flag(started: Run, here: Path) -> None:
    (here / "x.txt").write_text("ours")
    started("%sandbox upload x.txt")
    started("%%sandbox run --lang sh\necho theirs > x.txt")
    assert failure(started("%sandbox upload x.txt")) == (
        '"x.txt" is in the sandbox already',
        "%sandbox upload --overwrite … replaces it",
    )
    assert started("%sandbox run cat x.txt").stdout == "theirs\n"
    assert failure(started("%sandbox download x.txt")) == (
        '"x.txt" is here already',
        "%sandbox download --overwrite … replaces it",
    )
    assert (here / "x.txt").read_text() == "ours"
    assert started("%sandbox download x.txt --overwrite").error is None
    assert (here / "x.txt").read_text() == "theirs\n"
    assert [path.name for path in here.iterdir()] == ["x.txt"]


def test_the_same_content_is_no_conflict(started: Run, here: Path) -> None:
    started("%%sandbox run --lang sh\nmkdir d; printf same > d/x.txt; printf new > d/y.txt")
    (here / "d").mkdir()
    (here / "d/x.txt").write_text("same")
    (here / "d/z.txt").write_text("mine")
    assert started("%sandbox download d").error is None
    assert {p.name: p.read_text() for p in (here / "d").iterdir()} == {"x.txt": "same", "y.txt": "new", "z.txt": "mine"}
    assert started("%sandbox upload d/x.txt --to d").error is None


def test_a_directory_with_a_stranger_in_it_is_left_alone(started: Run, here: Path) -> None:
    (here / "d").mkdir()
    (here / "d/x.txt").write_text("1")
    (here / "d/y.txt").write_text("2")
    started("%%sandbox run --lang sh\nmkdir d; echo theirs > d/y.txt")
    assert failure(started("%sandbox upload d"))[0] == '"d/y.txt" is in the sandbox already'
    assert started("%sandbox run cat d/y.txt").stdout == "theirs\n"
    started("%sandbox config confirm_overwrite false")
    assert started("%sandbox upload d").error is None
    assert started("%sandbox run cat d/y.txt").stdout == "2"


def test_listings_are_text_that_stays_the_same_and_objects(started: Run) -> None:
    started(
        "%%sandbox run --lang sh\nmkdir d; printf 12345 > f; ln -s f l; mkfifo p; printf x > \"$(printf 'a\\033b')\""
    )
    assert started("%sandbox ls").text == (
        "name      size\na\\x1bb     1 B\nd/\nf          5 B\nl → f\np (fifo)\n2 files, 1 directory, 2 other, 6 B"
    )
    long = started("%sandbox ls -l").text.splitlines()
    assert long[0].split() == ["mode", "name", "size", "modified"]
    assert long[2].startswith("drwx") and long[4].startswith("lrwx")
    assert started("x = %sandbox ls d\nrepr(x)").result == "nothing there"
    assert started("[e.name for e in get_ipython().run_line_magic('sandbox', 'ls')]").result[1:3] == ["d", "f"]


def test_a_listing_becomes_a_data_frame(started: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = ModuleType("pandas")
    pandas.DataFrame = lambda records: records  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    (here / "x.txt").write_text("12345")
    started("%sandbox upload x.txt")
    frame = started("x = %sandbox ls\nx.to_pandas()").result
    assert isinstance(frame, list)
    assert [(row["name"], row["size"], row["kind"]) for row in frame] == [("x.txt", 5, "file")]
    frame = started("x = %sandbox list\nx.to_pandas()").result
    assert isinstance(frame, list) and frame[0]["name"] == "local"


def test_without_pandas_a_frame_is_an_error_that_names_it(started: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    error = started("x = %sandbox ls\nx.to_pandas()").error
    assert isinstance(error, ModuleNotFoundError) and error.name == "pandas"
    assert str(error) == "to_pandas() needs pandas: %pip install pandas"


def test_where_nobody_may_look_what_we_remember_decides(run: Run, here: Path) -> None:
    run("%sandbox start --only transfer")
    (here / "x.txt").write_text("one")
    run("%sandbox upload x.txt")
    (here / "x.txt").write_text("three")
    assert run("%sandbox upload x.txt").error is None
    run("%sandbox start --name again --only transfer")
    run("%sandbox upload x.txt --in local --to d --overwrite")
    run("y = %sandbox use local\ny.files.write('d/y.txt', 'theirs')")
    (here / "y.txt").write_text("mine")
    assert failure(run("%sandbox upload y.txt --to d"))[0] == '"d/y.txt" is in the sandbox already'


def test_what_is_left_out_of_a_directory_is_told(started: Run, here: Path) -> None:
    (here / "d").mkdir()
    (here / "d/x.txt").write_text("x")
    (here / "d/dangling").symlink_to("nowhere")
    assert "left out: " in started("%sandbox upload d").text


# run


def test_a_body_arrives_byte_for_byte(started: Run) -> None:
    body = "import sys\nprint(repr('''{\"k\": 1} {x} $HOME \\\\ \\n é日 {{}} %ls !pwd ?'''))\nprint(f'{1 + 1}')\n"
    done = started(f"%%sandbox run\n{body}")
    assert done.error is None
    assert done.stdout == repr('{"k": 1} {x} $HOME \\ \n é日 {{}} %ls !pwd ?') + "\n2\n"


@pytest.mark.parametrize("language", ["python", "bash", "sh"])
def test_a_body_is_run_by_its_language(started: Run, language: str) -> None:
    body = {"python": "import sys; print('hi'); sys.exit(7)"}.get(language, "echo hi\nread x\nexit 7")
    done = started(f"%%sandbox run --lang {language} --out result\n{body}")
    assert done.stdout == "hi\n"
    assert failure(done) == (
        f"{language} cell ended with exit code 7",
        "--ok if that is no error; --out VAR keeps the result",
    )
    result = started("result").result
    assert isinstance(result, CommandResult) and (result.exit_code, result.stdout) == (7, "hi\n")


def test_a_large_body_runs_too(started: Run) -> None:
    assert started("%%sandbox run\nx = '" + "é" * 200_000 + "'\nprint(len(x))").stdout == "200000\n"


def test_a_traceback_shows_the_lines_of_the_cell_and_nothing_else(started: Run) -> None:
    done = started("%%sandbox run\ndef f():\n    return 1 / 0\n\nf()")
    assert done.stderr.splitlines()[:3] == [
        "Traceback (most recent call last):",
        '  File "<cell>", line 4, in <module>',
        "    f()",
    ]
    assert "<string>" not in done.stderr and "boot" not in done.stderr


def test_a_command_on_the_line_reads_the_body(started: Run) -> None:
    assert started("%%sandbox run wc -l\na\nb\n").stdout.strip() == "2"


def test_a_line_reaches_the_command_unexpanded(started: Run, shell: InteractiveShell) -> None:
    shell.user_ns["name"] = "expanded"
    done = started("%sandbox run python3 -c \"import sys; print(sys.argv[1:])\" {name} $name 'a b' C:\\x # no")
    assert done.stdout == "['{name}', '$name', 'a b', 'C:\\\\x', '#', 'no']\n"


@pytest.mark.field(170)
def test_field_170_variables_come_in_by_an_explicit_flag(started: Run, shell: InteractiveShell) -> None:
    shell.user_ns.update(name="my file", n=3)
    done = started('%sandbox run --fill python3 -c "import sys; print(sys.argv[1:])" {name} {n}')
    assert done.stdout == "['my file', '3']\n"
    assert started("%%sandbox run --fill\nprint({n} + 1, {{'k': 1}})").stdout == "4 {'k': 1}\n"


def test_variables_come_into_the_environment_and_the_directory_too(started: Run, shell: InteractiveShell) -> None:
    shell.user_ns.update(name="my file", where="in")
    started("%sandbox mkdir in")
    program = "import os; print(os.environ['A'], os.environ['B'], os.getcwd())"
    done = started(f'%sandbox run --fill --env A={{name}} --env B={{{{x}}}} --cwd {{where}} -- python3 -c "{program}"')
    assert done.stdout == "my file {x} /workspace/in\n"
    assert started("%sandbox run --env A={name} printenv A").stdout == "{name}\n"
    message, _ = failure(started("%sandbox run --fill --env A={gone} printenv A"))
    assert message == '--fill found {gone}, and there is no variable "gone"'


@pytest.mark.field(169)
def test_field_169_a_missing_variable_is_named_and_nothing_runs(started: Run) -> None:
    message, hint = failure(started("%%sandbox run --fill\nopen('made', 'w')\nprint({gone})"))
    assert message == '--fill found {gone}, and there is no variable "gone"'
    assert started("%sandbox ls").text.endswith("nothing there")


def test_variables_become_files(started: Run, shell: InteractiveShell) -> None:
    shell.user_ns.update(text="é\n", data=b"\0\xff", table={"a": [1]}, number=1)
    line = "%sandbox run --file t.txt=text --file d.bin=data --file j.json=table"
    done = started(
        line + " python3 -c \"print(open('t.txt').read(), open('d.bin','rb').read(), open('j.json').read())\""
    )
    assert done.stdout == "é\n b'\\x00\\xff' {\"a\": [1]}\n"
    assert failure(started("%sandbox run --file early=text --stdin cat"))[0] == "--stdin goes with --bg and a command"
    assert "early" not in started("%sandbox ls").text
    assert failure(started("%sandbox run --file x=nosuch ls"))[0] == 'there is no variable "nosuch" to write to "x"'
    assert failure(started("%sandbox run --file x=number ls"))[0] == (
        '"number" is of type int, and "x" takes text or bytes'
    )


def test_env_and_cwd_and_quiet(started: Run) -> None:
    started("%%sandbox run --lang sh\nmkdir d")
    done = started("x = %sandbox run --quiet --cwd d --env A=1 --env B='x y' sh -c 'pwd; echo $A $B'")
    printed = started("x.stdout").result
    assert done.stdout == ""
    assert str(printed).splitlines()[0].endswith("/d") and str(printed).splitlines()[1] == "1 x y"


def test_shell_syntax_on_a_line_is_refused_with_the_way_to_do_it(started: Run) -> None:
    for line in ("cat x | wc", "ls > out", "ls 2>&1", "make && make test", "cd d; ls", "sleep 9 &", "ls 2>/dev/null"):
        message, hint = failure(started(f"%sandbox run {line}"))
        assert message.startswith("no shell reads this line, so ")
        assert hint == "use %%sandbox run --lang bash, or %sandbox run -- … to pass it on as it is"
    assert started("%sandbox run echo '|' a>b x=>y").stdout == "| a>b x=>y\n"
    assert started("%sandbox run -- echo | cat").stdout == "| cat\n"
    assert (
        failure(started("%sandbox run ls *.nosuch"))[1]
        == 'no shell expanded "*.nosuch": %%sandbox run --lang bash does'
    )


def test_a_timeout_keeps_the_output_and_says_what_to_do(started: Run) -> None:
    for seconds in (1, 10, 60):  # the first is too short for a program to start only where a machine is slow
        body = "print('before', flush=True)\nimport time\nopen('said', 'w').close()\ntime.sleep(600)"
        done = started(f"%%sandbox run --timeout {seconds}\n{body}")
        if "said" in started("%sandbox ls").text:
            break
    assert done.stdout == "before\n"
    assert failure(done)[1] == "--timeout SECONDS gives it longer, --bg does not wait"


def test_a_missing_program_is_an_error(started: Run) -> None:
    assert "nosuchprogram" in failure(started("%sandbox run nosuchprogram"))[0]


def test_a_flood_is_cut(started: Run) -> None:
    started("%sandbox config max_lines 10")
    done = started("%%sandbox run --out r\nfor i in range(1000): print(i)")
    assert done.stdout.splitlines()[10] == "… 970 lines not shown; --out VAR keeps the output …"
    assert done.stdout.splitlines()[-1] == "999"
    assert started("len(r.stdout.splitlines())").result == 1000


@pytest.mark.parametrize("cell", ["%%sandbox run\n   \n", "%sandbox run"])
def test_nothing_to_run_is_a_mistake(started: Run, cell: str) -> None:
    assert failure(started(cell))[0] in ("the cell has no body", "command is missing")


# caps, check, refusals


@pytest.mark.finding("R1-F1")
def test_a_sandbox_for_transfers_only_is_one_line(run: Run, here: Path) -> None:
    assert run("%sandbox start --only transfer --download-from out").error is None
    (here / "x.txt").write_text("x")
    for target in ("out", "in"):
        assert run(f"%sandbox upload x.txt --to {target}").error is None
    assert run("%sandbox download x.txt y.txt").error is None  # relative to the only directory that is allowed
    assert (here / "y.txt").read_text() == "x"
    root = run("x = %sandbox use local\nx.root").result
    message, hint = failure(run(f"%sandbox download {root}/in/x.txt z"))
    assert message.startswith("denied: ") and message.endswith(" · files_download_stream · path_not_allowed")
    assert hint == "%sandbox caps files_download_stream lists the directories that are allowed"
    message, _ = failure(run("%sandbox run ls"))
    assert message.endswith(" · shell_stream · endpoint_disabled")
    allowed = {line.split()[1] for line in run("%sandbox caps").text.splitlines() if line.startswith("  ✓")}
    assert {"files_upload_stream", "files_download_stream"} <= allowed
    assert not {"files_list", "shell", "shell_stream", "process_start"} & allowed


@pytest.mark.finding("R1-U5")
@pytest.mark.parametrize("path", ["in/x.txt", "/etc/passwd", ".env", "/proc/self/environ", "../x"])
def test_check_says_what_enforcement_does(started: Run, here: Path, path: str) -> None:
    answer = started(f"x = %sandbox check files_download_stream {path}\nx").result
    done = started(f"%sandbox download {path} copy")
    assert failure(done)
    assert bool(answer) == ("denied" not in str(done.error))
    if not answer:
        assert answer.decision.code in str(done.error)


def test_check_gives_reason_code_and_hint(started: Run) -> None:
    text = started("%sandbox check files_download_stream /etc/passwd").text
    assert text.startswith('✗ denied: files_download_stream of "/etc/passwd"')
    assert "\n  code    path_not_allowed\n" in text
    assert failure(started("%sandbox check files_lst"))[1] == "did you mean files_list?"
    assert started("%sandbox check browser_pdf").text.splitlines()[-2].split()[0] == "rule"


def test_caps_of_one_endpoint_shows_limits_and_paths(started: Run) -> None:
    text = started("%sandbox caps files_upload_stream").text
    assert text.startswith("✓ files_upload_stream is allowed\n")
    assert "max bytes" in text and "paths" in text
    assert started("%sandbox caps browser_pdf").text.startswith("✗ browser_pdf is denied: switched off\n")
    assert failure(started("%sandbox caps files_lst"))[1] == "did you mean files_list?"


def test_a_refusal_is_two_lines(started: Run) -> None:
    done = started("%sandbox download /etc/passwd")
    lines = [strip(line) for line in done.traceback]
    assert len(lines) == 2
    assert lines[0].startswith('denied: "/etc/passwd"') and lines[0].endswith(
        "files_download_stream · path_not_allowed"
    )
    assert not Path("passwd").exists()


def test_the_first_examples_of_the_page_run_as_they_are_printed(run: Run, here: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/topics/notebook.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (here / "data.csv").write_text("n\n1\n")
    run("import pandas\ndf = pandas.DataFrame({'name': ['a', 'b'], 'size': [1, 2]})")  # what the reader has
    for example in examples:
        assert run(example).error is None, example
    assert len(examples) == 3
    assert run("list(top.name)").result == ["a", "b"]
    assert run("[entry.name for entry in files], result.stdout").result == (["data.csv"], "n\n1\n\n")


# ps, logs, kill


def test_a_background_process_can_be_listed_read_and_ended(started: Run) -> None:
    done = started("%%sandbox run --bg --out job\nimport time\nprint('ready', flush=True)\ntime.sleep(600)")
    assert done.text.splitlines()[0] == "✓ python cell runs in the background as 1"
    assert started("%sandbox ps").text == "   state    command\n1  running  python cell"
    job = started("job").result
    assert isinstance(job, Process)
    with job.follow() as events:
        assert next(iter(events)).data == b"ready\n"
    assert started("%sandbox logs").stdout == "ready\n"
    assert started("%sandbox kill").text == "✓ 1 (python cell) has ended: SIGTERM"
    assert started("%sandbox ps").text == "nothing runs in the background"
    assert started("%sandbox ps -a").text.splitlines()[1].split() == ["1", "SIGTERM", "python", "cell"]
    assert started("%sandbox kill 1").text == "1 (python cell) has ended already"
    assert failure(started("%sandbox kill"))[0] == 'nothing runs in the background of sandbox "local"'
    assert failure(started("%sandbox logs 999")) == ('no process "999" in sandbox "local"', "%sandbox ps --all")


def test_following_ends_with_the_process(started: Run) -> None:
    started("%%sandbox run --bg\nimport sys\nfor i in range(3):\n    print(i)\nprint('bad', file=sys.stderr)")
    done = started("%sandbox logs -f 1")
    assert (done.stdout, done.stderr) == ("0\n1\n2\n", "bad\n")
    assert started("%sandbox logs 1").stdout == "0\n1\n2\n"


def test_a_cell_started_by_the_kernel_before_is_called_the_same(
    started: Run, shell: InteractiveShell, here: Path
) -> None:
    started("%%sandbox run --bg --lang bash\nsleep 600")
    shell.meta["sandbox_notebook"]["session"].entries["local"].titles.clear()
    assert started("%sandbox ps").text == "   state    command\n1  running  bash cell"


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("input()", "nobody can type into a running cell: %%sandbox run COMMAND gives it the body below as input"),
        (
            "import urllib.request\nurllib.request.urlopen('http://host.invalid')",
            'sandbox "local" has no network; %sandbox start --network --name NAME makes one that has',
        ),
        ("raise ValueError('EOFError')", "--ok if that is no error; --out VAR keeps the result"),
    ],
)
def test_what_a_sandbox_cannot_give_is_said_where_a_program_misses_it(started: Run, body: str, hint: str) -> None:
    assert failure(started(f"%%sandbox run\n{body}")) == ("python cell ended with exit code 1", hint)


def test_a_log_without_a_word_says_so(started: Run) -> None:
    started("%sandbox run --bg sleep 600")
    assert started("%sandbox logs").text == "1 (sleep 600) has written nothing so far"
    started("%sandbox run --bg true")
    assert started("%sandbox logs -f").text == "2 (true) has written nothing"


def test_a_process_that_ignores_the_signal_is_told(started: Run) -> None:
    started("%%sandbox run --bg --out job --lang sh\ntrap '' INT\necho ready\nsleep 600; sleep 600")
    with started("job").result.follow() as events:  # type: ignore[attr-defined]
        next(iter(events))
    assert started("%sandbox kill -s KILL 1").text == "✓ 1 (sh cell) has ended: SIGKILL"


def test_one_that_ignores_the_first_signal_gets_a_second(started: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_GRACE", 0.05)
    body = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(600)"
    started(f"%%sandbox run --bg --out job\n{body}")
    with started("job").result.follow() as events:  # type: ignore[attr-defined]
        next(iter(events))
    assert started("%sandbox kill -s TERM").text == "1 (python cell) got the signal and goes on"
    assert started("%sandbox kill").text == "✓ 1 (python cell) has ended: SIGKILL"


def test_lost_output_is_counted(started: Run) -> None:
    started("%%sandbox run --bg --out job\nfor i in range(20000): print('y' * 99)")
    started("job").result.wait()  # type: ignore[attr-defined]
    assert started("%sandbox logs").stdout.startswith("… ")


def test_details_are_there_when_asked_for(started: Run) -> None:
    started("%sandbox run --bg sleep 600")
    assert started("%sandbox ps -l").text.splitlines()[0].split() == ["state", "command", "pid", "id", "started"]
    assert "directory" in started("%sandbox info -l").text and "directory" not in started("%sandbox info").text


# completion of names in the sandbox


def test_tab_completes_names_in_the_sandbox(started: Run, shell: InteractiveShell) -> None:
    started("%%sandbox run --lang sh\nmkdir -p out; touch out/plot.svg out/plan.txt")
    started("%sandbox run --bg sleep 600")
    terminal = started("with get_ipython().run_line_magic('sandbox', 'info').pty.create() as t: pass\nt.id").result
    for typed, completed in (
        ("%sandbox download o", "%sandbox download out/"),
        ("%sandbox download out/plo", "%sandbox download out/plot.svg"),
        ("%sandbox ls --in lo", "%sandbox ls --in local"),
        ("%sandbox kill ", "%sandbox kill 1"),
        ("%sandbox term --id ", f"%sandbox term --id {terminal}"),
    ):  # a Tab does not wait for a slow sandbox; the next one has the answer
        eventually(lambda typed=typed, completed=completed: complete(shell, typed) == [completed])


def test_an_interrupt_anywhere_is_one_line(started: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Files, "list", interrupted)
    done = started("%sandbox ls")
    assert isinstance(done.error, KeyboardInterrupt)
    assert [strip(line) for line in done.traceback] == ["KeyboardInterrupt: ls was stopped"]
