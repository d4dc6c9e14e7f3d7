"""How a cell's body becomes a command: the interpreter's arguments, and the body on its standard input.

Not as an argument: arguments have a length limit, and rules about commands read them. A program therefore finds its
standard input at the end.
"""

from __future__ import annotations

import shlex

# Runs the body as `__main__` under a name of its own, so that tracebacks show its lines and nothing of this; output
# is sent line by line, because it is watched.
_PYTHON = """\
def boot():
    import linecache, sys, traceback
    data, name = sys.stdin.buffer.read(), "<cell>"
    lines = data.decode("utf-8", "replace").split("\\n")
    linecache.cache[name] = len(data), None, [line + "\\n" for line in lines], name
    def hook(kind, error, trace):
        while trace and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        traceback.print_exception(kind, error, trace)
    sys.excepthook, sys.argv[:] = hook, [name]
    sys.stdout.reconfigure(line_buffering=True)
    del globals()["boot"]
    return compile(data, name, "exec", dont_inherit=True)
exec(boot())
"""

# Read whole before it runs, or the commands in it would read the rest of it.
_SHELL = 'eval "$(cat)"'

_COMMANDS: dict[str, list[str]] = {
    "python": ["python3", "-c", _PYTHON],
    "bash": ["bash", "-c", _SHELL, "cell"],
    "sh": ["sh", "-c", _SHELL, "cell"],
    "node": ["node", "-"],
}


def program(language: str) -> list[str]:
    """The command that runs a body in this language, given on standard input."""
    return list(_COMMANDS[language])


def language_of(command: str) -> str:
    """The language whose bodies this command line runs; nothing for any other command."""
    return next((language for language, arguments in _COMMANDS.items() if command == shlex.join(arguments)), "")
