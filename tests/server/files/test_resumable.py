"""Uploads in parts: whatever breaks, what has arrived stays, and the file appears whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.guards.uploads import KEEP_SECONDS, MOST_UNFINISHED, Upload, Uploads
from sandbox_server.messages import Headers, Refusal
from tests.server.files.conftest import OCTETS, Files
from tests.support.server import Reply, ServerProcess, running_server
from tests.support.waiting import eventually

PARTIAL = "application/partial-upload"
PART = 300_000


@dataclass
class Sender:
    """One upload in parts, as its sender sees it."""

    files: Files
    path: str
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    place: str = ""

    def begin(self, data: bytes = b"", **headers: str) -> Reply:
        fields = {"Upload-Complete": "?0", **self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        reply = self.files.upload(self.path, data, fields, **self.query)
        self.place = reply.headers.get("location", "")
        return reply

    def add(self, offset: int, data: bytes, *, last: bool = False, **headers: str) -> Reply:
        fields = {
            "Content-Type": PARTIAL,
            "Upload-Offset": str(offset),
            "Upload-Complete": "?1" if last else "?0",
            **self.headers,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return self.files.server.request("PATCH", self.place, data, fields)

    def ask(self, method: str = "HEAD") -> Reply:
        return self.files.server.request(method, self.place, None, self.headers)


@pytest.fixture
def sender(files: Files) -> Sender:
    return Sender(files, "new/data.bin")


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["code"]


def limits(reply: Reply) -> set[str]:
    """What ``Upload-Limit`` says; for how long the upload is kept is judged here, since that time runs."""
    told = set(reply.headers["upload-limit"].split(", "))
    [age] = (limit for limit in told if limit.startswith("max-age="))
    assert KEEP_SECONDS - 60 < int(age.removeprefix("max-age=")) <= KEEP_SECONDS
    return told - {age} | {"max-age"}


def test_a_file_arrives_in_parts_and_appears_whole(sender: Sender, files: Files) -> None:
    data = os.urandom(3 * PART)
    sender.query = {"mode": "640", "mtime": "1000"}
    begun = sender.begin(data[:PART], Upload_Length=str(len(data)))
    assert begun.status == 201
    assert limits(begun) == {"max-age"}
    assert (begun.headers["upload-offset"], begun.headers["upload-complete"]) == (str(PART), "?0")
    assert begun.json()["path"] == str(files.base / "new/data.bin")

    middle = sender.add(PART, data[PART : 2 * PART])
    assert (middle.status, middle.body) == (204, b"")
    assert (middle.headers["upload-offset"], middle.headers["upload-complete"]) == (str(2 * PART), "?0")
    assert files.list("new").json()["entries"] == []
    assert files.stat("new/data.bin").json()["exists"] is False

    state = sender.ask()
    assert (state.status, state.body) == (200, b"")
    wanted = {"upload-offset": str(2 * PART), "upload-complete": "?0", "upload-length": str(3 * PART)}
    assert wanted.items() <= state.headers.items()
    assert state.headers["cache-control"] == "no-store"

    end = sender.add(2 * PART, data[2 * PART :], last=True)
    assert (end.status, end.headers["upload-complete"]) == (200, "?1")
    receipt = end.json()
    assert (receipt["bytes"], receipt["size"], receipt["created"]) == (len(data), len(data), True)
    assert (receipt["mode"], receipt["mtime"]) == ("0640", 1000.0)
    assert (files.base / "new/data.bin").read_bytes() == data
    assert os.listdir(files.base / "new") == ["data.bin"]


def test_a_complete_upload_still_tells_its_receipt(sender: Sender) -> None:
    sender.begin(b"abc")
    receipt = sender.add(3, b"", last=True).json()
    state = sender.ask()
    assert (state.headers["upload-offset"], state.headers["upload-complete"]) == ("3", "?1")
    assert sender.ask("GET").json() == receipt
    again = sender.add(3, b"", last=True)
    assert refusal(again) == (409, "conflict")
    assert again.json()["problem"].endswith("#completed-upload")
    assert sender.ask("DELETE").status == 204
    assert sender.ask("GET").status == 404


def test_an_upload_at_once_may_say_that_it_is_complete(files: Files) -> None:
    reply = files.upload("f", b"all", {"Upload-Complete": "?1"})
    assert (reply.status, reply.headers["upload-complete"], reply.headers["upload-offset"]) == (200, "?1", "3")
    assert "location" not in reply.headers
    assert files.upload("f", b"all", {"Upload-Complete": "yes"}).headers.get("upload-complete") is None


def test_a_broken_connection_costs_nothing_that_has_arrived(sender: Sender, files: Files) -> None:
    data = os.urandom(4 * PART)
    sender.begin(Upload_Length=str(len(data)))
    head = (
        f"PATCH {sender.place} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {PARTIAL}\r\n"
        f"Upload-Offset: 0\r\nUpload-Complete: ?1\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", files.server.port)) as connection:
        connection.sendall(head.encode() + data[:PART])
    eventually(lambda: sender.ask().headers["upload-offset"] == str(PART))
    assert sender.add(PART, data[PART:], last=True).status == 200
    assert (files.base / "new/data.bin").read_bytes() == data


def stalled(sender: Sender, data: bytes, length: int) -> socket.socket:
    """A connection whose request has sent `data` of the next `length` bytes, which have arrived, and goes on later."""
    [part] = Path(sender.files.base, sender.path).parent.glob(".nsb-*.part")
    arrived = part.stat().st_size
    head = (
        f"PATCH {sender.place} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {PARTIAL}\r\n"
        f"Upload-Offset: {arrived}\r\nUpload-Complete: ?0\r\nContent-Length: {length}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", sender.files.server.port), timeout=60)
    connection.sendall(head.encode() + data)
    eventually(lambda: part.stat().st_size == arrived + len(data))
    return connection


def closed(connection: socket.socket) -> bool:
    """Whether the server ends it without an answer."""
    try:
        return connection.recv(4096) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("method", ["HEAD", "PATCH", "DELETE"])
def test_a_later_request_ends_one_that_the_server_still_waits_for(method: str, sender: Sender, files: Files) -> None:
    data = os.urandom(3 * PART)
    sender.begin(Upload_Length=str(len(data)))
    broken_off = files.broken_off("new/data.bin")
    with stalled(sender, data[:PART], len(data)) as connection:
        if method == "PATCH":
            assert sender.add(PART, data[PART : 2 * PART]).headers["upload-offset"] == str(2 * PART)
        elif method == "HEAD":
            assert sender.ask().headers["upload-offset"] == str(PART)
            with suppress(ConnectionError):  # a sender that was only slow: nothing of this arrives
                connection.sendall(b"x" * PART)
        else:
            assert sender.ask("DELETE").status == 204
        assert closed(connection)
    eventually(lambda: files.broken_off("new/data.bin") == broken_off + 1)
    ended = [line for line in files.server.audit_lines() if (line["method"], line["status"]) == ("PATCH", 400)]
    assert ended[-1]["aborted"] is True
    if method == "DELETE":
        assert os.listdir(files.base / "new") == []
        return
    arrived = 2 * PART if method == "PATCH" else PART
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    assert sender.add(arrived, data[arrived:], last=True, Repr_Digest=f"sha-256=:{digest}:").status == 200
    assert (files.base / "new/data.bin").read_bytes() == data


def test_who_looks_by_get_breaks_nothing_off(sender: Sender) -> None:
    sender.begin()
    with stalled(sender, b"x" * 40, 100) as connection:
        assert sender.ask("GET").json()["offset"] == 0  # as of the last request that has ended
        connection.sendall(b"x" * 60)
        assert connection.recv(4096).startswith(b"HTTP/1.1 204 ")
    assert sender.add(100, b"", last=True).json()["size"] == 100


INTEROP = {"Upload-Draft-Interop-Version": "8"}


def creation(path: str, length: int, version: str = "1.1", **headers: str) -> bytes:
    """The head of a request that begins an upload; whether it says more is for the test."""
    fields = {"Host": "localhost", "Content-Type": OCTETS, "Content-Length": str(length), "Upload-Complete": "?0"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /files/upload-stream?path={path} HTTP/{version}\r\n{lines}\r\n".encode()


def head(connection: socket.socket) -> tuple[str, dict[str, str]]:
    """The status line and the fields of the next response, final or not; nothing of what follows is read."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, data
        data += byte
    line, *fields = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    return line, {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}


