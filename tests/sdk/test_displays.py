"""How values show themselves: a table as text and as HTML, the same in every run, and harmless whatever is in it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sandbox_sdk
from sandbox_sdk import (
    AsyncCodeContext,
    AsyncProcess,
    AsyncSandbox,
    AsyncTerminal,
    BrowserContent,
    BrowserPage,
    CodeContext,
    CommandArgument,
    CommandInfo,
    CommandList,
    CommandResult,
    ConsoleList,
    ConsoleLog,
    ContextInfo,
    ContextList,
    Decision,
    EditResult,
    FileChange,
    FileEntry,
    FileList,
    ListeningPort,
    Package,
    PackageList,
    PortList,
    Process,
    ProcessInfo,
    Sandbox,
    SandboxError,
    SearchHit,
    SearchResult,
    ServerClient,
)

from .shown import NOW, VALUES


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
    text = PackageList(Package(f"p{n}", "1") for n in range(500))._repr_mimebundle_()["text/plain"]
    assert text.count("\n") == 201 and text.endswith("and 300 packages more\n500 packages")
    text = BrowserContent("x" * 5000 + "\nx" * 999, "u", "t")._repr_mimebundle_()["text/plain"]
    assert text.count("\n") == 202 and len(text) < 1000 and text.endswith("\n800 more lines: .content has them")


def test_a_long_address_is_broken_where_the_page_ends_and_short_words_never_are() -> None:
    long, short = (BrowserPage(f"http://a/{'x' * n}", "A", 200)._repr_mimebundle_()["text/html"] for n in (100, 50))
    assert long.count(";overflow-wrap:anywhere") == 1 and "overflow-wrap" not in short


def test_what_is_not_the_same_in_every_run_is_not_seen_in_lists_of_it_either() -> None:
    changes = [FileChange("created", "a", cursor="17-42")]
    assert repr(changes) == "[FileChange(type='created', path='a', is_dir=False, old_path=None)]"
    assert "secret" not in repr([BrowserContent("secret", "u", "t")])


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
        PackageList([Package(first, second)]),
        PortList([ListeningPort(1, first, second)]),
        CommandList([CommandInfo(first, second, (CommandArgument(second, first, default=first),))]),
        ContextList([CodeContext(None, ContextInfo("", first, second))]),  # type: ignore[arg-type]
        FileChange(first, second, old_path=first),
        BrowserPage(first, second, 200),
        BrowserContent(first, second, first),
        ConsoleList([ConsoleLog(first, second, None)]),
    ]
    for value in values:
        bundle = value._repr_mimebundle_()
        assert Strict.read(bundle["text/html"])
        assert not any(ord(char) < 32 and char != "\n" or char == "\u202e" for char in "".join(bundle.values()))


def test_lists_are_lists_and_make_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = FileList([FileEntry("a", "a", "file", 1), FileEntry("b", "b", "file", 2)])
    assert entries == [replace(entries[0]), entries[1]] and [*entries][1].size == 2
    assert entries[1:][0] is entries[1] and entries[:0]._repr_mimebundle_()["text/plain"] == "nothing there"
    hits = SearchResult([SearchHit("a", "a"), SearchHit("b", "b")], truncated=True, skipped={"large": 1})
    assert hits[::-1]._repr_mimebundle_()["text/plain"] == (
        "2 hits, and there may be more\n  b\n  a\nleft out: 1 large"
    )
    assert [one.name for one in hits[:1]] == ["a"] and len(hits) == 2
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))  # type: ignore[arg-type]
    assert [(row["name"], row["size"]) for row in entries.to_pandas()] == [("a", 1), ("b", 2)]
    contexts = ContextList([CodeContext(None, ContextInfo("id", "eda", execution_count=3))])  # type: ignore[arg-type]
    assert [(row["name"], row["execution_count"]) for row in contexts.to_pandas()] == [("eda", 3)]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="%pip install pandas"):
        SearchResult().to_pandas()


LISTS: dict[str, tuple[Callable[[ServerClient], object], dict[str, Any], str]] = {
    "packages": (lambda c: c.system.packages(), {"packages": [{"name": "a", "version": "1"}]}, "a  1\n1 package"),
    "ports": (lambda c: c.system.ports(), {"listening": []}, "nothing listens"),
    "commands": (lambda c: c.commands.list(), {"commands": []}, "no command"),
    "sessions": (lambda c: c.pty.list(), {"sessions": []}, "no open terminal"),
    "contexts": (lambda c: c.code.contexts(), {"contexts": []}, "no open context"),
    "logs": (lambda c: c.browser.console(), {"logs": [{"type": "log", "text": "on"}]}, "log  on"),
    "processes": (lambda c: c.process.list(), {"processes": []}, "no background process"),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_that_calls_answer_show_themselves(name: str) -> None:
    ask, answer, text = LISTS[name]
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))
    with ServerClient("http://server", http_client=httpx.Client(transport=transport)) as client:
        listed: Any = ask(client)
    assert isinstance(listed, list) and listed._repr_mimebundle_()["text/plain"] == text


def test_every_value_that_calls_answer_can_show_itself() -> None:
    kinds = "Receipt FileInfo FileEntry FileList SearchResult CommandResult Process ProcessInfo ProcessList Decision"
    kinds += " Capabilities EndpointInfo PolicyDeniedError Execution Sandbox AsyncSandbox AsyncProcess Unpacked"
    kinds += " CodeResult GitStatus GitDiff SystemInfo SystemMetrics CommandInfo TerminalInfo ContextInfo EditResult"
    kinds += " CodeContext AsyncCodeContext Terminal AsyncTerminal PackageList PortList CommandList TerminalList"
    kinds += " ContextList ConsoleList ConsoleLog BrowserPage BrowserContent FileChange GitFile CommandArgument"
    kinds += " SandboxList LocalSandbox ErrorInfo PathsInfo"
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
