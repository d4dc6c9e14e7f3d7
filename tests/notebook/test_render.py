"""Text and HTML of one table, and what must never get through."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sandbox_notebook.render import Cell, Table, as_html, as_text
from sandbox_notebook.results import Answer, Notice, Rows
from sandbox_notebook.text import columns, count, printable, size, width


def test_columns_line_up_wide_characters_included() -> None:
    assert columns([["a", "1"], ["日本", "22"]], right=frozenset({1})) == "a      1\n日本  22"
    assert width("é日") == 3 and width("e\u0301") == 1


def test_sizes_have_a_decimal_unit_and_are_exact_below_it() -> None:
    assert [size(n) for n in (0, 999, 1000, 17_412, 999_949, 1_234_567, 123_456_789, 5 * 10**12)] == [
        "0 B", "999 B", "1.0 kB", "17.4 kB", "1.0 MB", "1.2 MB", "123 MB", "5.0 TB",
    ]  # fmt: skip
    assert [count(n, "file") for n in (0, 1, 1200)] == ["0 files", "1 file", "1,200 files"]
    assert count(2, "entry", "entries") == "2 entries"


def test_control_characters_become_visible() -> None:
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert printable("gpj.\u202etxt") == "gpj.\\u202etxt"
    assert printable("日本 é") == "日本 é"


@given(st.text(max_size=50))
def test_no_name_can_drive_the_terminal_or_break_the_line(text: str) -> None:
    shown = printable(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    assert "\u202e" not in shown and "\u2028" not in shown


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(max_size=40))
def test_html_shows_the_same_characters_and_adds_no_element(text: str) -> None:
    page = Tags(as_html(Table([[text, Cell(text, "code")]], ("a", text), headline=Cell("head " + text), notes=[text])))
    assert set(page.tags) <= {"div", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.attributes <= {"style", "aria-hidden"}
    assert page.text.count(printable(text)) >= 5 or not text


def test_text_and_html_come_from_one_table() -> None:
    table = Table(
        [["a.txt", "12 B"], [Cell("b", "bad"), "3 B"]], ("name", "size"), frozenset({1}), Cell("two files", "good"),
        ["that is all"],
    )  # fmt: skip
    assert as_text(table) == "✓ two files\n  name   size\n  a.txt  12 B\n  ✗ b     3 B\nthat is all"
    assert Tags(as_html(table)).text == "✓ two filesnamesizea.txt12 B✗ b3 Bthat is all"


def test_nothing_is_loaded_from_anywhere() -> None:
    page = as_html(Table([["http://x"]], headline=Cell("y")))
    assert "src=" not in page and "href=" not in page and "url(" not in page


def test_results_show_text_and_html_or_text_alone() -> None:
    notice = Notice("done", ("where", "here"))
    assert notice._repr_mimebundle_()["text/plain"] == "✓ done\n  where  here" == repr(notice)
    assert "text/html" in notice._repr_mimebundle_()
    notice.html = False
    assert set(notice._repr_mimebundle_()) == {"text/plain"}


def test_rows_are_a_list_of_the_items() -> None:
    rows = Rows(["a", "b", "c"], Table([["a"], ["b"], ["c"]]))
    assert list(rows) == ["a", "b", "c"] and len(rows) == 3 and rows[1] == "b" and rows[1:] == ("b", "c")
    assert "b" in rows


def test_an_answer_is_true_when_allowed() -> None:
    assert Answer(None, True, Table()) and not Answer(None, False, Table())