@pytest.mark.parametrize("way", ["ended", "reset"])
def test_a_sender_that_was_told_the_place_first_goes_on_though_its_first_request_broke(
    way: str, sender: Sender, files: Files
) -> None:
    data = os.urandom(3 * PART)
    with socket.create_connection(("127.0.0.1", files.server.port), timeout=60) as connection:
        connection.sendall(creation(sender.path, len(data), Upload_Draft_Interop_Version="8"))
        line, told = head(connection)  # before any of the body
        assert line == "HTTP/1.1 104 Upload Resumption Supported"
        assert set(told) == {"upload-draft-interop-version", "location", "upload-limit"}
        assert told["upload-draft-interop-version"] == "8"
        connection.sendall(data[:PART])
        [part] = (files.base / "new").glob(".nsb-*.part")
        eventually(lambda: part.stat().st_size == PART)
        if way == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
    sender.place = told["location"]
    eventually(lambda: sender.ask().headers["upload-offset"] == str(PART))
    assert sender.add(PART, data[PART:], last=True).status == 200
    assert (files.base / "new/data.bin").read_bytes() == data


def test_the_place_that_is_told_first_is_that_of_the_answer(sender: Sender, files: Files) -> None:
    with socket.create_connection(("127.0.0.1", files.server.port), timeout=60) as connection:
        connection.sendall(creation(sender.path, 5, Upload_Draft_Interop_Version="8", Expect="100-continue"))
        _, told = head(connection)
        assert head(connection) == ("HTTP/1.1 100 Continue", {})
        connection.sendall(b"12345")
        line, final = head(connection)
    assert line == "HTTP/1.1 201 Created"
    assert (final["location"], final["upload-offset"]) == (told["location"], "5")


