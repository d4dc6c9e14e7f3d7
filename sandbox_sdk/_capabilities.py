"""What `discover` learnt: a snapshot of what the calling identity may do. Pure; asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from . import _wire as wire
from ._calls import API_VERSION
from ._display.shown import Shown
from ._errors import EndpointNotAvailableError, PayloadTooLargeError, PolicyDeniedError
from ._public import public
from ._refusals import protocol_error
from ._wire import Json


@public
@dataclass(frozen=True)
class PathsInfo(Shown):
    """Which paths an endpoint takes. The deny patterns themselves are not told."""

    allow: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    read_only: bool = False
    deny_count: int = 0
    symlinks: str = "within"
    hardlinks: str = "allow"
    enforcement: Mapping[str, str] = field(default_factory=dict)  # part of the rule -> "api" or "kernel"

    @classmethod
    def from_wire(cls, data: Json) -> PathsInfo:
        return cls(
            allow=wire.texts(data, "allow"),
            roots=wire.texts(data, "roots") or wire.texts(data, "allow"),
            read_only=wire.flag(data, "read_only"),
            deny_count=wire.whole(data, "deny_count"),
            symlinks=wire.text(data, "symlinks", "within"),
            hardlinks=wire.text(data, "hardlinks", "allow"),
            enforcement=dict(wire.mapping(data, "enforcement")),
        )


@public
@dataclass(frozen=True)
class EndpointInfo(Shown):
    """What the policy says to this identity about one endpoint."""

    id: str
    method: str = ""
    path: str = ""
    group: str = ""
    summary: str = ""
    streaming: bool = False
    enabled: bool = False
    allowed: bool = False
    reason: str | None = None
    rule: str | None = None
    scopes: tuple[str, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)  # those a policy wrote
    defaults: Mapping[str, Any] = field(default_factory=dict)  # those that hold beside them
    params: Mapping[str, Any] = field(default_factory=dict)
    paths: PathsInfo | None = None

    @classmethod
    def from_wire(cls, endpoint: str, data: Json) -> EndpointInfo:
        return cls(
            id=endpoint,
            method=wire.text(data, "method"),
            path=wire.text(data, "path"),
            group=wire.text(data, "group"),
            summary=wire.text(data, "summary"),
            streaming=wire.flag(data, "streaming"),
            enabled=wire.flag(data, "enabled"),
            allowed=wire.flag(data, "allowed"),
            reason=wire.text_or_none(data, "reason"),
            rule=wire.text_or_none(data, "rule"),
            scopes=wire.texts(data, "scopes"),
            limits=dict(wire.mapping(data, "limits")),
            defaults=dict(wire.mapping(data, "defaults")),
            params=dict(wire.mapping(data, "params")),
            paths=PathsInfo.from_wire(wire.mapping(data, "paths")) if "paths" in data else None,
        )


class Snapshot(Shown):
    """One answer of `GET /capabilities`."""

    def __init__(self, document: Json) -> None:
        version = document.get("api_version")
        if version is True or version != API_VERSION or not isinstance(document.get("endpoints"), dict):
            raise protocol_error(
                f"the server speaks api_version {version!r}, this client speaks {API_VERSION}", 200, "capabilities"
            )
        identity, policy = wire.mapping(document, "identity"), wire.mapping(document, "policy")
        self._document = document
        self.api_version = API_VERSION
        self.server_version = wire.text(document, "server_version")
        self.isolation = wire.text(document, "isolation", "unknown")
        self.base_dir = wire.text(document, "base_dir")
        self.identity_id = wire.text(identity, "id")
        self.scopes = frozenset(wire.texts(identity, "scopes"))
        self.preset = wire.text(policy, "preset")
        self.revision = wire.text(policy, "revision")
        self.configured = wire.flag(policy, "configured")
        self.mode = wire.text(policy, "mode", "enforce")
        self.warnings = wire.texts(document, "warnings")
        self.groups = {name: value is True for name, value in wire.mapping(document, "groups").items()}
        self.endpoints = {
            name: EndpointInfo.from_wire(name, entry)
            for name, entry in wire.mapping(document, "endpoints").items()
            if isinstance(entry, dict)
        }

    def __repr__(self) -> str:
        allowed = sum(info.allowed for info in self.endpoints.values())
        return (
            f'<{type(self).__name__} of "{self.identity_id}": {allowed} of {len(self.endpoints)} endpoints, '
            f"policy {self.revision or 'unknown'}{'' if self.mode == 'enforce' else ', only observed'}>"
        )

    def info(self, endpoint: str) -> EndpointInfo | None:
        """Everything known about one endpoint; None when the server does not list it."""
        return self.endpoints.get(endpoint)

    def can(self, endpoint: str) -> bool:
        """May this identity call it?"""
        return self.denial(endpoint) is None

    def denial(self, endpoint: str) -> str | None:
        """Why not: the code of the refusal, or None when nothing stands against it."""
        info = self.endpoints.get(endpoint)
        if info is None:
            return "unknown_endpoint"
        return None if info.allowed else info.reason or "endpoint_disabled"

    def rule(self, endpoint: str) -> str | None:
        """The rule that switches it off, if one does."""
        info = self.endpoints.get(endpoint)
        return info.rule if info else None

    def limit(self, endpoint: str, name: str, default: Any = None) -> Any:
        """A limit in force, whether a policy wrote it or it holds by default."""
        info = self.endpoints.get(endpoint)
        return default if info is None else info.limits.get(name, info.defaults.get(name, default))

    def param(self, endpoint: str, name: str, default: Any = None) -> Any:
        info = self.endpoints.get(endpoint)
        return default if info is None else info.params.get(name, default)

    def paths(self, endpoint: str) -> PathsInfo | None:
        info = self.endpoints.get(endpoint)
        return info.paths if info else None

    def enforcement(self, endpoint: str) -> Mapping[str, str]:
        """Who holds the path rule of an endpoint, part by part: "api" or "kernel"."""
        paths = self.paths(endpoint)
        return paths.enforcement if paths else {}

    def endpoints_for(self, scope: str) -> list[str]:
        return sorted(name for name, info in self.endpoints.items() if scope in info.scopes)

    def available(self) -> list[str]:
        """Everything this identity may call."""
        return sorted(name for name in self.endpoints if self.can(name))

    def as_dict(self) -> dict[str, Any]:
        """The document as the server sent it."""
        return dict(self._document)

    def require(self, endpoint: str) -> None:
        """Raise what the server would answer to a call that the policy forbids anyway."""
        if endpoint in ("health", "capabilities"):
            return
        reason = self.denial(endpoint)
        if reason is None:
            return
        info = self.endpoints.get(endpoint)
        stale = "forget_discovery() asks the server itself"
        if reason == "missing_scope":
            needed = info.scopes if info else ()
            missing = [scope for scope in needed if not any(fnmatchcase(scope, held) for held in self.scopes)]
            lacking = missing[0] if missing else "?"
            raise PolicyDeniedError(
                f'"{self.identity_id}" lacks the scope "{lacking}" for "{endpoint}"',
                error_code=reason,
                endpoint=endpoint,
                facts={"scope": missing[0]} if missing else {},
                hint=stale,
            )
        because = {
            "unknown_endpoint": "this server does not list it",
            "not_implemented": "this server does not offer it yet",
        }.get(reason, "the policy switches it off")
        raise EndpointNotAvailableError(
            f'"{endpoint}" is not available: {because}',
            error_code=reason,
            endpoint=endpoint,
            rule=(info.rule if info else None) or "",
            hint=stale,
        )

    def require_size(self, endpoint: str, size: int) -> None:
        """Refuse a payload that a written limit forbids, before a byte of it moves."""
        info = self.endpoints.get(endpoint)
        limits = info.limits if info else {}
        for name in ("max_bytes", "max_request_bytes"):
            limit = limits.get(name)
            if isinstance(limit, int) and size > limit:
                raise PayloadTooLargeError(
                    f'{size} bytes are more than the {limit} that "{name}" allows',
                    error_code="payload_too_large",
                    endpoint=endpoint,
                    facts={"limit": limit},
                    hint="forget_discovery() asks the server itself",
                )
