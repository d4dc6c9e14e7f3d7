"""Recorded answers that this server gives differently, and why."""

from __future__ import annotations

PRIVATE = "an address that is not public is refused, however it is written"
DEVIATIONS: dict[str, str] = {
    "url_rules:url_23": PRIVATE,
    "url_rules:url_24": PRIVATE,
    "url_rules:url_28": PRIVATE,
    "url_rules:url_29": PRIVATE,
    "url_rules:url_30": PRIVATE,
    "url_rules:url_31": PRIVATE,
    "url_rules:url_55": PRIVATE,
    "url_rules:url_56": PRIVATE,
    "path_guard:path_18": "a path outside the roots is refused unseen, also where a link would lead inside: "
    "otherwise the answer tells what exists outside",
    "path_guard:path_29": "as path_18; it is outside before it is a link",
    "command_patterns:cmd_5": "rules match the resolved program: a bare name is denied by its path too",
    "command_patterns:cmd_12": "a base name means that name as resolved in the search path, not any file called so",
    "command_patterns:cmd_13": "rules match the resolved program: /bin/ls allows ls where that is the same file",
    "command_patterns:cmd_34": "a {word} does not end in a line feed",
}
