"""Loading, unloading and reloading; errors as IPython shows them; settings; what a line may hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from .conftest import Run


def test_loading_costs_no_http_library_and_no_pandas() -> None:
    program = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell as S\n"
        "from traitlets.config import Config\n"
        "c = Config(); c.HistoryManager.enabled = False; shell = S.instance(config=c)\n"
        "before = set(sys.modules)\nshell.run_line_magic('load_ext', 'sandbox_sdk')\n"
        "assert 'sandbox' in shell.magics_manager.magics['cell']\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new & {'httpx', 'httpcore', 'anyio', 'ssl', 'pandas', 'nest_asyncio', 'sandbox_server'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_every_widget_has_a_short_name_that_is_looked_up_late() -> None:
    import sandbox_notebook

    for name in sandbox_notebook.__all__:
        assert getattr(sandbox_notebook, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        sandbox_notebook.Nothing  # noqa: B018


def installed(shell: InteractiveShell) -> tuple[int, int, int, int, bool]:
    """How often each part is there."""
    return (
        sum(type(one).__name__ == "SandboxMagics" for one in shell.configurables),
        sum(getattr(m, "matcher_identifier", "") == "sandbox_notebook" for m in shell.Completer.custom_matchers),
        sum(type(one).__name__ == "BareMagics" for one in shell.ast_transformers),
        sum("after_cell" in one.__qualname__ for one in shell.events.callbacks["post_run_cell"]),
        "sandbox" in shell.magics_manager.magics["line"] and "sandbox" in shell.magics_manager.magics["cell"],
    )


def test_loading_twice_is_loading_once_by_either_name(shell: InteractiveShell, run: Run) -> None:
    run("%load_ext sandbox_sdk\n%load_ext sandbox_notebook")
    assert installed(shell) == (1, 1, 1, 1, True)


def test_unloading_takes_everything_away_and_loading_brings_it_back(shell: InteractiveShell, run: Run) -> None:
    run("%unload_ext sandbox_notebook")
    assert installed(shell) == (0, 0, 0, 0, False)
    run("%load_ext sandbox_notebook")
    assert installed(shell) == (1, 1, 1, 1, True)


@pytest.mark.parametrize("line", ["%load_ext sandbox_notebook", "%reload_ext sandbox_notebook"])
def test_what_stands_below_the_loading_in_one_cell_shows_too(shell: InteractiveShell, run: Run, line: str) -> None:
    if line.startswith("%load"):
        run("%unload_ext sandbox_notebook")
    done = run(f"{line}\n%sandbox config ui html\nx = %sandbox config ui text\n%sandbox config timeout 5")
    assert [output["text/plain"] for output in done.outputs] == ["✓ ui is html now", "✓ timeout is 5 now"]
    assert done.result is None


def test_reloading_keeps_the_sandboxes(shell: InteractiveShell, run: Run) -> None:
    session = shell.meta["sandbox_notebook"]["session"]
    run("%reload_ext sandbox_notebook")
    assert installed(shell) == (1, 1, 1, 1, True)
    assert shell.magics_manager.registry["SandboxMagics"].session is session


def test_alone_it_shows_every_subcommand_with_an_example(run: Run) -> None:
    done = run("%sandbox")
    assert done.error is None
    for line in ("%sandbox start --policy read-only", "%sandbox download out/plot.svg", "%sandbox kill 1"):
        assert line in done.text
    assert "<table" in done.outputs[0]["text/html"]


def test_help_shows_one_subcommand_in_full(run: Run) -> None:
    text = run("%sandbox run --help").text
    assert text.startswith("%%sandbox run: run a command, or the cell's body")
    assert "--env K=V        an environment variable (may be repeated)" in text
    assert run("%sandbox help run").text == text


def test_question_mark_shows_the_table(shell: InteractiveShell) -> None:
    doc = shell.magics_manager.magics["line"]["sandbox"].__doc__
    assert doc and "%sandbox upload data.csv --to in" in doc


@pytest.mark.parametrize("cell", ["%sandbox run?", "\n%sandbox run ??\n", "%%sandbox run?"])
def test_a_question_mark_behind_a_subcommand_asks_about_it(run: Run, cell: str) -> None:
    """IPython itself would tell about its own ``%run``."""
    assert run(cell).text == run("%sandbox help run").text


def test_no_other_question_mark_is_taken_for_such_a_question(shell: InteractiveShell, run: Run) -> None:
    for cell in ("%sandbox nosuch?\n", "%%sandbox run\n%sandbox run?\n", "text = '''\n%sandbox run?\n'''\n"):
        assert "help" not in shell.transform_cell(cell), cell
    run("%unload_ext sandbox_notebook")
    assert "pinfo" in shell.transform_cell("%sandbox run?\n")
    run("%load_ext sandbox_notebook")


def test_a_bare_magic_shows_its_result_wherever_it_stands(run: Run) -> None:
    done = run("%sandbox help use\nx = %sandbox help stop\nif True:\n    %sandbox help list\n%sandbox help kill\n")
    heads = [output["text/plain"].partition(":")[0] for output in done.outputs]
    assert heads == ["%sandbox use", "%sandbox list", "%sandbox kill"]


def test_an_assignment_shows_nothing_and_gets_the_value(shell: InteractiveShell, run: Run) -> None:
    done = run("x = %sandbox help stop")
    assert done.outputs == [] and done.stdout == ""
    assert repr(shell.user_ns["x"]).startswith("%sandbox stop: end the sandbox")


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        ("%sandbox ls", ["no sandbox is running in this kernel", "  %sandbox start"]),
        (
            "%sandbox run it's",
            [
                "no closing quote: %sandbox run it's",
                """                                 ^ opened here; write "it's" for the characters themselves""",
            ],
        ),
        (
            "%%sandbox rum --lang bash\nls",
            ['"rum" is no subcommand: %%sandbox rum --lang bash', " " * 34 + "^ did you mean %sandbox run?"],
        ),
        (
            "%%sandbox bash\nls",
            ['"bash" is no subcommand: %%sandbox bash', " " * 35 + "^ %%sandbox run --lang bash"],
        ),
        (
            "%%sandbox zzzzz\nls",
            ['"zzzzz" is no subcommand: %%sandbox zzzzz', " " * 36 + "^ %sandbox help"],
        ),
        ("%%sandbox run", ["the cell has no body", "  %%sandbox run --lang python, and the program below it"]),
        ("%sandbox use nosuch", ['no sandbox is called "nosuch"', "  %sandbox start"]),
    ],
)
def test_an_error_is_two_lines_and_a_real_exception(run: Run, cell: str, lines: list[str]) -> None:
    done = run(cell)
    assert type(done.error).__name__ == "SandboxMagicError"
    assert [strip(line) for line in done.traceback] == lines


def strip(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_an_error_of_the_client_shows_what_and_where_and_no_line_of_ours(run: Run) -> None:
    done = run("sb = %sandbox start\ndef load(path):\n    return sb.files.read(path)\nload('nope')")
    shown = [strip(line) for line in done.traceback]
    assert shown[0].startswith('NotFoundError: no file at "') and shown[0].endswith("[not_found]")
    assert shown[-2:] == ["  line 4: load('nope')", "  line 3, in load: return sb.files.read(path)"]
    assert "sandbox_sdk" not in "".join(shown) and len(shown) <= 4
    assert type(done.error).__name__ == "NotFoundError"

    widget = run("from sandbox_notebook import FileBrowser\nFileBrowser(sb, 'nope')")
    assert [strip(line) for line in widget.traceback][1:] == ["  line 2: FileBrowser(sb, 'nope')"]

    whole = run("%config SandboxMagics.tracebacks = True\nload('nope')")
    assert "sandbox_sdk" in strip("".join(whole.traceback))


@pytest.mark.parametrize(
    ("call", "error", "what", "hint"),
    [
        ("upload('nosuch.csv', 'x')", FileNotFoundError, 'no such file or directory: "nosuch.csv"',
         "check the path, which counts from {here}"),
        ("unpack('{here}/no.zip')", FileNotFoundError, 'no such file or directory: "{here}/no.zip"', "check the path"),
        ("unpack('d')", IsADirectoryError, 'is a directory: "d"',
         "see to it on this side; the sandbox has no part in it"),
        ("download('x', 'f/x')", NotADirectoryError, 'not a directory: "f/x"',
         "see to it on this side; the sandbox has no part in it"),
        ("download('dir', 'f/x')", NotADirectoryError, 'not a directory: "f/x"',
         "see to it on this side; the sandbox has no part in it"),
    ],
)  # fmt: skip
def test_an_error_about_a_file_of_this_side_is_as_short_and_stays_what_it_is(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: type, what: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    run("sb = %sandbox start\nsb.files.write('x', 'x'); sb.files.mkdir('dir')")
    line = f"sb.files.{call}".replace("{here}", str(tmp_path))
    done = run(line)
    assert type(done.error) is error
    shown = [f"{error.__name__}: {what}", f"  hint: {hint}", f"  line 1: {line}"]
    assert [strip(text) for text in done.traceback] == [text.replace("{here}", str(tmp_path)) for text in shown]
    whole = run(f"%config SandboxMagics.tracebacks = True\n{line}")
    assert "sandbox_sdk" in strip("".join(whole.traceback))
    assert run(f"try:\n    {line}\nexcept {error.__name__} as error:\n    found = error.filename\nfound").error is None


def test_whole_tracebacks_can_be_asked_for(run: Run) -> None:
    done = run("%config SandboxMagics.tracebacks = True\n%sandbox ls")
    assert type(done.error).__name__ == "Mistake"
    assert "session.py" in strip("".join(done.traceback))


def test_a_users_own_error_keeps_its_traceback(run: Run) -> None:
    done = run("raise LookupError('gone')")
    assert "Traceback" in strip("".join(done.traceback))


def test_settings_can_be_read_and_set_both_ways(shell: InteractiveShell, run: Run) -> None:
    assert "max_lines          2000" in run("%sandbox config").text
    assert run("%sandbox config max_lines 50").text == "✓ max_lines is 50 now"
    magics = shell.magics_manager.registry["SandboxMagics"]
    assert magics.max_lines == 50
    run("%config SandboxMagics.confirm_overwrite = False")
    assert "confirm_overwrite  false" in run("%sandbox config").text
    assert run("%sandbox config ui text").error is None
    assert set(run("%sandbox config").outputs[0]) == {"text/plain"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_lines many", '"many" is no value for max_lines, expected a whole number'),
        ("max_lines 0", '"0" is no value for max_lines'),
        ("tracebacks maybe", '"maybe" is no value for tracebacks, expected true or false'),
        ("timeout x", '"x" is no value for timeout, expected a number'),
        ("ui loud", '"loud" is no value for ui, expected one of auto, widget, html, text'),
        ("colour red", '"colour" is no setting'),
    ],
)
def test_a_wrong_setting_is_refused(run: Run, line: str, message: str) -> None:
    assert str(run(f"%sandbox config {line}").error) == message


def test_the_environment_sets_the_first_ui(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, expected in (("html", "html"), ("text", "text"), ("nonsense", "auto")):
        monkeypatch.setenv("SANDBOX_SDK_UI", value)
        shell.extension_manager.unload_extension("sandbox_notebook")
        shell.extension_manager.load_extension("sandbox_notebook")
        assert shell.magics_manager.registry["SandboxMagics"].ui == expected


def complete(shell: InteractiveShell, text: str) -> list[str]:
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    return [text[: one.start] + one.text for one in found]


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("%sandbox upl", ["%sandbox upload"]),
        ("x = %sandbox upl", ["x = %sandbox upload"]),
        ("    %sandbox upl", ["    %sandbox upload"]),
        ("y = 1\n%sandbox upl", ["y = 1\n%sandbox upload"]),
        ("%%sandbox run --ti", ["%%sandbox run --timeout"]),
        ("%sandbox start --isolation=bu", ["%sandbox start --isolation=bubblewrap"]),
        ("%sandbox start --only files_list,files_sta", ["%sandbox start --only files_list,files_stat"]),
        ("%sandbox check files_upl", ["%sandbox check files_upload_stream"]),
        ("%sandbox upload 'my f", ["%sandbox upload 'my file.txt'"]),
        ("%sandbox upload no", ["%sandbox upload notes/"]),
        ("%sandbox config max", ["%sandbox config max_lines"]),
        ("%%sandbox code --push wi", ["%%sandbox code --push wide_table"]),
        ("%sandbox help down", ["%sandbox help download"]),
    ],
)
def test_tab_completes(
    shell: InteractiveShell,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    completed: list[str],
) -> None:
    here = tmp_path_factory.mktemp("here")
    (here / "my file.txt").touch()
    (here / "notes").mkdir()
    monkeypatch.chdir(here)
    shell.user_ns["wide_table"] = shell.user_ns["_wide"] = None
    assert complete(shell, typed) == completed


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("%sandbox run --file x=wide_", ["%sandbox run --file x=wide_table"]),
        ("%sandbox run --file wide_", []),
        ("%sandbox run --timeout ", []),
        ("%sandbox term --id wide_", []),
        ("%sandbox connect --token-env WIDE_T", ["%sandbox connect --token-env WIDE_TOKEN"]),
        ("%sandbox nosuch wide_", []),
        ("%sandbox grep --name wide_", []),
        ("%sandbox run cat wide_", ["%sandbox run cat wide_file"]),
    ],
)
def test_where_nothing_of_ours_fits_tab_offers_what_others_have_in_programs_alone(
    shell: InteractiveShell, here: Path, monkeypatch: pytest.MonkeyPatch, typed: str, completed: list[str]
) -> None:
    (here / "wide_file").touch()
    shell.user_ns["wide_table"] = None
    monkeypatch.setenv("WIDE_TOKEN", "x")
    assert complete(shell, typed) == completed


def test_tab_leaves_other_lines_alone(shell: InteractiveShell) -> None:
    assert "%%sandbox" in complete(shell, "%%sandb")
    assert complete(shell, "%%sandbox run\nimpor")[:1] == ["%%sandbox run\nimport"]


NESTED = "import asyncio\nasync def main():\n    return 42\n"


OUTER = """
async def outer():
    coroutine = main()
    try:
        asyncio.run(coroutine)
    finally:
        coroutine.close()
