"""Addresses of web pages: which may be opened. A URL is read once, strictly, and as a browser would read it.

Where a browser and Python could disagree about the host, the URL is refused: backslashes, percent signs, numbers that
are addresses in disguise (``2130706433``, ``0x7f.1``, ``127.1``), characters that become others on the way.
"""

from __future__ import annotations

import ipaddress
import socket
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..messages import Refusal, quoted
from .globs import compile_glob

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Iterable[str]]

_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
#: Networks whose addresses stand for others, or that `is_global` is too kind to.
_NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/23", "3fff::/20", "::/96", "fec0::/10",
        "192.0.0.0/24", "192.88.99.0/24",
    )
)  # fmt: skip
#: Names of this very machine, whatever the resolver says of them.
_LOCAL_NAMES = frozenset({"localhost", "ip6-localhost", "ip6-loopback", "localhost6"})
_LONGEST = 8192


class Url(NamedTuple):
    """The parts that decide where a request goes."""

    scheme: str
    host: str  # lower case, without brackets and final dot
    port: int
    rest: str = ""  # path, query and fragment; empty for an origin

    @property
    def site(self) -> str:
        """Scheme and host, as patterns spell them."""
        return f"{self.scheme}://[{self.host}]" if ":" in self.host else f"{self.scheme}://{self.host}"

    def spellings(self) -> list[str]:
        """The URL without credentials: with its port, and without when nobody needs to say it."""
        spelled = [f"{self.site}:{self.port}{self.rest}"]
        return [*spelled, self.site + self.rest] if self.port == _PORTS[self.scheme] else spelled


def is_public(address: Address) -> bool:
    """Whether this address is somebody's on the open internet."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address.scope_id is not None:
            return False
    if any(address.version == network.version and address in network for network in _NEVER):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a name; none when it has none."""
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


class UrlGuard:
    """One policy's rules about URLs, and what always holds: no private address.

    A private address is opened only where a policy switches `block_private_networks` off *and* its `url_allow` spells
    that very host.
    """

    def __init__(
        self,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        block_private: bool | None = None,
        resolve: Resolve = resolved,
    ) -> None:
        self._allow = [(pattern, compile_glob(pattern)) for pattern in allow]
        self._deny = [(pattern, compile_glob(pattern)) for pattern in deny]
        self._block_private = block_private is True
        self._opened = block_private is False
        self._resolve = resolve

    def admit(self, url: str) -> str:
        """Judge a URL that a caller names, and where its name leads by now."""
        configured = bool(self._allow or self._deny or self._block_private)
        try:
            parts = parsed(url, ("http", "https"))
        except Refusal:
            if not configured:
                raise
            raise _not_allowed(url) from None
        self._judge_patterns(url, parts)
        try:
            self._addresses(parts)
        except Refusal:
            if self._block_private:
                raise _not_allowed(url) from None
            raise
        return url

    def judge(self, url: str) -> None:
        """The same by the text alone, for what a page asks for: whoever connects judges the address."""
        parts = parsed(url)
        self._judge_patterns(url, parts)
        if not self._spelled(parts):
            self._judge_host(parts.host)

    def addresses(self, url: str) -> list[str]:
        """Where to connect for a URL. Only these may be used: a name can mean something else the next moment."""
        parts = parsed(url)
        self._judge_patterns(url, parts)
        return self._addresses(parts)

    def tunnel(self, host: str, port: int) -> list[str]:
        """Where to connect for an encrypted origin, whose paths nobody sees.

        Refused is what a pattern denies as a whole, and what no allowed pattern could reach.
        """
        origins = [parsed(f"{scheme}://{host}:{port}/")._replace(rest="") for scheme in ("https", "wss", "ws", "http")]
        texts = [text for origin in origins for text in origin.spellings()]
        denied = any(
            pattern.endswith("*") and matcher.match(text + "/") for pattern, matcher in self._deny for text in texts
        )
        if denied or (self._allow and not any(_reaches(pattern, texts) for pattern, _ in self._allow)):
            raise _not_allowed(texts[0])
        return self._addresses(next((origin for origin in origins if self._spelled(origin)), origins[0]))

    def _judge_patterns(self, url: str, parts: Url) -> None:
        """Deny wins in any spelling; what is allowed must be so as it is written and as it is meant."""
        texts = parts.spellings()
        denied = any(matcher.match(text) for _, matcher in self._deny for text in (url, *texts))
        allowed = not self._allow or (
            any(matcher.match(url) for _, matcher in self._allow)
            and any(matcher.match(text) for _, matcher in self._allow for text in texts)
        )
        if denied or not allowed:
            raise _not_allowed(url)

    def _addresses(self, parts: Url) -> list[str]:
        spelled = self._spelled(parts)
        if not spelled:
            self._judge_host(parts.host)
        found = list(self._resolve(parts.host, parts.port))
        if not spelled:
            for text in found:
                self._judge_address(text, parts.host)
        return found

    def _spelled(self, parts: Url) -> bool:
        """Whether a private address is meant to be opened here: some pattern begins with this very host."""
        starts = (f"{parts.site}:", f"{parts.site}/")
        return self._opened and any(pattern.startswith(starts) for pattern, _ in self._allow)

    def _judge_host(self, host: str) -> None:
        if host in _LOCAL_NAMES or host.endswith((".localhost", ".localdomain")):
            raise _private(host)
        if ":" in host or _looks_numeric(host):
            self._judge_address(host, host)

    @staticmethod
    def _judge_address(text: str, host: str) -> None:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise _private(host) from None
        if not is_public(address):
            raise _private(host)


