"""Which pages and which names may talk to this server.

Every page a browser shows can send requests to loopback. It cannot choose its Origin, nor the Host of a name that it
rebinds to 127.0.0.1, nor Sec-Fetch-Site: those three give it away. Nothing here ever answers with a CORS header.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from ..messages import Headers, Refusal, quoted
from .parser import Fields


class HostRules:
    """Names that pass as Host, and origins that pass beside the server's own."""

    def __init__(self, allow_hosts: Iterable[str] = (), allow_origins: Iterable[str] = ()) -> None:
        self._hosts = frozenset(_name(host) for host in allow_hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in allow_origins)

    def check(self, fields: Fields, *, any_host: bool = False) -> None:
        """Raise unless this request may come from where it says; `any_host` is for unix sockets."""
        host = fields.host
        if host is not None and not any_host:
            self._check_host(host)
        self._check_page(fields.headers, host)

    def _check_host(self, host: str) -> None:
        name = _name(host)
        if name == "localhost" or name in self._hosts or name.endswith(".localhost") or _is_address(name):
            return
        raise Refusal(
            "host_not_allowed",
            f"host {quoted(host, 100)} is not served here; use an address or localhost, or start with --allow-host",
        )

    def _check_page(self, headers: Headers, host: str | None) -> None:
        origins = headers.all("origin")
        if origins:
            origin = origins[0].lower()
            if len(origins) == 1 and origin in self._origins:
                return
            own = () if host is None else (f"http://{host.lower()}", f"https://{host.lower()}")
            if len(origins) > 1 or origin not in own:
                raise Refusal(
                    "origin_not_allowed",
                    f"origin {quoted(origins[0], 100)} is another site; start with --allow-origin to accept it",
                )
        for site in headers.all("sec-fetch-site"):
            if site.lower() not in ("none", "same-origin"):
                raise Refusal(
                    "origin_not_allowed", f"the request comes from a page with Sec-Fetch-Site {quoted(site, 100)}"
                )


def _name(host: str) -> str:
    """The host without its port and final dot, in lower case; the brackets of an IPv6 address stay."""
    name = host.lower()
    before, colon, port = name.rpartition(":")
    if colon and (not port or port.isdigit()) and (before.endswith("]") or ":" not in before):
        name = before
    return name.removesuffix(".")


def _is_address(name: str) -> bool:
    family, text = (socket.AF_INET6, name[1:-1]) if name.startswith("[") else (socket.AF_INET, name)
    try:
        socket.inet_pton(family, text)
    except OSError:
        return False
    return True
