"""Facts about the machine inside the sandbox."""

from __future__ import annotations

from ..call import Call
from ..messages import Refusal, Response, json_response, quoted
from ..system import machine


def system_info(call: Call) -> Response:
    return json_response(machine.info())


def system_metrics(call: Call) -> Response:
    return json_response(machine.metrics(call.services.counters.started))


def ports(call: Call) -> Response:
    from ..system.ports import listening  # a server that nobody asks starts without

    return json_response({"listening": [socket._asdict() for socket in listening()]})


def packages(call: Call, *, manager: str) -> Response:
    from ..system.packages import node_packages, python_packages  # a server that nobody asks starts without

    readers = {"pip": python_packages, "npm": node_packages}
    if manager not in readers:
        raise Refusal(
            "invalid_argument", f'manager {quoted(manager, 64)} is unknown; use "pip" or "npm"', field="manager"
        )
    found = readers[manager](call.services.program_path)
    return json_response(
        {"manager": manager, "packages": [{"name": name, "version": version} for name, version in found]}
    )
