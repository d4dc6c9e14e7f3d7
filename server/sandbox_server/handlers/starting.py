"""From judged fields to something the process table can start."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..call import Call
from ..guards.commands import Command
from ..guards.paths import Location
from ..messages import Refusal, quoted
from ..process.spawn import Launch

#: How long a command may take when the caller does not say, in seconds.
DEFAULT_TIMEOUT = 300.0


@contextmanager
def launching(
    call: Call,
    command: Command,
    cwd: Location | None,
    env: Mapping[str, str] | None,
    *,
    feed: str | None = None,
    stdin: bool = False,
    capture: bool = True,
) -> Iterator[Launch]:
    """What to start; its working directory is open only inside the block."""
    if not command.program:
        name = command.argv[0][:200]
        raise Refusal("not_found", f"program {quoted(name)} was not found where programs are looked up", program=name)
    if cwd is None:
        cwd = call.services.default_cwd(call.grant)
        call.defer(cwd.close)
    descriptor = _enter(cwd)
    try:
        yield Launch(
            program=command.program,
            argv=command.argv,
            cwd=descriptor,
            cwd_path=cwd.path,
            env={**call.services.base_environment(call.grant), **(env or {})},
            feed=None if feed is None else feed.encode(),
            stdin=stdin,
            capture=capture,
            scope=call.services.scope(call.grant),
        )
    finally:
        os.close(descriptor)
        cwd.close()  # a stream may run on for hours


def seconds_allowed(call: Call, wanted: float | None) -> float:
    """The caller's timeout, the default when it is not a positive number, never more than the policy's bound."""
    seconds = wanted if wanted is not None and math.isfinite(wanted) and wanted > 0 else DEFAULT_TIMEOUT
    bound = call.grant.seconds("timeout_seconds")
    return seconds if bound is None else min(seconds, bound)


def overdue(call: Call, seconds: float, otherwise: str) -> str:
    """How long it was, and what helps: a longer timeout, unless the policy allows none."""
    bound = call.grant.seconds("timeout_seconds")
    advice = 'pass a larger "timeout"' if bound is None or seconds < bound else f"no more is allowed, so {otherwise}"
    return f"because it took longer than {seconds:g} s; {advice}"


def _enter(cwd: Location) -> int:
    try:
        return cwd.open_directory()
    except Refusal as refusal:
        if refusal.code != "not_found":
            raise
        raise Refusal(
            "invalid_argument", f"working directory {quoted(cwd.path)} is not a directory", field="cwd"
        ) from None
