"""Pieces of code that run once, each in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from ..call import Call
from ..guards.commands import Command
from ..guards.paths import Location
from ..messages import FRAMES_TYPE, Refusal, Response, json_response, quoted
from ..process.ring import NAMES
from ..process.spawn import spooled
from .digests import Digests
from .programs import interpreter
from .shell import output_frames, stream_response, told
from .starting import launching, overdue
from .text import Captured

_LONGEST = 300
_DEFAULT_SECONDS = 30
_NOTE = "the code could do whatever programs may do here; the rules for commands do not bind it"
#: More than this does not go among the words of a command: the system bounds each at 128 KiB.
_MOST_IN_WORDS = 100_000
#: language -> its program, the option before code, and code that runs what descriptor {0} holds.
_LANGUAGES: Mapping[str, tuple[str, str, str]] = {
    "python": (
        "python3", "-c", "with open({0}, encoding='utf-8') as _: _ = compile(_.read(), '<string>', 'exec')\nexec(_)",
    ),
    "node": (
        "node", "-e",
        "(0, eval)((fs => {{ const text = fs.readFileSync({0}, 'utf8'); fs.closeSync({0}); return text }})"
        "(require('fs')))",
    ),
    "bash": ("bash", "-c", 'eval "$(</dev/fd/{0})" {0}<&-'),
}  # fmt: skip


def code_run(
    call: Call,
    *,
    code: str,
    language: str,
    timeout: float,
    cwd: Location | None,
    env: Mapping[str, str] | None,
    stdin: str | None,
) -> Response:
    """All output and the exit code; or the output byte for byte as it comes."""
    name = _allowed_language(call, language)
    seconds = _seconds(call, timeout)
    if "\0" in code:
        raise Refusal("invalid_argument", '"code" must be text without NUL', field="code")
    command, script = _command(call, name, code)
    began = time.monotonic()
    try:
        with launching(call, command, cwd, env, feed=stdin) as launch:
            launch = launch._replace(inherit=script)
            run = call.services.processes.run(launch, call.request.peer, timeout=seconds)
    finally:
        for descriptor in script:
            os.close(descriptor)
    if call.accepts(FRAMES_TYPE):
        call.defer(run.close)
        limit = call.grant.written_size("max_output_bytes")
        return stream_response(FRAMES_TYPE, output_frames(run, limit, Digests(wanted=False)))
    captured = {stream: Captured(call.grant.size("max_output_bytes")) for stream in NAMES}
    try:
        for stream, data in run.pieces():
            captured[stream].add(data)
    finally:
        run.close()
    output, flags = told(captured, run)
    if run.child.cause == "timeout":
        raise Refusal(
            "timeout",
            f"the code was stopped {overdue(call, seconds, 'run it in a context')}",
            **output,
            **{"truncated": False, **flags},
        )
    assert run.exit is not None
    milliseconds = round((time.monotonic() - began) * 1000, 2)
    facts = {"exit_code": run.exit.code, "language": name, "execution_time_ms": milliseconds, "_security_note": _NOTE}
    return json_response({**output, **facts, **flags})


def _allowed_language(call: Call, language: str) -> str:
    name = language.lower()
    if name not in _LANGUAGES:
        expected = ", ".join(_LANGUAGES)
        raise Refusal(
            "invalid_argument", f"language {quoted(language, 64)} is not known; use one of {expected}", field="language"
        )
    allowed = call.grant.params.get("languages")
    if allowed is not None and name not in [each.lower() for each in allowed]:
        call.deny(Refusal("language_not_allowed", f"the policy does not allow {quoted(name)}"))
    return name


def _seconds(call: Call, timeout: float) -> float:
    """Whole seconds; what is less than one means the default."""
    seconds = min(int(timeout), _LONGEST) if timeout >= 1 else _DEFAULT_SECONDS
    bound = call.grant.seconds("timeout_seconds")
    return seconds if bound is None else min(seconds, bound)


def _command(call: Call, language: str, code: str) -> tuple[Command, tuple[int, ...]]:
    """What to start, and the descriptors that it inherits; the caller closes them."""
    program, option, loader = _LANGUAGES[language]
    place, file = interpreter(call, program)
    data = code.encode()
    script: tuple[int, ...] = ()
    if len(data) > _MOST_IN_WORDS:
        script = (spooled(data),)
        code = loader.format(*script)
    return Command((place, option, code), file, language), script
