"""The page about commands and endpoints of one's own is true."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.server import running_server

PAGE = Path(__file__).resolve().parents[3] / "docs" / "topics" / "extending.md"


def test_the_examples_of_the_page_work(tmp_path: Path) -> None:
    files = []
    for example in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        files.append(tmp_path / example[0])
        files[-1].write_text(example[1])
    assert [file.name for file in files] == ["ours.py", "routes.py"]
    arguments = [word for file in files for word in ("--commands", str(file))]
    with running_server(tmp_path, arguments=arguments) as server:
        (tmp_path / "base" / "a.txt").write_text("1\n2\n3\n")
        assert server.request("POST", "/commands/count_lines", {"path": "a.txt"}).json() == {"result": 3}
        assert server.request("POST", "/commands/count_lines", {"path": "a.txt", "most": 2}).json() == {"result": 2}
        assert server.request("POST", "/commands/count_lines", {"path": "/etc/passwd"}).status == 403
        assert server.request("GET", "/lines/head?path=a.txt&count=2").json() == {"lines": ["1", "2"]}
        assert server.request("GET", "/lines/head?path=/etc/passwd").status == 403
