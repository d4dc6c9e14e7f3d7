"""One headless page. Off until a policy switches the group on."""

from __future__ import annotations

from .model import Endpoint, Field

_USE = ("browser:use",)


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("browser_navigate", "POST", "/browser/navigate", "browser", "Opens a URL.", _USE,
                 (Field("url", "url", "body", "Absolute http or https URL."),),
                 params=("url_allow", "url_deny", "block_private_networks"), executes_code=True),
        Endpoint("browser_screenshot", "POST", "/browser/screenshot", "browser", "A picture of the page.", _USE),
        Endpoint("browser_content", "GET", "/browser/content", "browser", "The page as HTML or text.", _USE),
        Endpoint("browser_click", "POST", "/browser/click", "browser", "Clicks an element.", _USE),
        Endpoint("browser_type", "POST", "/browser/type", "browser", "Types into an element.", _USE),
        Endpoint("browser_evaluate", "POST", "/browser/evaluate", "browser", "Runs a script in the page.",
                 ("browser:evaluate",), executes_code=True),
        Endpoint("browser_pdf", "POST", "/browser/pdf", "browser", "The page as PDF.", _USE),
        Endpoint("browser_console", "GET", "/browser/console", "browser", "Console messages.", _USE),
    )  # fmt: skip
