"""One server with a browser for all these tests, and a site that it may open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest

from tests.server.browser.site import Site, running_site
from tests.support.server import SYSTEM_PATH, Reply, ServerProcess, running_server

A, B = ("X-Access-Token", "token-a"), ("X-Access-Token", "token-b")


@dataclass
class Browsing:
    server: ServerProcess
    site: Site

    def ask(self, action: str, who: tuple[str, str] = A, **body: Any) -> Reply:
        return self.server.request("POST", f"/browser/{action}", body, dict([who]), timeout=120)

    def get(self, action: str, who: tuple[str, str] = A, **query: Any) -> Any:
        return self.server.request("GET", f"/browser/{action}", None, dict([who]), query, timeout=120).json()

    def open(self, path: str, who: tuple[str, str] = A, **body: Any) -> Reply:
        return self.ask("navigate", who, url=path if "://" in path else self.site.url + path, **body)

    def evaluate(self, script: str, who: tuple[str, str] = A, **body: Any) -> Any:
        reply = self.ask("evaluate", who, script=script, **body)
        assert reply.status == 200, reply.body
        return reply.json()["result"]


def demand_browser() -> None:
    if find_spec("playwright") is None or shutil.which("chromium", path=SYSTEM_PATH) is None:
        pytest.skip("no way here: no Chromium, or no Playwright")


def policy_for(site: Site) -> dict[str, Any]:
    params = {
        "block_private_networks": False,
        "url_allow": [f"{site.url}/*", "https://*.example/*", "http://*.example/*"],
        "url_deny": ["*/denied/*"],
    }
    tokens = [{"id": name, "token_env": f"TOKEN_{name.upper()}", "scopes": ["*"]} for name in ("a", "b")]
    return {
        "groups": ["browser", "core"],
        "endpoints": {
            "browser_navigate": {"params": params},
            "browser_pdf": {"limits": {"max_output_bytes": "64KiB"}},
            "browser_[es]*": {"limits": {"max_output_bytes": "100KB"}},
            "browser_content": {"limits": {"max_output_bytes": "1MB"}},
        },
        "auth": {"tokens": tokens},
    }


ENVIRON = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "HOME": "/nonexistent", "TOKEN_A": "token-a", "TOKEN_B": "token-b"}


@pytest.fixture(scope="package")
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Browsing]:
    demand_browser()
    directory = tmp_path_factory.mktemp("browser")
    with running_server(directory, policy=policy_for(site), environ=ENVIRON, allow_anonymous=False) as server:
        yield Browsing(server, site)


@pytest.fixture
def browsing(shared: Browsing) -> Browsing:
    shared.site.asked.clear()
    shared.site.cookies.clear()
    return shared
