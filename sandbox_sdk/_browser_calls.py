"""The browser in the sandbox: one function for each action, and what a page tells about itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from . import _wire as wire
from ._call import Call, call, each, nothing
from ._display.shown import Listing, Shown
from ._public import public
from ._wire import Json

PageMoment: TypeAlias = Literal["load", "domcontentloaded", "networkidle", "commit"]

_NAVIGATION, _ACTION, _SCRIPT = 30.0, 5.0, 10.0  # the server's own patience, in seconds
_START = 60.0  # the first action starts the browser


@public
@dataclass(frozen=True)
class BrowserPage(Shown):
    """Where a navigation led. `status` is 0 where no server answered, as for ``about:blank``."""

    url: str
    title: str
    status: int

    @classmethod
    def from_wire(cls, data: Json) -> BrowserPage:
        return cls(wire.text(data, "url"), wire.text(data, "title"), wire.whole(data, "status"))


@public
@dataclass(frozen=True)
class BrowserContent(Shown):
    """The page as HTML or text."""

    content: str = field(repr=False)
    url: str
    title: str

    @classmethod
    def from_wire(cls, data: Json) -> BrowserContent:
        return cls(wire.text(data, "content"), wire.text(data, "url"), wire.text(data, "title"))


@public
@dataclass(frozen=True)
class ConsoleLog(Shown):
    """One message on the page's console."""

    type: str
    text: str
    timestamp: datetime | None

    @classmethod
    def from_wire(cls, data: Json) -> ConsoleLog:
        return cls(wire.text(data, "type"), wire.text(data, "text"), wire.moment(data, "timestamp"))


@public
class ConsoleList(Listing[ConsoleLog]):
    """The messages on a page's console: a list with `to_pandas`."""


def navigate(url: str, wait_until: PageMoment, timeout: float | None) -> Call[BrowserPage]:
    patience = _patience(timeout, _NAVIGATION)
    return call(
        "browser_navigate",
        BrowserPage.from_wire,
        patience=patience,
        url=url,
        wait_until=wait_until,
        timeout=_milliseconds(timeout),
    )


def screenshot(selector: str | None, full_page: bool, format: Literal["png", "jpeg"]) -> Call[bytes]:
    return call(
        "browser_screenshot",
        lambda data: base64.b64decode(wire.text(data, "image_base64")),
        patience=_START,
        selector=selector,
        full_page=full_page,
        format=format,
    )


def content(type: Literal["html", "text"]) -> Call[BrowserContent]:
    return call("browser_content", BrowserContent.from_wire, patience=_START, type=type)


def click(selector: str, timeout: float | None) -> Call[None]:
    patience = _patience(timeout, _ACTION)
    return call("browser_click", nothing, patience=patience, selector=selector, timeout=_milliseconds(timeout))


def type_text(selector: str, text: str, clear: bool, delay: float | None) -> Call[None]:
    patience = _START + len(text) * (0.05 if delay is None else delay)
    milliseconds = _milliseconds(delay)
    return call(
        "browser_type", nothing, patience=patience, selector=selector, text=text, clear=clear, delay=milliseconds
    )


def evaluate(script: str, timeout: float | None) -> Call[Any]:
    patience = _patience(timeout, _SCRIPT)
    return call(
        "browser_evaluate",
        lambda data: data.get("result"),
        patience=patience,
        script=script,
        timeout=_milliseconds(timeout),
    )


def pdf(format: str, landscape: bool) -> Call[bytes]:
    return call(
        "browser_pdf",
        lambda data: base64.b64decode(wire.text(data, "pdf_base64")),
        patience=_START,
        format=format,
        landscape=landscape,
    )


def console() -> Call[list[ConsoleLog]]:
    return call("browser_console", each("logs", ConsoleLog.from_wire))


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _patience(timeout: float | None, usual: float) -> float:
    return _START + (usual if timeout is None else timeout)
