"""The page of whoever calls: open, look, click, type, run a script."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from ..browser.values import plain, too_large
from ..browser.wording import PAPERS, Moment, image_size
from ..call import Call
from ..messages import Refusal, Response, json_response, quoted

if TYPE_CHECKING:
    from ..browser.page import Page

T = TypeVar("T")


def browser_navigate(call: Call, *, url: str, wait_until: str, timeout: float) -> Response:
    """Open a URL; answers where that led."""
    moment = next((known for known in get_args(Moment) if known == wait_until), None)
    if moment is None:
        known = ", ".join(get_args(Moment))
        message = f'"wait_until" must be one of {known}, not {quoted(wait_until, 32)}'
        raise Refusal("invalid_argument", message, field="wait_until")
    return json_response(_use(call, lambda page: page.navigate(url, moment, timeout / 1000)))


def browser_screenshot(call: Call, *, selector: str, full_page: bool, format: str) -> Response:
    kind: Literal["png", "jpeg"] = "jpeg" if format == "jpeg" else "png"
    image = _use(call, lambda page: page.screenshot(selector or None, full_page=full_page, kind=kind))
    width, height = image_size(image)
    return _answer(call, {"image_base64": base64.b64encode(image).decode(), "width": width, "height": height})


def browser_content(call: Call, *, type: str) -> Response:
    kind = "text" if type == "text" else "html"
    return _answer(call, _use(call, lambda page: page.content(kind, _most(call))))


def browser_click(call: Call, *, selector: str, timeout: float) -> Response:
    _use(call, lambda page: page.click(selector, timeout / 1000))
    return json_response({"clicked": True, "selector": selector})


def browser_type(call: Call, *, selector: str, text: str | None, delay: float, clear: bool) -> Response:
    if text is None:
        raise Refusal("invalid_argument", '"text" is required', field="text")
    pause = min(max(delay, 0), 10_000)
    _use(call, lambda page: page.type(selector, text, delay=pause, clear=clear))
    return json_response({"typed": True, "selector": selector, "text": text})


def browser_evaluate(call: Call, *, script: str, timeout: float) -> Response:
    value = _use(call, lambda page: page.evaluate(script, timeout / 1000, _most(call)))
    return _answer(call, {"result": plain(value, _most(call))})


def browser_pdf(call: Call, *, format: str, landscape: bool) -> Response:
    known = next((name for name in PAPERS if name.lower() == format.lower()), None)
    if known is None:
        message = f'"format" must be one of {", ".join(PAPERS)}, not {quoted(format, 32)}'
        raise Refusal("invalid_argument", message, field="format")
    data, pages = _use(call, lambda page: page.pdf(known, landscape=landscape))
    return _answer(call, {"pdf_base64": base64.b64encode(data).decode(), "pages": pages})


def browser_console(call: Call) -> Response:
    """What the page has logged since this was last asked."""
    return json_response({"logs": call.services.browser.console(call.grant.identity.id)})


def _answer(call: Call, value: dict[str, Any]) -> Response:
    response = json_response(value)
    assert isinstance(response.body, bytes)
    if len(response.body) > _most(call):
        raise too_large("the answer", _most(call))
    return response


def _most(call: Call) -> int:
    most = call.grant.size("max_output_bytes")
    assert most is not None
    return most


def _use(call: Call, work: Callable[[Page], Awaitable[T]]) -> T:
    return call.services.browser.use(call.grant.identity.id, work, call.request.peer)
