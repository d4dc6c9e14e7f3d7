"""Chromium and its driver, in a thread and event loop of their own. Imported only once a page is wanted."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from ..guards.urls import UrlGuard
from ..messages import Aborted, Peer, Refusal, quoted
from ..process.caller import Caller
from ..process.wake import Wake
from .page import Page
from .proxy import Proxy

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import Playwright

T = TypeVar("T")

_MOST_PAGES = 8  # of as many identities; the one that was not used for longest makes room
_MOST_WAITING = 8  # callers of one page
_CLOSE_SECONDS = 5.0
_START_SECONDS = 60.0
#: No connection of its own making: no updates, no guesses, no datagrams past the proxy.
_ARGUMENTS = (
    "--proxy-bypass-list=<-loopback>", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--disable-quic",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--no-pings", "--disable-dev-shm-usage", "--disable-gpu",
)  # fmt: skip


class Engine:
    """One thread, one Chromium, a page for each identity. Thread-safe; `close` ends all of it."""

    def __init__(self, executable: str, environ: Mapping[str, str], guard: Callable[[], UrlGuard]) -> None:
        self._executable = executable
        self._environ = environ
        self._guard = guard
        self._starting: asyncio.Lock | None = None
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None
        self._proxy: Proxy | None = None
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="browser", daemon=True)
        self._thread.start()

    def use(self, owner: str, work: Callable[[Page], Awaitable[T]], peer: Peer) -> T:
        """Do something with an identity's page, one caller after the other; `Aborted` once the peer has gone."""
        doing = asyncio.run_coroutine_threadsafe(self._use(owner, work), self._loop)
        done = Wake()
        doing.add_done_callback(lambda _: done.set())
        try:
            _await(done, peer)
            return doing.result()
        except Aborted:
            doing.cancel()
            _await(done)  # it rings in any case, and must not be closed before
            raise
        except CancelledError:
            raise Refusal("busy", "the server is stopping") from None
        finally:
            done.close()

    def take_logs(self, owner: str) -> list[dict[str, str]]:
        page = self._pages.get(owner)
        return [] if page is None else page.take_logs()

    def close(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop)
            self._thread.join(4 * _CLOSE_SECONDS)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_SECONDS) if left else asyncio.sleep(0))
            loop.close()

    async def _use(self, owner: str, work: Callable[[Page], Awaitable[T]]) -> T:
        while True:
            page = await self._present(owner)
            if page.waiting >= _MOST_WAITING:
                raise Refusal("busy", f"{_MOST_WAITING} callers wait for this page already; try again")
            page.waiting += 1
            try:
                async with page.turn:
                    if not page.broken:  # by who had it before
                        return await page.guarded(work)
            finally:
                page.waiting -= 1
                if page.broken and self._pages.get(owner) is page:
                    del self._pages[owner]
                    await page.close()

    async def _present(self, owner: str) -> Page:
        api = import_module("playwright.async_api")
        try:
            return await asyncio.wait_for(self._page(owner), 2 * _START_SECONDS)
        except (api.Error, asyncio.TimeoutError):
            raise Refusal("browser_failed", "the browser gives no page; try again") from None

    async def _page(self, owner: str) -> Page:
        if self._starting is None:
            self._starting = asyncio.Lock()
        async with self._starting:
            chromium = self._chromium
            if chromium is None or not chromium.is_connected():
                chromium = await self._start()
            page = self._pages.get(owner)
            if page is None or page.broken:
                await self._make_room(owner)
                page = self._pages[owner] = await self._open(chromium)
            self._pages.move_to_end(owner)
            return page

    async def _open(self, chromium: Chromium) -> Page:
        """A page; by a new Chromium, where the present one only seems to be there."""
        api = import_module("playwright.async_api")
        try:
            return await Page.open(chromium, self._guard())
        except api.Error:
            return await Page.open(await self._start(), self._guard())

    async def _make_room(self, owner: str) -> None:
        """Drop this identity's page, if it has one; else the one that nobody has used for longest, if all are taken."""
        leaving = self._pages.pop(owner, None)
        if leaving is None and len(self._pages) >= _MOST_PAGES:
            idle = next((name for name, page in self._pages.items() if not page.waiting), None)
            if idle is None:
                raise Refusal("busy", f"{_MOST_PAGES} identities use the browser; try again")
            leaving = self._pages.pop(idle)
        if leaving is not None:
            await leaving.close()

    async def _start(self) -> Chromium:
        await self._stop()
        guard = self._guard()
        self._proxy = Proxy(guard)
        await self._proxy.start()
        api = import_module("playwright.async_api")
        try:
            playwright: Playwright = await asyncio.wait_for(api.async_playwright().start(), _START_SECONDS)
            self._playwright = playwright
            self._chromium = chromium = await playwright.chromium.launch(
                executable_path=self._executable,
                args=[*_ARGUMENTS, f"--proxy-server=http://127.0.0.1:{self._proxy.port}"],
                env=dict(self._environ),
                chromium_sandbox=os.geteuid() != 0,  # which Chromium refuses to have as the superuser
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=_START_SECONDS * 1000,
            )
        except (api.Error, OSError, asyncio.TimeoutError):
            await self._stop()
            message = f"Chromium ({quoted(self._executable)}) does not start; run it by hand to see why"
            raise Refusal("browser_unavailable", message) from None
        return chromium

    async def _stop(self) -> None:
        """End what runs, as far as it lets itself be ended."""
        self._pages.clear()
        chromium, playwright, proxy = self._chromium, self._playwright, self._proxy
        self._chromium = self._playwright = self._proxy = None
        if chromium is not None:
            await _patiently(chromium.close())
        if playwright is not None:
            await _patiently(playwright.stop())
        if proxy is not None:
            await proxy.close()

    async def _shut_down(self) -> None:
        try:
            await self._stop()
        finally:
            asyncio.get_running_loop().stop()


def _await(done: Wake, peer: Peer | None = None) -> None:
    """Until it rings; `Aborted` when the peer has gone before."""
    poll = select.poll()
    poll.register(done, select.POLLIN)
    if peer is None:
        poll.poll()
        return
    caller = Caller(peer, poll)
    while not caller.poll(None):
        pass


async def _patiently(closing: Awaitable[object]) -> None:
    """Wait a bounded time; whatever goes wrong, the driver ends with this process, and Chromium with the driver."""
    await asyncio.wait({asyncio.ensure_future(_quietly(closing))}, timeout=_CLOSE_SECONDS)


async def _quietly(closing: Awaitable[object]) -> None:
    try:
        await closing
    except Exception:
        return
