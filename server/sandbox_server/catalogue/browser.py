"""One headless page for each identity. Off until a policy switches the group on."""

from __future__ import annotations

from .model import Endpoint, Field

_USE = ("browser:use",)
_ANSWER = {"max_output_bytes": 16 << 20}


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("browser_navigate", "POST", "/browser/navigate", "browser", "Opens a URL.", _USE,
                 (
                     Field("url", "url", "body", "Absolute http or https URL."),
                     Field("wait_until", "text", "body", "load, domcontentloaded, networkidle or commit.",
                           "networkidle"),
                     Field("timeout", "number", "body", "Milliseconds, at most 300,000.", 30_000),
                 ),
                 params=("url_allow", "url_deny", "block_private_networks"), executes_code=True),
        Endpoint("browser_screenshot", "POST", "/browser/screenshot", "browser", "A picture of the page.", _USE,
                 (
                     Field("selector", "text", "body", "Of one element, instead of the page.", ""),
                     Field("full_page", "bool", "body", "Also what one would have to scroll to.", True),
                     Field("format", "text", "body", "png or jpeg.", "png"),
                 ), _ANSWER),
        Endpoint("browser_content", "GET", "/browser/content", "browser", "The page as HTML or text.", _USE,
                 (Field("type", "text", "query", "html or text.", "html"),), _ANSWER),
        Endpoint("browser_click", "POST", "/browser/click", "browser", "Clicks an element.", _USE,
                 (
                     Field("selector", "text", "body", "CSS selector."),
                     Field("timeout", "number", "body", "Milliseconds to wait for it.", 5_000),
                 )),
        Endpoint("browser_type", "POST", "/browser/type", "browser", "Types into an element.", _USE,
                 (
                     Field("selector", "text", "body", "CSS selector."),
                     Field("text", "text", "body", "What to type; needed, but may be empty.", None),
                     Field("delay", "number", "body", "Milliseconds between keys.", 50),
                     Field("clear", "bool", "body", "Empty the element first.", False),
                 )),
        Endpoint("browser_evaluate", "POST", "/browser/evaluate", "browser", "Runs a script in the page.",
                 ("browser:evaluate",),
                 (
                     Field("script", "text", "body", "JavaScript: an expression or a function."),
                     Field("timeout", "number", "body", "Milliseconds; a page that is busy then is given up.", 10_000),
                 ), _ANSWER, executes_code=True),
        Endpoint("browser_pdf", "POST", "/browser/pdf", "browser", "The page as PDF.", _USE,
                 (
                     Field("format", "text", "body", "Paper: A0 to A6, Letter, Legal, Tabloid or Ledger.", "A4"),
                     Field("landscape", "bool", "body", "Wide instead of high.", False),
                 ), _ANSWER),
        Endpoint("browser_console", "GET", "/browser/console", "browser", "Console messages.", _USE),
    )  # fmt: skip
