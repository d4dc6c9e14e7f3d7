"""The interpreters that code runs on."""

from __future__ import annotations

import sys

from ..call import Call
from ..guards.programs import SearchPath
from ..messages import Refusal, quoted


def interpreter(call: Call, program: str) -> tuple[str, str]:
    """Where it is found, and the file that this leads to. Python is there at least as the one that runs this server."""
    found = SearchPath(call.services.program_path).program(program, "/")
    call.program = found.file or program
    if found.file:
        return found.places[0], found.file
    if program == "python3" and sys.executable:
        return sys.executable, sys.executable
    raise Refusal("not_found", f"{quoted(program)} was not found where programs are looked up", program=program)
