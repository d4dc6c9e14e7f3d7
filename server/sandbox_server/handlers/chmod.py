"""Permission bits of a file, a directory, or a whole tree."""

from __future__ import annotations

from ..call import Call
from ..guards.paths import Location
from ..messages import Refusal, Response, json_response, quoted
from .upload import permission_bits


def files_chmod(call: Call, *, path: Location, mode: str, recursive: bool) -> Response:
    """Set the nine bits; set-id and sticky bits are never set, and cleared where they were.

    `recursive` gives the same bits to everything below, directories too; links are left alone. A tree that holds what a
    rule denies is refused before anything changes.
    """
    bits = permission_bits(mode)
    assert bits is not None  # the field is required, so it is not empty
    if path.missing:
        raise Refusal("not_found", f"no file or directory at {quoted(path.path)}; check the path")
    changed = path.set_mode(bits, recursive=recursive)
    return json_response({"path": path.path, "mode": f"{bits:04o}", "changed": changed})
