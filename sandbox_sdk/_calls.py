"""One function for each endpoint the client knows, in the order of the contract."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import _wire as wire
from ._call import Call, call, command_line, document, each, encoded, nothing, stdin_text, texts
from ._contract import ENDPOINTS
from ._models import CommandResult, Decision, FileEntry, FileInfo, ProcessInfo, Receipt
from ._wire import Json

API_VERSION = 2
OCTETS = "application/octet-stream"
FRAMES = "application/vnd.docker.multiplexed-stream"
EVENTS = "text/event-stream"
#: How long a command or a piece of code may run when nobody says.
DEFAULT_COMMAND_SECONDS = 300.0
DEFAULT_CODE_SECONDS = 30.0


def health() -> Call[bool]:
    return call("health", lambda data: wire.text(data, "status") == "ok")


def capabilities() -> Call[Json]:
    return call("capabilities", document)


def check(endpoint: str, path: str | None, paths: Sequence[str] | None, op: str | None) -> Call[Decision]:
    named = None if paths is None else list(paths)
    return call(
        "capabilities_check",
        lambda data: Decision.from_wire(data, path),
        endpoint=endpoint,
        path=path,
        paths=named,
        op=op,
    )


@dataclass(frozen=True)
class Page:
    """One answer of a listing; `cursor` asks for what follows."""

    entries: list[FileEntry]
    cursor: str
    truncated: bool


def list_page(
    path: str,
    *,
    recursive: bool = False,
    max_entries: int | None = None,
    max_depth: int | None = None,
    cursor: str | None = None,
) -> Call[Page]:
    return call(
        "files_list",
        lambda data: Page(
            [FileEntry.from_wire(entry, path) for entry in wire.objects(data, "entries")],
            wire.text(data, "next"),
            wire.flag(data, "truncated"),
        ),
        path=path,
        recursive=recursive or None,
        max_entries=max_entries,
        max_depth=max_depth,
        cursor=cursor,
    )


def stat(path: str, follow: bool) -> Call[FileInfo]:
    return call("files_stat", FileInfo.from_wire, path=path, follow=None if follow else False)


def mkdir(path: str) -> Call[str]:
    return call("files_mkdir", lambda data: wire.text(data, "path", path), path=path)


def delete(path: str) -> Call[None]:
    return call("files_delete", nothing, path=path)


def move(source: str, destination: str) -> Call[str]:
    return call(
        "files_move",
        lambda data: wire.text(data, "path") or wire.text(data, "destination", destination),
        source=source,
        destination=destination,
    )


def upload(
    path: str,
    *,
    size: int,
    overwrite: bool = True,
    mode: str | None = None,
    durable: bool = False,
    sha256: bool = False,
) -> Call[Receipt]:
    """The raw form; the caller streams `size` bytes behind it."""
    headers = {"Content-Type": OCTETS, "Content-Length": str(size)}
    if sha256:
        headers["Want-Repr-Digest"] = "sha-256=10"
    return call(
        "files_upload_stream",
        Receipt.from_wire,
        raw=True,
        headers=headers,
        patience=size / (50 << 20),  # it is flushed, renamed and perhaps hashed after the last byte has gone out
        path=path,
        overwrite=None if overwrite else False,
        mode=mode,
        durable=durable or None,
    )


def upload_json(path: str, content: bytes) -> Call[Receipt]:
    """The base64 form, for servers that have no other."""
    return call(
        "files_upload_stream", Receipt.from_wire, path=path, content_base64=base64.b64encode(content).decode("ascii")
    )


def download(path: str, *, sha256: bool = False, first: int = 0, etag: str | None = None) -> Call[bytes]:
    """Asks for raw bytes, from `first` on if the file is still the version `etag`; takes base64 JSON if need be."""
    headers = {"Accept": f"{OCTETS}, application/json;q=0.5", "Accept-Encoding": "identity"}
    if sha256:
        headers["Want-Repr-Digest"] = "sha-256=10"
    if first and etag:
        headers |= {"Range": f"bytes={first}-", "If-Range": etag}
    return call("files_download_stream", content_of, headers=headers, path=path)


def part(path: str, offset: int, length: int | None) -> Call[bytes]:
    """Asks for `length` bytes from `offset` on, or for all of them; who knows no ranges sends the whole file."""
    whole = download(path)
    last = "" if length is None else offset + length - 1
    return replace(whole, headers={**whole.headers, "Range": f"bytes={offset}-{last}"})


def content_of(data: Json) -> bytes:
    return base64.b64decode(wire.text(data, "content_base64"))


def shell(
    command: str | Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    timeout: float | None,
    stdin: str | bytes | None,
) -> Call[CommandResult]:
    return call(
        "shell",
        CommandResult.from_wire,
        patience=DEFAULT_COMMAND_SECONDS if timeout is None else timeout,
        command=command_line(command),
        cwd=cwd,
        env=None if env is None else dict(env),
        timeout=timeout,
        stdin=stdin_text(stdin),
    )


def shell_stream(
    command: str | Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    timeout: float | None,
    stdin: str | bytes | None,
) -> Call[None]:
    return call(
        "shell_stream",
        nothing,
        headers={"Accept": f"{FRAMES}, {EVENTS};q=0.5"},
        silence=DEFAULT_COMMAND_SECONDS if timeout is None else timeout,
        command=command_line(command),
        cwd=cwd,
        env=None if env is None else dict(env),
        timeout=timeout,
        stdin=stdin_text(stdin),
    )


def start(
    command: str | Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    capture: bool,
    stdin: bool,
) -> Call[ProcessInfo]:
    return call(
        "process_start",
        ProcessInfo.from_wire,
        command=command_line(command),
        cwd=cwd,
        env=None if env is None else dict(env),
        capture_output=capture or None,
        stdin=stdin or None,
    )


def processes(finished: bool) -> Call[list[ProcessInfo]]:
    return call("process_list", each("processes", ProcessInfo.from_wire), all=finished or None)


def process(pid: int | str) -> Call[ProcessInfo]:
    return call("process_detail", ProcessInfo.from_wire, pid=pid)


def signal(pid: int | str, number: int) -> Call[None]:
    return call("process_signal", nothing, pid=pid, signal=number)


def stdin(pid: int | str, data: str | bytes | None, eof: bool) -> Call[int]:
    raw = data.encode("utf-8") if isinstance(data, str) else data
    return call(
        "process_stdin",
        lambda answer: wire.whole(answer, "written"),
        pid=pid,
        data_base64=None if raw is None else base64.b64encode(raw).decode("ascii"),
        eof=eof or None,
    )


def output(pid: int | str, *, since: int, wait: float) -> Call[Json]:
    """The JSON form: chunks of text by sequence number."""
    return call("process_output", document, patience=wait, pid=pid, since=since or None, wait=wait or None)


def frames(pid: int | str, *, stdout_from: int, stderr_from: int, follow: bool) -> Call[None]:
    """The framed form: exact bytes from given offsets on."""
    return call(
        "process_output",
        nothing,
        headers={"Accept": FRAMES},
        pid=pid,
        follow=follow or None,
        stdout_from=stdout_from or None,
        stderr_from=stderr_from or None,
    )


def variables(names: Sequence[str] | None) -> Call[dict[str, str]]:
    return call("env_get", lambda data: texts(data, "variables"), filter=",".join(names) if names else None)


def set_variables(variables: Mapping[str, str]) -> Call[list[str]]:
    return call("env_set", lambda data: list(wire.texts(data, "updated")), vars=dict(variables))


def custom(name: str, arguments: Mapping[str, Any], timeout: float | None) -> Call[Any]:
    """A registered command: its arguments are the whole body."""
    method, template, _ = ENDPOINTS["run_command"]
    body = json.dumps(arguments, separators=(",", ":")).encode("ascii")
    headers = {"Content-Type": "application/json"}
    target = template.format(name=encoded(name))
    return Call("run_command", method, target, lambda data: data.get("result"), body, headers, timeout or 0.0)
