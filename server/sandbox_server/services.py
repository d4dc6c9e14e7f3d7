"""What handlers work with: the guards, the process table, and the facts of this server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .access import Grant, Identity, Scope
from .browser.front import Browser
from .catalogue import Catalogue, Endpoint
from .confinement import Confinement
from .contexts.table import ContextTable
from .counters import Counters
from .custom.calls import Abandoned
from .custom.commands import CommandRegistry
from .guards.commands import CommandGuard
from .guards.environment import EnvGuard
from .guards.paths import Location, PathGuard, PathGuards
from .guards.uploads import Uploads
from .process.table import ProcessTable
from .system.variables import Variables
from .terminal.table import Terminals
from .watching.watches import Watches

if TYPE_CHECKING:
    from .guards.urls import UrlGuard

#: Where programs are looked up: fixed, and to lie outside every directory where callers write (lint L14 looks).
PROGRAM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
#: What a child inherits when a command rule is active.
NEUTRAL_NAMES = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR"})


class Gauge(NamedTuple):
    """One number of this server, read when somebody asks; `kind` is ``gauge`` or ``counter``."""

    name: str
    kind: str
    text: str
    read: Callable[[], float]


class Rule(Protocol):
    """The effective rule of one endpoint, before anybody calls it."""

    @property
    def enabled(self) -> bool: ...
    @property
    def rule(self) -> str | None: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...
    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def audit(self) -> str: ...


class Rules(Protocol):
    """What handlers ask of the policy in force."""

    @property
    def revision(self) -> str: ...
    @property
    def preset(self) -> str: ...
    @property
    def configured(self) -> bool: ...
    @property
    def mode(self) -> str: ...
    @property
    def base_dir(self) -> str: ...
    def rule(self, endpoint_id: str) -> Rule: ...
    def deciding(self, endpoint: Endpoint, identity: Identity, code: str | None) -> str | None: ...
    def admit(self, identity: Identity, endpoint: Endpoint) -> Grant: ...
    def explain(
        self,
        endpoint_id: str,
        *,
        identity: Identity,
        paths: Sequence[object],
        op: str | None,
        guards: PathGuards,
    ) -> dict[str, Any]: ...


class Services:
    """One per server. Handlers reach everything they may touch from here."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        rules: Rules,
        path_guards: PathGuards,
        environment: EnvGuard,
        processes: ProcessTable,
        confinement: Confinement,
        uploads: Uploads,
        child_environment: Mapping[str, str],
        program_path: tuple[str, ...],
        isolation: str,
        implemented: frozenset[str],
        has_tokens: bool,
        secret_values: tuple[str, ...],
        commands: CommandRegistry,
    ) -> None:
        self.catalogue = catalogue
        self.rules = rules
        self.path_guards = path_guards
        self.environment = environment
        self.processes = processes
        self.confinement = confinement
        self.uploads = uploads
        self.child_environment = child_environment
        self.program_path = program_path
        self.isolation = isolation
        self.implemented = implemented
        self.has_tokens = has_tokens
        self.secret_values = secret_values  # of the server: never told to a caller
        self.commands = commands
        self.abandoned = Abandoned()
        self.counters = Counters()
        self.gauges: list[Gauge] = []  # for the metrics; whoever keeps something countable adds one
        self._command_guard = lru_cache(maxsize=256)(self._new_command_guard)
        self._url_guard = lru_cache(maxsize=256)(self._new_url_guard)
        self.browser = Browser(self.program_path, self.child_environment, self.page_guard)
        self.terminals = Terminals(self.processes)
        self.contexts = ContextTable(self.processes)
        self.variables = Variables(self.child_environment)
        self.watches = Watches()

    def path_guard(self, grant: Grant) -> PathGuard:
        return self.path_guards.of(grant.paths)

    def default_cwd(self, grant: Grant) -> Location:
        """The first allowed root, else the base directory: where relative paths start and children run."""
        for rule in (grant.strict, grant):  # the first allowed root, also where more is allowed for now
            if rule is not None and (guard := self.path_guards.of(rule.paths)).roots:
                return guard.default("exec")
        return self.path_guards.of(grant.paths).default("exec")

    def command_guard(self, grant: Grant) -> CommandGuard:
        params = grant.params
        return self._command_guard(tuple(params.get("allow_commands", ())), tuple(params.get("deny_commands", ())))

    def _new_command_guard(self, allow: tuple[str, ...], deny: tuple[str, ...]) -> CommandGuard:
        return CommandGuard(allow, deny, self.program_path)

    @staticmethod
    def _new_url_guard(allow: tuple[str, ...], deny: tuple[str, ...], private: bool | None) -> UrlGuard:
        from .guards.urls import UrlGuard  # not needed to start a server

        return UrlGuard(allow, deny, private)

    def url_guard(self, grant: Grant) -> UrlGuard:
        return self._url_guard_of(grant.params)

    def page_guard(self) -> UrlGuard:
        """What holds for every request of a page, whichever call caused it."""
        enforced = self.rules.mode == "enforce"
        return self._url_guard_of(self.rules.rule("browser_navigate").params if enforced else {})

    def _url_guard_of(self, params: Mapping[str, Any]) -> UrlGuard:
        allow, deny = (tuple(params.get(name, ())) for name in ("url_allow", "url_deny"))
        return self._url_guard(allow, deny, params.get("block_private_networks"))

    def base_environment(self, grant: Grant) -> dict[str, str]:
        """What a child starts from; only neutral names when a command rule is active."""
        given, added = self.variables.given, self.variables.added
        if restricts_commands(grant):
            given = {n: v for n, v in given.items() if n in NEUTRAL_NAMES or n.startswith("LC_")}
            added = {n: v for n, v in added.items() if not self.environment.steers(n)}
        environment = {**given, **added}
        scope = self.scope(grant)
        temporary = None if scope is None else self.confinement.temporary(scope)
        return environment if temporary is None else {**environment, "TMPDIR": temporary}

    def scope(self, grant: Grant) -> Scope | None:
        """Where the kernel keeps what this call runs; None where no path list is in force, or the kernel cannot.

        Whoever starts a program for a caller puts it into the `Launch`.
        """
        if not (confinable(grant.endpoint) and grant.paths.bounded and self.confinement.available):
            return None
        return Scope(self.path_guard(grant).directories(), grant.paths.read_only)


def confinable(endpoint: Endpoint) -> bool:
    """True for what runs programs or code for a caller, under a path rule of its own."""
    return endpoint.path_bearing and (endpoint.executes_code or endpoint.takes_paths)


def restricts_commands(grant: Grant) -> bool:
    """True when a policy rule speaks about commands."""
    return bool(grant.params.get("allow_commands") or grant.params.get("deny_commands"))
