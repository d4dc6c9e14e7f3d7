"""Uploads that come in parts: what has arrived of each, whose it is, and for how long it is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock

from ..messages import Body, Headers, Refusal, quoted
from .replace import Replacement

KEEP_SECONDS = 3600.0
#: Of one owner at a time; each holds two descriptors.
MOST_UNFINISHED = 16
_MOST_FINISHED = 64
_PATIENCE = 2.0  # for an earlier request to end by itself, then to let go once it was broken off


class Upload:
    """One file on its way. What has arrived is in a part beside its target, which nobody can name."""

    def __init__(
        self,
        owner: str,
        path: str,
        part: Replacement,
        replacing: bool,
        headers: Headers,
        mode: int | None,
        mtime: float | None,
        durable: bool,
        length: int | None,
    ) -> None:
        self.owner = owner
        self.path = path  # as resolved when it began; judged again when it ends
        self.part: Replacement | None = part  # None once it is complete or forgotten
        self.replacing = replacing
        self.headers = headers  # of the request that began it: its conditions hold for the end
        self.mode = mode
        self.mtime = mtime
        self.durable = durable
        self.length = length  # None until the sender knows it
        self.id = os.urandom(16).hex()
        self.offset = 0  # how many bytes have arrived, as of the last request that has ended
        self.receipt = b""
        self.expires = 0.0
        self.busy = False  # somebody sends to it, or ends it
        self.body: Body | None = None  # what is being sent to it

    @property
    def complete(self) -> bool:
        return bool(self.receipt)

    @property
    def lost(self) -> bool:
        """Somebody has removed the directory that it was to go to, or the part, or changed the length of that."""
        if self.part is None:
            return False
        found = os.fstat(self.part.descriptor)
        return found.st_nlink == 0 or found.st_size != self.offset

    def finish(self, receipt: bytes) -> None:
        """It is in its place; what is kept is the receipt, for a sender who did not get it."""
        self.receipt = receipt
        self.drop()

    def drop(self) -> None:
        """Let go of the part; what was not put in its place is gone."""
        if self.part is not None:
            self.part.close()
            self.part = None


class Uploads:
    """Thread-safe. One per server; `close` leaves no part behind."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._freed = Condition(self._lock)  # one of them is busy no more
        self._uploads: dict[str, Upload] = {}  # oldest first

    def add(self, upload: Upload) -> None:
        """Keep it from now on, unless its owner has too many: then it is dropped and refused."""
        with self._lock:
            self._forget_old()
            own = [each for each in self._uploads.values() if each.owner == upload.owner]
            finished = [each for each in own if each.complete]
            for each in finished[: 1 - _MOST_FINISHED]:  # all but the newest
                del self._uploads[each.id]
            if len(own) - len(finished) < MOST_UNFINISHED:
                self._renew(upload)
                self._uploads[upload.id] = upload
                return
        upload.drop()
        raise Refusal("concurrency_limited", f"{MOST_UNFINISHED} uploads are unfinished; finish or cancel one first")

    def find(self, upload_id: str, owner: str) -> Upload:
        """The upload of this id; one of somebody else is none."""
        with self._lock:
            self._forget_old()
            upload = self._uploads.get(upload_id)
            if upload is None or upload.owner != owner:
                raise unknown_upload(upload_id)
            self._renew(upload)
            return upload

    @contextmanager
    def holding(self, upload: Upload, body: Body | None = None) -> Iterator[None]:
        """Be the only one who works on it, sending `body`. A request that sends to it already is broken off."""
        with self._freed:
            if not self._wait(upload, ending=True):
                refusal = Refusal(
                    "conflict", "another request is sending to this upload; wait for its end", retry_after=1
                )
                refusal.headers.append(("Retry-After", "1"))
                raise refusal
            upload.busy, upload.body = True, body
        try:
            yield
        finally:
            with self._freed:
                self._renew(upload)
                upload.busy, upload.body = False, None
                self._freed.notify_all()

    def settle(self, upload: Upload, *, ending: bool) -> None:
        """Wait a moment for whoever sends to it, then break that off when `ending`, so that the offset stands still."""
        with self._freed:
            self._wait(upload, ending=ending)

    def cancel(self, upload: Upload) -> None:
        with self.holding(upload):
            self.forget(upload)

    def forget(self, upload: Upload) -> None:
        """Drop it; whoever asks for it later finds none."""
        upload.drop()
        with self._lock:
            self._uploads.pop(upload.id, None)

    def remaining(self, upload: Upload) -> int:
        """Seconds until it is forgotten when nobody asks for it."""
        return max(0, round(upload.expires - self._clock()))

    def close(self) -> None:
        with self._lock:
            for upload in self._uploads.values():
                upload.drop()
            self._uploads.clear()

    def _wait(self, upload: Upload, *, ending: bool) -> bool:
        """Whether nobody works on it any more. Only the request that is found here is broken off, no later one."""
        earlier = upload.body
        free = self._freed.wait_for(lambda: not upload.busy, _PATIENCE)
        if free or not ending:
            return free
        if earlier is not None and upload.body is earlier:
            earlier.break_off()
        return self._freed.wait_for(lambda: not upload.busy, _PATIENCE)

    def _renew(self, upload: Upload) -> None:
        upload.expires = self._clock() + KEEP_SECONDS

    def _forget_old(self) -> None:
        now = self._clock()
        for upload in list(self._uploads.values()):
            if not upload.busy and (upload.expires <= now or upload.lost):
                upload.drop()
                del self._uploads[upload.id]


def unknown_upload(upload_id: str) -> Refusal:
    return Refusal("not_found", f"no upload {quoted(upload_id, 64)} of yours is under way; begin it again")
