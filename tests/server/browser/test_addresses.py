"""Where a page may go: every request, redirect and part of it is judged, and nothing gets past the proxy."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.browser.conftest import ENVIRON, Browsing, demand_browser, policy_for
from tests.server.browser.site import Site, running_site
from tests.support.server import running_server, start_server
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def secret() -> Iterator[Site]:
    """Another site on loopback, which no rule names."""
    with running_site() as site:
        site.pages["/x"] = "<title>SECRET</title>"
        yield site


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "127.1", "a.localhost"])
def test_no_spelling_of_loopback_opens(browsing: Browsing, secret: Site, host: str) -> None:
    reply = browsing.open(f"http://{host}:{secret.port}/x")
    assert reply.status == 403
    assert reply.json()["code"] in ("url_denied", "url_not_allowed")
    assert secret.asked == []


def test_a_redirect_to_a_private_or_denied_address_is_not_followed(browsing: Browsing, secret: Site) -> None:
    browsing.site.moved |= {"/out": f"{secret.url}/x", "/in": "/denied/x", "/file": "file:///etc/passwd"}
    browsing.site.pages["/denied/x"] = "<title>SECRET</title>"
    for path in ("/out", "/in"):
        reply = browsing.open(path)
        assert (reply.status, reply.json()["code"]) == (403, "url_not_allowed")
        eventually(lambda: "content" in browsing.get("content"))
        assert "SECRET" not in browsing.get("content")["content"]
    assert browsing.open("/file").status in (403, 502)
    at_rest(browsing)
    assert secret.asked == []
    assert "/denied/x" not in browsing.site.asked


#: Ways out of a page; each ends with the word "none" where it led nowhere.
WAYS = {
    "fetch": "fetch('URL').then(r => r.text(), e => 'none')",
    "no-cors": "fetch('URL', {mode: 'no-cors'}).then(r => 'sent', e => 'none')",
    "image": """new Promise(done => {
        const image = new Image(); image.onerror = () => done('none'); image.onload = () => done('loaded');
        image.src = 'URL' })""",
    "websocket": """new Promise(done => {
        const socket = new WebSocket('URL'.replace('http', 'ws'));
        socket.onerror = () => done('none'); socket.onopen = () => done('open') })""",
    "worker": """new Promise(done => {
        const code = `fetch('URL').then(() => postMessage('sent'), () => postMessage('none'))`;
        const worker = new Worker(window.URL.createObjectURL(new Blob([code])));
        worker.onmessage = event => done(event.data) })""",
    "beacon": "navigator.sendBeacon('URL') && new Promise(done => setTimeout(done, 300, 'none'))",
    "preconnect": """new Promise(done => {
        const link = document.createElement('link'); link.rel = 'preconnect'; link.href = 'URL';
        document.head.append(link); setTimeout(done, 300, 'none') })""",
}


def at_rest(browsing: Browsing) -> None:
    """On the form, and nothing else under way: the browser's own page about one that was refused may come late."""
    seen = []

    def again() -> bool:
        browsing.open("/form")
        reply = browsing.ask("evaluate", script="new Promise(done => setTimeout(done, 50, document.title))")
        seen.append(reply.json().get("result"))
        return seen[-2:] == ["Form", "Form"]

    eventually(again)


@pytest.mark.parametrize("way", WAYS)
def test_a_page_cannot_reach_what_the_rules_forbid(browsing: Browsing, secret: Site, way: str) -> None:
    at_rest(browsing)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        for url in (f"{secret.url}/x", f"http://localhost:{silent.getsockname()[1]}/", f"{browsing.server.url}/health"):
            assert browsing.evaluate(WAYS[way].replace("'URL'", f"'{url}'")) == "none"
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert secret.asked == []


def test_frames_and_navigations_of_a_page_are_judged_too(browsing: Browsing, secret: Site) -> None:
    browsing.site.pages["/frame"] = f"<title>outer</title><iframe src='{secret.url}/x'></iframe>"
    assert browsing.open("/frame").json()["title"] == "outer"
    browsing.evaluate(f"void (location = '{secret.url}/x')")
    eventually(lambda: "content" in browsing.get("content"))
    assert "SECRET" not in browsing.get("content")["content"]
    at_rest(browsing)
    for path in ("file:///etc/passwd", "view-source:file:///etc/passwd", "chrome://version"):
        browsing.evaluate(f"void (location = '{path}')")
    assert "SECRET" not in browsing.get("content")["content"]
    assert "root:" not in browsing.get("content")["content"]
    assert secret.asked == []


def test_a_body_is_passed_on_whole(browsing: Browsing) -> None:
    browsing.open("/form")
    size = 300_000
    script = f"fetch('/post', {{method: 'POST', body: 'x'.repeat({size})}}).then(r => r.text())"
    assert "posted" in browsing.evaluate(script)
    assert browsing.site.asked[-1] == "POST /post " + "x" * size


def descendants(pid: int) -> list[int]:
    """Every living process that a process has started, directly or not."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            parents[int(name)] = int(fields[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() and "Z" not in state(pid) for pid in pids)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_chromium_has_none_of_the_servers_secrets_and_ends_with_it(tmp_path: Path, site: Site, how: int) -> None:
    demand_browser()
    base, kept = tmp_path / "base", tmp_path / "state"
    base.mkdir()
    kept.mkdir()
    server = start_server(base, kept, policy=policy_for(site), environ=ENVIRON, allow_anonymous=False)
    try:
        assert Browsing(server, site).open("/form").status == 200
        started = descendants(server.pid)
        assert len(started) > 2
        for pid in started:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # not all of them stay
                assert b"token-a" not in Path(f"/proc/{pid}/environ").read_bytes()
        server.process.send_signal(how)
        server.process.wait(60)
        eventually(lambda: gone(started))
    finally:
        server.stop()


def test_a_server_that_stops_does_not_wait_for_a_page_that_never_comes(tmp_path: Path, site: Site) -> None:
    demand_browser()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        policy = policy_for(site)
        policy["endpoints"]["browser_navigate"]["params"]["url_allow"].append(f"{url}*")
        with running_server(tmp_path, policy=policy, environ=ENVIRON, allow_anonymous=False) as server:
            browsing = Browsing(server, site)
            assert browsing.open("/form").status == 200
            waiting = threading.Thread(target=lambda: browsing.open(url, timeout=200_000))
            waiting.start()
            held, _ = silent.accept()  # the request is on its way
            with held:
                assert server.stop(timeout=60) == 0
            waiting.join()


@pytest.mark.parametrize("program", ["chromium", "run-driver"])
def test_what_dies_of_the_browser_is_started_again(tmp_path: Path, site: Site, program: str) -> None:
    demand_browser()
    with running_server(tmp_path, policy=policy_for(site), environ=ENVIRON, allow_anonymous=False) as server:
        browsing = Browsing(server, site)
        assert browsing.open("/form").status == 200
        for pid in descendants(server.pid):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # they end each other
                if program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        eventually(lambda: browsing.open("/form").status == 200)
        assert browsing.evaluate("document.title") == "Form"