@pytest.mark.parametrize(
    ("version", "headers", "answer"),
    [
        ("1.1", {}, "HTTP/1.1 201 Created"),
        ("1.1", {"Upload_Draft_Interop_Version": "6"}, "HTTP/1.1 201 Created"),
        ("1.0", {"Upload_Draft_Interop_Version": "8"}, "HTTP/1.1 201 Created"),
        ("1.1", {"Upload_Draft_Interop_Version": "8", "Upload_Complete": "?1"}, "HTTP/1.1 200 OK"),
    ],
)
def test_who_does_not_say_that_it_understands_is_told_nothing_first(
    version: str, headers: dict[str, str], answer: str, sender: Sender, files: Files
) -> None:
    with socket.create_connection(("127.0.0.1", files.server.port), timeout=60) as connection:
        connection.sendall(creation(sender.path, 5, version, **headers) + b"12345")
        assert head(connection)[0] == answer
        if "Upload_Complete" in headers:
            return
    broken_off = files.broken_off("elsewhere/f")
    with socket.create_connection(("127.0.0.1", files.server.port), timeout=60) as connection:
        connection.sendall(creation("elsewhere/f", PART, version, **headers) + b"12345")
    eventually(lambda: files.broken_off("elsewhere/f") > broken_off)
    assert os.listdir(files.base / "elsewhere") == []  # nobody could go on with it


