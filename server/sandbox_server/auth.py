"""Who is calling? Tokens are kept as SHA-256 digests; one request carries one credential."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .access import Identity
from .messages import Headers, Refusal
from .throttle import Throttle

# What HTTP takes for blank; a no-break space, for one, belongs to a token.
_BLANKS = " \t"


class Token(NamedTuple):
    """A known credential: the SHA-256 digest (32 bytes) of its text, and whose it is."""

    digest: bytes
    identity: Identity


class Authenticator:
    """Turns header fields into an identity, or refuses.

    `anonymous` is who calls without a credential; None means nobody may.
    """

    def __init__(self, tokens: Sequence[Token], anonymous: Identity | None, throttle: Throttle | None = None) -> None:
        self._throttle = Throttle() if throttle is None else throttle
        self._tokens = tuple(tokens)
        self._anonymous = anonymous

    def identify(self, headers: Headers, in_query: Iterable[str] = (), *, client: str = "") -> Identity:
        """The caller. The same token in both headers is one credential; two different ones are refused.

        Tokens `in_query` are looked at only when no header carries one. Failed attempts slow their `client` down.
        """
        if isinstance(headers.caller, Identity):
            return headers.caller  # let in with the same fields, on the same connection
        in_fields = _credentials(headers)
        presented = in_fields or {_as_sent(value) for value in in_query if value}
        if len(presented) > 1:
            raise Refusal(
                "ambiguous_credentials",
                "the request carries several different credentials; send one Authorization or X-Access-Token header",
            )
        if not self._tokens:
            if self._anonymous is None:
                raise _unauthorized("this server has no identities; start it with a token")
            return self._anonymous
        if not presented:
            if self._anonymous is None:
                raise _unauthorized('a token is needed; send "Authorization: Bearer TOKEN"')
            return self._anonymous
        found = self._owner(next(iter(presented)))
        self._throttle.judge(client, None if found is None else found.id)
        if found is None:
            raise _unauthorized("the token is not known to this server")
        if in_fields:
            headers.caller = found
        return found

    def _owner(self, token: str) -> Identity | None:
        digest = hashlib.sha256(token.encode("latin-1", "replace")).digest()  # the bytes as they came
        found: Identity | None = None
        for known in self._tokens:  # no early exit: the time taken tells nothing about which token came close
            if hmac.compare_digest(known.digest, digest) and found is None:
                found = known.identity
        return found


def _credentials(headers: Headers) -> set[str]:
    """The distinct credentials of both headers; other schemes and empty values are ignored."""
    found = {value.strip(_BLANKS) for value in headers.all("x-access-token")}
    for line in headers.all("authorization"):
        scheme, _, value = line.strip(_BLANKS).partition(" ")
        if scheme.lower() == "bearer":
            found.add(value.strip(_BLANKS))
    found.discard("")
    return found


def _as_sent(text: str) -> str:
    """Text that has been decoded as UTF-8, as a header field would hold it."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _unauthorized(message: str) -> Refusal:
    refusal = Refusal("unauthorized", message)
    refusal.headers.append(("WWW-Authenticate", "Bearer"))  # RFC 9110, section 11.6.1
    return refusal
