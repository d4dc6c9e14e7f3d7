"""Presets: policies that have a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..catalogue import Endpoint

PRESETS: tuple[str, ...] = ("default", "transfer-only", "read-only", "hardened", "locked", "workspace")

#: What nobody should reach by path: kernel interfaces, and secrets by their usual names.
SECRET_PATHS: tuple[str, ...] = (
    "/proc", "/sys", "/dev",
    "**/.ssh", "**/.env", "**/.env.*", "**/*.pem", "**/id_rsa*", "**/id_ed25519*",
)  # fmt: skip

_ON, _OFF = {"enabled": True}, {"enabled": False}
_NOTHING_THAT_RUNS = {"process": False, "terminal": False, "dev_tools": False, "browser": False}


def preset_document(name: str, catalogue: Mapping[str, Endpoint], base_dir: str) -> dict[str, Any]:
    """The preset as a normalised document."""
    if name == "transfer-only":
        return {"endpoints": {"*": _OFF, "files_upload_stream": _ON, "files_download_stream": _ON}}
    if name == "locked":
        return {"endpoints": {"*": _OFF, "list_commands": _ON, "run_command": _ON}}
    if name == "read-only":
        changing = [e.id for e in catalogue.values() if e.ops & {"write", "delete"}]
        return {"groups": _NOTHING_THAT_RUNS, "endpoints": dict.fromkeys([*changing, "env_set"], _OFF)}
    if name == "hardened":
        secrets = {"paths": {"deny": list(SECRET_PATHS), "symlinks": "within"}}
        return {
            "groups": _NOTHING_THAT_RUNS,
            "endpoints": {"env_set": _OFF, "files_*": secrets},
            "defaults": {"audit": "deny"},
        }
    if name == "workspace":
        return {
            "groups": {"browser": False, "dev_tools": True},
            "endpoints": {
                "*": {"paths": {"allow": [base_dir]}},
                "files_*": {"paths": {"deny": list(SECRET_PATHS), "hardlinks": "deny"}},
            },
            "defaults": {"audit": "deny"},
        }
    return {}
