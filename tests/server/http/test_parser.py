"""Request heads: what is exactly right becomes values, everything else is refused with the right code."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox_server.http import parser
from sandbox_server.http.bounds import HEADER_BYTES, HEADER_FIELDS, REQUEST_LINE_BYTES
from sandbox_server.messages import Refusal


def line_code(line: bytes) -> str | None:
    try:
        parser.parse_request_line(line)
    except Refusal as refusal:
        return refusal.code
    return None


def fields_code(section: bytes, minor: int = 1) -> str | None:
    try:
        parser.parse_fields(section, minor)
    except Refusal as refusal:
        return refusal.code
    return None


def test_a_request_line_is_method_path_query_and_minor_version() -> None:
    line = parser.parse_request_line(b"GET /files/stat?path=%2Ftmp%2Fa+b&follow=&follow HTTP/1.1")
    assert line == ("GET", "/files/stat", (("path", "/tmp/a b"), ("follow", ""), ("follow", "")), 1)
    assert parser.parse_request_line(b"M-SEARCH /a?? HTTP/1.0") == ("M-SEARCH", "/a", (("?", ""),), 0)


@pytest.mark.finding("R2-S7")
def test_a_path_is_never_decoded_or_tidied() -> None:
    for path in ["/%68ealth", "//health", "/a/../b", "/a;x=1", "/a%2Fb", "/files/stat/", "/a/./b"]:
        assert parser.parse_request_line(f"GET {path} HTTP/1.1".encode()).path == path


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", "bad_request"),
        (b"GET", "bad_request"),
        (b"GET /health", "bad_request"),
        (b"GET  /health HTTP/1.1", "bad_request"),
        (b"GET /health  HTTP/1.1", "bad_request"),
        (b"GET /health HTTP/1.1 ", "bad_request"),
        (b" GET /health HTTP/1.1", "bad_request"),
        (b"GET\t/health\tHTTP/1.1", "bad_request"),
        (b"GET /health HTTP/1.1\0", "bad_request"),
        (b"GET /he\x7falth HTTP/1.1", "bad_request"),
        (b"GET /h\xc3\xa9 HTTP/1.1", "bad_request"),
        (b"GET /health#frag HTTP/1.1", "bad_request"),
        (b"GET /health?a#frag HTTP/1.1", "bad_request"),
        (b"GET http://x/health HTTP/1.1", "bad_request"),
        (b"GET health HTTP/1.1", "bad_request"),
        (b"OPTIONS * HTTP/1.1", "bad_request"),
        (b"CONNECT x:80 HTTP/1.1", "bad_request"),
        (b"G(T /health HTTP/1.1", "bad_request"),
        (b"GET /health http/1.1", "bad_request"),
        (b"GET /health HTTP/1", "bad_request"),
        (b"GET /health HTTP/1.10", "bad_request"),
        (b"GET /health HTTP/01.1", "bad_request"),
        (b"GET /health HTTP/1.1\r", "bad_request"),
        (b"GET /health FTP/1.1", "bad_request"),
        (b"GET /health HTTP/\xb9.1", "bad_request"),
        (b"GET /health HTTP/1.2", "version_not_supported"),
        (b"GET /health HTTP/0.9", "version_not_supported"),
        (b"GET /health HTTP/9.9", "version_not_supported"),
        (b"PRI * HTTP/2.0", "version_not_supported"),
        (b"GET /" + b"a" * REQUEST_LINE_BYTES + b" HTTP/1.1", "target_too_long"),
        (b"GET /a?x=%zz HTTP/1.1", "bad_request"),
        (b"GET /a?x=%4 HTTP/1.1", "bad_request"),
        (b"GET /a?x=% HTTP/1.1", "bad_request"),
        (b"GET /a?x=%+1 HTTP/1.1", "bad_request"),
    ],
)
def test_a_request_line_that_is_not_exactly_right_is_refused(line: bytes, code: str) -> None:
    assert line_code(line) == code


def test_the_longest_request_line_is_accepted() -> None:
    line = b"GET /" + b"a" * (REQUEST_LINE_BYTES - len(b"GET / HTTP/1.1")) + b" HTTP/1.1"
    assert len(line) == REQUEST_LINE_BYTES
    assert line_code(line) is None
    assert line_code(line.replace(b"/a", b"/aa", 1)) == "target_too_long"


@pytest.mark.finding("R2-S4")
def test_repeated_and_blank_parameters_reach_the_application() -> None:
    assert parser.parse_query("path=&path=x&&=y&q") == (("path", ""), ("path", "x"), ("", "y"), ("q", ""))


def test_a_query_is_decoded_once() -> None:
    assert parser.parse_query("p=%252e%252e%2F%2B+%26%3D") == (("p", "%2e%2e/+ &="),)
    assert parser.parse_query("%70ath=a;b") == (("path", "a;b"),)


@given(st.binary(max_size=50))
@example(b"\xff\xfe/\xed\xa0\x80")
def test_any_bytes_of_a_posix_path_survive_the_query(name: bytes) -> None:
    encoded = "".join(f"%{byte:02x}" for byte in name)
    ((key, value),) = parser.parse_query(f"path={encoded}")
    assert key == "path"
    assert os.fsencode(value) == name


def test_fields_keep_every_line_and_lower_their_names() -> None:
    fields = parser.parse_fields(b"Host: localhost:9000\r\nX-A:1\r\nx-a: \t 2 \t\r\nX-Empty:\r\nX-L: caf\xe9", 1)
    assert fields.headers.all("x-a") == ["1", "2"]
    assert fields.headers["x-empty"] == ""
    assert fields.headers["x-l"] == "caf\xe9"
    assert fields.host == "localhost:9000"
    assert (fields.length, fields.close, fields.expects) == (0, False, False)


def test_a_field_line_may_hold_colons_and_tabs() -> None:
    assert parser.parse_fields(b"Host: x\r\nX: a:b\tc", 1).headers["x"] == "a:b\tc"


@pytest.mark.parametrize(
    "section",
    [
        b"",  # no Host
        b"Host: a\r\nHost: a",
        b"Host: a, b",
        b"Host: a/b",
        b"Host: user@a",
        b"Host: [::1",
        b"Host: a:port",
        b"Host: a:123456",
        b"Host: h\xc3\xa9",
        b"Host : a",
        b" Host: a",
        b"Host: a\r\n folded",
        b"Host: a\r\n\tfolded",
        b"Host: a\r\nNo colon here",
        b"Host: a\r\n: no name",
        b"Host: a\r\nX Y: 1",
        b"Host: a\r\nX\xe9: 1",
        b"Host: a\r\nX(: 1",
        b"Host: a\r\nX: \0",
        b"Host: a\r\nX: \x1b[0m",
        b"Host: a\r\nX: \x7f",
        b"Host: a\nX: 1",
        b"Host: a\rX: 1",
        b"Host: a\r\nX: 1\r",
        b"Host: a\r\n\r",
        b"Host: a\r\nX: 1\n",
    ],
)
def test_a_header_section_that_is_not_exactly_right_is_refused(section: bytes) -> None:
    assert fields_code(section) == "bad_request"


@pytest.mark.finding("R2-S3")
@pytest.mark.parametrize(
    ("value", "length"),
    [
        (b"15", 15),
        (b"00015", 15),
        (b"0", 0),
        (b"000", 0),
        (b" 7\t", 7),
        (b"9999999999999999999", 9999999999999999999),
        (b"15\r\nContent-Length: 15", 15),
        (b"abc", "bad_request"),
        (b"-5", "bad_request"),
        (b"+2", "bad_request"),
        (b"2.0", "bad_request"),
        (b"", "bad_request"),
        (b"0x10", "bad_request"),
        (b"1_000", "bad_request"),
        (b"1 0", "bad_request"),
        (b"2, 2", "bad_request"),
        (b"\xb2", "bad_request"),
        (b"\xd9\xa1", "bad_request"),
        (b"2\r\nContent-Length: 40", "bad_request"),
        (b"15\r\nContent-Length: 015", "bad_request"),
        (b"10000000000000000000", "payload_too_large"),
        (b"9" * 5000, "payload_too_large"),
    ],
)
def test_a_content_length_is_digits_and_bounded(value: bytes, length: int | str) -> None:
    section = b"Host: a\r\nContent-Length: " + value
    if isinstance(length, str):
        assert fields_code(section) == length
    else:
        assert parser.parse_fields(section, 1).length == length


@pytest.mark.finding("R1-F3")
@pytest.mark.field(136)
@pytest.mark.parametrize("value", [b"chunked", b"gzip, chunked", b"identity", b"", b"CHUNKED", b"\x0bchunked"])
@pytest.mark.parametrize("minor", [0, 1])
def test_field_136_a_transfer_encoding_is_refused_whatever_it_says(value: bytes, minor: int) -> None:
    expected = "bad_request" if b"\x0b" in value else "unsupported_encoding"
    assert fields_code(b"Host: a\r\nTransfer-Encoding: " + value, minor) == expected
    assert fields_code(b"Host: a\r\nContent-Length: 3\r\nTransfer-Encoding: " + value, minor) == expected


def test_caps_on_header_count_and_bytes() -> None:
    most = b"\r\n".join([b"Host: a", *[b"X: 1"] * (HEADER_FIELDS - 1)])
    assert fields_code(most) is None
    assert fields_code(most + b"\r\nX: 1") == "headers_too_large"
    large = b"Host: a\r\nX: "
    large += b"x" * (HEADER_BYTES - len(large))
    assert fields_code(large) is None
    assert fields_code(large + b"x") == "headers_too_large"
    assert fields_code(b"Host: a\r\n" + b"x" * 300 + b": 1") == "headers_too_large"


def test_http_1_0_needs_no_host_and_never_expects() -> None:
    fields = parser.parse_fields(b"Expect: 100-continue\r\nContent-Length: 1", 0)
    assert fields.host is None
    assert not fields.expects
    assert parser.parse_fields(b"Host: a\r\nExpect: 100-Continue", 1).expects


@pytest.mark.parametrize(("value", "close"), [(b"close", True), (b"TE, Close", True), (b"keep-alive", False)])
def test_connection_close_is_found_among_tokens(value: bytes, close: bool) -> None:
    assert parser.parse_fields(b"Host: a\r\nConnection: " + value, 1).close is close


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"GET /health HTTP/1.1", None),
        (b"GET /health HTTP/1.1\r", None),
        (b"GET /health HTTP/1.1\r\n", None),
        (b"GET /health HTTP/1.1\r\nHost: a\r\n", None),
        (b"GET /health HTTP/1.1\r\nHost: a\r\n\r", None),
        (b"GET /health\r\n", "bad_request"),
        (b"GET /health HTTP/1.1\n", "bad_request"),
        (b"\x16\x03\x01\x02\x00", "bad_request"),
        (b"\r\n", "bad_request"),
        (b"GET / HTTP/3.0\r\n", "version_not_supported"),
        (b"GET / HTTP/1.1\r\nHost: a\n", "bad_request"),
        (b"GET / HTTP/1.1\r\nX: \0", "bad_request"),
        (b"a" * (REQUEST_LINE_BYTES + 1), None),
        (b"a" * (REQUEST_LINE_BYTES + 2), "target_too_long"),
        (b"GET / HTTP/1.1\r\nX: x" + b"x" * HEADER_BYTES, "headers_too_large"),
    ],
)
def test_a_hopeless_head_is_refused_before_its_end(head: bytes, code: str | None) -> None:
    try:
        parser.check_incomplete(head)
    except Refusal as refusal:
        assert refusal.code == code
    else:
        assert code is None


GOOD_LINE = b"POST /files/upload-stream?path=%2Fa&overwrite=true HTTP/1.1"
GOOD_SECTION = b"Host: 127.0.0.1:9000\r\nContent-Length: 00015\r\nConnection: keep-alive\r\nExpect: 100-continue"


@st.composite
def mutated(draw: st.DrawFn, base: bytes) -> bytes:
    data = bytearray(base)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        what = draw(st.sampled_from([b"", b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b"%", b"#", b"\xff", b"0"]))
        if draw(st.booleans()):
            data[place : place + draw(st.integers(0, 3))] = what
        else:
            data[place:place] = what
    return bytes(data)


@given(st.one_of(st.binary(max_size=200), mutated(GOOD_LINE)))
def test_no_request_line_raises_anything_but_a_refusal(line: bytes) -> None:
    if line_code(line) is None:
        method, path, _, minor = parser.parse_request_line(line)
        assert line.startswith(f"{method} {path}".encode())
        assert minor in (0, 1)
        assert b"\r" not in line and b"\n" not in line and b"\0" not in line


@given(st.one_of(st.binary(max_size=200), mutated(GOOD_SECTION)), st.sampled_from([0, 1]))
def test_no_header_section_raises_anything_but_a_refusal(section: bytes, minor: int) -> None:
    if fields_code(section, minor) is None:
        fields = parser.parse_fields(section, minor)
        assert fields.length >= 0
        for name in fields.headers:
            assert name == name.lower().strip()
            for value in fields.headers.all(name):
                assert not set(value) & set("\r\n\0")


@given(st.one_of(st.binary(max_size=200), mutated(GOOD_LINE + b"\r\n" + GOOD_SECTION)))
def test_no_unfinished_head_raises_anything_but_a_refusal(head: bytes) -> None:
    try:
        parser.check_incomplete(head)
    except Refusal:
        return


@given(st.integers(0, len(GOOD_LINE + GOOD_SECTION) + 2))
def test_every_beginning_of_a_good_head_may_still_become_one(length: int) -> None:
    parser.check_incomplete((GOOD_LINE + b"\r\n" + GOOD_SECTION)[:length])