@pytest.mark.parametrize("client", ["httpx", "curl"])
def test_clients_that_pass_over_interim_answers_get_the_one_that_counts(
    client: str, sender: Sender, files: Files
) -> None:
    data = os.urandom(PART)
    address = f"http://127.0.0.1:{files.server.port}/files/upload-stream?path={sender.path}"
    fields = {"Content-Type": OCTETS, "Upload-Complete": "?0", **INTEROP}
    if client == "httpx":
        httpx = pytest.importorskip("httpx", reason="no way here: the server's own environment has no httpx")
        with httpx.Client(trust_env=False) as browser:
            answer = browser.post(address, content=data, headers=fields)
            assert (answer.status_code, answer.json()["offset"]) == (201, PART)
            sender.place = answer.headers["location"]
            again = browser.head(f"http://127.0.0.1:{files.server.port}{sender.place}")  # over the same connection
            assert again.headers["upload-offset"] == str(PART)
    elif (curl := shutil.which("curl")) is None:
        pytest.skip("no way here: there is no curl")
    else:
        options = [option for name, value in fields.items() for option in ("-H", f"{name}: {value}")]
        ran = subprocess.run(
            [curl, "-sS", "-i", "--noproxy", "*", *options, "--data-binary", "@-", address],
            input=data, stdout=subprocess.PIPE, check=True, timeout=60,
        )  # fmt: skip
        *interim, final, body = ran.stdout.decode().split("\r\n\r\n")
        assert [lines.split(" ")[1] for lines in (interim[0], final)] == ["104", "201"]
        assert json.loads(body)["offset"] == PART
        [sender.place] = {
            line[10:] for lines in (*interim, final) for line in lines.split("\r\n") if "ocation: " in line
        }
    assert sender.add(PART, b"", last=True).json()["size"] == PART
    assert (files.base / "new/data.bin").read_bytes() == data


def test_only_the_bytes_that_follow_are_taken(sender: Sender) -> None:
    sender.begin(b"12345")
    for offset in (0, 4, 6):
        reply = sender.add(offset, b"xx")
        assert refusal(reply) == (409, "conflict")
        assert reply.headers["upload-offset"] == "5"
        assert (reply.json()["expected-offset"], reply.json()["provided-offset"]) == (5, offset)
        assert reply.json()["problem"].endswith("#mismatching-upload-offset")
    assert sender.ask().headers["upload-offset"] == "5"


def test_lengths_that_do_not_agree_are_refused(sender: Sender) -> None:
    assert refusal(sender.begin(b"12345", Upload_Length="4")) == (400, "invalid_argument")
    sender.begin(b"12345", Upload_Length="8")
    for data, last, extra in ((b"6789", False, {}), (b"67", True, {}), (b"6", False, {"Upload_Length": "9"})):
        reply = sender.add(5, data, last=last, **extra)
        assert refusal(reply) == (400, "invalid_argument")
        assert reply.json()["problem"].endswith("#inconsistent-upload-length")
    assert sender.ask().headers["upload-offset"] == "5"
    assert sender.add(5, b"678", last=True).status == 200


def test_a_length_may_become_known_later(sender: Sender) -> None:
    assert "upload-length" not in sender.begin(b"1").headers
    assert sender.add(1, b"2", Upload_Length="3").headers["upload-length"] == "3"
    assert refusal(sender.add(2, b"34")) == (400, "invalid_argument")


def test_a_sender_who_asks_learns_that_parts_are_taken(sender: Sender, files: Files) -> None:
    sender.begin()
    request = files.server.request
    for reply in (
        request("OPTIONS", "/files/upload-stream"),
        request("OPTIONS", sender.place),
        request("PATCH", sender.place, b"x", {"Content-Type": OCTETS}),
    ):
        assert (reply.status in (405, 415), reply.headers.get("accept-patch")) == (True, PARTIAL)
    assert "accept-patch" not in request("OPTIONS", "/files/mkdir").headers


