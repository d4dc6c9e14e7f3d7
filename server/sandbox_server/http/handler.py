"""The same connections under `ThreadingHTTPServer(address, SandboxRequestHandler)`, for who wires a server by hand."""

from __future__ import annotations

import os
import socketserver
import threading
from collections.abc import Callable, Mapping

from .connection import Connection
from .exchange import Handler
from .hosts import HostRules
from .listeners import tune
from .site import Site


class SandboxRequestHandler(socketserver.BaseRequestHandler):
    """Serve one connection on the thread that `socketserver` gives it.

    The application is the server's attribute ``application``. Where there is none, the first connection builds one with
    `application_factory` and leaves it there. ``host_rules`` of the server, where set, widens what passes as Host.
    """

    #: Takes the environment; set by the module that knows how to build an application.
    application_factory: Callable[[Mapping[str, str]], Handler] | None = None
    _building = threading.Lock()

    def handle(self) -> None:
        tune(self.request)
        Connection(self._site(), self.request, self.client_address).serve()

    def _site(self) -> Site:
        with self._building:
            site = getattr(self.server, "sandbox_site", None)
            if not isinstance(site, Site):
                site = Site(self._application(), getattr(self.server, "host_rules", None) or HostRules())
                self.server.sandbox_site = site  # type: ignore[attr-defined]
            return site

    def _application(self) -> Handler:
        application: Handler | None = getattr(self.server, "application", None)
        if application is None:
            factory = type(self).application_factory
            if factory is None:
                raise RuntimeError("the server has no attribute 'application', and no factory is set to build one")
            application = factory(os.environ)
            self.server.application = application  # type: ignore[attr-defined]
        return application
