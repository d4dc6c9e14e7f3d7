"""Everything behind the sockets of one server: guards, process table, audit log, and the application over them."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping

from .application import Application
from .audit import AuditLog
from .auth import Authenticator
from .confinement import Confinement
from .custom.commands import CommandRegistry
from .guards.environment import EnvGuard
from .guards.paths import PathGuards
from .guards.uploads import Uploads
from .handlers import HANDLERS
from .messages import quoted
from .policy import BoundPolicy
from .process.table import ProcessTable
from .services import Gauge, Services, confinable
from .settings import ConfigurationError, Settings

log = logging.getLogger("sandbox_server")


class Machinery:
    """One per server. `close` ends the children and writes the last audit lines."""

    def __init__(self, settings: Settings, policy: BoundPolicy) -> None:
        with contextlib.ExitStack() as stack:
            self.path_guards = _path_guards(policy)
            stack.callback(self.path_guards.close)
            self.confinement = _confinement(settings, policy)
            stack.callback(self.confinement.close)
            self.uploads = Uploads()
            stack.callback(self.uploads.close)
            self.audit = _audit_log(settings.audit_file, settings.audit_max_bytes)
            stack.callback(self.audit.close)
            self.processes = ProcessTable(self.confinement.run, open_files=settings.open_files)
            stack.callback(self.processes.close)
            self.application = self._application(settings, policy)
            stack.callback(self.terminals.shut_down)
            stack.callback(self.contexts.shut_down)
            stack.callback(self.browser.close)
            stack.callback(self.watches.close)
            self._parts = stack.pop_all()

    def close(self) -> None:
        self._parts.close()

    def _application(self, settings: Settings, policy: BoundPolicy) -> Application:
        handlers = {**HANDLERS, **{route.endpoint.id: route.handler for route in settings.routes}}
        commands = CommandRegistry() if settings.commands is None else settings.commands
        commands.freeze()
        services = Services(
            catalogue=policy.catalogue,
            rules=policy,
            path_guards=self.path_guards,
            environment=EnvGuard(policy.secret_names),
            processes=self.processes,
            uploads=self.uploads,
            confinement=self.confinement,
            child_environment=_without(settings.environ, policy.secret_names),
            isolation=settings.isolation,
            program_path=settings.program_path,
            implemented=frozenset(handlers),
            has_tokens=bool(policy.tokens),
            secret_values=_secret_values(settings.environ, policy.secret_names),
            commands=commands,
        )
        self.terminals = services.terminals
        self.contexts = services.contexts
        self.browser = services.browser
        self.watches = services.watches
        services.gauges += [
            Gauge("processes", "gauge", "Commands running in the background.", self.processes.running),
            Gauge("terminals", "gauge", "Terminals that are open.", self.terminals.count),
            Gauge("contexts", "gauge", "Code contexts that are open.", self.contexts.count),
            Gauge("audit_lines_total", "counter", "Audit lines written.", lambda: self.audit.written),
            Gauge("audit_lines_lost_total", "counter", "Audit lines that were lost.", lambda: self.audit.lost),
        ]
        return Application(
            services,
            Authenticator(policy.tokens, policy.anonymous),
            handlers,
            audit=self.audit,
            audit_unrouted=policy.audit_unrouted,
        )


def _path_guards(policy: BoundPolicy) -> PathGuards:
    base_dir = policy.base_dir
    if not os.path.isdir(base_dir):
        problem = "is no directory; name one by" if os.path.exists(base_dir) else "does not exist; create it or pass"
        raise ConfigurationError(f"base directory {quoted(base_dir)} {problem} --base-dir DIR")
    guards = PathGuards(base_dir)
    # Every allowed directory is opened now, before anybody could put a link in the place of one.
    own = (token.identity.paths for token in policy.tokens)
    for paths in (*(rule.paths for rule in policy.rules.values()), *own):
        if paths is not None:
            guards.of(paths)
    return guards


def _confinement(settings: Settings, policy: BoundPolicy) -> Confinement:
    """By the kernel, or not at all: a path rule that binds no program must not look as if it did."""
    for place in settings.scratch:
        if not os.path.isdir(place):
            raise ConfigurationError(f"--scratch {quoted(place)} is no directory; make it first")
    confinement = Confinement(programs=settings.program_path, scratch=settings.scratch)
    scoped = sorted(e for e, rule in policy.rules.items() if rule.enabled and _binds_programs(policy, e))
    if (scoped or policy.require_landlock) and not confinement.available:
        if policy.require_landlock:
            raise ConfigurationError(
                "policy.require_landlock: this kernel cannot keep programs inside a path rule; it takes Landlock "
                "of Linux 6.2, and no container that forbids it; remove the key, or run the server elsewhere"
            )
        log.warning(
            "the kernel has no Landlock (Linux 6.2): programs are not kept inside the path rules of %s",
            ", ".join(scoped),
        )
    return confinement


def _binds_programs(policy: BoundPolicy, endpoint_id: str) -> bool:
    narrow = any(token.identity.paths is not None and token.identity.paths.bounded for token in policy.tokens)
    return confinable(policy.catalogue[endpoint_id]) and (narrow or policy.rules[endpoint_id].paths.bounded)


def _audit_log(file: str | None, most_bytes: int | None) -> AuditLog:
    try:
        return AuditLog(file, most_bytes=most_bytes)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write the audit file {quoted(file)}: {error.strerror}; choose another"
        ) from None


def _without(environ: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in names}


def _secret_values(environ: Mapping[str, str], names: frozenset[str]) -> tuple[str, ...]:
    """What may be seen nowhere. A value of a few characters would be found in everything."""
    return tuple(value for name in sorted(names) if len(value := environ.get(name, "").strip()) > 3)