def test_what_is_no_part_is_refused(sender: Sender, files: Files) -> None:
    sender.begin()
    request = files.server.request
    assert refusal(request("PATCH", sender.place, b"x", {"Content-Type": OCTETS})) == (415, "unsupported_media_type")
    for offset, complete in ((None, None), ("0", None), (None, "?0"), ("-1", "?0"), ("0x", "?0"), ("0", "1")):
        said = {"Upload-Offset": offset, "Upload-Complete": complete}
        headers = {name: value for name, value in said.items() if value is not None}
        reply = request("PATCH", sender.place, b"x", {"Content-Type": PARTIAL, **headers})
        assert refusal(reply) == (400, "invalid_argument")
    for path in ("/files/uploads/unknown", "/files/uploads/" + "0" * 32):
        assert refusal(request("PATCH", path, b"x", {
            "Content-Type": PARTIAL, "Upload-Offset": "0", "Upload-Complete": "?1"})) == (404, "not_found")  # fmt: skip
        assert refusal(request("GET", path)) == (404, "not_found")
        assert refusal(request("DELETE", path)) == (404, "not_found")
    assert refusal(request("POST", sender.place, b"x")) == (405, "method_not_allowed")
    for query in ({"append": "true"}, {"offset": "0"}):
        assert refusal(files.upload("f", b"", {"Upload-Complete": "?0"}, **query)) == (400, "invalid_argument")


def test_a_cancelled_upload_leaves_nothing(sender: Sender, files: Files) -> None:
    (files.base / "new").mkdir()
    sender.begin(b"x" * PART)
    assert len(os.listdir(files.base / "new")) == 1
    assert sender.ask("DELETE").status == 204
    assert os.listdir(files.base / "new") == []
    assert refusal(sender.ask("GET")) == (404, "not_found")


def test_conditions_are_judged_again_at_the_end(files: Files) -> None:
    fresh = Sender(files, "f")
    assert fresh.begin(b"new", If_None_Match="*").status == 201
    etag = files.upload("f", b"quicker").json()["etag"]
    end = fresh.add(3, b"", last=True)
    assert refusal(end) == (412, "precondition_failed")
    assert end.headers["upload-complete"] == "?1"
    assert fresh.ask("GET").status == 404

    changing = Sender(files, "f")
    assert refusal(changing.begin(b"", If_Match='"other"')) == (412, "precondition_failed")
    assert changing.begin(b"new", If_Match=etag).status == 201
    files.upload("f", b"quicker again")
    assert refusal(changing.add(3, b"", last=True)) == (412, "precondition_failed")

    keeping = Sender(files, "g", {"overwrite": "false"})
    assert keeping.begin(b"new").status == 201
    files.upload("g", b"quicker")
    assert refusal(keeping.add(3, b"", last=True)) == (409, "file_exists")
    assert sorted(os.listdir(files.base)) == ["f", "g"]
    assert (files.base / "f").read_bytes() == b"quicker again"


def test_a_replaced_file_keeps_the_permissions_it_has_at_the_end(files: Files) -> None:
    files.upload("f", b"old", mode="644")
    sender = Sender(files, "f")
    sender.begin(b"new")
    (files.base / "f").chmod(0o600)
    receipt = sender.add(3, b"", last=True).json()
    assert (receipt["mode"], receipt["created"]) == ("0600", False)


def test_the_digest_is_of_the_whole_and_a_wrong_promise_is_refused(files: Files) -> None:
    data = os.urandom(PART)
    value = f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"
    wanting = Sender(files, "f")
    wanting.begin(data[:10], Want_Repr_Digest="sha-256=1")
    end = wanting.add(10, data[10:], last=True, Repr_Digest=value)
    assert end.json()["sha256"] == hashlib.sha256(data).hexdigest()
    assert end.headers["repr-digest"] == value
    promising = Sender(files, "g")
    promising.begin(data[:10], Repr_Digest=value)
    assert refusal(promising.add(10, data[11:], last=True)) == (400, "bad_body")
    assert refusal(files.upload("g", data[1:], {"Repr-Digest": value})) == (400, "bad_body")
    assert files.upload("g", data, {"Repr-Digest": value}).status == 200
    assert sorted(os.listdir(files.base)) == ["f", "g"]


