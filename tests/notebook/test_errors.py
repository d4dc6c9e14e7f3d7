"""Every kind of failure as two lines: what, and something that can be typed or done."""

from __future__ import annotations

import pytest

from sandbox_notebook.errors import SandboxMagicError, Stopped, explained
from sandbox_notebook.grammar import Mistake
from sandbox_sdk import (
    CommandTimeoutError,
    EndpointNotAvailableError,
    FileOutcome,
    FilePolicyDeniedError,
    NotFoundError,
    PayloadTooLargeError,
    PolicyDeniedError,
    SandboxConnectionError,
    SandboxNameTakenError,
    SandboxStartError,
    StreamInterruptedError,
    TransferError,
)


def lines(error: Exception, magic: str = "%sandbox") -> list[str]:
    found = explained(error, magic)
    assert isinstance(found, SandboxMagicError)
    return [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in found._render_traceback_()]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (
            FilePolicyDeniedError("no", error_code="path_denied", endpoint="files_list", rule="policy:endpoints.x"),
            [
                "denied: no · files_list · path_denied · rule policy:endpoints.x",
                "  %sandbox check files_list PATH tells about another path",
            ],
        ),
        (
            PolicyDeniedError("no", error_code="missing_scope", endpoint="shell", hint="of the client"),
            ["denied: no · shell · missing_scope", "  %sandbox caps tells what this identity may do"],
        ),
        (
            EndpointNotAvailableError("off by p:x", error_code="endpoint_disabled", endpoint="shell", rule="p:x"),
            ["denied: off by p:x · shell · endpoint_disabled", "  %sandbox caps tells what is on in this sandbox"],
        ),
        (
            NotFoundError('no file "x"', error_code="not_found", endpoint="files_stat"),
            ['no file "x"', "  %sandbox ls shows what is there"],
        ),
        (
            NotFoundError('program "nope" was not found', error_code="not_found", endpoint="shell_stream"),
            [
                'program "nope" was not found',
                "  check its name; cd, export and other words of a shell need %%sandbox run --lang bash",
            ],
        ),
        (
            PayloadTooLargeError("too large", error_code="payload_too_large", endpoint="files_upload_stream"),
            ["too large", "  %sandbox caps files_upload_stream tells the limit"],
        ),
        (
            CommandTimeoutError("too long", error_code="timeout", endpoint="shell_stream"),
            ["too long", "  --timeout SECONDS gives it longer, --bg does not wait"],
        ),
        (SandboxConnectionError("gone", gone=True), ["gone", "  %sandbox start starts another one"]),
        (SandboxConnectionError("silent"), ["silent", "  %sandbox info tells about it"]),
        (
            StreamInterruptedError("broke off", offset=3),
            ["broke off", "  whether the command went on is not known: %sandbox ps --all"],
        ),
        (
            SandboxNameTakenError("taken"),
            ["taken", "  %sandbox use NAME takes it as it is, %sandbox stop NAME ends it"],
        ),
        (SandboxStartError("no start", hint="do this"), ["no start", "  do this"]),
        (
            TransferError(
                "1 of 1 files failed",
                outcomes=[
                    FileOutcome("a", "b"),
                    FileOutcome("c", "d", error=NotFoundError("gone", error_code="not_found")),
                ],
                hint="of the client",
            ),
            ["1 of 1 files failed", "  %sandbox ls shows what is there"],
        ),
        (TransferError("not as it was sent", hint="send it again"), ["not as it was sent", "  send it again"]),
        (
            FileNotFoundError(2, "No such file or directory", "x.csv"),
            ['no such file or directory: "x.csv"', "  see to it on this side; the sandbox has no part in it"],
        ),
        (Mistake("what", "how"), ["what", "  how"]),
        (Mistake("what"), ["what", "  %sandbox help"]),
    ],
)
def test_a_failure_is_shown_as(error: Exception, shown: list[str]) -> None:
    assert lines(error) == shown


def test_where_nothing_better_is_known_the_help_of_the_subcommand_is_offered() -> None:
    for words, hint in ((["ls", "''"], "%sandbox help ls"), (["nonsense"], "%sandbox help")):
        found = explained(Mistake("what"), words=words)
        assert found is not None and found.hint == hint


def test_a_caret_stands_under_the_place() -> None:
    head, foot = lines(Mistake("what", "how", line="run it's", column=6), "%%sandbox")
    assert head == "what: %%sandbox run it's"
    assert head[foot.index("^")] == "'" and foot.endswith("^ how")


def test_what_the_sandbox_says_cannot_drive_the_terminal() -> None:
    assert lines(NotFoundError("a\x1b[2Jb\nc", error_code="not_found"))[0] == "a\\x1b[2Jb\\nc"


def test_a_fault_of_our_own_is_not_dressed_up() -> None:
    assert explained(TypeError("ours")) is None


def test_an_interrupt_is_a_keyboard_interrupt_to_every_tool() -> None:
    error = Stopped("cell was stopped")
    assert isinstance(error, KeyboardInterrupt) and type(error).__name__ == "KeyboardInterrupt"
    assert error._render_traceback_() == ["\x1b[1mKeyboardInterrupt\x1b[0m: cell was stopped"]
