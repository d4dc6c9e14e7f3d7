"""What the reference client does with a server. Runs in the client's own environment; prints what it saw as JSON.

Uses the package's public interface only. The one argument is a JSON object: `url`, `token`, `base` (a directory on the
server), `local` (one here), `site` (pages that the server's browser may open), `twins` (whether to go through the
blocking methods), and the `parts` to play.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agent_sandbox.api.server_client import PtyConnection, ServerClient

from tests.reference.scenario import binding, devtools, files, pages, processes, terminals
from tests.reference.scenario.watched import Watched, surface

#: What may be played, and the methods that it goes through.
PARTS = {
    "binding": (binding.play, ("", "capabilities.")),
    "files": (files.play, ("files.",)),
    "processes": (processes.play, ("process.",)),
    "terminals": (terminals.play, ("pty.", "PtyConnection.")),
    "devtools": (devtools.play, ("system.", "devtools.", "commands.")),
    "pages": (pages.play, ("browser.",)),
    "closed": (binding.play_closed, ()),
}


async def main(told: dict[str, Any]) -> dict[str, object]:
    called: set[str] = set()
    seen: dict[str, object] = {}
    async with ServerClient(told["url"], token=told["token"], pty_url=told["url"]) as client:
        for part in told["parts"]:
            play, _ = PARTS[part]
            seen[part] = await play(Watched(client, "", called, twins=told["twins"]), told)
        await client.discover()
        everything = surface(client) | surface(PtyConnection, "PtyConnection.")
    left_to_others = {
        prefix for part, (_, prefixes) in PARTS.items() if part not in told["parts"] for prefix in prefixes
    }
    missing = {
        name for name in everything - called
        if name.endswith("_sync") == told["twins"] and name[: name.rfind(".") + 1] not in left_to_others
    }  # fmt: skip
    return {"seen": seen, "missing": sorted(missing)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
