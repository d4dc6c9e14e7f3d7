"""The page in the sandbox, from here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox_sdk import AsyncServerClient, CommandTimeoutError, PolicyDeniedError, ServerAPIError
from tests.server.browser.conftest import demand_browser, policy_for
from tests.server.browser.site import Site, running_site
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running_site() as site:
        yield site


@pytest.fixture(scope="module")
def browsing(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[ServerProcess]:
    demand_browser()
    policy = {**policy_for(site), "auth": {}}
    with running_server(tmp_path_factory.mktemp("browser"), policy=policy) as server:
        yield server


async def test_a_page_is_opened_used_and_looked_at(browsing: ServerProcess, site: Site) -> None:
    async with AsyncServerClient(browsing.url) as client:
        page = await client.browser.navigate(f"{site.url}/form", timeout=60)
        assert (page.url, page.title, page.status) == (f"{site.url}/form", "Form", 200)
        await client.browser.type("#name", "new", clear=True, delay=0)
        await client.browser.click("#go", timeout=60)
        assert await client.browser.evaluate("document.title", timeout=60) == "clicked new"
        logs = await client.browser.console()
        assert [(log.type, log.text) for log in logs] == [("log", "went"), ("warning", "careful")]
        assert logs[0].timestamp is not None
        assert (await client.browser.content("text")).content.startswith("Hello")
        assert (await client.browser.screenshot(selector="#go", format="jpeg")).startswith(b"\xff\xd8")
        assert (await client.browser.pdf()).startswith(b"%PDF")


async def test_refusals_are_exceptions(browsing: ServerProcess, site: Site) -> None:
    async with AsyncServerClient(browsing.url) as client:
        with pytest.raises(PolicyDeniedError):
            await client.browser.navigate("http://10.0.0.1/")
        await client.browser.navigate(f"{site.url}/form")
        with pytest.raises(ServerAPIError) as failure:
            await client.browser.screenshot(selector="#none")
        assert failure.value.error_code == "element_not_found"
        with pytest.raises(CommandTimeoutError):
            await client.browser.click("#none", timeout=0.05)
