"""What a command pattern lets through besides what it seems to say."""

from __future__ import annotations

from ..guards.globs import compile_glob
from ..guards.words import split

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
    tokens = split(pattern)
    if len(tokens) > 1 and "..." not in tokens:
        return None
    # "..." in the first place admits any program
    program = compile_glob("*" if tokens[0] == "..." else tokens[0].rpartition("/")[2])
    return next((runner for runner in RUNNERS if program.match(runner)), None)
