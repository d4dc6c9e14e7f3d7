"""Which sandboxes there are, and which is meant."""

from __future__ import annotations

from ..grammar import Argument, Command, Option
from .parts import IN

PRESETS = ("workspace", "transfer-only", "read-only", "hardened", "locked", "default")
ISOLATIONS = ("auto", "bubblewrap", "landlock", "none")


def sandboxes() -> tuple[Command, ...]:
    name = Argument("name", "which one", True, offers="sandbox")
    return (
        Command(
            "start", "start a sandbox on this machine", "%sandbox start --policy read-only",
            (
                Option("--policy", "a preset or a policy file (JSON)", "P", suggestions=PRESETS, offers="local"),
                Option("--only", "allow these endpoints and nothing else; several by comma", "IDS", many=True,
                       suggestions=("transfer",), offers="endpoint"),
                Option("--download-from", "with --only: downloads from here alone; relative paths start here", "DIR"),
                Option("--upload-to", "with --only: uploads to here alone; relative paths start here", "DIR"),
                Option("--root", "work in this directory of yours instead of a fresh one", "DIR", offers="local"),
                Option("--name", "a name to tell it from others, and to find it again", "NAME"),
                Option("--keep", "keep it and its files when what started it ends; the same line finds it again"),
                Option("--network", "share this machine's network; otherwise there is none"),
                Option("--isolation", "how it is closed off", "HOW", choices=ISOLATIONS),
            ),
            details="One that runs already under that name and the same options is used as it is.",
        ),
        Command(
            "connect", "use a sandbox server that is there already", "%sandbox connect https://sandbox.example:9000",
            (
                Option("--uds", "reach it by this unix socket instead of a URL", "PATH", offers="local"),
                Option("--token-env", "environment variable that holds the token; default: ABX_SERVER_TOKEN", "VAR",
                       offers="environment"),
                Option("--name", "a name to tell it from others; default: server", "NAME"),
            ),
            (Argument("url", "where it is: http:// or https://", True),),
            details="The token is read from the environment and shown nowhere. stop lets go of the server, which goes "
            "on.",
        ),
        Command("use", "make another sandbox the current one", "%sandbox use second",
                (), (Argument("name", "which one", offers="sandbox"),)),
        Command("list", "your sandboxes: those started here, and those that are kept", "%sandbox list"),
        Command("stop", "end the sandbox and remove its files", "%sandbox stop",
                (Option("--all", "all that were started here; in a terminal, all that are kept"),), (name,)),
        Command("info", "policy, isolation and place of the sandbox", "%sandbox info -l",
                (Option("--long", "with directories and addresses", short="-l"), IN)),
    )  # fmt: skip