def parsed(url: str, schemes: Sequence[str] = tuple(_PORTS)) -> Url:
    """Scheme, host and port of an absolute URL; refuses everything about which readers could disagree."""
    if not url or len(url) > _LONGEST or any(ord(char) <= 32 or ord(char) == 127 or char == "\\" for char in url):
        raise _invalid(url)
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in schemes:
        raise _invalid(url)
    end = min((place for place in map(rest.find, "/?#") if place >= 0), default=len(rest))
    host, port = _host_and_port(rest[:end].rpartition("@")[2], url)
    path = rest[end:] if rest[end : end + 1] == "/" else "/" + rest[end:]
    return Url(scheme, _as_looked_up(host, url), _PORTS[scheme] if port is None else port, path)


def _host_and_port(text: str, url: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        try:
            ipaddress.IPv6Address(host.replace("%25", "%"))
        except ValueError:
            raise _invalid(url) from None
        if not closed or (rest and not rest.startswith(":")):
            raise _invalid(url)
        digits = rest[1:]
        host = host.replace("%25", "%").lower()
    else:
        host, colon, digits = text.partition(":")
        if not host or "%" in host:
            raise _invalid(url)
    if not digits:
        return host, None
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) <= 65535):
        raise _invalid(url)
    return host, int(digits)


def _as_looked_up(host: str, url: str) -> str:
    """The host as it goes to the resolver: full-width digits, ideographic dots and the like are what they become."""
    if not host.isascii():
        text = unicodedata.normalize("NFKC", host)
        text = "".join("." if char in "。．｡" else char for char in text if unicodedata.category(char) != "Cf")
        host = text
    host = host.lower()
    host = host[:-1] if host.endswith(".") else host
    if not all(host.split(".")) or len(host) > 253 or any(char in "/?#@<>^|[]" for char in host):
        raise _invalid(url)
    return host


def _looks_numeric(host: str) -> bool:
    """Whether a browser takes it for an IPv4 address (WHATWG URL: the last label is a number)."""
    last = host.rpartition(".")[2]
    hexadecimal = last.startswith("0x") and all(char in "0123456789abcdef" for char in last[2:])
    return hexadecimal or (last.isascii() and last.isdigit())


def _reaches(pattern: str, origins: Sequence[str]) -> bool:
    """Whether a pattern could match a URL of these: its part before the path must match one."""
    scheme, separator, rest = pattern.partition("://")
    if not separator:
        return True
    matcher = compile_glob(f"{scheme}://{rest.partition('/')[0]}")
    return any(matcher.match(origin) for origin in origins)


def _invalid(url: str) -> Refusal:
    return Refusal("url_invalid", f"{quoted(url)} is no absolute http or https URL; write it as https://host/path")


def _not_allowed(url: str) -> Refusal:
    return Refusal("url_not_allowed", f"{quoted(url)} is not allowed by a rule; use another address")


def _private(host: str) -> Refusal:
    return Refusal("url_denied", f"{quoted(host)} is a private or reserved address; use a public one")