@pytest.mark.parametrize("exchange", ["directory", "link"])
def test_a_directory_exchanged_meanwhile_gets_nothing(files: Files, tmp_path: Path, exchange: str) -> None:
    sender = Sender(files, "d/f")
    sender.begin(b"content")
    (files.base / "d").rename(files.base / "moved")
    if exchange == "directory":
        (files.base / "d").mkdir()
    else:
        (tmp_path / "outside").mkdir()
        (files.base / "d").symlink_to(tmp_path / "outside")
    reply = sender.add(7, b"", last=True)
    assert refusal(reply) == ((409, "conflict") if exchange == "directory" else (403, "path_not_allowed"))
    assert os.listdir(files.base / "d") == os.listdir(files.base / "moved") == []


def test_of_two_senders_at_once_one_wins(sender: Sender, files: Files) -> None:
    sender.begin()
    with stalled(sender, b"x" * 40, 100) as connection:
        reply = sender.add(0, b"")
        assert (refusal(reply), reply.json()["expected-offset"]) == ((409, "conflict"), 40)
        assert closed(connection)  # the later one has taken it over
    assert sender.add(40, b"", last=True).json()["size"] == 40
    replies: list[int] = []
    many = Sender(files, "many")
    many.begin()
    threads = [threading.Thread(target=lambda: replies.append(many.add(0, b"y" * PART).status)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(replies) == [204] + [409] * 7
    assert many.ask().headers["upload-offset"] == str(PART)


def test_the_rules_bind_every_step(tmp_path: Path) -> None:
    tokens = [
        {"id": name, "token_env": f"T_{name.upper()}", "scopes": scopes}
        for name, scopes in (("ann", ["files:*"]), ("bob", ["files:*"]), ("eve", ["files:read"]))
    ]
    policy = {
        "auth": {"tokens": tokens},
        "endpoints": {
            "files_upload_stream": {"limits": {"max_bytes": 10, "max_request_bytes": 8}, "audit": "all"},
        },
    }
    environ = {"T_ANN": "a" * 32, "T_BOB": "b" * 32, "T_EVE": "e" * 32}
    with running_server(tmp_path, policy=policy, environ=environ, allow_anonymous=False) as server:
        files = Files(server, tmp_path / "base")
        ann, bob, eve = ({"Authorization": f"Bearer {name * 32}"} for name in "abe")
        sender = Sender(files, "f", headers=ann)
        begun = sender.begin(b"12345678")
        assert limits(begun) == {"max-age", "max-size=10", "max-append-size=8"}
        assert refusal(sender.begin(b"", Upload_Length="11")) == (413, "payload_too_large")
        sender.place = begun.headers["location"]
        stranger = Sender(files, "f", headers=bob, place=sender.place)
        assert [stranger.ask(method).status for method in ("GET", "DELETE")] == [404, 404]
        assert stranger.add(8, b"9", last=True).status == 404
        reader = Sender(files, "f", headers=eve, place=sender.place)
        assert refusal(reader.ask("GET")) == (403, "missing_scope")
        assert refusal(reader.add(8, b"9")) == (403, "missing_scope")
        reply = sender.add(8, b"9ab")
        assert refusal(reply) == (413, "payload_too_large")
        assert "max-size=10" in reply.headers["upload-limit"]
        assert refusal(sender.add(8, b"9" * 9)) == (413, "payload_too_large")
        assert sender.add(8, b"9a", last=True).json()["size"] == 10
        discovery = server.request("GET", "/capabilities", None, ann).json()["endpoints"]
        assert not [name for name in discovery if "." in name]
        eventually(lambda: server.audit.read_text().count('"files_upload_stream"') >= 9)
    lines = [json.loads(line) for line in server.audit.read_text().splitlines()]
    patched = [line for line in lines if line["method"] == "PATCH" and line["status"] == 200]
    assert [(line["endpoint"], line["paths"]) for line in patched] == [
        ("files_upload_stream", [str(tmp_path / "base/f")])
    ]


def test_an_owner_has_only_so_many_unfinished(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, tmp_path / "base")
        senders = [Sender(files, f"f{number}") for number in range(MOST_UNFINISHED)]
        assert {sender.begin(b"x").status for sender in senders} == {201}
        over = Sender(files, "over")
        assert refusal(over.begin(b"x")) == (429, "concurrency_limited")
        assert len(os.listdir(files.base)) == MOST_UNFINISHED
        assert senders[0].add(1, b"", last=True).status == 200
        assert over.begin(b"x").status == 201
        for sender in [*senders, over]:
            sender.ask("DELETE")
        assert os.listdir(files.base) == ["f0"]


def open_parts(server: ServerProcess) -> int:
    """How many descriptors of parts the server holds."""
    count = 0
    for entry in Path(f"/proc/{server.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # a connection that was closed since the listing
            count += ".part" in os.readlink(entry)
    return count


def test_an_upload_whose_part_was_removed_is_over_and_takes_no_place(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, tmp_path / "base")
        senders = [Sender(files, f"d/f{number}") for number in range(MOST_UNFINISHED)]
        assert {sender.begin(b"x").status for sender in senders} == {201}
        assert files.delete("d").status == 200
        assert refusal(senders[0].add(1, b"", last=True)) == (404, "not_found")
        assert Sender(files, "d/again").begin(b"x").status == 201
        assert open_parts(server) == 1


@pytest.mark.field(31)
def test_field_031_what_cannot_fit_is_refused_before_it_is_sent(small_disk: Path, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        sender = Sender(Files(server, small_disk), "f")
        reply = sender.begin(Upload_Length=str(6 << 20))
        assert refusal(reply) == (507, "no_space")
        assert os.listdir(small_disk) == []
        assert sender.begin(b"x" * PART).status == 201
        reply = sender.add(PART, b"x" * (6 << 20))
        assert refusal(reply) == (507, "no_space")
        assert reply.headers["upload-offset"] == str(PART)
        assert sender.add(PART, b"", last=True).status == 200
        assert os.listdir(small_disk) == ["f"]


def test_an_upload_whose_part_somebody_shortened_is_over(files: Files) -> None:
    sender = Sender(files, "f")
    sender.begin(b"data")
    [part] = files.base.glob(".nsb-*.part")
    os.truncate(part, 2)
    assert sender.add(4, b"!", last=True).status == 404
    assert list(files.base.iterdir()) == []


def test_a_server_that_stops_leaves_no_part(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, tmp_path / "base")
        assert Sender(files, "f").begin(b"x" * PART).status == 201
        assert len(os.listdir(files.base)) == 1
    assert os.listdir(tmp_path / "base") == []


class Part:
    """Stands in for an open part."""

    def __init__(self) -> None:
        self.descriptor = os.open(os.devnull, os.O_RDONLY)
        self.closed = False

    def close(self) -> None:
        os.close(self.descriptor)
        self.closed = True


def upload(owner: str = "ann") -> tuple[Upload, Part]:
    part = Part()
    return Upload(owner, "/f", part, True, Headers(), None, None, False, None), part  # type: ignore[arg-type]


def test_what_nobody_asks_for_is_forgotten_after_an_hour() -> None:
    now = 0.0
    uploads = Uploads(lambda: now)
    (old, old_part), (used, used_part), (busy, busy_part) = upload(), upload(), upload()
    for each in (old, used, busy):
        uploads.add(each)
    now = KEEP_SECONDS - 1
    assert uploads.find(used.id, "ann") is used
    with uploads.holding(busy):
        now = KEEP_SECONDS
        with pytest.raises(Refusal, match="begin it again"):
            uploads.find(old.id, "ann")
        assert (old_part.closed, used_part.closed, busy_part.closed) == (True, False, False)
    assert uploads.find(busy.id, "ann") is busy
    uploads.close()
    assert used_part.closed and busy_part.closed
    with pytest.raises(Refusal):
        uploads.find(used.id, "ann")
