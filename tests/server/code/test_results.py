"""What a context shows: values, figures, exceptions."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.server.process.harness import frames, output
from tests.support.server import ServerProcess

from .harness import Context

FRAMED = {"Accept": "application/vnd.docker.multiplexed-stream"}


def shown(context: Context, code: str) -> list[dict[str, Any]]:
    answer = context.run(code)
    assert answer["status"] == "ok", answer
    return [each["data"] for each in answer["results"]]


def test_the_last_expression_is_the_result_unless_it_is_none_or_ends_in_a_semicolon(context: Context) -> None:
    assert shown(context, "1\n'é'") == [{"text/plain": "'é'"}]
    for code in (
        "None",
        "1;",
        "1 ; # shown not",
        "(\n1\n);",
        "x = 1",
        "'é' ;",
        "def f(): pass",
        "# nothing",
        "if 1: 2",
    ):
        assert shown(context, code) == [], code
    assert shown(context, "'a;'") == [{"text/plain": "'a;'"}]
    assert shown(context, "[\n1,\n]\n\n# ;\n") == [{"text/plain": "[1]"}]


def test_the_last_value_is_remembered_unless_the_code_has_an_underscore_of_its_own(context: Context) -> None:
    assert shown(context, "5") == [{"text/plain": "5"}]
    assert shown(context, "_ + 1") == [{"text/plain": "6"}]
    assert shown(context, "_ = 'mine'\n7") == [{"text/plain": "7"}]
    assert shown(context, "_") == [{"text/plain": "'mine'"}]


def test_values_are_shown_in_every_form_they_have(context: Context) -> None:
    code = """class Rich:
    def _repr_html_(self): return "<b>é</b>"
    def _repr_png_(self): return b"\\x89PNG", {"width": 3}
    def _repr_json_(self): return {"a": [1, None]}
    def _repr_svg_(self): return None
    def _repr_latex_(self): raise ValueError
    def __repr__(self): return "Rich"
"""
    context.run(code)
    answer = context.run("Rich()")
    [result] = answer["results"]
    assert result == {
        "type": "result",
        "execution_count": 2,
        "metadata": {"image/png": {"width": 3}},
        "data": {
            "text/html": "<b>é</b>",
            "image/png": base64.b64encode(b"\x89PNG").decode(),
            "application/json": {"a": [1, None]},
            "text/plain": "Rich",
        },
    }
    assert answer["stderr"] == "_repr_latex_() of Rich raised ValueError\n"
    assert shown(context, "Rich")[0] == {"text/plain": "<class '__main__.Rich'>"}


def test_a_bundle_of_a_value_wins_over_its_single_forms(context: Context) -> None:
    code = """class Bundled:
    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"text/html": "one", "application/vnd.x.v1+json": {"a": 1}, "text/plain": "plain"}
        return data, {"text/html": {"b": 2}}
    def _repr_html_(self): return "two"
