"""The page that this identity has in the sandbox."""

from __future__ import annotations

from typing import Any, Literal

from .. import _browser_calls as calls
from .._browser_calls import BrowserContent, BrowserPage, ConsoleList, PageMoment
from .._parts import Part
from .._public import public
from .._sync.browser import Browser  # async only
from ._twins import AsyncBrowserTwins  # async only
from .connection import AsyncConnection


@public
class AsyncBrowser(AsyncBrowserTwins, Part[AsyncConnection]):
    """One headless page, kept from call to call. Times are seconds.

    The policy must switch the group ``browser`` on; where the page may go is said by ``url_allow`` and ``url_deny``,
    and private addresses are refused. Actions raise `CommandTimeoutError` or another `ServerAPIError` with the code
    that tells what went wrong: ``timeout``, ``element_not_found``, ``browser_failed``, ``browser_unavailable``.
    """

    @property
    def _twin(self) -> Browser:  # async only
        return self._connection.twin.browser

    async def navigate(
        self, url: str, *, wait_until: PageMoment = "networkidle", timeout: float | None = None
    ) -> BrowserPage:
        """Open an http or https URL. `timeout` is 30 seconds when nobody says."""
        return await self._connection.send(calls.navigate(url, wait_until, timeout))

    async def screenshot(
        self, *, selector: str | None = None, full_page: bool = True, format: Literal["png", "jpeg"] = "png"
    ) -> bytes:
        """A picture of the page, or of the first element that matches."""
        return await self._connection.send(calls.screenshot(selector, full_page, format))

    async def content(self, type: Literal["html", "text"] = "html") -> BrowserContent:
        """What the page holds now."""
        return await self._connection.send(calls.content(type))

    async def click(self, selector: str, *, timeout: float | None = None) -> None:
        """Click the first element that matches, as soon as it can be clicked: within 5 seconds when nobody says."""
        await self._connection.send(calls.click(selector, timeout))

    async def type(self, selector: str, text: str, *, clear: bool = False, delay: float | None = None) -> None:
        """Type into the first element that matches, a key every `delay` seconds (0.05); `clear` empties it first."""
        await self._connection.send(calls.type_text(selector, text, clear, delay))

    async def evaluate(self, script: str, *, timeout: float | None = None) -> Any:
        """The value of a JavaScript expression or function in the page; 10 seconds when nobody says."""
        return await self._connection.send(calls.evaluate(script, timeout))

    async def pdf(self, *, format: str = "A4", landscape: bool = False) -> bytes:
        """The page as it would be printed."""
        return await self._connection.send(calls.pdf(format, landscape))

    async def console(self) -> ConsoleList:
        """What the page has logged since this was last asked."""
        logs = await self._connection.send(calls.console())
        return ConsoleList(logs)
