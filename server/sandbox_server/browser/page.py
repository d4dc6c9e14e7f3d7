"""One identity's page: what is done with it, what it logged, and where it may not go."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..guards.urls import UrlGuard
from ..messages import Refusal, quoted
from .values import EVALUATION, content, too_large
from .wording import Moment

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Request, Response, Route
    from playwright.async_api import Page as Tab

T = TypeVar("T")

_MOST_LOGS, _MOST_TEXT = 1000, 10_000
_MOST_SECONDS = 300.0  # whatever a caller says
_SLACK = 5.0
_LOCAL = ("data:", "blob:", "about:")  # nothing of these leaves the browser
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")


class Page:
    """Lives in the browser's event loop. `turn` is held by whoever works with it."""

    def __init__(self, context: BrowserContext, tab: Tab, guard: UrlGuard) -> None:
        self._context = context
        self._tab = tab
        self._guard = guard
        self._logs: list[dict[str, str]] = []
        self._refused: Refusal | None = None
        self._tasks: set[asyncio.Future[None]] = set()
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.broken = False  # not to be used again

    @classmethod
    async def open(cls, chromium: Browser, guard: UrlGuard) -> Page:
        """A page that shares nothing with any other: cookies, storage and cache are its own."""
        context = await chromium.new_context(service_workers="block", accept_downloads=False)
        page = cls(context, await context.new_page(), guard)
        await context.route("**/*", page._judge)
        context.on("request", page._judge_hop)
        context.on("response", page._judge_answer)
        context.on("page", lambda other: page._later(other.close()))
        page._tab.on("console", page._log)
        page._tab.on("crash", lambda _: page._break())
        page._tab.on("close", lambda _: page._break())
        return page

    async def close(self) -> None:
        self.broken = True
        await asyncio.wait({asyncio.ensure_future(_quietly(self._context.close()))}, timeout=_SLACK)

    async def guarded(self, work: Callable[[Page], Awaitable[T]]) -> T:
        """Run an action; what the driver says about a failure becomes a refusal of ours."""
        api = import_module("playwright.async_api")
        try:
            return await asyncio.wait_for(work(self), _MOST_SECONDS + _SLACK)
        except (api.TimeoutError, asyncio.TimeoutError):
            raise Refusal("timeout", "the browser took longer than allowed; allow more, or look at the page") from None
        except api.Error as error:
            if _is_gone(error):
                self._break()
            message = "the browser could not do it; the page is gone, broken or unreachable"
            raise Refusal("browser_failed", message) from None

    async def navigate(self, url: str, wait_until: Moment, seconds: float) -> dict[str, Any]:
        api = import_module("playwright.async_api")
        self._refused = None
        try:
            answer = await self._tab.goto(url, wait_until=wait_until, timeout=_milliseconds(seconds))
        except api.TimeoutError:
            raise  # what has come by now may be all that the caller wants
        except api.Error:
            await self._leave()
            if self._refused is None:
                raise
        if self._refused is not None:
            raise self._refused
        return {"url": self._tab.url, "title": await self._title(), "status": answer.status if answer else 0}

    async def content(self, kind: str, most: int) -> dict[str, str]:
        text = await self._bounded(self._apart(content(kind, most)), 30)
        if not isinstance(text, str):
            raise too_large("the page", most)
        return {"content": text, "url": self._tab.url, "title": await self._title()}

    async def screenshot(self, selector: str | None, *, full_page: bool, kind: Literal["png", "jpeg"]) -> bytes:
        if selector is None:
            return await self._tab.screenshot(full_page=full_page, type=kind)
        await self._find(selector)
        return await self._tab.locator(selector).first.screenshot(type=kind)

    async def click(self, selector: str, seconds: float) -> None:
        await self._readable(selector)
        await self._bounded(self._tab.locator(selector).first.click(timeout=_milliseconds(seconds)), math.inf)

    async def type(self, selector: str, text: str, *, delay: float, clear: bool) -> None:
        await self._readable(selector)
        target = self._tab.locator(selector).first
        if clear:
            await target.fill("", timeout=5000)
        typing = target.press_sequentially(text, delay=delay, timeout=_milliseconds(5 + len(text) * delay / 1000))
        await self._bounded(typing, math.inf)

    async def evaluate(self, script: str, seconds: float, most: int) -> Any:
        """The value of an expression or function, as the driver tells it."""
        api = import_module("playwright.async_api")
        try:
            answer = await self._bounded(self._tab.evaluate(EVALUATION, [script, most]), seconds)
        except api.TimeoutError:
            raise
        except api.Error as error:
            if self._tab.is_closed() or _is_gone(error):
                raise
            said = error.message.removeprefix("Page.evaluate: ").partition("\n")[0]
            raise Refusal("script_failed", f"the script failed in the page: {quoted(said)}") from None
        if not isinstance(answer, dict):
            message = "the script's value cannot be read; the page has changed what scripts rely on"
            raise Refusal("script_failed", message)
        if "value" not in answer:
            raise too_large("the script's value", most)
        return answer["value"]

    async def pdf(self, format: str, *, landscape: bool) -> tuple[bytes, int]:
        data = await self._tab.pdf(format=format, landscape=landscape)
        return data, len(_PDF_PAGE.findall(data))

    async def _apart(self, expression: str) -> Any:
        """The value of an expression in a world of its own: there the page has changed nothing but the document."""
        session = await self._context.new_cdp_session(self._tab)
        try:
            tree = await session.send("Page.getFrameTree")
            world = await session.send("Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]})
            asked = {"expression": expression, "contextId": world["executionContextId"], "returnByValue": True}
            told = await session.send("Runtime.evaluate", asked)
        finally:
            self._later(session.detach())
        return told["result"].get("value")

    async def _title(self) -> str:
        return (await self._tab.title())[:_MOST_TEXT]

    def take_logs(self) -> list[dict[str, str]]:
        logs, self._logs = self._logs, []
        return logs

    async def _bounded(self, work: Awaitable[T], seconds: float) -> T:
        """A page that is still busy then, or when its caller leaves, is given up: it would go on with what it does."""
        try:
            return await asyncio.wait_for(work, min(max(seconds, 0.001), _MOST_SECONDS))
        except (asyncio.TimeoutError, asyncio.CancelledError):
            self._break()
            raise

    async def _readable(self, selector: str) -> bool:
        """Whether an element is there now; a selector that cannot be read is refused."""
        api = import_module("playwright.async_api")
        try:
            return await self._tab.query_selector(selector) is not None
        except api.Error:
            if self._tab.is_closed():
                raise
            message = f'"selector" {quoted(selector, 64)} cannot be read; write a CSS selector'
            raise Refusal("invalid_argument", message, field="selector") from None

    async def _find(self, selector: str) -> None:
        if not await self._readable(selector):
            raise Refusal("element_not_found", f"nothing on the page matches {quoted(selector, 64)}")

    async def _judge(self, route: Route) -> None:
        """Every request of the page and its frames, before it goes out."""
        refusal = self._refusal(route.request)
        if refusal is None:
            await route.continue_()
            return
        if _is_main(route.request):
            self._refused = refusal
        await route.abort("blockedbyclient")

    def _judge_hop(self, request: Request) -> None:
        """Redirects cannot be held back here; where the proxy does, this tells why."""
        if request.redirected_from is not None and _is_main(request):
            self._refused = self._refusal(request) or self._refused

    def _judge_answer(self, response: Response) -> None:
        """The proxy saw only the host of an encrypted redirect; a page that got an answer by one is given up."""
        request = response.request
        if request.redirected_from is not None and (refusal := self._refusal(request)):
            self._refused = refusal
            self._break()

    def _refusal(self, request: Request) -> Refusal | None:
        try:
            if not request.url.startswith(_LOCAL):
                self._guard.judge(request.url)
        except Refusal as refusal:
            return refusal
        return None

    def _log(self, message: ConsoleMessage) -> None:
        if len(self._logs) < _MOST_LOGS:
            moment = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
            self._logs.append({"type": message.type, "text": message.text[:_MOST_TEXT], "timestamp": moment})

    async def _leave(self) -> None:
        """Away from a page that did not come: the browser's own page about that would come at any moment."""
        api = import_module("playwright.async_api")
        for _ in range(3):
            try:
                await self._tab.goto("about:blank", timeout=_milliseconds(_SLACK))
                return
            except api.Error:
                continue  # the browser was quicker

    def _break(self) -> None:
        self.broken = True

    def _later(self, work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_main(request: Request) -> bool:
    return request.is_navigation_request() and request.frame.parent_frame is None


async def _quietly(work: Awaitable[object]) -> None:
    try:
        await work
    except Exception:
        return


def _is_gone(error: Exception) -> bool:
    """Whether the page, or the driver that had it, is no more; of its own end the driver tells nobody."""
    return any(words in str(error) for words in ("has been closed", "Connection closed"))


def _milliseconds(seconds: float) -> float:
    """Never 0, which would mean without end."""
    return min(max(seconds, 0.001), _MOST_SECONDS) * 1000
