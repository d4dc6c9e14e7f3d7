"""What the package shows, and what importing it costs."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

import sandbox_sdk

SOURCE = Path(sandbox_sdk.__file__).read_text()


def test_the_public_names_are_exactly_those_for_type_checkers() -> None:
    typed = set(re.findall(r"\b[A-Z]\w+\b", SOURCE.partition("if TYPE_CHECKING:")[2].partition("#:")[0]))
    assert {*typed, "__version__", "policy_matrix"} == set(sandbox_sdk.__all__)
    assert sandbox_sdk.__all__ == sorted(sandbox_sdk.__all__)


@pytest.mark.parametrize("name", [name for name in sandbox_sdk.__all__ if name != "__version__"])
def test_a_public_name_says_that_it_lives_in_the_package(name: str) -> None:
    value = getattr(sandbox_sdk, name)
    assert inspect.isclass(value) or inspect.isfunction(value)
    assert (value.__module__, value.__name__) == ("sandbox_sdk", name)
    assert value.__doc__


def test_dir_shows_the_public_names() -> None:
    assert set(sandbox_sdk.__all__) <= set(dir(sandbox_sdk))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        sandbox_sdk.nonsense  # noqa: B018
    with pytest.raises(ImportError):
        from sandbox_sdk import Binding  # noqa: F401


def imported_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; import json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not {"httpx", "asyncio", "ssl", "http.client", "IPython"} & imported_by("import sandbox_sdk")


def test_errors_and_values_need_no_http_library() -> None:
    assert "httpx" not in imported_by("from sandbox_sdk import NotFoundError, Receipt, CodeResult")


def test_the_only_third_party_import_is_httpx() -> None:
    before, after = imported_by("import httpx, httpcore"), imported_by("from sandbox_sdk import *")
    roots = {name.partition(".")[0] for name in after - before}
    assert roots - set(sys.stdlib_module_names) == {"sandbox_sdk"}


def test_the_notebook_extension_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, object]] = []
    extension = SimpleNamespace(
        load_ipython_extension=lambda shell: calls.append(("load", shell)),
        unload_ipython_extension=lambda shell: calls.append(("unload", shell)),
    )
    monkeypatch.setitem(sys.modules, "some_extension", extension)  # type: ignore[arg-type]
    point = EntryPoint("notebook", "some_extension", "sandbox_sdk.ipython")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if "ipython" in group else [])
    sandbox_sdk.load_ipython_extension("shell")
    sandbox_sdk.unload_ipython_extension("shell")
    assert calls == [("load", "shell"), ("unload", "shell")]


def test_without_the_extension_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [])
    with pytest.raises(ImportError, match=r"notebook-sandbox\[notebook\]"):
        sandbox_sdk.load_ipython_extension("shell")
