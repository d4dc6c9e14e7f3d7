"""One headless page. Off until a policy switches the group on."""

from __future__ import annotations

from .model import Endpoint, Field

_USE = ("browser:use",)


def _endpoint(*args: object, **more: object) -> Endpoint:
    return Endpoint(*args, opt_in=True, **more)  # type: ignore[arg-type]


def endpoints() -> tuple[Endpoint, ...]:
    return (
        _endpoint("browser_navigate", "POST", "/browser/navigate", "browser", "Opens a URL.", _USE,
                  (Field("url", "url", "body", "Absolute http or https URL."),),
                  params=("url_allow", "url_deny", "block_private_networks"), executes_code=True),
        _endpoint("browser_screenshot", "POST", "/browser/screenshot", "browser", "A picture of the page.", _USE),
        _endpoint("browser_content", "GET", "/browser/content", "browser", "The page as HTML or text.", _USE),
        _endpoint("browser_click", "POST", "/browser/click", "browser", "Clicks an element.", _USE),
        _endpoint("browser_type", "POST", "/browser/type", "browser", "Types into an element.", _USE),
        _endpoint("browser_evaluate", "POST", "/browser/evaluate", "browser", "Runs a script in the page.",
                  ("browser:evaluate",), executes_code=True),
        _endpoint("browser_pdf", "POST", "/browser/pdf", "browser", "The page as PDF.", _USE),
        _endpoint("browser_console", "GET", "/browser/console", "browser", "Console messages.", _USE),
    )  # fmt: skip
