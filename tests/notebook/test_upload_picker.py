"""The kernel's part of the upload picker, told what its page would tell, against a real sandbox."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox_notebook import UploadPicker
from sandbox_sdk import Receipt, Sandbox

from .conftest import Run, failure

DATA = b"some bytes that arrive in two pieces"


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.local() as sandbox:
        yield sandbox


def told(picker: UploadPicker, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    monkeypatch.setattr(picker, "send", lambda content, buffers=None: answers.append(content))
    return answers


def test_value_receipts_and_listeners_know_what_has_arrived(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    picker = UploadPicker(sandbox, to="in")
    answers = told(picker, monkeypatch)
    heard: list[Receipt] = []
    picker.on_upload(heard.append)
    assert (picker.value, picker.receipts) == ((), ())
    picker._hear(None, {"kind": "open", "id": "1", "name": "a b/é.txt", "size": len(DATA)}, ())
    picker._hear(None, {"kind": "chunk", "id": "1", "offset": 0}, [memoryview(DATA[:10])])
    assert picker.value == () and not sandbox.files.exists("in/a b/é.txt"), "a part is no file"
    picker._hear(None, {"kind": "chunk", "id": "1", "offset": 99}, [memoryview(DATA[10:])])
    assert answers[-1] == {"kind": "at", "id": "1", "offset": 10, "rewind": True}, "a piece out of place was taken"
    picker._hear(None, {"kind": "chunk", "id": "1", "offset": 10}, [memoryview(DATA[10:])])
    picker._hear(None, {"kind": "close", "id": "1"}, ())
    digest = hashlib.sha256(DATA).hexdigest()
    assert answers[-1] == {
        "kind": "done", "id": "1", "path": "/workspace/in/a b/é.txt", "bytes": len(DATA), "sha256": digest
    }  # fmt: skip
    assert picker.value == ("/workspace/in/a b/é.txt",) and picker.receipts == (*heard,)
    assert [(one.bytes, one.sha256) for one in heard] == [(len(DATA), digest)]
    assert sandbox.files.read("in/a b/é.txt") == DATA
    assert repr(picker).splitlines()[:2] == ["upload to /workspace/in", "  path                     size"]


def test_a_page_that_missed_the_end_is_told_again(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    picker = UploadPicker(sandbox)
    answers = told(picker, monkeypatch)
    picker._hear(None, {"kind": "open", "id": "1", "name": "x", "size": 1}, ())
    picker._hear(None, {"kind": "chunk", "id": "1", "offset": 0}, [memoryview(b"y")])
    picker._hear(None, {"kind": "close", "id": "1"}, ())
    done = answers.pop()
    picker._hear(None, {"kind": "status", "id": "1"}, ())
    assert done["kind"] == "done" and answers[-1] == done and len(picker.receipts) == 1
    picker._hear(None, {"kind": "open", "id": "1", "name": "other", "size": 1}, ())  # the page was loaded anew
    picker._hear(None, {"kind": "status", "id": "1"}, ())
    assert answers[-1] == {"kind": "at", "id": "1", "offset": 0, "rewind": True}


def test_a_listener_that_fails_loses_no_file(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    picker = UploadPicker(sandbox)
    answers = told(picker, monkeypatch)

    def fails(receipt: Receipt) -> None:
        raise ValueError("mine")

    picker.on_upload(fails)
    picker._hear(None, {"kind": "open", "id": "1", "name": "x", "size": 0}, ())
    picker._hear(None, {"kind": "close", "id": "1"}, ())
    assert [one["kind"] for one in answers] == ["at", "done", "failed"]
    assert answers[-1]["message"] == "ValueError: mine" and len(picker.receipts) == 1


def test_nothing_waits_in_a_cell_for_the_page_that_the_cell_holds_up(started: Run, sandbox: Sandbox) -> None:
    """What is picked comes to listeners and later cells: a cell that waited for it would wait for ever."""
    assert failure(started("%sandbox upload --pick --wait")) == ('option "--wait" is unknown', "%sandbox upload --help")
    with pytest.raises(TypeError, match="unexpected keyword argument 'wait'"):
        UploadPicker(sandbox, wait=True)  # type: ignore[call-arg]
    assert not [name for name in dir(UploadPicker) if name.startswith(("wait", "result")) or name == "__await__"]
