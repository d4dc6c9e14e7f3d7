"""Values and header lines to choose from: what is right, what is odd, and what no reader may repair."""

from __future__ import annotations

from typing import Any

METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "G\xcbT", "A" * 300)
#: Stands in a path for the id of the process that was started last; whoever sends the request puts it in.
LAST_ID = "f" * 32
IDS = ("1", "0", "-1", "999999", "9" * 30, "x", "a" * 32, "%31", "..", "%2e%2e", "list", "start", ";", "é", "~")
PLACES = (".", "a", "a/b", "a/b/c", "file", "x.txt", "link", "new", "a/new", "new/deep/er", "日本 é.txt", "-rf")
#: What a field takes by its name, else by its kind.
GOOD: dict[str, tuple[Any, ...]] = {
    "endpoint": ("files_stat", "shell", "files_move", "nothing"),
    "order": ("name", "none"),
    "cursor": ("", "YQ==", "YS9i"),
    "mode": ("644", "0755", ""),
    "content_base64": ("", "Zg==", "QUJD" * 1000),
    "data_base64": ("Zg==",),
    "op": ("read", "write", "delete", "exec"),
    "paths": (["a", "file"], ["x"]),
    "signal": (15, 9, 2, 18),
    "mtime": (0, 1e9, "1700000000.5"),
    "path": PLACES,
    "command": ("true", "echo hi", "echo 'a b' \"c\"", "cat"),
    "env": ({}, {"A": "1"}),
    "bool": (True, False, "true", "no", 0, 1, "x"),
    "int": (0, 1, 2, "3", 100),
    "number": (0, 1, "2.5"),
    "text": ("x", "name"),
    "object": ("a", ["a"]),
    # Nothing here makes a test slow, and nobody would end a stream that is followed.
    "wait": (0, -1, "0", 0.01, "nan", "", None, [], "x", True),
    "timeout": (5, "5", 0, -1, "nan", "", None, [], "x", True),
    "follow": (False, "no", "x"),
}
NEVER_ODD = ("wait", "timeout", "follow")
TEXTS: tuple[Any, ...] = (
    "", "x", "999", "8", "\0", "\r\nX: y", "\u2028", "é" * 3000, "\udfff", "QUJD", "QUJD====", "/w8_", "a b", 7, None,
    [], {}, False,
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    -1, 0.5, 1e3, 1e308, -1e308, 2**31, 2**63, 2**64, 10**30, "3", "1e3", "0x10", " 7 ", "nan", "inf", "", "x", True,
    False, None, [], {}, "9" * 400, "٣", "1_000",
)  # fmt: skip
#: By kind.
ODD: dict[str, tuple[Any, ...]] = {
    "path": (
        "loop", "out", "out/passwd", "", " ", "..", "../x", "a/../b", "./a//b/", "/", "/etc/passwd", "/dev/zero", "~",
        "/proc/self/environ", "a\0b", "a\nb", "x" * 255, "y" * 256, "z" * 4096, "z" * 4097, "n/" * 300 + "n", "%2e%2e",
        "\ud800", "\udcff", "secret", "secret/x", "a.pem", "file/x", 5, None, [], {}, True,
    ),
    "command": (
        "echo " + "x" * 5000, "echo " * 300, "rm -rf /", "sh -c 'echo no'", "", " ", "'", "echo \\", "./file",
        "/bin/echo hi", "/proc/self/exe", "no-such-program", "echo \0", "echo \udcff", 5, None, [], {},
    ),
    "env": (
        {"ABX_X": "1"}, {"PATH": "/tmp"}, {"LD_PRELOAD": "x"}, {"": "1"}, {"A=B": "1"}, {"A": 1}, {"A": "\0"}, None, [],
        "A=1", {"A": "x" * 200_000}, {f"V{n}": "" for n in range(300)}, {"\ud800": "1"},
    ),
    "paths": ([], ["a", 5], "a", ["/etc"], None, {}),
    "object": ([], ["a", 5], "/etc", None, 5, {}),
    "int": NUMBERS,
    "number": NUMBERS,
}  # fmt: skip

