"""What is kept of uploads that come in parts, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from sandbox_server.guards import uploads as uploads_module
from sandbox_server.guards.uploads import KEEP_SECONDS, Upload, Uploads
from sandbox_server.messages import Headers, Refusal
from tests.server.core.harness import SentBody


def upload(owner: str = "me") -> Upload:
    return Upload(owner, "/base/f", None, False, Headers(), None, None, False, 5)


def known(uploads: Uploads, one: Upload) -> bool:
    try:
        return uploads.find(one.id, one.owner) is one
    except Refusal as refusal:
        assert refusal.code == "not_found"
        return False


def test_the_receipts_of_an_owner_are_the_last_sixty_four() -> None:
    uploads = Uploads()
    other = upload("other")
    finished = [other, *(upload() for _ in range(66))]
    for one in finished:
        uploads.add(one)
        one.finish(b"receipt")
    assert [known(uploads, one) for one in finished] == [True] + [False] * 2 + [True] * 64


def test_what_nobody_asks_for_is_forgotten_unless_it_is_being_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads_module, "_PATIENCE", 0.0)
    now = [0.0]
    uploads = Uploads(lambda: now[0])
    held, idle = upload(), upload()
    uploads.add(held)
    uploads.add(idle)
    with uploads.holding(held):
        now[0] = KEEP_SECONDS
        assert (known(uploads, held), known(uploads, idle)) == (True, False)
        with pytest.raises(Refusal) as refused, uploads.holding(held):
            pass
        assert (refused.value.code, refused.value.headers) == ("conflict", [("Retry-After", "1")])
    now[0] += KEEP_SECONDS - 1
    assert uploads.remaining(held) == 1
    assert known(uploads, held)
    assert uploads.remaining(held) == KEEP_SECONDS
    uploads.forget(held)
    assert not known(uploads, held)


@pytest.mark.parametrize(
    "look", [lambda uploads, one: uploads.find(one.id, "me"), lambda uploads, one: uploads.settle(one, ending=True)]
)
def test_who_only_looks_at_an_upload_keeps_nobody_from_sending_to_it(look: Callable[[Uploads, Upload], object]) -> None:
    uploads, one, over = Uploads(), upload(), threading.Event()
    uploads.add(one)
    looks: list[None] = []

    class Looked(Upload):
        @property
        def lost(self) -> bool:
            looks.append(None)
            time.sleep(0.001)  # a look at the file; others have their turn meanwhile
            return False

    one.__class__ = Looked

    def go_on_looking() -> None:
        while not over.is_set():
            look(uploads, one)
            uploads.find(one.id, "me")

    looking = threading.Thread(target=go_on_looking)
    looking.start()
    try:
        while len(looks) < 50:
            with uploads.holding(one):
                pass
    finally:
        over.set()
        looking.join()


class Sent(SentBody):
    """A body on its way; whether it was broken off."""

    broken_off = False

    def break_off(self) -> None:
        self.broken_off = True


def test_only_the_request_that_a_later_one_finds_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    uploads, one, earlier, later = Uploads(), upload(), Sent(), Sent()
    uploads.add(one)

    class Handover(threading.Condition):
        """Somebody else has taken the place of the earlier request by the time that the patience is over."""

        def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> bool:
            one.body = later
            return False

    with uploads.holding(one, earlier):
        monkeypatch.setattr(uploads, "_freed", Handover(uploads._lock))
        uploads.settle(one, ending=True)
        assert not earlier.broken_off and not later.broken_off
        uploads.settle(one, ending=False)
        assert not later.broken_off
        uploads.settle(one, ending=True)
        assert later.broken_off