"""
    context.run(code)
    [result] = context.run("Bundled()")["results"]
    assert result["data"] == {"text/html": "one", "application/vnd.x.v1+json": {"a": 1}, "text/plain": "plain"}
    assert result["metadata"] == {"text/html": {"b": 2}}


def test_a_value_that_claims_to_have_everything_is_shown_plainly(context: Context) -> None:
    assert list(shown(context, "from unittest.mock import MagicMock; MagicMock()")[0]) == ["text/plain"]


def test_a_value_without_a_usable_repr_is_no_error(context: Context) -> None:
    context.run("class Bad:\n def __repr__(self): raise KeyError('x')")
    assert shown(context, "Bad()") == [{"text/plain": "<Bad object; its repr() raised KeyError>"}]


def test_long_containers_are_laid_out_and_endless_ones_cut(context: Context) -> None:
    [data] = shown(context, "{'b': list(range(30)), 'a': 'x' * 60}")
    assert data["text/plain"].startswith("{'b': [0,\n") and data["text/plain"].endswith(f"'a': '{'x' * 60}'}}")
    [data] = shown(context, "'x' * 3_000_000")
    assert len(data["text/plain"]) < 1_100_000 and data["text/plain"].endswith("(1951426 more characters)")


def test_a_representation_beyond_the_bound_is_left_out_and_said(context: Context) -> None:
    [data] = shown(context, "display({'text/html': 'x' * 40_000_000}, raw=True)")
    assert list(data) == ["text/plain"] and "40000" in data["text/plain"]
    assert context.value("1") == "1"


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("{'text/plain': 'half \\ud800'}", {"text/plain": "half ?"}),
        ("{'application/json': float('nan'), 'text/plain': 'x'}", {"text/plain": "x"}),
        ("{'application/json': {'é\\ud800': '\\udfff'}}", {"application/json": {"é?": "?"}}),
        ("{'no type': 'x', 'a/b\\n': 'y', 'text/plain': 5, 'text/html': 'z', 7: 'q'}", {"text/html": "z"}),
        ("{'text/plain': object(), 'x/y': b'ab'}", {"x/y": "YWI="}),
    ],
)
def test_what_is_no_text_and_no_json_never_reaches_the_reader(context: Context, code: str, data: object) -> None:
    assert shown(context, f"display({code}, raw=True)") == [data]


def test_figures_are_shown_at_the_end_of_the_run_or_when_asked_and_closed(server: ServerProcess, base: Path) -> None:
    package = base / "fakes" / "matplotlib"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "figure.py").write_text(
        "class Figure:\n def __init__(self, n): self.n = n\n def __repr__(self): return f'<Figure {self.n}>'\n"
        " def savefig(self, file, format, bbox_inches): file.write(f'{format} {self.n}'.encode())\n"
    )
    (package / "pyplot.py").write_text(
        "from .figure import Figure\nimport os\nbackend = os.environ['MPLBACKEND']\nopened = {}\n"
        "def figure(n): return opened.setdefault(n, Figure(n))\n"
        "def get_fignums(): return sorted(opened)\ndef close(n): opened.pop(n)\n"
        "def show(): raise RuntimeError('no screen')\n"
    )
    context = Context(server, cwd="fakes")
    pictures = [base64.b64encode(f"png {n}".encode()).decode() for n in range(4)]
    assert shown(context, "import matplotlib.pyplot as plt; plt.figure(1); plt.figure(2); plt.backend") == [
        {"text/plain": "'Agg'"},
        {"image/png": pictures[1], "text/plain": "<Figure 1>"},
        {"image/png": pictures[2], "text/plain": "<Figure 2>"},
    ]
    assert shown(context, "plt.figure(3)\nplt.show()\ndisplay('after')\nplt.get_fignums()") == [
        {"image/png": pictures[3], "text/plain": "<Figure 3>"},
        {"text/plain": "'after'"},
        {"text/plain": "[]"},
    ]
    assert shown(context, "plt.figure(1)") == [{"image/png": pictures[1], "text/plain": "<Figure 1>"}]
    context.delete()


def test_the_display_of_ipython_shows_here(server: ServerProcess, base: Path) -> None:
    package = base / "fakes2" / "IPython" / "core"
    package.mkdir(parents=True, exist_ok=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "display_functions.py").write_text("def display(*objects, **options): print(*objects)\n")
    (package.parent / "display.py").write_text(
        "from IPython.core.display_functions import *\nclass HTML:\n def __init__(self, data): self._data = data\n"
        " def _repr_html_(self): return self._data\n def __repr__(self): return 'HTML'\n"
    )
    context = Context(server, cwd="fakes2")
    assert shown(context, "from IPython.display import display, HTML\ndisplay(HTML('<i>x</i>'))") == [
        {"text/html": "<i>x</i>", "text/plain": "HTML"}
    ]
    context.delete()


def test_tracebacks_show_the_code_and_nothing_of_ours(context: Context) -> None:
    context.run("def f(x):\n    return 1 / x  # here")
    error = context.run("f(1)\nf(0)")["error"]
    assert (error["name"], error["value"]) == ("ZeroDivisionError", "division by zero")
    text = "\n".join(error["traceback"])
    assert 'File "<cell 2>", line 2, in <module>\n    f(0)' in text
    assert 'File "<cell 1>", line 2, in f\n    return 1 / x  # here' in text
    for code in ("input()", "await __import__('asyncio').sleep(0)\n1/0", "try:\n 1/0\nexcept Exception: input()"):
        text = "\n".join(context.run(code)["error"]["traceback"])
        assert "<cell" in text and "sandbox runner" not in text and "run_until_complete" not in text


def test_a_syntax_error_points_at_the_place(context: Context) -> None:
    error = context.run("x = 1\ny = = 2")["error"]
    assert error["name"] == "SyntaxError"
    assert error["traceback"][:3] == ['  File "<cell 1>", line 2', "    y = = 2", "        ^"]
    assert context.run("x")["error"]["name"] == "NameError"


@pytest.mark.parametrize(
    ("code", "name", "value"),
    [
        ("import sys; sys.exit(3)", "SystemExit", "3"),
        ("def f(): f()\nf()", "RecursionError", "maximum recursion depth exceeded"),
        ("'x' * 10**18", "MemoryError", ""),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise GeneratorExit", "GeneratorExit", ""),
        ("class E(Exception):\n def __str__(self): 1/0\nraise E", "E", "<its str() raised another>"),
        ("input('name? ')", "RuntimeError", None),
        ("import sys; sys.stdin.read()", "RuntimeError", None),
        ("for line in __import__('sys').stdin: pass", "RuntimeError", None),
        ("raise ValueError('\\ud800')", "ValueError", "?"),
        ("\0", "SyntaxError", None),
    ],
)
def test_whatever_ends_the_code_is_data_and_the_namespace_stays(
    context: Context, code: str, name: str, value: str | None
) -> None:
    context.run("kept = 1")
    answer = context.run(code)
    assert answer["status"] == ("interrupted" if name == "KeyboardInterrupt" else "error")
    assert answer["error"]["name"] == name or (name, answer["error"]["name"]) == ("SyntaxError", "ValueError")
    assert value is None or answer["error"]["value"].startswith(value)
    assert context.value("kept") == "1"


def test_await_works_at_the_top_and_tasks_live_on(context: Context) -> None:
    context.run("import asyncio\nevent = asyncio.Event()\nasync def later(): await event.wait(); return 'done'")
    assert context.run("task = asyncio.create_task(later())\nawait asyncio.sleep(0)")["status"] == "ok"
    assert context.value("event.set()\nawait task") == "'done'"
    assert context.value("asyncio.run(asyncio.sleep(0, 'own'))") == "'own'"
    assert context.run("while True: await asyncio.sleep(0.01)", timeout=0.3)["status"] == "timeout"
    assert context.value("await asyncio.sleep(0, 5)") == "5"


def test_future_statements_hold_for_later_runs(context: Context) -> None:
    context.run("from __future__ import annotations")
    assert context.value("def f(x: Missing): pass\nf.__annotations__") == "{'x': 'Missing'}"


def test_main_is_the_namespace(context: Context) -> None:
    assert context.value("__name__") == "'__main__'"
    code = "import pickle, inspect\nclass A: x = 1\ndef f(): pass\n"
    assert context.value(f"{code}pickle.loads(pickle.dumps(A())).x, inspect.getsource(f)") == "(1, 'def f(): pass\\n')"


def test_code_beside_the_working_directory_is_imported_and_never_in_place_of_our_own(
    server: ServerProcess, base: Path
) -> None:
    (base / "shadow").mkdir(exist_ok=True)
    for name in ("json", "linecache", "select", "traceback", "contextlib", "mine", "io", "types"):
        (base / "shadow" / f"{name}.py").write_text("value = 'mine'\n")
    context = Context(server, cwd="shadow")
    assert context.value("import mine; mine.value") == "'mine'"
    assert context.run("1/0")["error"]["name"] == "ZeroDivisionError"
    context.delete()


@pytest.mark.field(55)
@pytest.mark.field(56)
def test_field_055_056_output_is_exact_whoever_writes_it(context: Context) -> None:
    code = (
        "import os, subprocess, ctypes, sys\n"
        "os.write(1, bytes(range(256)))\nsys.stdout.flush()\n"
        "subprocess.run(['printf', 'sub'])\n"
        "print('x' * 10_000_000, end='')\n"
        "ctypes.CDLL(None).printf(b'c')\n"
        "print('\\udcff')\n"
    )
    body = {"code": code}
    reply = context.server.request("POST", f"/code/contexts/{context.id}/run", body, FRAMED)
    seen = output(frames(reply.body))
    assert seen.startswith(bytes(range(256)) + b"sub" + b"x" * 100)
    assert sorted(seen.replace(b"x" * 10_000_000, b"")[259:]) == sorted(b"c\\udcff\n")