KINDS = ("", "text/plain", "application/octet-stream", "application/json; charset=utf-16", "multipart/form-data", "a,b")
CONDITIONS = (
    "Range: bytes=0-0", "Range: bytes=-1", "Range: bytes=5-", "Range: bytes=9-1", "Range: bytes=0-0,2-3", "Range: x=1",
    "Range: bytes=1000-", "Range: bytes=" + "9" * 100 + "-", "If-Match: *", "If-None-Match: *", 'If-Match: "x", "y"',
    'If-None-Match: W/""', "If-Range: x", "Want-Repr-Digest: sha-256=1", "Want-Repr-Digest: sha-256=0, ;=,",
)  # fmt: skip
HEADERS = (
    *CONDITIONS, "Accept: application/octet-stream", "Accept: application/vnd.docker.multiplexed-stream", "Accept: */*",
    "Accept:", "Authorization: Bearer reader", "Authorization: Bearer x", "Authorization: Basic eDp5",
    "X-Access-Token: y", "X-Access-Token:", "Origin: null", "Origin: http://evil.example", "Origin: http://localhost",
    "Cookie: a=b", "Expect: x", "Expect: 100-continue", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin",
    "Connection: close", "Connection: keep-alive", "Connection: upgrade, ,", "Upgrade: websocket", "TE: trailers",
    "X-HTTP-Method-Override: DELETE", "Accept-Encoding: gzip", "Content-Encoding: gzip", "Trailer: X", "Date: never",
    "X-Odd: \xff\xfe", "X-Tab:\tx\t", "Content-Range: bytes 0-1/2", "Forwarded: for=x",
)  # fmt: skip
BAD_HEADERS = (
    "Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Content-Length: -1", "Content-Length: +1",
    "Content-Length: 1, 1", "Content-Length: 0x1", "Content-Length:", "Content-Length: " + "9" * 30, "Host: a",
    "Host: a b", "Host: [::1", "No colon", "Space : x", " folded: x", ": x", "B\xe9: x", "X: a\0b", "X: a\rb",
    "X: a\nb", "X" * 300 + ": x", "X: " + "y" * 70_000, "\r\n\r\n",
)  # fmt: skip
#: To put among bytes, and in the place of digits.
PIECES = (
    b"\r\n", b"\r", b"\n", b"\0", b" ", b"\t", b":", b"%", b"\xff", b"\r\n\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: 9999999999999999999999\r\n", b"Host: x\r\n", b"HTTP/1.1", b"../",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"9" * 50, b"-1", b'"', b"{", b"}", b"\\u0000",
    b"\xed\xa0\x80", b"%2f",
)  # fmt: skip
DIGITS = (b"9" * 25, b"0", b"-1", b"18446744073709551616")


def broken_targets(path: str) -> tuple[str, ...]:
    """What might be taken for `path`, or for no target at all."""
    return (
        "/", "//", "", "*", path * 2, path + "/", path + "//", "/" + path, path.upper(), path[1:], path + "%00",
        path + ";x", path + "/..", path.replace("/", "%2F"), "http://localhost" + path, "/x" * 3000, path + "\xe9",
        "/\x7f", "/#", "/a b",
    )  # fmt: skip


def broken_pairs(pairs: list[str]) -> tuple[str, ...]:
    """Parts of a query that are there already, or are none."""
    return (
        *pairs, "x=1&x=2", "=", "&&", "path", "path=", "%", "%zz=1", "a=%ff%fe", "a=%00", "?", "path=..%2f..%2fetc",
        "a=" + "b" * 70_000,
    )  # fmt: skip


def broken_json(body: bytes) -> tuple[bytes, ...]:
    """What is no JSON object, or one that two readers would read differently."""
    return (
        b"", b"null", b"[]", b"{", body[:-1], body + body, b"\xef\xbb\xbf" + body, b'{"a":NaN}', b'{"a":1,"a":1}',
        body.decode("utf-8", "replace").encode("utf-16"), b"[" * 50_000, b'{"a":' * 3000 + b"1" + b"}" * 3000,
        b'{"path":1' + b"0" * 5000 + b"}", bytes(range(256)),
    )  # fmt: skip
