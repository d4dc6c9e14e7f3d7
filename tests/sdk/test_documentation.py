"""The examples of the client's page run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sandbox_sdk
from sandbox_sdk.transfer import layout
from tests.support.server import running_server

PAGE = (Path(__file__).resolve().parents[2] / "docs/topics/client.md").read_text(encoding="utf-8")


@pytest.mark.finding("R-A2")
def test_every_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with running_server(tmp_path) as server:
        names = {"URL": server.url, "TOKEN": "any"}
        for example in examples:
            exec(compile(example, "client.md", "exec"), names)
        client = names["client"]
        assert isinstance(client, sandbox_sdk.ServerClient)
        client.close()
    assert len(examples) == 6
    assert (tmp_path / "copy" / "greeting.txt").read_text(encoding="utf-8") == "grüß gott\n"


def test_the_names_on_the_page_exist() -> None:
    for name in re.findall(r"`([A-Z]\w+(?:Error|Client))`", PAGE):
        assert name in sandbox_sdk.__all__ or hasattr(__builtins__, name) or name in dir(__import__("builtins")), name


def test_the_table_of_targets_is_the_one_in_the_code() -> None:
    table = PAGE.partition("| source | target | result |")[2].partition("\n\n")[0]
    code = (layout.__doc__ or "").partition("result\n")[2]
    assert table.count("\n| ") - 1 == sum(
        line.startswith(("file ", "directory ", "``d/")) for line in code.splitlines()
    )
