"""One JupyterLab for all tests of a run; each test has notebooks, and a browser, of its own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from .lab import CHROMIUM, Lab


@pytest.fixture(scope="session")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if not CHROMIUM:
        pytest.skip("no way here: chromium is missing, apt-get install chromium")
    if not find_spec("playwright"):
        pytest.skip("playwright is missing: pip install playwright")
    lab = Lab(tmp_path_factory.mktemp("lab"))
    try:
        yield lab
    finally:
        lab.close()


@pytest.fixture
def lab(running_lab: Lab) -> Iterator[Lab]:
    yield running_lab
    running_lab.end_kernels()
