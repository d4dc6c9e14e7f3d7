"""Commands: what was judged is what runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_server.guards.commands import Command, CommandGuard, split_command
from sandbox_server.guards.environment import EnvGuard
from sandbox_server.guards.patterns import CommandPattern
from sandbox_server.guards.programs import SearchPath
from sandbox_server.guards.words import split
from sandbox_server.messages import Refusal

from .conftest import STEADY, GuardOf


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(Refusal) as caught:
        action()
    return caught.value.code


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Programs as systems have them: aliases, links of links, one file of many names."""
    usr = tmp_path / "usr/bin"
    usr.mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    for name in ("python3.11", "busybox", "git", "cat"):
        (usr / name).write_text("#!/bin/true\n")
        (usr / name).chmod(0o755)
    for name, target in (
        ("python3", "python3.11"), ("python", "python3"), ("ls", "busybox"), ("rm", "busybox"), ("x", "x"),
    ):  # fmt: skip
        (usr / name).symlink_to(target)
    (usr / "data").write_text("no program")
    return tmp_path


@pytest.fixture
def admit(system: Path) -> Callable[..., Command]:
    def run(
        argv: Sequence[str], allow: Sequence[str] = (), deny: Sequence[str] = (), paths: Any = None, cwd: str = ""
    ) -> Command:
        def real(values: Sequence[str]) -> list[str]:
            return [value.replace("SYS", str(system)) for value in values]

        guard = CommandGuard(real(allow), real(deny), (f"{system}/none", f"{system}/usr/bin"))
        return guard.admit(real(argv), "text", paths, cwd=cwd)

    return run


# Splitting


_lines = st.text(st.sampled_from("ab \t\n'\"\\$#;é"), max_size=20)


@given(_lines)
@settings(STEADY, max_examples=500)
def test_a_line_is_split_as_a_posix_shell_would(line: str) -> None:
    try:
        expected: list[str] | None = shlex.split(line)
    except ValueError:
        expected = None
    try:
        words: list[str] | None = split(line)
    except ValueError:
        words = None
    assert words == expected


