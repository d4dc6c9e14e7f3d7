"""Counters for a monitoring system, in the Prometheus text format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .._version import __version__
from ..call import Call
from ..messages import Response

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "sandbox_server_"

#: Labels and value.
Sample = tuple[Mapping[str, str], float]


def metrics(call: Call) -> Response:
    """Everything that is counted. Nothing of it names a caller, a path or a command."""
    services, counters = call.services, call.services.counters
    build = {"version": __version__, "policy_revision": services.rules.revision}
    requests = sorted(dict(counters.requests).items())
    families = [
        _family("build_info", "gauge", "What serves, and by which policy.", [(build, 1)]),
        _family("start_time_seconds", "gauge", "When the server started, in Unix time.", [({}, counters.started_at)]),
        _family(
            "requests_total", "counter", "Answers by endpoint (empty: none matched) and class of status.",
            [({"endpoint": endpoint, "status": f"{status}xx"}, count) for (endpoint, status), count in requests],
        ),
        _family(
            "refusals_total", "counter", "Refusals by code.",
            [({"code": code}, count) for code, count in sorted(dict(counters.refusals).items())],
        ),
        _family("requests_in_flight", "gauge", "Requests being answered now.", [({}, counters.in_flight)]),
        _family("received_bytes_total", "counter", "Bytes of request bodies.", [({}, counters.received)]),
        _family("sent_bytes_total", "counter", "Bytes of the bodies of answers.", [({}, counters.sent)]),
        *(_family(name, kind, text, [({}, read())]) for name, kind, text, read in services.gauges),
    ]  # fmt: skip
    lines = "".join(line for family in families for line in family)
    return Response(200, lines.encode(), [("Content-Type", TEXT_TYPE)])


def _family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {text}\n# TYPE {_PREFIX}{name} {kind}\n"
    for labels, value in samples:
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{_PREFIX}{name}{{{told}}} {value}\n" if told else f"{_PREFIX}{name} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
