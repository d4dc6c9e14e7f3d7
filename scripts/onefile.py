"""Make the server one file that any Python 3.10 or newer runs: ``dist/agent-sandbox-server.pyz``, or the path given."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "server" / "sandbox_server"
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = "from sandbox_server.cli import main\n\nmain()\n"
#: The same source makes the same bytes, whenever.
WHEN = (1980, 1, 1, 0, 0, 0)


def write(target: Path) -> None:
    """A zip of the package's sources behind a line that names the interpreter."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_info("__main__.py"), MAIN)
            archive.writestr(_info("LICENSE"), (ROOT / "LICENSE").read_bytes())
            for path in sorted(PACKAGE.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.writestr(_info(path.relative_to(PACKAGE.parent).as_posix()), path.read_bytes())
    target.chmod(0o755)


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, WHEN)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


if __name__ == "__main__":
    made = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "agent-sandbox-server.pyz"
    write(made)
    print(f"{made}: {made.stat().st_size:,} bytes")
