"""Values of every kind that shows itself, and the text of each."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sandbox_sdk import (
    BrowserContent,
    BrowserPage,
    CodeContext,
    CodeResult,
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
    EndpointInfo,
    ErrorInfo,
    FileChange,
    FileEntry,
    FileInfo,
    FileList,
    FileOutcome,
    GitDiff,
    GitFile,
    GitStatus,
    ListeningPort,
    Package,
    PackageList,
    PathsInfo,
    PolicyDeniedError,
    PortList,
    ProcessInfo,
    ProcessList,
    Receipt,
    SandboxError,
    SearchHit,
    SearchResult,
    SystemInfo,
    SystemMetrics,
    TerminalInfo,
    TerminalList,
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
    "contexts": (
        ContextList([CodeContext(None, ContextInfo("2030", "eda", pid=2030, execution_count=12)),  # type: ignore[arg-type]
                     CodeContext(None, ContextInfo("2030", "<b>", state="dead"))]),  # type: ignore[arg-type]
        "name  language  state  runs\neda   python    idle     12\n<b>   python    dead      0",
    ),
    "no contexts": (ContextList(), "no open context"),
    "package": (Package("httpx", "0.28.1"), "httpx  0.28.1\n1 package"),
    "packages": (
        PackageList([Package("a<b>", "1"), Package("httpx", "0.28.1")]),
        "a<b>   1\nhttpx  0.28.1\n2 packages",
    ),
    "no packages": (PackageList(), "no package"),
    "port": (ListeningPort(80, "tcp", "::", 2030), "port  protocol  address\n  80  tcp       ::"),
    "ports": (
        PortList([ListeningPort(80, "tcp", "0.0.0.0", 2030), ListeningPort(8888, "udp", "<b>")]),
        "port  protocol  address\n  80  tcp       0.0.0.0\n8888  udp       <b>",
    ),
    "no ports": (PortList(), "nothing listens"),
    "argument": (CommandArgument("n", "int", False, "1", "how often"), "n  int = 1  how often"),
    "commands": (
        CommandList([
            CommandInfo("greet", "says <b>",
                        (CommandArgument("name", "str", True), CommandArgument("n", "int", False, "1"))),
            CommandInfo("stop"),
        ]),
        "name   arguments  what it does\ngreet  name, n=1  says <b>\nstop",
    ),
    "no commands": (CommandList(), "no command"),
    "terminals": (
        TerminalList([TerminalInfo("id", 1, 80, 24, True, NOW), TerminalInfo("id", 1, 120, 30, False, exit_code=1)]),
        "state        size\nopen         80 × 24\nexit code 1  120 × 30",
    ),
    "no terminals": (TerminalList(), "no open terminal"),
    "changed file": (GitFile("b", "renamed", "a"), "a → b  renamed"),
    "exception": (
        ErrorInfo("ValueError", "no <b>", ("\x1b[31mTraceback\x1b[0m", "  <cell>, line 1")),
        "✗ ValueError: no <b>\nTraceback\n  <cell>, line 1",
    ),
    "exception without a text": (ErrorInfo("KeyboardInterrupt"), "✗ KeyboardInterrupt"),
    "paths": (
        PathsInfo(roots=("/w", "/data<b>"), read_only=True, deny_count=1, enforcement={"allow": "kernel"}),
        "paths                 /w, /data<b>\nread only             yes\ndenied names          1 pattern\n"
        "allow is enforced by  the kernel",
    ),
    "change": (FileChange("created", "src/a<b>", cursor="2030"), "created  src/a<b>"),
    "directory renamed": (FileChange("renamed", "new", True, "old", "2030"), "renamed  old/ → new/"),
    "changes missed": (FileChange("overflow", "src", True, cursor="2030"), "✗ overflow  src/"),
    "page": (BrowserPage("http://a/", "A <b>", 200), "✓ A <b>\n  URL     http://a/\n  status  200"),
    "page not found": (BrowserPage("http://a/", "", 404),
                       "✗ a page without a title\n  URL     http://a/\n  status  404"),
    "page of nobody": (BrowserPage("about:blank", "", 0),
                       "a page without a title\n  URL     about:blank\n  status  no answer"),
    "content": (BrowserContent("<b>one</b>\r\ntwo\n", "http://a/", "A"), "A\n  URL  http://a/\n<b>one</b>\ntwo"),
    "no content": (BrowserContent("", "http://a/", "A"), "A\n  URL  http://a/\nnothing in it"),
    "console": (
        ConsoleList([ConsoleLog("log", "went\nwell", NOW), ConsoleLog("error", "<b>", NOW)]),
        "log      went\\nwell\n✗ error  <b>",
    ),
    "message": (ConsoleLog("log", "went", NOW), "log  went"),
    "no messages": (ConsoleList(), "no message"),
}  # fmt: skip
