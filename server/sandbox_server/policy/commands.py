"""What a command pattern lets through besides what it seems to say."""

from __future__ import annotations

import fnmatch

#: Programs whose arguments name another program, or are one.
RUNNERS: tuple[str, ...] = (
    "sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "toybox",
    "env", "xargs", "find", "nohup", "nice", "ionice", "timeout", "time", "setsid", "stdbuf", "watch", "script",
    "sudo", "su", "doas", "chroot", "unshare", "nsenter", "setpriv", "strace", "gdb", "ld.so",
    "python", "python3", "perl", "ruby", "node", "php", "lua", "awk", "gawk", "mawk",
    "make", "git", "ssh", "tar", "rsync", "vi", "vim", "ed", "less", "pip", "npm",
)  # fmt: skip


def loose_pattern(pattern: str) -> str | None:
    """The program through which this allow pattern runs anything at all, None when it does not.

    A pattern of one token says nothing about the arguments, and ``...`` admits any.
    """
    import shlex

    try:
        tokens = shlex.split(pattern)
    except ValueError:
        return None
    if not tokens or (len(tokens) > 1 and "..." not in tokens):
        return None
    program = tokens[0].rpartition("/")[2]
    return next((runner for runner in RUNNERS if fnmatch.fnmatchcase(runner, program)), None)
