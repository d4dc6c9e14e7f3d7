"""What can be done with a page, on a real one."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from pathlib import Path

import pytest

from sandbox_server.catalogue import builtin
from tests.server.browser.conftest import ENVIRON, A, B, Browsing, policy_for
from tests.support.server import running_server


def test_a_page_opens_and_says_where_it_is(browsing: Browsing) -> None:
    assert browsing.open("/form").json() == {"url": f"{browsing.site.url}/form", "title": "Form", "status": 200}
    assert browsing.open("/none").json()["status"] == 404
    browsing.site.moved["/old"] = "/form"
    assert browsing.open("/old", wait_until="load").json()["url"] == f"{browsing.site.url}/form"
    assert "/form" in browsing.site.asked


def test_what_is_typed_and_clicked_arrives_in_the_page(browsing: Browsing) -> None:
    browsing.open("/form")
    browsing.get("console")
    assert browsing.ask("type", selector="#name", text="new", clear=True, delay=0).json() == {
        "typed": True, "selector": "#name", "text": "new",
    }  # fmt: skip
    assert browsing.ask("click", selector="#go").json() == {"clicked": True, "selector": "#go"}
    assert browsing.evaluate("document.title") == "clicked new"
    logs = browsing.get("console")["logs"]
    assert [(log["type"], log["text"]) for log in logs] == [("log", "went"), ("warning", "careful")]
    assert browsing.get("console") == {"logs": []}
    assert browsing.ask("type", selector="#name", text="").status == 200


def test_content_comes_as_html_or_text(browsing: Browsing) -> None:
    browsing.open("/form")
    page = browsing.get("content")
    assert "<h1>Hello</h1>" in page["content"] and page["title"] == "Form"
    assert browsing.get("content", type="text")["content"].startswith("Hello")


def test_pictures_and_papers_are_what_they_say(browsing: Browsing) -> None:
    browsing.open("/form")
    page = browsing.ask("screenshot").json()
    assert base64.b64decode(page["image_base64"]).startswith(b"\x89PNG")
    assert page["height"] > 3000
    assert browsing.ask("screenshot", full_page=False).json()["height"] < 3000
    button = browsing.ask("screenshot", selector="#go", format="jpeg").json()
    assert base64.b64decode(button["image_base64"]).startswith(b"\xff\xd8")
    assert 0 < button["width"] < 200 and 0 < button["height"] < 100
    paper = browsing.ask("pdf", format="a5", landscape=True).json()
    assert base64.b64decode(paper["pdf_base64"]).startswith(b"%PDF")
    assert paper["pages"] > 1


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("1 + 1", 2), ("() => [1, null, 'ü']", [1, None, "ü"]), ("({a: {b: 1.5}})", {"a": {"b": 1.5}}), ("NaN", None),
        ("undefined", None), ("[Infinity]", [None]), ("Promise.resolve('late')", "late"), ("'\\ud800'", "?"),
        ("({'\\ud800': 1})", {"?": 1}),
    ],
)  # fmt: skip
def test_a_script_answers_plain_json(browsing: Browsing, script: str, value: object) -> None:
    browsing.open("/form")
    assert browsing.evaluate(script) == value


def test_what_is_larger_than_allowed_stays_in_the_page(browsing: Browsing) -> None:
    noise = "<canvas></canvas><script>const it = document.querySelector('canvas'), on = it.getContext('2d'), p = []; \
for (let i = 0; i < 45000; i++) { on.fillStyle = `rgb(${p[i - 1] % 256} ${p[i - 2] % 256} ${p[i - 3] % 256})`; \
on.fillRect(i % 300, i / 300, 1, 1); p.push(Math.random() * 1e9 | 0) }; it.after(p.join(' '))</script>"
    browsing.site.pages["/noise"] = noise
    browsing.open("/noise")
    fill = "() => { document.body.textContent = 'üüüüüüüüü '.repeat(%d) }"
    doubled = "(() => { let one = [1]; for (let i = 0; i < 60; i++) one = [one, one]; return one })()"
    for action, body, limit in [
        ("screenshot", {"selector": "canvas"}, 100_000),
        ("pdf", {}, 64 << 10),
        ("evaluate", {"script": "'x'.repeat(2 ** 26)"}, 100_000),
        ("evaluate", {"script": "[{a: ['x'.repeat(2 ** 26)]}]"}, 100_000),
        ("evaluate", {"script": "({['x'.repeat(2 ** 26)]: 1})"}, 100_000),
        ("evaluate", {"script": "'ü'.repeat(20_000)"}, 100_000),  # as JSON, six bytes each
        ("evaluate", {"script": doubled}, 100_000),
    ]:
        reply = browsing.ask(action, **body)
        assert (reply.status, reply.json()["code"], reply.json()["limit"]) == (413, "payload_too_large", limit), body
    assert browsing.evaluate("'ü'.repeat(10_000)") == "ü" * 10_000
    for length, status in [(15_000, 200), (20_000, 413), (101_000, 413)]:
        browsing.evaluate(fill % length)
        for kind in ("html", "text"):
            told = browsing.server.request("GET", "/browser/content", None, dict([A]), {"type": kind}, timeout=120)
            assert told.status == status and (status == 200 or told.json()["limit"] == 1_000_000), (length, kind)
    offered = browsing.server.request("GET", "/capabilities", None, dict([A])).json()["endpoints"]
    for name, limit in {"content": 1_000_000, "evaluate": 100_000, "pdf": 64 << 10, "screenshot": 100_000}.items():
        assert offered[f"browser_{name}"]["limits"] == {"max_output_bytes": limit}
        assert builtin()[f"browser_{name}"].limits["max_output_bytes"] == 16 << 20


def test_a_page_that_breaks_its_own_language_can_be_read_and_answers_refusals(browsing: Browsing) -> None:
    browsing.site.pages["/broken"] = "<!doctype html><title>t</title><body>seen<script>Object.keys = Map = 3</script>"
    browsing.open("/broken")
    reply = browsing.ask("evaluate", script="({a: 1})")
    assert (reply.status, reply.json()["code"]) == (400, "script_failed")
    assert browsing.get("content", type="text")["content"] == "seen"
    assert browsing.get("content")["content"].startswith("<!DOCTYPE html><html><head><title>t</title>")


def test_a_script_runs_where_the_page_allows_none(browsing: Browsing) -> None:
    policy = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><title>still</title>"
    browsing.site.pages["/still"] = policy
    browsing.open("/still")
    assert browsing.evaluate("document.title") == "still"
    assert browsing.evaluate("async function () { return document.title.length }") == 5
    assert browsing.evaluate("let a = 1; a + 1") == 2


def test_what_goes_wrong_is_refused_and_the_page_goes_on(browsing: Browsing) -> None:
    browsing.open("/form")
    for action, body, code in [
        ("evaluate", {"script": "nothing.there"}, "script_failed"),
        ("evaluate", {"script": "(() => { const a = []; a.push(a); return a })()"}, "script_failed"),
        ("screenshot", {"selector": "#none"}, "element_not_found"),
        ("screenshot", {"selector": "[["}, "invalid_argument"),
        ("click", {"selector": "[["}, "invalid_argument"),
        ("click", {"selector": "#none", "timeout": 50}, "timeout"),
        ("pdf", {"format": "A99"}, "invalid_argument"),
        ("navigate", {"url": f"{browsing.site.url}/form", "wait_until": "never"}, "invalid_argument"),
        ("type", {"selector": "#name"}, "invalid_argument"),
    ]:
        reply = browsing.ask(action, **body)
        assert (reply.json()["code"], reply.status < 500) == (code, True), action
        assert b"Traceback" not in reply.body and b"Locator" not in reply.body
    assert browsing.evaluate("document.title") == "Form"


def test_an_unreachable_page_is_a_refusal_without_the_drivers_words(browsing: Browsing) -> None:
    reply = browsing.open("http://nowhere.example/")
    assert (reply.status, reply.json()["code"]) == (502, "browser_failed")
    assert b"net::" not in reply.body


def test_a_page_that_never_rests_is_given_up_and_the_next_one_works(browsing: Browsing) -> None:
    browsing.open("/form")
    reply = browsing.ask("evaluate", script="while (true);", timeout=200)
    assert (reply.status, reply.json()["code"]) == (408, "timeout")
    assert browsing.open("/form").status == 200
    assert browsing.evaluate("1") == 1


def test_identities_share_no_page_no_cookie_and_no_log(browsing: Browsing) -> None:
    browsing.open("/form", A)
    browsing.get("console", A)
    browsing.evaluate("console.log('of a'); document.title = 'of a'", A)
    browsing.open("/form", B)
    assert browsing.site.cookies[-1] == ""
    assert browsing.evaluate("document.title", B) == "Form"
    assert browsing.get("console", B) == {"logs": []}
    assert browsing.evaluate("document.title", A) == "of a"
    assert [log["text"] for log in browsing.get("console", A)["logs"]] == ["of a"]


def test_callers_of_one_page_take_turns(browsing: Browsing) -> None:
    browsing.open("/form")
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(browsing.evaluate(f"{n}"))) for n in range(6)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, answers)) == ["0", "1", "2", "3", "4", "5"]


def test_windows_that_a_page_opens_are_closed_and_dialogs_do_not_hold_it_up(browsing: Browsing) -> None:
    browsing.open("/form")
    assert browsing.evaluate("(alert('x'), confirm('y'))") is False
    browsing.evaluate("void window.open('/form')")
    assert browsing.evaluate("document.title") == "Form"


def test_without_an_engine_every_action_says_what_to_install(tmp_path: Path, browsing: Browsing) -> None:
    environ = {**ENVIRON, "ABX_SERVER_CHROMIUM": "/none"}
    policy = policy_for(browsing.site)
    with running_server(tmp_path, policy=policy, environ=environ, allow_anonymous=False) as server:
        other = Browsing(server, browsing.site)
        reply = other.open("/form")
        assert (reply.status, reply.json()["code"]) == (503, "browser_unavailable")
        assert "ABX_SERVER_CHROMIUM" in reply.json()["error"]
        assert other.get("console") == {"logs": []}


def test_a_caller_who_leaves_is_not_worked_for_any_longer(browsing: Browsing) -> None:
    browsing.open("/form")
    impatient = http.client.HTTPConnection("127.0.0.1", browsing.server.port, timeout=1)
    body = json.dumps({"selector": "#never-there", "timeout": 250_000})
    impatient.request("POST", "/browser/click", body, {"Content-Type": "application/json", A[0]: A[1]})
    with pytest.raises(TimeoutError):
        impatient.getresponse()
    impatient.close()
    assert browsing.open("/form").json()["title"] == "Form"  # the page is free at once
    assert browsing.ask("click", selector="#go").status == 200
