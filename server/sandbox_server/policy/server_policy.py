"""A policy as somebody wrote it: an immutable document, and the ways to make one from another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..catalogue import LIMITS, Catalogue, builtin
from . import document as documents
from . import reading
from .rules import has_limit
from .selectors import parse_selector

if TYPE_CHECKING:
    from .bound import BoundPolicy, PathJudges


class _Written(NamedTuple):
    text: str = '{"version": 1}'  # the normalised document; as text it cannot be changed
    source: str | None = None  # the file it was read from


class ServerPolicy(_Written):
    """Which endpoints exist, who may call them, and within which bounds. Never changes; `with_…` makes a new one.

    Every way to make one raises `PolicyConfigError` for a document that is not understood in full.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServerPolicy) and self.text == other.text

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def from_dict(cls, document: object, *, source: str | None = None) -> ServerPolicy:
        """The policy of a document; `source` is the file it came from, where there is one."""
        return cls(json.dumps(documents.normalise(document)), source)

    @classmethod
    def from_json(cls, text: str | bytes) -> ServerPolicy:
        """The policy of a JSON text (RFC 8259); a name given twice in one object is an error."""
        return cls.from_dict(reading.read_json(text))

    @classmethod
    def from_file(cls, path: str) -> ServerPolicy:
        """JSON, or YAML (``.yaml``, ``.yml``) where PyYAML is installed."""
        return cls.from_dict(reading.read_file(path), source=path)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, well_known: str = reading.WELL_KNOWN) -> ServerPolicy:
        """The policy of ``ABX_SERVER_POLICY``, else of ``ABX_SERVER_POLICY_FILE``, else the well-known file's."""
        inline, path = reading.locate(environ, well_known)
        if inline is not None:
            return cls.from_json(inline)
        return cls() if path is None else cls.from_file(path)

    @classmethod
    def preset(cls, name: str, **top: Any) -> ServerPolicy:
        """A preset, and top-level keys of one's own."""
        return cls.from_dict({"preset": name, **top})

    @classmethod
    def only(cls, *ids: str, paths: object = None, **rule: Any) -> ServerPolicy:
        """Everything off but these endpoints (and core): ids, globs, ``group:<name>``, or ``transfer``.

        `paths` goes to those that take paths, each limit to those that have it, other keys of the rule to all.
        """
        catalogue = builtin()
        limits = rule.pop("limits", None)
        endpoints: dict[str, Any] = {"*": {"enabled": False}}
        for endpoint_id in _expand(ids, catalogue):
            endpoint = catalogue.get(endpoint_id)
            one: dict[str, Any] = {"enabled": True, **rule}
            if paths is not None and endpoint is not None and endpoint.path_bearing:
                one["paths"] = paths
            if isinstance(limits, Mapping) and endpoint is not None:
                one["limits"] = {key: value for key, value in limits.items() if _applies(endpoint_id, key, catalogue)}
            elif limits is not None:
                one["limits"] = limits
            endpoints[endpoint_id] = one
        return cls.from_dict({"endpoints": endpoints})

    def with_endpoint(self, selector: str, **rule: Any) -> ServerPolicy:
        """This policy with a rule merged into the one of `selector`: objects key by key, lists replaced."""
        document = self.document
        endpoints = document.setdefault("endpoints", {})
        endpoints[selector] = _merged(endpoints.get(selector, {}), rule)
        return self.from_dict(document, source=self.source)

    def with_options(self, **top: Any) -> ServerPolicy:
        """This policy with top-level keys replaced."""
        return self.from_dict({**self.document, **top}, source=self.source)

    @property
    def document(self) -> dict[str, Any]:
        """A copy of the normalised document."""
        document: dict[str, Any] = json.loads(self.text)
        return document

    @property
    def revision(self) -> str:
        """A hash of what the policy says: equal for equal documents, however they were spelt."""
        return documents.revision(self.document)

    @property
    def configured(self) -> bool:
        """True when the document says anything at all."""
        return len(self.document) > 1

    @property
    def warnings(self) -> list[str]:
        """What is odd about the document, whatever server it is for."""
        from .binding import old_names

        return [message for _, message in old_names(self.document)]

    def bind(
        self,
        catalogue: Catalogue,
        *,
        environ: Mapping[str, str],
        base_dir: str | None = None,
        code_groups: Mapping[str, bool] | None = None,
        allow_anonymous: bool = False,
        command_scopes: Iterable[str] = (),
    ) -> BoundPolicy:
        """Put it in force for a server with these endpoints and this environment.

        `environ` gives tokens, the base directory and the groups to switch on; `base_dir` comes before its
        ``ABX_SERVER_BASE_DIR``, and the document's own before both. `code_groups` is what an embedding program
        switches, `command_scopes` what custom commands ask for. Raises `PolicyConfigError` for what cannot be meant:
        an unknown endpoint, a variable that is not set.
        """
        from .binding import bind

        return bind(
            self,
            catalogue,
            environ=environ,
            base_dir=base_dir,
            code_groups=code_groups or {},
            allow_anonymous=allow_anonymous,
            command_scopes=command_scopes,
        )

    def explain(
        self,
        endpoint_id: str,
        *,
        scopes: Iterable[str] = ("*",),
        path: object = None,
        paths: Sequence[object] | None = None,
        op: str | None = None,
        environ: Mapping[str, str] | None = None,
        guards: PathJudges | None = None,
        catalogue: Catalogue | None = None,
    ) -> dict[str, Any]:
        """What a server with this policy would answer a caller with these scopes: the body of ``/capabilities/check``.

        ``allowed``, ``code`` and ``reason``; and the ``rule`` where one switched the endpoint off. `op` is ``read``,
        ``write``, ``delete`` or ``exec``, else the endpoint's own. Never looks at a file, unless through `guards`.
        `catalogue` is that of a server with endpoints of its own.
        """
        bound = self.bind(builtin() if catalogue is None else catalogue, environ=environ or {})
        return bound.explain(endpoint_id, scopes=scopes, path=path, paths=paths, op=op, guards=guards)


def _expand(ids: Sequence[str], catalogue: Catalogue) -> list[str]:
    """The endpoint ids that `ids` stand for; names that stand for nothing are left for `bind` to refuse."""
    found: list[str] = []
    for one in ids:
        selector = parse_selector(one)
        found += selector.ids or [e.id for e in catalogue.values() if selector.matches(e)] or [one]
    return list(dict.fromkeys(found))


def _applies(endpoint_id: str, limit: str, catalogue: Catalogue) -> bool:
    """False only for a limit that exists and does not concern this endpoint; a misspelt one stays, to be refused."""
    return limit not in LIMITS or has_limit(catalogue[endpoint_id], limit)


def _merged(known: Any, given: Any) -> Any:
    if not (isinstance(known, Mapping) and isinstance(given, Mapping)):
        return given
    return {**known, **{key: _merged(known.get(key), value) for key, value in given.items()}}
