"""Where the server is and how to introduce oneself: address, token, headers. Judged once, at construction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_FORBIDDEN_HEADERS = frozenset(
    {
        "connection", "content-length", "forwarded", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "te", "trailer", "transfer-encoding", "upgrade", "via",
    }
)  # fmt: skip
SOCKET_URL = "http://sandbox"


@dataclass(frozen=True)
class Binding:
    """One server, and the credentials for it. The repr never shows a secret."""

    base_url: str
    uds: str | None = None
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 30.0
    query: str = ""

    @classmethod
    def of(
        cls,
        base_url: str | None,
        *,
        uds: str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Binding:
        """Check every part; anything odd is a ValueError that names it."""
        if (base_url is None) == (uds is None):
            raise ValueError("give either a base_url or uds=PATH of a socket")
        if not timeout > 0:
            raise ValueError(f"timeout {timeout!r} must be more than 0 seconds")
        url, query = _checked_url(SOCKET_URL if base_url is None else base_url)
        sent = _checked_headers(headers or {})
        if token is not None:
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise ValueError("token must be printable ASCII without blanks")
            if any(name.lower() == "authorization" for name in sent):
                raise ValueError("give either a token or an Authorization header")
            sent["Authorization"] = f"Bearer {token}"
        return cls(url, uds, token, sent, timeout, query)

    @property
    def address(self) -> str:
        """How the server is named in messages."""
        return f"unix:{self.uds}" if self.uds else self.base_url

    @property
    def encrypted(self) -> bool:
        return self.base_url.startswith("https:")

    def url(self, target: str) -> str:
        """The full URL of a target; fixed query parameters of the base URL go along on every call."""
        if not self.query:
            return self.base_url + target
        return f"{self.base_url}{target}{'&' if '?' in target else '?'}{self.query}"

    def with_token(self, token: str) -> Binding:
        """The same server, with another credential."""
        headers = {name: value for name, value in self.headers.items() if name.lower() != "authorization"}
        base_url = None if self.uds else self.url("")
        return Binding.of(base_url, uds=self.uds, token=token, headers=headers, timeout=self.timeout)

    def redact(self, text: str) -> str:
        """The text without our secrets, should a peer have echoed one."""
        for name, value in self.headers.items():
            secret = self.token if self.token and value.endswith(self.token) else value
            if name.lower() in ("authorization", "x-access-token", "cookie") and secret:
                text = text.replace(secret, "[secret]")
        return text


def _checked_url(text: str) -> tuple[str, str]:
    """A base URL without a trailing slash, and its fixed query."""
    shown = re.sub(r"//[^/@]*@", "//[secret]@", text)
    if not text.isprintable() or " " in text or "\\" in text:
        raise ValueError(f'base_url "{shown}" holds a blank, a backslash or a control character')
    parts = urlsplit(text)
    try:
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f'base_url "{shown}" has a malformed host or port') from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f'base_url "{shown}" must be http:// or https:// and a host')
    if "@" in parts.netloc:
        raise ValueError(f'base_url "{shown}" must not hold a user; give token=... instead')
    if "#" in text:
        raise ValueError(f'base_url "{shown}" must not hold a fragment')
    if re.search(r"%2f|%5c", parts.path, re.IGNORECASE) or {".", ".."} & set(
        parts.path.lower().replace("%2e", ".").split("/")
    ):
        raise ValueError(f'base_url "{shown}" holds dot segments or encoded separators')
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if len(names) != len(set(names)):
        raise ValueError(f'base_url "{shown}" repeats a query parameter')
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", parts.query


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        lowered = name.lower()
        if not _HEADER_NAME.match(name):
            raise ValueError(f"header name {name!r} is malformed")
        if lowered in _FORBIDDEN_HEADERS or lowered.startswith("x-forwarded-"):
            raise ValueError(f'header "{name}" is set by the connection and cannot be given')
        if not value.isprintable():
            raise ValueError(f'the value of header "{name}" holds a line end or a control character')
    return dict(headers)
