"""How values show themselves: a table as text and as HTML, the same in every run, and harmless whatever is in it."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sandbox_sdk
from sandbox_sdk import (
    AsyncCodeContext,
    AsyncProcess,
    AsyncSandbox,
    AsyncTerminal,
    CodeResult,
    CommandArgument,
    CommandInfo,
    CommandResult,
    ContextInfo,
    Decision,
    EditResult,
    EndpointInfo,
    FileEntry,
    FileInfo,
    FileList,
    FileOutcome,
    GitDiff,
    GitFile,
    GitStatus,
    PathsInfo,
    PolicyDeniedError,
    Process,
    ProcessInfo,
    ProcessList,
    Receipt,
    Sandbox,
    SandboxError,
    SearchHit,
    SearchResult,
    SystemInfo,
    SystemMetrics,
    TerminalInfo,
    Unpacked,
)
from sandbox_sdk._capabilities import Snapshot

NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
DENIED = PolicyDeniedError(
    "that is <b>denied</b>", error_code="path_denied", endpoint="files_stat", rule="policy:x", hint="use another"
)
DISCOVERED = Snapshot(
    {
        "api_version": 2,
        "identity": {"id": "agent", "scopes": ["files:read"]},
        "endpoints": {
            "files_list": {"allowed": True, "summary": "list a directory"},
            "shell": {"allowed": False, "reason": "endpoint_disabled", "rule": "preset:x"},
        },
    }
)
VALUES: dict[str, tuple[Any, str]] = {
    "receipt": (
        Receipt("/w/a", 1500, mode="644", mtime=NOW, sha256="ab"),
        "✓ /w/a\n  size     1.5 kB\n  mode     644\n  SHA-256  ab",
    ),
    "receipts of a directory": (
        Receipt("/w", 3, files=(FileOutcome("a", "/w/a"), FileOutcome("b", "/w/b", error=DENIED))),
        "✗ /w\n  size    3 B\n  files   2\n  failed  1\n  ✓ a     /w/a\n  ✗ b     that is <b>denied</b>",
    ),
    "an outcome left out": (FileOutcome("p", "", skipped="a pipe"), "p  left out: a pipe"),
    "entry": (FileEntry("a", "./a", "file", 10, NOW, "644"), "name  size  mode\n./a   10 B  644\n1 entry, 10 B"),
    "listing": (
        FileList(
            [
                FileEntry("d", "d", "directory", kind="directory"),
                FileEntry("l", "l", "file", link_target="a", kind="symlink"),
            ]
        ),
        "name   size  mode\nd/\nl → a\n2 entries, 0 B",
    ),
    "nothing listed": (FileList(), "nothing there"),
    "info": (FileInfo("a", "/w/a", "file", 7, "644", NOW), "/w/a\n  type  file\n  size  7 B\n  mode  644"),
    "hits": (
        SearchResult([SearchHit("a", "a", 3, 1, "x = <1>")], truncated=True, skipped={"binary": 2, "large": 0}),
        "1 hit, and there may be more\n  a:3  x = <1>\nleft out: 2 binary",
    ),
    "no hits": (SearchResult(skipped={"binary": 0, "large": 0}), "0 hits"),
    "hit": (SearchHit("a", "a"), "a"),
    "result": (
        CommandResult(0, b"\x1b[1mone\x1b[0m\nold\rnew\n\ttwo\n", b"oops\n"),
        "✓ exit code 0\none\nnew\n        two\nstderr\noops",
    ),
    "killed": (CommandResult(-9, signal=9, truncated=True), "✗ ended by SIGKILL\nthe output is not complete"),
    "process": (ProcessInfo(77, "abc", "sleep 5", started_at=NOW), "sleep 5\n  state  running"),
    "processes": (
        ProcessList([ProcessInfo(1, command="a", state="exited", exit_code=0), ProcessInfo(2, command="b")]),
        "✓ exit code 0  a\nrunning        b",
    ),
    "no processes": (ProcessList(), "no background process"),
    "allowed": (Decision("shell", True), "✓ allowed: shell"),
    "denied": (
        Decision("files_stat", False, "path_denied", "no", "r", "/p"),
        '✗ denied: files_stat of "/p"\n  reason  no\n  code    path_denied\n  rule    r',
    ),
    "refusal": (
        DENIED,
        "✗ that is <b>denied</b>\n  code      path_denied\n  endpoint  files_stat\n  rule      policy:x\n"
        "  hint      use another",
    ),
    "error": (SandboxError("no", hint="do"), "✗ no\n  hint  do"),
    "capabilities": (
        DISCOVERED,
        '1 of 2 endpoints are allowed to "agent"\n  ✓ files_list  list a directory\n✗ switched off by preset:x: shell',
    ),
    "endpoint": (
        EndpointInfo(
            "files_list", allowed=True, summary="list", group="files", limits={"max_bytes": 5000},
            paths=PathsInfo(roots=("/w",), deny_count=2, enforcement={"allow": "api"}),
        ),
        "✓ files_list is allowed\n  what it does          list\n  group                 files\n"
        "  paths                 /w\n"
        "  denied names          2 patterns\n  allow is enforced by  the server\n  max bytes             5.0 kB",
    ),
    "endpoint denied": (DISCOVERED.endpoints["shell"], "✗ shell is denied: switched off by preset:x"),
    "edit": (EditResult("a", 1, diff="-x\n+y\n"), "✓ a: changed\n-x\n+y"),
    "unpacked": (Unpacked("/w", 2, 1, 0, 10), "✓ /w: 2 files, 1 directory\n  size  10 B"),
    "code": (CodeResult("6\n", "oops\n", 3, "python", 99.5, True),
             "✗ python: exit code 3\n6\nstderr\noops\nthe output is not complete"),
    "repository": (
        GitStatus("main", False, (GitFile("b", "renamed", "a"), GitFile("c<b>", "added"))),
        "main: 2 changed files\n  a → b  renamed\n  c<b>   added",
    ),
    "nothing changed": (GitStatus("main", True), "✓ main: nothing has changed"),
    "diff": (GitDiff("-x\n+y\n", 1, 1, 1), "1 file changed, 1 line added, 1 removed\n-x\n+y"),
    "no diff": (GitDiff(""), "0 files changed, 0 lines added, 0 removed"),
    "machine": (
        SystemInfo("Linux", "x86_64", 8, 2048, 100, 20.5, 1.5, "3.12.1", "host", 1.5),
        "Linux x86_64\n  processors  8, of which 1.5 may be used\n  memory      2,048 MiB\n"
        "  disk        20.5 GiB\n  Python      3.12.1",
    ),
    "load": (
        SystemMetrics(0.5, 1, 2.25, 512, 2048, 25, 1.5, 20, 7.5, 9),
        "load    0.50 1.00 2.25\nmemory  512 of 2,048 MiB (25 %)\ndisk    1.5 of 20 GiB (8 %)",
    ),
    "command": (
        CommandInfo("greet", "hello", (CommandArgument("name", "str", True), CommandArgument("n", "int", False, "1"))),
        "greet\n  name  str\n  n     int = 1\nhello",
    ),
    "terminal": (TerminalInfo("id", 2030, 80, 24, True, NOW), "terminal\n  state  open\n  size   80 × 24"),
    "terminal that ended": (TerminalInfo("id", 1, 80, 24, False, signal=9),
                            "terminal\n  state  ended by SIGKILL\n  size   80 × 24"),
    "context": (ContextInfo("id", "eda", pid=2030, created_at=NOW, execution_count=3),
                "python context eda\n  state  idle\n  runs   3"),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_a_value_shows_a_table_that_is_the_same_in_every_run(name: str) -> None:
    value, text = VALUES[name]
    bundle = value._repr_mimebundle_()
    assert bundle["text/plain"] == text
    assert set(bundle) == {"text/plain", "text/html"} and Strict.read(bundle["text/html"])
    assert "2030" not in bundle["text/html"] and "<b>" not in bundle["text/html"]


def test_processes_are_shown_by_command_and_state_and_never_by_number() -> None:
    info = ProcessInfo(4711, "id-1", "python train.py", state="exited", exit_code=1, started_at=NOW)
    shown = info._repr_mimebundle_()
    assert Process(None, info)._repr_mimebundle_() == AsyncProcess(None, info)._repr_mimebundle_() == shown  # type: ignore[arg-type]
    assert "4711" not in str(shown) and "id-1" not in str(shown)


def test_contexts_and_terminals_are_shown_by_what_they_are_and_never_by_number() -> None:
    info = ContextInfo("id-1", "eda", pid=4711)
    assert AsyncCodeContext(None, info)._repr_mimebundle_() == info._repr_mimebundle_()  # type: ignore[arg-type]
    shown = AsyncTerminal(None, "id-1")._repr_mimebundle_()  # type: ignore[arg-type]
    assert shown["text/plain"] == "terminal · closed" and "id-1" not in str(shown)


def test_what_is_long_is_cut_and_says_so() -> None:
    entries = FileList(FileEntry(f"f{n}", f"f{n}", "file", 1) for n in range(500))
    text = entries._repr_mimebundle_()["text/plain"]
    assert text.count("\n") < 210 and "and 300 entries more\n500 entries, 500 B" in text
    text = CommandResult(0, b"x\n" * 1000)._repr_mimebundle_()["text/plain"]
    assert "800 earlier lines of stdout: .stdout has them" in text and text.count("\n") == 201


@given(st.text(max_size=40), st.text(max_size=40))
def test_nothing_that_a_sandbox_says_gets_out_of_the_text(first: str, second: str) -> None:
    values: list[Any] = [
        CommandResult(1, first.encode("utf-8", "replace"), second.encode("utf-8", "replace")),
        FileList([FileEntry(first, second, "file")]),
        SearchResult([SearchHit(first, second, 1, 1, first)]),
        ProcessInfo(1, command=first),
        Decision(first, False, second, first, second, first),
        SandboxError(first, hint=second),
        EditResult(first, 1, diff=second),
    ]
    for value in values:
        bundle = value._repr_mimebundle_()
        assert Strict.read(bundle["text/html"])
        assert not any(ord(char) < 32 and char != "\n" or char == "\u202e" for char in "".join(bundle.values()))


def test_lists_are_lists_and_make_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = FileList([FileEntry("a", "a", "file", 1), FileEntry("b", "b", "file", 2)])
    assert entries == [replace(entries[0]), entries[1]] and [*entries][1].size == 2
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))  # type: ignore[arg-type]
    assert [(row["name"], row["size"]) for row in entries.to_pandas()] == [("a", 1), ("b", 2)]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="%pip install pandas"):
        SearchResult().to_pandas()


def test_every_value_that_calls_answer_can_show_itself() -> None:
    kinds = "Receipt FileInfo FileEntry FileList SearchResult CommandResult Process ProcessInfo ProcessList Decision"
    kinds += " Capabilities EndpointInfo PolicyDeniedError Execution Sandbox AsyncSandbox AsyncProcess Unpacked"
    kinds += " CodeResult GitStatus GitDiff SystemInfo SystemMetrics CommandInfo TerminalInfo ContextInfo EditResult"
    kinds += " CodeContext AsyncCodeContext Terminal AsyncTerminal"
    for kind in kinds.split():
        assert hasattr(getattr(sandbox_sdk, kind), "_repr_mimebundle_"), kind
    assert Sandbox._repr_mimebundle_ is not AsyncSandbox._repr_mimebundle_


class Strict(HTMLParser):
    """Only the few tags of ours, all closed, nothing that loads or runs."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    @classmethod
    def read(cls, page: str) -> bool:
        parser = cls()
        parser.feed(page)
        parser.close()
        return not parser.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"div", "table", "thead", "tbody", "tr", "th", "td", "span", "pre"}
        assert {name for name, _ in attrs} <= {"style", "aria-hidden"}
        assert all("url(" not in (value or "") for _, value in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