@pytest.mark.field(100)
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (None, "invalid_argument"), (5, "invalid_argument"), ("", "invalid_argument"), (["ls"], "invalid_argument"),
        ("echo 'x", "command_invalid"), ("echo \\", "command_invalid"), ("echo a\0b", "command_invalid"),
        ("echo " + "a " * 256, "command_invalid"), ("echo " + "b" * 4097, "command_invalid"),
        ("x" * 3_000_000, "command_invalid"), ("echo \ud800", "command_invalid"),
        ("   ", "process_invalid"), ("''", "process_invalid"), ("\n", "process_invalid"), ("'' x", "process_invalid"),
    ],
)  # fmt: skip
def test_field_100_what_is_no_command_is_a_clear_refusal(raw: object, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        split_command(raw)
    assert (caught.value.code, caught.value.status) == (code, 400)


@pytest.mark.field(100)
def test_field_100_line_feeds_inside_arguments_and_long_commands_pass() -> None:
    assert split_command("sh -c 'a\nb'") == ("sh", "-c", "a\nb")
    line = "echo " + " ".join(["b" * 4096] * 255)
    assert len(line) > 200_000
    assert split_command(line)[1:] == ("b" * 4096,) * 255


# Programs


@pytest.mark.parametrize("argv", [(), ("",)])
def test_arguments_without_a_program_are_refused(admit: Callable[..., Command], argv: tuple[str, ...]) -> None:
    assert code_of(lambda: admit(argv)) == "command_invalid"


def test_a_program_is_looked_up_once_and_named_by_its_file(admit: Callable[..., Command], system: Path) -> None:
    command = admit(["python", "-V"])
    assert command == Command(("python", "-V"), f"{system}/usr/bin/python3.11", "text")
    assert admit(["SYS/bin/python3"]).program == f"{system}/usr/bin/python3.11"
    for name in ("none", "data", "x", "SYS/none", "SYS/usr/bin/x", "a\udc80"):
        assert admit([name]).program == ""


def test_relative_programs_begin_at_the_working_directory(
    admit: Callable[..., Command], guard_of: GuardOf, base: Path
) -> None:
    (base / "sub").mkdir()
    (base / "tool").write_text("1")
    (base / "sub/tool").write_text("2")
    paths = guard_of()
    assert admit(["./tool"], paths=paths).program == f"{base}/tool"
    assert admit(["./tool"], paths=paths, cwd="sub").program == f"{base}/sub/tool"
    assert admit(["../tool"], paths=paths, cwd=str(base / "sub")).program == f"{base}/tool"


@pytest.mark.parametrize("word", ["/proc/self/exe", "/dev/null", "/usr/../proc/self/exe", "/sys/x", "../proc/1/exe"])
def test_no_program_lies_in_the_kernels_own_directories(admit: Callable[..., Command], word: str) -> None:
    assert code_of(lambda: admit([word], deny=["*"])) == "process_denied"


@pytest.mark.parametrize("target", ["/proc/self/exe", "/proc/1/exe", "/dev/null", "/proc", "/sys"])
def test_no_link_leads_to_a_program_there(admit: Callable[..., Command], system: Path, target: str) -> None:
    (system / "usr/bin/hop").symlink_to(target)
    word = "SYS/bin/hop" + ("/self/exe" if target == "/proc" else "")
    assert code_of(lambda: admit([word])) == "process_denied"


@pytest.mark.field(160)
@pytest.mark.parametrize(
    ("allow", "word", "argv0"),
    [
        ("python3", "python3", "python3"),
        ("python3", "python", "python"),
        ("python3", "SYS/usr/bin/python3", None),
        ("python3", "SYS/bin/python", None),
        ("python3", "python3.11", "python3"),
        ("python3.11", "python", "python"),
        ("SYS/usr/bin/python3.11", "python", "python"),
        ("SYS/bin/python3.11", "python3", "python3"),
        ("SYS/bin/python3", "python", "python"),
        ("SYS/bin/python3", "python3.11", "SYS/bin/python3"),
        ("SYS/usr/bin/python*", "python", "python"),
        ("SYS/bin/python*", "python3.11", "python3.11"),
        ("SYS/bin/*", "SYS/usr/bin/git", None),
        ("p*", "python", "python"),
        ("*", "git", "git"),
        ("git", "SYS/bin/git", None),
        ("busybox", "ls", "ls"),
        ("ls", "busybox", "ls"),
    ],
)  # fmt: skip
def test_field_160_programs_are_compared_resolved(
    admit: Callable[..., Command], system: Path, allow: str, word: str, argv0: str | None
) -> None:
    command = admit([word, "a"], allow=[allow])
    assert command.argv == ((argv0 or word).replace("SYS", str(system)), "a")
    assert command.program.startswith(f"{system}/usr/bin/")


@pytest.mark.field(160)
@pytest.mark.parametrize(
    ("allow", "word", "argv0"),
    [
        ("ls", "rm", "ls"),
        ("l*", "rm", "ls"),
        ("SYS/bin/ls", "rm", "SYS/usr/bin/ls"),
        ("python3", "venv/bin/python", "python3"),
        ("python3.11", "venv/bin/python", "python3.11"),
        ("SYS/bin/python*", "venv/bin/python", "SYS/usr/bin/python3"),
        ("BASE/venv/bin/python", "venv/bin/python", "./venv/bin/python"),
    ],
)
def test_field_160_a_link_that_a_caller_may_have_made_does_not_choose_the_name_that_runs(
    admit: Callable[..., Command], guard_of: GuardOf, system: Path, base: Path, allow: str, word: str, argv0: str
) -> None:
    (base / "venv/bin").mkdir(parents=True)
    (base / "venv/bin/python").symlink_to(system / "bin/python3")
    (base / "rm").symlink_to(system / "bin/ls")
    command = admit([f"./{word}", "a"], allow=[allow.replace("BASE", str(base))], paths=guard_of())
    assert command.argv == (argv0.replace("SYS", str(system)), "a")
    assert command.program in (f"{system}/usr/bin/busybox", f"{system}/usr/bin/python3.11")


@pytest.mark.field(160)
@pytest.mark.parametrize(
    ("allow", "word"),
    [
        ("ls", "rm"),
        ("SYS/bin/ls", "rm"),
        ("ls", "./ls"),
        ("ls", "BASE/ls"),
        ("l*", "BASE/ls"),
        ("SYS/bin/*", "BASE/ls"),
        ("SYS/bin/*", "SYS/bin/../../base/ls"),
        ("git", "BASE/git"),
        ("git", "./none/git"),
        ("SYS/bin/none", "git"),
        ("none", "git"),
    ],
)
def test_field_160_a_file_that_is_only_called_so_is_not_allowed(
    admit: Callable[..., Command], guard_of: GuardOf, system: Path, base: Path, allow: str, word: str
) -> None:
    (base / "ls").write_text("evil")
    (base / "git").symlink_to(system / "usr/bin/busybox")
    assert (
        code_of(lambda: admit([word.replace("BASE", str(base))], allow=[allow], paths=guard_of()))
        == "command_not_allowed"
    )


@pytest.mark.parametrize(
    ("deny", "word"),
    [
        ("python3", "python"),
        ("python3", "python3.11"),
        ("python3.11", "python"),
        ("SYS/bin/python3", "SYS/usr/bin/python3.11"),
        ("SYS/bin/p*", "python"),
        ("rm", "BASE/link"),
        ("rm", "BASE/rm"),
        ("rm", "busybox"),
        ("none", "none"),
        ("/x/none", "/x/none"),
    ],
)
def test_a_denied_program_is_denied_by_every_name(
    admit: Callable[..., Command], system: Path, base: Path, deny: str, word: str
) -> None:
    (base / "link").symlink_to(system / "bin/rm")
    (base / "rm").write_text("")
    assert code_of(lambda: admit([word.replace("BASE", str(base))], deny=[deny])) == "command_not_allowed"


def test_denying_one_command_of_a_file_of_many_leaves_the_others(admit: Callable[..., Command]) -> None:
    assert admit(["ls"], deny=["rm"]).argv == ("ls",)


# Arguments


@pytest.mark.parametrize(
    ("allow", "argv", "runs"),
    [
        ("git -a -b", ["git", "-ab"], ["git", "-a", "-b"]),
        ("git -a ...", ["git", "-ab", "x"], ["git", "-a", "-b", "x"]),
        ("git ...", ["git", "-ab"], ["git", "-ab"]),
        ("git", ["git", "-ab"], ["git", "-ab"]),
        ("... -x", ["git", "-ab", "-x"], ["git", "-ab", "-x"]),
    ],
)
def test_the_form_that_was_judged_is_the_one_that_runs(
    admit: Callable[..., Command], allow: str, argv: list[str], runs: list[str]
) -> None:
    assert list(admit(argv, allow=[allow]).argv) == runs


def test_a_denied_form_is_denied_as_sent_and_taken_apart(admit: Callable[..., Command]) -> None:
    for pattern in ("ls ... -lR ...", "ls ... -R ...", "ls -lR"):
        assert code_of(lambda pattern=pattern: admit(["ls", "-lR"], deny=[pattern])) == "command_not_allowed"
    assert code_of(lambda: admit(["git", "x"], deny=["... x"])) == "command_not_allowed"
    assert code_of(lambda: admit(["cat", "/any"], deny=["cat {path}"])) == "command_not_allowed"


@pytest.mark.field(13)
@pytest.mark.parametrize("argument", ["5\n", "٥", "", "-5", "1234567890"])
def test_field_013_a_number_is_one_to_nine_plain_digits(admit: Callable[..., Command], argument: str) -> None:
    assert code_of(lambda: admit(["cat", argument], allow=["cat {int}"])) == "command_not_allowed"
    assert admit(["cat", "123456789"], allow=["cat {int}"]).argv == ("cat", "123456789")


@pytest.mark.field(13)
@pytest.mark.parametrize("argument", ["a\n", "é", "", "-a", ".a", "a/b", "a b"])
def test_field_013_a_word_is_plain_and_ends_where_it_ends(admit: Callable[..., Command], argument: str) -> None:
    assert code_of(lambda: admit(["cat", argument], allow=["cat {word}", "cat [a]"])) == "command_not_allowed"


def test_paths_are_judged_and_replaced_by_what_they_lead_to(
    admit: Callable[..., Command], guard_of: GuardOf, base: Path
) -> None:
    (base / "sub").mkdir()
    (base / "sub/a").write_text("x")
    (base / "l").symlink_to("sub/a")
    (base / "out").symlink_to("/etc/passwd")
    paths = guard_of(deny=["*.pem"])
    allow = ["cat -n {path} ...", "cat {path} {path}"]
    assert admit(["cat", "-n", "l", "x"], allow=allow, paths=paths).argv == ("cat", "-n", f"{base}/sub/a", "x")
    assert admit(["cat", "l", "new"], allow=allow, paths=paths).argv == ("cat", f"{base}/sub/a", f"{base}/new")
    assert admit(["cat", "-n", "a"], allow=allow, paths=paths, cwd="sub").argv[2] == f"{base}/sub/a"
    assert code_of(lambda: admit(["cat", "l", "out"], allow=allow, paths=paths)) == "path_not_allowed"
    assert code_of(lambda: admit(["cat", "a.pem", "out"], allow=allow, paths=paths)) == "path_denied"
    both = ["cat {path}", "cat [a-z].pem"]
    assert admit(["cat", "k.pem"], allow=both, paths=paths).argv == ("cat", "k.pem")
    assert code_of(lambda: admit(["cat", "kk.pem"], allow=both, paths=paths)) == "path_denied"


@pytest.mark.field(161)
@pytest.mark.parametrize("line", ["r''m x", "'r'm x", "r\\m x"])
def test_field_161_quoting_does_not_hide_a_program(admit: Callable[..., Command], line: str) -> None:
    assert code_of(lambda: admit(split_command(line), deny=["rm"])) == "command_not_allowed"
    assert split_command("$(echo rm) x") == ("$(echo", "rm)", "x")


# Patterns


@pytest.mark.parametrize(
    "pattern", ["", "   ", "''", "'' x", "echo 'x", "a ... b ... c ... d ...", "a {file}", ["a", "{nope}"], []]
)
def test_a_malformed_pattern_is_named_when_the_guard_is_made(pattern: Any) -> None:
    with pytest.raises(ValueError, match="command pattern") as caught:
        CommandGuard([], [pattern], ())
    assert str(pattern) in str(caught.value)


def test_braces_that_are_no_placeholder_are_plain() -> None:
    assert CommandPattern("find -exec {} {A}", SearchPath(())).fit(["-exec", "{}", "{A}"]) == []


_arguments = st.lists(st.sampled_from(["a", "b", "/p"]), max_size=6)
_tokens = st.lists(st.sampled_from(["a", "b", "...", "{word}", "{path}"]), max_size=5).filter(
    lambda tokens: tokens.count("...") <= 3
)


@given(tokens=_tokens, arguments=_arguments)
@settings(STEADY)
def test_a_fit_is_found_exactly_when_there_is_one(tokens: list[str], arguments: list[str]) -> None:
    def fits(tokens: list[str], arguments: list[str]) -> bool:
        if not tokens:
            return not arguments
        if tokens[0] == "...":
            return any(fits(tokens[1:], arguments[skipped:]) for skipped in range(len(arguments) + 1))
        if not arguments:
            return False
        one = {"{word}": arguments[0] in "ab", "{path}": True}.get(tokens[0], tokens[0] == arguments[0])
        return one and fits(tokens[1:], arguments[1:])

    pattern = CommandPattern(["x", *(tokens or ["a"])], SearchPath(()))
    found = pattern.fit(arguments)
    assert (found is not None) == fits(tokens or ["a"], arguments)
    if found is not None:
        assert len(found) == tokens.count("{path}") == len(set(found))


@pytest.mark.finding("R2-S17")
def test_many_ellipses_and_arguments_take_bounded_work() -> None:
    calls = 0

    class Counting(str):
        def __eq__(self, other: object) -> bool:
            nonlocal calls
            calls += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    pattern = CommandPattern(["x", "...", "a", "...", "a", "...", "b"], SearchPath(()))
    assert pattern.fit([Counting("a") for _ in range(255)]) is None
    assert calls <= 3 * 255


# Variables


@pytest.mark.finding("R2-S13")
def test_protected_names_are_refused() -> None:
    guard = EnvGuard({"MY_TOKEN"})
    assert code_of(lambda: guard.admit({"MY_TOKEN": "x"}, restricted=False)) == "env_var_not_allowed"
    assert code_of(lambda: guard.admit({"OK": "1", "Abx_x": "2"}, restricted=False)) == "env_var_denied"
    assert guard.admit({"my_token": "x", "PATH": "/w"}, restricted=False) == {"my_token": "x", "PATH": "/w"}


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "LD_AUDIT", "PATH", "BASH_ENV", "BASH_FUNC_x", "ENV", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS",
     "GIT_SSH_COMMAND", "GIT_DIR", "PERL5LIB", "RUBYOPT", "HOME", "PAGER", "GIT_PAGER", "IFS", "PS4", "GCONV_PATH",
     "AWKLIBPATH", "MANPAGER", "EXINIT", "VIMINIT", "ZIPOPT", "RSYNC_RSH", "TCLLIBPATH", "JULIA_LOAD_PATH", "ERL_FLAGS",
     "DOTNET_STARTUP_HOOKS", "GCC_EXEC_PREFIX", "COMPILER_PATH", "ANSIBLE_CONFIG", "PSQLRC", "GTK_MODULES", "HGRCPATH",
     "TERMINFO", "CURL_HOME", "WGETRC", "XZ_OPT", "FZF_DEFAULT_COMMAND", "https_proxy", "ALL_PROXY", "SSLKEYLOGFILE",
     "MY_TOOL_OPTIONS", "OUR_PAGER"],
)  # fmt: skip
def test_under_a_command_rule_nothing_may_change_what_runs(name: str) -> None:
    guard = EnvGuard(())
    assert code_of(lambda: guard.admit({name: "x"}, restricted=True)) == "env_var_not_allowed"
    assert guard.admit({name: "x"}, restricted=False) == {name: "x"}


def test_under_a_command_rule_plain_variables_pass() -> None:
    variables = dict.fromkeys(
        ["STUDENT", "LANG", "LC_ALL", "TZ", "TERM", "COLUMNS", "NO_COLOR", "PATHS", "MY_PATH", "ENVIRONMENT", "SEED",
         "DATA_DIR", "MODE", "STACK_SIZE", "TF_CPP_MIN_LOG_LEVEL"], "x"
    )  # fmt: skip
    assert EnvGuard(()).admit(variables, restricted=True) == variables


@pytest.mark.parametrize("raw", [{1: "x"}, {"A": "\ud800"}, {"A": True}, {"a=b": "x"}, 5])
def test_what_is_no_map_of_variables_is_refused(raw: object) -> None:
    assert code_of(lambda: EnvGuard(()).admit(raw, restricted=True)) == "env_invalid"
