"""The files of a sandbox in the notebook: a tree that loads as it is opened, previews, and what one does with files.

The page asks, and each question has one answer, by its number; a question may come twice when the connection broke.
Paths in messages are below the browser's own directory. Names and contents are data: the page makes text of them.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from traitlets import Dict, Int, Unicode

from sandbox_sdk import ConflictError, NotFoundError, SandboxError

from ..render import Cell, Row, Table
from ..text import count, size
from .base import STATIC, Handler, Message, Widget
from .messages import carried, known, known_name, relative, worded
from .outgoing import Outgoing, archive_name
from .page import start_thread
from .preview import preview
from .rights import INTO_FOLDER, WITH_ENTRY, Rights
from .uploads import CHUNK, Uploads, upload_rules
from .watching import Watching

if TYPE_CHECKING:
    from sandbox_sdk import FileEntry, Receipt, Sandbox

Answer: TypeAlias = "dict[str, Any] | tuple[dict[str, Any], Sequence[bytes]]"

_MOST = 10_000  # entries of one directory
_JUDGED = 10
_SHOWN = 50
_MOST_OUTGOING = 4
_FORGOTTEN = 60.0  # seconds after which nobody asks for a download any more: its page was closed


class FileBrowser(Widget):
    """Shows the directory `path` of a sandbox and everything below it, and what the policy lets one do there.

    ``stored`` is the receipts of what was uploaded here. `close` ends it, with its watch and its downloads.
    """

    _esm = (STATIC / "uploader.js").read_text("utf-8") + (STATIC / "files.js").read_text("utf-8")
    _css = (STATIC / "upload.css").read_text("utf-8") + (STATIC / "files.css").read_text("utf-8")

    place = Unicode().tag(sync=True)
    chunk = Int(CHUNK).tag(sync=True)
    rules = Dict().tag(sync=True)
    denied = Dict().tag(sync=True)
    live = Unicode("").tag(sync=True)

    def __init__(self, sandbox: Sandbox, path: str = ".") -> None:
        self._sandbox = sandbox
        self._path = path
        found = sandbox.discover()
        sandbox.forget_discovery()
        self._rights = Rights(found)
        self._entries, self._more = self._listed("")
        self._outgoing: dict[str, Outgoing] = {}
        self._pages: set[str] = set()
        self._watching: Watching | None = None
        self.stored: tuple[Receipt, ...] = ()
        questions: dict[str, Callable[[Message], Answer]] = {
            "list": self._list,
            "preview": self._preview,
            "judge": self._judge,
            "rename": self._rename,
            "delete": self._delete,
            "mkdir": self._mkdir,
            "fetch": self._fetch,
            "fetched": self._fetched,
            "piece": self._piece,
        }
        super().__init__(
            {
                **Uploads(sandbox, path, self.tell, self._keep).handlers(),
                **{kind: self._answering(question) for kind, question in questions.items()},
                "hello": self._hello,
                "bye": self._bye,
                "discard": self._discard,
            },
            place=posixpath.normpath(posixpath.join(sandbox.root, path)),
            rules=upload_rules(found),
            denied=self._rights.denied,
        )

    def close(self) -> None:
        if self.comm is not None:  # it was made, and is not closed yet
            with self._mutex:
                self._pages.clear()
                self._watch()
                for outgoing in self._outgoing.values():
                    outgoing.discard()
                self._outgoing.clear()
        super().close()

    def face(self) -> Table:
        rows: list[Row] = [
            [Cell(f"{entry.name}/", "strong"), ""] if entry.is_dir else [entry.name, size(entry.size)]
            for entry in self._entries[:_SHOWN]
        ]
        rest = len(self._entries) - len(rows)
        notes = (
            [f"and {'more than ' if self._more else ''}{rest:,} more"] if rest else [] if rows else ["nothing there"]
        )
        headers = ("name", "size") if rows else ()
        return Table(rows, headers, frozenset({1}), headline=Cell(self.place, "strong"), notes=notes)

    def _answering(self, question: Callable[[Message], Answer]) -> Handler:
        def handle(message: Message, _: Sequence[memoryview]) -> None:
            number = known(message, "ask", int)
            try:
                answer = question(message)
            except SandboxError as error:
                self.tell("answer", ask=number, error=carried(worded(error)), hint=error.hint)
                return
            facts, buffers = answer if isinstance(answer, tuple) else (answer, ())
            self.tell("answer", ask=number, buffers=buffers, **facts)

        return handle

    # What there is

    def _listed(self, path: str) -> tuple[list[FileEntry], bool]:
        entries = self._sandbox.files.list(self._below(path), max_entries=_MOST + 1)
        return entries[:_MOST], len(entries) > _MOST

    def _list(self, message: Message) -> Answer:
        path = relative(message.get("path"))
        entries, more = self._listed(path)
        if not path:
            self._entries, self._more = entries, more
        where = posixpath.join(self.place, path)
        rows = [
            [
                carried(entry.name),
                entry.is_dir,
                entry.kind,
                entry.size,
                int(entry.modified.timestamp() * 1000) if entry.modified else 0,
                entry.mode,
                carried(entry.link_target) if entry.link_target else None,
                self._rights.keeps(posixpath.join(where, entry.name)),
            ]
            for entry in entries
        ]
        return {"rows": rows, "more": more}

    def _preview(self, message: Message) -> Answer:
        path = self._below(message.get("path"))

        def read(length: int) -> bytes:
            return self._sandbox.files.read(path, length=length)

        shown = preview(posixpath.basename(path), known(message, "size", int), read)
        return {"type": shown.kind, **shown.facts}, shown.buffers

    def _judge(self, message: Message) -> Answer:
        paths = [self._absolute(path) for path in _paths(message)[:_JUDGED]]
        into = self._absolute(relative(message.get("into", "")))
        denied = {**self._rights.of(paths, WITH_ENTRY), **self._rights.of([into], INTO_FOLDER)}
        return {"denied": {action: carried(reason) for action, reason in denied.items()}}

    def _hello(self, message: Message, _: Sequence[memoryview]) -> None:
        self._pages.add(known(message, "page", str))
        self._watch()

    def _bye(self, message: Message, _: Sequence[memoryview]) -> None:
        self._pages.discard(known(message, "page", str))
        self._watch()

    def _watch(self) -> None:
        """Watch while there is a page that shows it."""
        if not self._pages and self._watching is not None:
            self._watching.close()
            self._watching = None
        elif self._pages and (self._watching is None or self._watching.over.is_set()):
            self._watching = Watching(self._sandbox, self._path, self.place, self._changed, self._say_live)
            self._watching.start(self.context)

    def _changed(self, directories: list[str]) -> None:
        self.tell("changed", paths=[carried(path) for path in directories])

    def _say_live(self, live: bool) -> None:
        self.live = "live" if live else ""

    # What one does

    def _rename(self, message: Message) -> Answer:
        path, name = self._entry(message.get("path")), known_name(message)
        self._sandbox.files.move(path, self._free(posixpath.join(posixpath.dirname(path), name)))
        return {}

    def _mkdir(self, message: Message) -> Answer:
        name = known_name(message)
        self._sandbox.files.mkdir(self._free(posixpath.join(self._below(message.get("path")), name)))
        return {}

    def _delete(self, message: Message) -> Answer:
        failed = []
        for path in _paths(message):
            try:
                self._sandbox.files.delete(self._entry(path))
            except SandboxError as error:
                failed.append([path, carried(worded(error))])
        return {"failed": failed}

    def _free(self, path: str) -> str:
        """This path, at which there is nothing, not even a link that leads nowhere."""
        try:
            self._sandbox.files.stat(path, follow=False)
        except NotFoundError:
            return path
        raise ConflictError(f'"{posixpath.basename(path)}" is there already')

    def _keep(self, receipt: Receipt) -> None:
        self.stored += (receipt,)

    # What goes to the page

    def _fetch(self, message: Message) -> Answer:
        id, archive = known(message, "id", str), message.get("archive") is True
        if id in self._outgoing:
            return {}  # asked twice
        paths = [self._below(path) for path in _paths(message)]
        for forgotten in [one for one, outgoing in self._outgoing.items() if outgoing.idle > _FORGOTTEN]:
            self._outgoing.pop(forgotten).discard()
        if len(self._outgoing) >= _MOST_OUTGOING:
            raise SandboxError(f"{count(_MOST_OUTGOING, 'download')} are under way; wait for one to end, or cancel it")
        fallback = posixpath.basename(self.place) or "files"
        outgoing = Outgoing(archive_name(paths, fallback) if archive else posixpath.basename(paths[0]))
        self._outgoing[id] = outgoing

        def fetch() -> None:
            outgoing.fetch(self._sandbox, paths, archive=archive)

        start_thread(self.context.copy(), fetch, "file browser download")
        return {}

    def _fetched(self, message: Message) -> Answer:
        outgoing = self._known_outgoing(message)
        return {
            "state": outgoing.state,
            "reason": carried(outgoing.error),
            "name": carried(outgoing.name),
            "done": outgoing.done,
            "length": outgoing.length,
            "sha256": outgoing.sha256,
        }

    def _piece(self, message: Message) -> Answer:
        data = self._known_outgoing(message).piece(known(message, "offset", int), self.chunk)
        return {}, [data]

    def _discard(self, message: Message, _: Sequence[memoryview]) -> None:
        outgoing = self._outgoing.pop(known(message, "id", str), None)
        if outgoing is not None:
            outgoing.discard()

    def _known_outgoing(self, message: Message) -> Outgoing:
        outgoing = self._outgoing.get(known(message, "id", str))
        if outgoing is None:
            raise SandboxError("this download has ended")
        outgoing.asked = time.monotonic()
        return outgoing

    def _below(self, path: object) -> str:
        return posixpath.join(self._path, relative(path))

    def _absolute(self, path: str) -> str:
        return posixpath.join(self.place, path).rstrip("/") or "/"

    def _entry(self, path: object) -> str:
        """As `_below`, but never the browser's own directory."""
        if not (isinstance(path, str) and path.strip("/.")):
            raise SandboxError("the page named no entry")
        return self._below(path)


def _paths(message: Message) -> list[str]:
    paths = known(message, "paths", list)
    if not paths:
        raise SandboxError("the page sent no paths")
    return [relative(path) for path in paths]
