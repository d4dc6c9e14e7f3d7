"""Files that a page sends in chunks: which are on their way, how far each one is, and where they go."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sandbox_sdk import ConflictError, SandboxError

from ..text import size
from .base import Handler, Message
from .messages import known, relative, worded

if TYPE_CHECKING:
    from sandbox_sdk import Capabilities, Receipt, Sandbox, Upload

CHUNK = 2 << 20  # with four on the way, a fifth of what a notebook server takes in one message

_ENDPOINT = "files_upload_stream"
_LONGEST_NAME = 255
_MOST_OPEN = 64


class Uploads:
    """The kernel's end of ``uploader.js``: each chunk is answered with the offset reached, and none is kept."""

    def __init__(self, sandbox: Sandbox, to: str, tell: Callable[..., None], stored: Callable[[Receipt], None]) -> None:
        self._sandbox = sandbox
        self._to = to
        self._tell = tell
        self._stored = stored
        self._uploads: dict[str, tuple[tuple[str, int], Upload]] = {}  # by the page's id: what it is, and its upload
        self._ended: dict[str, Receipt] = {}  # the latest, for a page that was cut off before it heard of them

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "open": self._open,
            "chunk": self._chunk_came,
            "status": self._status,
            "close": self._finish,
            "cancel": self._cancel,
        }

    def _open(self, message: Message, _: Sequence[memoryview]) -> None:
        """A file is coming, or coming again: after a reload of the page, whoever chooses it again goes on."""
        id, name, length = known(message, "id", str), known(message, "name", str), known(message, "size", int)
        path = posixpath.join(self._to, relative(message.get("into", "")), *_parts(name))
        what = (path, length)
        self._ended.pop(id, None)
        earlier = next((key for key, (whose, _) in self._uploads.items() if whose == what and key != id), None)
        try:
            if earlier is not None:
                self._uploads[id] = self._uploads.pop(earlier)
                self._uploads[id][1].resume()
            elif id not in self._uploads:
                if len(self._uploads) >= _MOST_OPEN:
                    raise SandboxError(f"{_MOST_OPEN} uploads are open; finish or cancel one")
                overwrite = message.get("overwrite") is True
                upload = self._sandbox.files.begin_upload(path, size=length, overwrite=overwrite, verify="sha256")
                self._uploads[id] = what, upload
        except SandboxError as error:
            self._refuse(id, error)
            return
        self._tell("at", id=id, offset=self._uploads[id][1].offset, rewind=True)

    def _chunk_came(self, message: Message, buffers: Sequence[memoryview]) -> None:
        id, offset = known(message, "id", str), known(message, "offset", int)
        if id not in self._uploads or not buffers:
            return  # cancelled, or refused, while this was on its way
        upload = self._uploads[id][1]
        if offset != upload.offset:
            self._tell("at", id=id, offset=upload.offset, rewind=offset > upload.offset)
            return
        try:
            upload.append(buffers[0])
        except SandboxError as error:
            self._give_up(id)
            self._refuse(id, error)
            return
        self._tell("at", id=id, offset=upload.offset)

    def _status(self, message: Message, _: Sequence[memoryview]) -> None:
        id = known(message, "id", str)
        if id in self._uploads:
            self._tell("at", id=id, offset=self._uploads[id][1].offset, rewind=True)
        elif id in self._ended:
            self._done(id, self._ended[id])
        else:
            self._tell("unknown", id=id)

    def _finish(self, message: Message, _: Sequence[memoryview]) -> None:
        id = known(message, "id", str)
        if id not in self._uploads:
            return
        try:
            receipt = self._uploads[id][1].finish()
        except SandboxError as error:
            self._give_up(id)
            self._refuse(id, error)
            return
        del self._uploads[id]
        self._ended[id] = receipt
        while len(self._ended) > _MOST_OPEN:
            del self._ended[next(iter(self._ended))]
        try:
            self._stored(receipt)
        finally:
            self._done(id, receipt)

    def _done(self, id: str, receipt: Receipt) -> None:
        self._tell("done", id=id, path=receipt.path, bytes=receipt.bytes, sha256=receipt.sha256)

    def _cancel(self, message: Message, _: Sequence[memoryview]) -> None:
        self._give_up(known(message, "id", str))

    def _give_up(self, id: str) -> None:
        _, upload = self._uploads.pop(id, (None, None))
        if upload is not None:
            with suppress(SandboxError):  # the server forgets it within the hour
                upload.cancel()

    def _refuse(self, id: str, error: SandboxError) -> None:
        exists = isinstance(error, ConflictError) and error.code == "file_exists"
        self._tell("refused", id=id, message=worded(error), hint=error.hint, exists=exists)


def upload_rules(found: Capabilities) -> dict[str, Any]:
    """What the policy says about uploads, for the page to say before anything is sent."""
    info = found.info(_ENDPOINT)
    if info is None or not info.allowed:
        return {"refused": "the policy of this sandbox does not let you upload"}
    rules: dict[str, Any] = {}
    if isinstance(limit := info.limits.get("max_bytes"), int):
        rules.update(most=limit, most_text=size(limit))
    for name in ("allow_extensions", "deny_extensions"):
        if info.params.get(name):
            rules[name] = list(info.params[name])
    if info.params.get("overwrite") is False:
        rules["keeps"] = True
    return rules


def rules_in_words(rules: Mapping[str, Any]) -> list[str]:
    """The same for those who see no page."""
    words = [str(rules["refused"])] if "refused" in rules else []
    words += [f"at most {rules['most_text']} a file"] if "most_text" in rules else []
    words += [f"only {', '.join(rules['allow_extensions'])}"] if "allow_extensions" in rules else []
    words += [f"no {', '.join(rules['deny_extensions'])}"] if "deny_extensions" in rules else []
    return words + (["nothing is replaced"] if "keeps" in rules else [])


def _parts(name: str) -> list[str]:
    """The components of a name as the page tells it: what a browser calls a path, or somebody pretends to be one."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if not parts or any(part == ".." or "\0" in part or len(part.encode()) > _LONGEST_NAME for part in parts):
        raise SandboxError("that is no name for a file")
    return parts
