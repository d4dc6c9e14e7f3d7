"""A page in the server's browser."""

from __future__ import annotations

from typing import Any

from tests.reference.scenario.watched import Watched, refusal


async def play(client: Watched, told: dict[str, Any]) -> dict[str, object]:
    browser = client.browser
    page = await browser.navigate(f"{told['site']}/form")
    seen: dict[str, object] = {"navigate": [page.url == f"{told['site']}/form", page.title, page.status]}
    await browser.type("#name", "new", clear=True, delay=0)
    await browser.click("#go", timeout=60_000)
    seen["evaluate"] = [await browser.evaluate("document.title"), await browser.evaluate("({a: [1, null]})")]
    seen["console"] = [[log["type"], log["text"]] for log in await browser.console()]
    content = await browser.content("text")
    seen["content"] = [content.content.startswith("Hello"), "<html" in (await browser.content()).content]
    pictures = [await browser.screenshot(), await browser.screenshot(selector="#go", full_page=False, format="jpeg")]
    seen["screenshot"] = [picture[:4].hex() for picture in pictures]
    seen["pdf"] = (await browser.pdf(landscape=True))[:4].decode()
    seen["refused address"] = await refusal(browser.navigate("http://10.0.0.1/"))
    seen["no element"] = await refusal(browser.click("#none", timeout=50))
    return seen
