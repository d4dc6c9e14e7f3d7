"""Several who look at one terminal, slow ones and rude ones among them: none holds up another, or the shell."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_server.terminal import wire as wire_module
from sandbox_server.websocket import close_frame
from tests.support.memory import resident
from tests.support.server import running_server
from tests.support.waiting import eventually
from tests.support.websocket import BINARY, CLOSE, PING, TEXT, WebSocketClient, frame

from .conftest import Place

_FLOOD = "head -c {} /dev/zero | tr '\\0' x | fold -w 63; echo do''ne\n"


def test_all_viewers_see_the_same_and_a_late_one_sees_what_was(place: Place) -> None:
    id = place.open()
    with place.connect(id) as first:
        first.type("echo one''!; sleep 0.1; echo two''!\n")
        shown = first.until("two!\r\n")
        with place.connect(id) as second:
            first.type("echo three''!\n")
            shown += first.until("three!\r\n")
            assert second.until("three!\r\n") == shown


def test_a_viewer_that_comes_in_the_middle_of_a_flood_gets_neither_gap_nor_duplicate(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as first:
        first.type("stty -echo; PS1=; seq 1 30000; echo do''ne\n")
        first.until("\n100\r\n")
        shown: list[str] = []
        reader = threading.Thread(target=lambda: shown.append(first.until("done")))
        reader.start()
        with place.connect(id) as second:
            assert second.receive()["event"] == "started"
            late = second.until("done")
        reader.join()
    numbers = [int(line) for line in late.split("\r\n") if line.isdigit()]
    assert numbers == list(range(numbers[0], 30_001))
    assert "\r\n29999\r\n30000\r\ndone" in shown[0]


def test_the_replay_is_bounded_and_begins_with_a_whole_line(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as first:
        first.type("stty -echo; PS1=; " + _FLOOD.format(1_000_000))
        first.until("done")
        with place.connect(id) as second:
            second.receive()
            replayed = second.until("done")
    assert 250_000 < len(replayed) <= 256 << 10
    assert set(map(len, replayed.split("\r\n")[:100])) == {63}


def test_text_is_never_cut_within_a_character(place: Place) -> None:
    with place.connect(place.open("/bin/bash", env={"LC_ALL": "C.UTF-8"})) as viewer:
        viewer.type(
            "stty -echo; PS1=; for i in {1..3000}; do printf '日本é🎈'; done; printf '\\xff'; echo fin''ished\n"
        )
        shown = viewer.until("finished")
    assert "日本é🎈" * 3000 + "\ufffdfinished" in shown


@pytest.mark.slow
@pytest.mark.field(112)
def test_field_112_pongs_come_while_a_hundred_megabytes_flow(place: Place) -> None:
    with place.connect(place.open("/bin/bash")) as viewer:
        viewer.type("stty -echo; PS1=; echo go''.; " + _FLOOD.format(100_000_000))
        viewer.until("go.\r\n")
        viewer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)  # no more than that is under way
        seen = passed = pings = asked_at = 0
        data = ""
        while "done" not in data:
            while passed >= 10_000_000 * (pings + 1):
                pings += 1
                viewer.sock.sendall(frame(PING, b"%d" % pings))
                asked_at = seen
            message = viewer.receive()
            assert message is not None
            data = message.get("data", "")
            seen += len(data)
            passed += len(data) + message.get("bytes", 0)  # seen, or missed and told
            if len(viewer.pongs) < pings:
                assert seen - asked_at < 4_000_000, "the pong waits for the output"
        viewer.type("echo answ''ered\n")
        viewer.until("answered")
    assert passed >= 100_000_000 + 100_000_000 // 63
    assert viewer.pongs == [b"%d" % number for number in range(1, pings + 1)] and pings == 10


def test_a_viewer_that_stops_reading_holds_up_nobody_and_is_told_what_it_missed(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as stalled, place.connect(id) as quick:
        quick.type("stty -echo; PS1=; " + _FLOOD.format(30_000_000))
        quick.until("done")  # while the other one reads nothing
        quick.type("echo fin''ished\n")
        shown, skipped, messages = "", 0, 0
        while "finished" not in shown:
            message = stalled.receive()
            assert message is not None
            messages += message.get("event") == "skipped"
            skipped += message.get("bytes", 0)
            shown += message.get("data", "")
    assert messages >= 1 and skipped > 10_000_000


def test_a_viewer_that_stops_reading_does_not_stop_the_shell_either(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as stalled:
        stalled.type("yes | head -c 10000000; touch finished\n")
        eventually(lambda: place.server.request("GET", "/files/stat?path=finished").json()["exists"])
        place.server.request("DELETE", "/files?path=finished")


@pytest.mark.field(116)
@pytest.mark.parametrize("way", ["query", "message"])
def test_field_116_a_takeover_wins_at_once_and_the_stalled_one_is_told_why(place: Place, way: str) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as first:
        first.type("PS1='go''on> '; yes\n")  # and reads nothing from here on
        eventually(lambda: place.detail(id)["alive"])
        with place.connect(id, "&takeover=1" if way == "query" else "") as second:
            if way == "message":
                second.send(type="takeover")
            second.until("y\r\ny\r\n")
            second.type("\x03")
            second.until("goon> ")  # an interrupt takes with it what was typed before the prompt
            second.type("echo mi''ne\n")
            second.until("mine")
            rest = first.rest()
            assert first.close_code == 4009
            assert first.close_reason == "another viewer has taken the terminal over"
            assert "mine" not in "".join(message.get("data", "") for message in rest[-3:])
            second.type("echo still he''re\n")
            second.until("still here")


def test_messages_that_make_no_sense_are_answered_and_change_nothing(place: Place) -> None:
    with place.connect(place.open()) as viewer:
        viewer.receive()
        bad = [
            b"not json", b"[]", b"5", b"{}", b'{"type":5}', b'{"type":[]}', b'{"type":"zzz"}', b'{"type":"input"}',
            b'{"type":"input","data":5}', b'{"type":"input","data":"\\ud800"}', b'{"type":"signal","signal":"SIGNOPE"}',
            b'{"type":"signal","signal":"\\ud800"}', b'{"type":"signal","signal":{}}', b'{"type":"resize","cols":"x"}',
            b"[" * 100_000, b'{"type":"input","data":' + b"9" * 5000 + b"}",
        ]  # fmt: skip
        frames = [frame(TEXT, message) for message in bad]
        for encoding in ("utf-16", "utf-32"):
            frames.append(frame(BINARY, '{"type":"input","data":"exit\\n"}'.encode(encoding)))
        for sent in frames:
            viewer.sock.sendall(sent)
            answer = viewer.receive()
            while answer["type"] == "output":  # the shell's prompt may come at any moment
                answer = viewer.receive()
            assert (answer["type"], answer["code"]) == ("error", "invalid_argument"), sent
        viewer.sock.sendall(frame(BINARY, json.dumps({"type": "input", "data": "echo al''ive\n"}).encode()))
        viewer.until("alive")


def test_floods_of_nonsense_from_a_peer_that_reads_nothing_cost_no_memory(place: Place) -> None:
    id = place.open()
    nonsense = (frame(TEXT, b'{"type":"zzz"}') + frame(PING, b"x")) * 1000
    before = resident(place.server.pid)
    with place.connect(id) as rude:
        rude.sock.settimeout(2)
        with contextlib.suppress(TimeoutError):
            for _ in range(500):
                rude.sock.sendall(nonsense)
        assert resident(place.server.pid) - before < 10 << 20
        with place.connect(id) as other:
            other.type("echo al''ive\n")
            other.until("alive")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(TEXT, b"{}", mask=None), 1002),
        (frame(TEXT, b"\xff"), 1007),
        (bytes([0x81, 0xFF]) + (1 << 40).to_bytes(8, "big"), 1009),
        (frame(TEXT, b" " * (1 << 20) + b"1"), 1009),
        (frame(CLOSE, b"\x03\xe8"), 1000),
        (frame(CLOSE), None),
    ],
)
def test_the_terminal_outlives_what_its_viewers_do(place: Place, sent: bytes, code: int | None) -> None:
    id = place.open()
    with place.connect(id) as viewer:
        viewer.receive()
        with contextlib.suppress(ConnectionError):  # refused before it was all sent
            viewer.sock.sendall(sent)
        viewer.rest()
        assert viewer.close_code == code
    with place.connect(id) as viewer:
        viewer.type("echo al''ive\n")
        viewer.until("alive")


def test_a_viewer_that_just_goes_away_leaves_nothing_behind(place: Place) -> None:
    id = place.open()
    with place.connect(id) as viewer:
        viewer.type("echo he''re\n")
        viewer.until("here")
    descriptors = Path(f"/proc/{place.server.pid}/fd")
    eventually(lambda: place.server.request("GET", "/health").status == 200)
    before = len(os.listdir(descriptors))
    for _ in range(50):
        with place.connect(id) as viewer:
            viewer.receive()
    eventually(lambda: len(os.listdir(descriptors)) <= before)


def test_input_that_nobody_reads_holds_up_its_sender_only(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as sender:
        sender.type("stty raw -echo; echo rea''dy; sleep 1000\n")
        sender.until("ready")
        sender.sock.settimeout(1)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 50_000_000:
                sender.type("x" * 60_000)
                sent += 60_000
        with place.connect(id) as other:
            other.until("ready")
            other.sock.sendall(frame(PING, b"p"))
            other.send(type="signal", signal="SIGKILL")
            while not other.pongs:
                assert other.receive() is not None
    assert sent < 50_000_000


def test_at_most_so_many_look_at_one_terminal(place: Place) -> None:
    id = place.open()
    with contextlib.ExitStack() as stack:
        for viewer in [stack.enter_context(place.connect(id)) for _ in range(32)]:
            assert viewer.receive()["event"] == "started"
        with place.connect(id) as late:
            assert late.rest() == [] and late.close_code == 1013


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.builds(frame, st.integers(0, 15), st.binary(max_size=200))), max_size=6
    )
)
def test_no_bytes_end_in_a_traceback(place: Place, pieces: list[bytes]) -> None:
    id = place.open()
    try:
        with place.connect(id) as viewer:
            with contextlib.suppress(OSError):  # it may have been refused, and closed, at any moment
                for piece in pieces:
                    viewer.sock.sendall(piece)
                viewer.sock.shutdown(socket.SHUT_WR)
            viewer.rest()
    finally:
        assert place.close(id).status == 200
    assert "Traceback" not in place.server.log.read_text()


def test_a_silent_peer_gets_signs_of_life_and_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(wire_module, "time", clock)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire = wire_module.Wire(ours)
        while not wire.over:
            wire.turn({}, 0)
            clock.now += 5
        sent = theirs.recv(1 << 16)
    pings = int((wire_module.SILENCE_SECONDS - 1) // wire_module.PING_SECONDS)
    assert sent == b"\x89\x00" * pings + close_frame(4008, wire.reason)
    assert clock.now > wire_module.SILENCE_SECONDS + wire_module.CLOSE_SECONDS


@pytest.mark.field(115)
def test_field_115_an_idle_connection_is_kept_alive_by_pings() -> None:
    # What sits between closes after a minute of silence at the earliest.
    assert 0 < wire_module.PING_SECONDS <= 30
    assert wire_module.SILENCE_SECONDS > 2 * wire_module.PING_SECONDS


def test_terminals_work_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running_server(tmp_path, unix_socket=path) as server:
        connection = http.client.HTTPConnection("sandbox")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        connection.request("POST", "/pty/sessions", b"{}", {"Content-Type": "application/json"})
        made = json.loads(connection.getresponse().read())
        connection.close()
        with WebSocketClient(str(path), made["path"]) as viewer:
            viewer.type("echo over ''uds\n")
            viewer.until("over uds")
            viewer.type("exit\n")
            viewer.rest()
    assert server.socket_path
