"""What the policy allows, why not the rest, and what has been refused."""

from __future__ import annotations

from ..grammar import Argument, Command, Option
from .parts import IN, OP
from .sandboxes import PRESETS

ACTIONS = ("show", "lint", "diff")


def rules() -> tuple[Command, ...]:
    what = (
        Argument("endpoint", "what would be done", offers="endpoint"),
        Argument("path", "and to which path", True, offers="remote"),
    )
    asked = "Asks the rules only: nothing is done, and the answer does not tell whether the path exists."
    return (
        Command(
            "caps", "what you may do here", "%sandbox caps files_upload_stream", (IN,),
            (Argument("endpoint", "one endpoint, with its limits and paths", True, offers="endpoint"),),
        ),
        Command(
            "check", "would this be allowed, and why", "%sandbox check files_download_stream /etc/passwd",
            (OP, IN), what, details=asked,
        ),
        Command(
            "explain", "the same, with all that the rules say", "%sandbox explain files_delete out/x --op delete",
            (OP, IN), what, details=asked,
        ),
        Command(
            "policy", "the policy in force; policy files, judged and compared", "%sandbox policy show",
            (IN,),
            (
                Argument("action", "show what is in force, lint files, or diff two", True, choices=ACTIONS),
                Argument("policy", "a policy file or a preset", True, True, offers="local", suggestions=PRESETS),
            ),
            details="show asks the sandbox; lint and diff read files of this side, with the server of this Python.",
        ),
        Command(
            "audit", "what the sandbox has refused, and let through", "%sandbox audit --denied",
            (
                Option("--lines", "the last so many; default: 20", "N", short="-n", kind="count"),
                Option("--denied", "only what was refused, not what was missing or failed"),
                Option("--follow", "go on; the stop button only stops the following", short="-f"), IN,
            ),
            details="For sandboxes of this machine, whose log this user may read. What is noted, the policy says.",
        ),
    )  # fmt: skip