await outer()
"""


def test_a_nested_loop_brings_a_hint(run: Run) -> None:
    done = run(NESTED + OUTER)
    assert isinstance(done.error, RuntimeError)
    assert "%config SandboxMagics.nested_asyncio = True" in done.stderr
    assert "hint" not in run("raise RuntimeError('something else')").stderr


def test_importing_leaves_the_loops_of_others_as_they_are() -> None:
    program = (
        "import asyncio\nbefore = [asyncio.run, asyncio.new_event_loop, asyncio.BaseEventLoop.run_until_complete]\n"
        "import sandbox_sdk, sandbox_notebook\n"
        "print([asyncio.run, asyncio.new_event_loop, asyncio.BaseEventLoop.run_until_complete] == before,\n"
        "      hasattr(asyncio, '_nest_patched'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "True False"


def test_nesting_is_off_until_asked_for_and_then_works() -> None:
    program = NESTED + (
        "import sandbox_notebook, sys\nassert 'nest_asyncio' not in sys.modules\n"
        "async def outer():\n    sandbox_notebook.allow_nested()\n    sandbox_notebook.allow_nested()\n"
        "    return asyncio.run(main())\n"
        "print(asyncio.run(outer()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "42"


def test_a_loop_that_cannot_be_nested_is_refused_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    from sandbox_notebook.nested import allow_nested

    class Loop(asyncio.AbstractEventLoop):
        __module__ = "uvloop"

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    with pytest.raises(
        RuntimeError, match='"uvloop" loops cannot be nested: start the kernel with the loop of asyncio'
    ):
        allow_nested()
