"""The request pipeline. Read `Application._answer` top to bottom; that is the server."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import arguments, os_errors
from .access import ANYONE, Grant, Identity
from .audit import AuditLog, cut
from .auth import Authenticator
from .call import Call
from .catalogue import Endpoint
from .limits import Limits
from .messages import Aborted, CutShort, FileSlice, Headers, Refusal, Request, Response, json_response, run_all
from .services import Rules, Services

log = logging.getLogger("sandbox_server")


class Exchange:
    """What is known so far about one request; the audit line is written from it."""

    __slots__ = ("broken", "call", "code", "deferred", "endpoint", "grant", "identity", "leave", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.endpoint: Endpoint | None = None
        self.identity: Identity | None = None
        self.grant: Grant | None = None
        self.call: Call | None = None
        self.code: str | None = None
        self.broken = False  # the caller left, also in the middle of its body, or the answer broke off
        self.leave: Callable[..., None] | None = None
        self.deferred: list[Callable[[], None]] = []

    def give_way(self, refund: bool = False) -> None:
        """Free the place in the limits, once."""
        leave, self.leave = self.leave, None
        if leave is not None:
            leave(refund=refund)

    def whole(self) -> None:
        """All of the answer is on its way."""
        self.broken = False
        self.give_way()


class Application:
    """Policy, guards and handlers behind one door. `handle` never raises."""

    def __init__(
        self,
        services: Services,
        authenticator: Authenticator,
        handlers: Mapping[str, Callable[..., Response]],
        *,
        audit: AuditLog,
        audit_unrouted: str = "deny",
    ) -> None:
        self._services = services
        self._rules: Rules = services.rules
        self._catalogue = services.catalogue
        self._counters = services.counters
        self._authenticator = authenticator
        self._handlers = handlers
        self._limits = Limits()
        self._audit = audit
        self._audit_unrouted = audit_unrouted
        self._headers = [("X-Sandbox-Server", "notebook-sandbox"), ("X-Policy-Revision", services.rules.revision)]

    def quick(self, method: str, path: str) -> bool:
        """May this request be tried on the selector thread?"""
        endpoint = self._catalogue.find(path)[0].get("GET" if method == "HEAD" else method)
        return endpoint is not None and endpoint.inline

    def handle(self, request: Request, *, inline: bool = False) -> Response | None:
        """Answer one request. None only when `inline` and it would have to wait: run it again on a worker."""
        exchange = Exchange(request)
        self._counters.enter()
        try:
            response = self._answer(exchange, inline)
        except BlockingIOError:
            if inline:
                self._counters.put_off()
                self._close(exchange, refund=True)
                return None
            response = self._render(exchange, self._translate(BlockingIOError(errno.EAGAIN, "")))
        except Refusal as refusal:
            exchange.broken = isinstance(refusal, CutShort)
            response = self._render(exchange, refusal)
        except Aborted:
            exchange.broken = True
            response = self._render(exchange, Refusal("bad_body", "the caller left before the answer was ready"))
            response.close_connection = True
        except OSError as error:
            response = self._render(exchange, self._translate(error))
        except Exception:
            log.exception("request %s failed", request.id)
            response = self._render(exchange, Refusal("internal_error", "the server failed; its log has the details"))
        response.headers += self._headers
        response.headers.append(("X-Request-Id", request.id))
        size = self._size(exchange, response)
        if response.upgrade is not None and exchange.code is None:
            self._record(exchange, response.status)  # now; another line follows when the connection is over
        response.on_close[:0] = [lambda: self._end(exchange, response.status, size), lambda: self._close(exchange)]
        return response

    def refuse(self, refusal: Refusal, *, client: str = "", method: str = "", path: str = "", id: str = "") -> Response:
        """Render a refusal of the layer below (framing, Host, Origin), audited like any other."""
        exchange = Exchange(Request(method, path, (), _NO_HEADERS, _NOTHING, _NOTHING, client, id or new_request_id()))
        response = self._render(exchange, refusal)
        response.headers += self._headers
        response.headers.append(("X-Request-Id", exchange.request.id))
        self._counters.enter()
        response.on_close.insert(0, lambda: self._end(exchange, response.status, self._size(exchange, response)))
        return response

    def _answer(self, exchange: Exchange, inline: bool) -> Response:
        request = exchange.request
        methods, in_path = self._catalogue.find(request.path)
        endpoint = exchange.endpoint = methods.get("GET" if request.method == "HEAD" else request.method)
        public = endpoint is not None and endpoint.public
        identity = exchange.identity = ANYONE if public else self._identify(request, endpoint)
        if endpoint is None:
            raise _not_routed(request, methods)
        grant = exchange.grant = self._rules.admit(identity, endpoint)
        exchange.leave = self._limits.enter(grant)
        handler = self._handlers.get(endpoint.route)
        if handler is None:
            raise Refusal("not_implemented", f'this server does not offer "{endpoint.id}" yet')
        call = exchange.call = Call(request, grant, self._services, exchange.deferred, inline=inline)
        values = arguments.bind(call, in_path)
        return handler(call, **values)

    def _identify(self, request: Request, endpoint: Endpoint | None) -> Identity:
        """Who is calling. Browsers cannot give a WebSocket a header, so there the query may hold a token."""
        in_query = [v for n, v in request.query if n == "token"] if endpoint is not None and endpoint.virtual else ()
        return self._authenticator.identify(request.headers, in_query, client=request.client)

    def _render(self, exchange: Exchange, refusal: Refusal) -> Response:
        exchange.code = refusal.code
        endpoint = exchange.endpoint
        if endpoint is not None and endpoint.virtual and exchange.identity is not None:
            from .handlers import upgrade  # most servers have no terminals open

            closed = upgrade.refused(exchange.request, refusal)
            if closed is not None:
                return closed
        body = refusal.body()
        if exchange.endpoint is not None and exchange.identity is not None:  # strangers are not told what exists
            body.setdefault("endpoint", exchange.endpoint.id)
        response = json_response(body, refusal.status)
        response.headers += refusal.headers
        return response

    @staticmethod
    def _translate(error: OSError) -> Refusal:
        refusal = os_errors.refusal(error)
        if refusal is not None:
            return refusal
        log.error("unexpected operating system error", exc_info=error)
        return Refusal("internal_error", "the server failed; its log has the details")

    @staticmethod
    def _close(exchange: Exchange, refund: bool = False) -> None:
        """Run the deferred clean-up and free the place in the limits."""
        try:
            run_all(exchange.deferred)
        finally:
            exchange.give_way(refund)

    def _size(self, exchange: Exchange, response: Response) -> int:
        """The bytes of the body; 0 for a stream, whose bytes are counted as they go.

        The place in the limits is free before the last bytes are sent: whoever has all of an answer may ask again.
        """
        body = response.body
        response.before_end = exchange.give_way
        if isinstance(body, bytes):
            return len(body)
        exchange.broken = exchange.request.method != "HEAD"  # until it has been sent
        if isinstance(body, FileSlice):
            response.before_end = exchange.whole
            return body.length
        response.body = self._counters.carried(body, exchange.give_way, exchange.whole)
        return 0

    def _end(self, exchange: Exchange, status: int, size: int) -> None:
        """Count the exchange and record it."""
        endpoint = exchange.endpoint.id if exchange.endpoint else ""
        self._counters.answered(endpoint, status, exchange.code, exchange.request.body.length, size)
        self._record(exchange, status)

    def _record(self, exchange: Exchange, status: int) -> None:
        mode = exchange.grant.audit if exchange.grant else self._audit_mode(exchange)
        denied = status >= 400 or (status == 101 and exchange.code is not None)
        if mode == "off" or (mode == "deny" and not denied):
            return
        request, call = exchange.request, exchange.call
        noted = _observed(exchange)
        code = exchange.code or (noted[0].code if noted else None)
        self._audit.write(
            {
                "ts": round(time.time(), 3),
                "id": request.id,
                "client": request.client,
                "identity": exchange.identity.id if exchange.identity else None,
                "endpoint": exchange.endpoint.id if exchange.endpoint else None,
                "method": cut([request.method])[0],
                "target": None if exchange.endpoint else cut([request.path])[0],
                "decision": "deny" if denied else "allow",
                "status": status,
                "code": code,
                "rule": self._rule(exchange, code),
                "paths": cut(call.paths) if call else [],
                "refused": cut([call.refused])[0] if call and call.refused is not None else None,
                "program": cut([call.program])[0] if call and call.program else None,
                **(call.audited if call else {}),
                **({"aborted": True} if exchange.broken else {}),
                **({"would": "deny", "observed": [self._noted(exchange, each) for each in noted]} if noted else {}),
            }
        )

    def _rule(self, exchange: Exchange, code: str | None) -> str | None:
        """Which rule the outcome comes from."""
        endpoint = exchange.endpoint
        if endpoint is None or exchange.identity is None:
            return None
        return self._rules.deciding(endpoint, exchange.identity, code)

    def _noted(self, exchange: Exchange, refusal: Refusal) -> dict[str, Any]:
        """What was only noted, with what a policy would have to say to allow it."""
        facts = {"scope": refusal.facts.get("scope"), "rule": self._rule(exchange, refusal.code)}
        told = {name: fact for name, fact in facts.items() if fact is not None}
        return {"code": refusal.code, "message": cut([refusal.message])[0], **told}

    def _audit_mode(self, exchange: Exchange) -> str:
        if exchange.endpoint is None:
            return self._audit_unrouted
        return self._rules.rule(exchange.endpoint.id).audit


def _observed(exchange: Exchange) -> list[Refusal]:
    """What would have been refused if the policy were enforced; nothing while it is."""
    before = exchange.grant.would if exchange.grant else None
    return [*([] if before is None else [before]), *(exchange.call.would if exchange.call else ())]


def _not_routed(request: Request, methods: Mapping[str, Endpoint]) -> Refusal:
    if not methods:
        return Refusal("unknown_route", "no endpoint at this path; GET /capabilities lists them")
    allowed = sorted({*methods, *(["HEAD"] if "GET" in methods else [])})
    refusal = Refusal("method_not_allowed", f"this path takes {', '.join(allowed)}")
    refusal.headers.append(("Allow", ", ".join(allowed)))
    # Also where an upload in parts begins: that is how its sender asks for it (draft-ietf-httpbis-resumable-upload).
    routes = (route for endpoint in methods.values() for route in endpoint.routes if route.method == "PATCH")
    if patches := {kind for route in routes for kind in route.raw_types}:
        refusal.headers.append(("Accept-Patch", ", ".join(sorted(patches))))
    return refusal


def new_request_id() -> str:
    """128 random bits as hex text."""
    return os.urandom(16).hex()


class _Nothing:
    """The body and the peer of a request that never became one."""

    length = 0

    def inform(self, status: int, phrase: str, fields: list[tuple[str, str]]) -> bool:
        return False

    def read(self) -> bytes:
        return b""

    def copy_to(self, descriptor: int) -> int:
        return 0

    def chunks(self) -> Iterator[bytes]:
        return iter(())

    def break_off(self) -> None: ...

    def fileno(self) -> int:
        return -1

    def gone(self) -> bool:
        return False


_NOTHING = _Nothing()
_NO_HEADERS = Headers()
