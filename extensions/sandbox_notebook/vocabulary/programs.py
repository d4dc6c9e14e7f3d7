"""Programs: run to their end, kept running, or code that keeps its variables."""

from __future__ import annotations

from ..grammar import Argument, Command, Option
from .parts import FILL, IN, PROCESS

LANGUAGES = ("python", "bash", "sh", "node")
SIGNALS = ("TERM", "KILL", "INT")


def programs() -> tuple[Command, ...]:
    return (
        Command(
            "run", "run a command, or the cell's body", "%sandbox run python3 --version",
            (
                Option("--lang", "language of the cell's body; default: python", "LANG", choices=LANGUAGES),
                IN,
                Option("--out", "put the result (stdout, stderr, exit_code) into this variable", "VAR",
                       offers="variable"),
                Option("--timeout", "stop it after so many seconds", "S", kind="number"),
                Option("--env", "an environment variable", "K=V", kind="pair", many=True),
                Option("--cwd", "working directory", "DIR", offers="remote"),
                Option("--file", "write this variable to a file there first", "NAME=VAR", kind="pair", many=True,
                       offers="variable"),
                FILL,
                Option("--quiet", "show no output"),
                Option("--ok", "a non-zero exit code is no error"),
                Option("--bg", "do not wait; see ps, logs, kill"),
                Option("--stdin", "with --bg: leave its input open for %sandbox stdin"),
            ),
            (Argument("command", "the command and its arguments; no shell reads it", True, True),),
            verbatim=True, cell=True,
            details="As %%sandbox run the body is the program, byte for byte; with a command on the line the body is "
            "its standard input. The stop button ends the command in the sandbox as well.",
        ),
        Command(
            "code", "run Python that keeps its variables", "%sandbox code --pull result",
            (
                Option("--push", "take this variable along first; several by comma", "NAME", many=True,
                       offers="variable"),
                Option("--pull", "bring this variable back afterwards; several by comma", "NAME", many=True,
                       offers="variable"),
                Option("--new", "begin anew, with no variables"),
                Option("--timeout", "interrupt it after so many seconds", "S", kind="number"),
                Option("--quiet", "show no output and no results"),
                Option("--traceback", "show the whole traceback of an error"),
                Option("--pickle", "move any object; whoever rules the sandbox then rules this kernel, too"),
                IN,
            ),
            (Argument("python", "the code, instead of a body", True, True),),
            verbatim=True, cell=True,
            details="Plots and tables show as those of this notebook do. Moved are plain values, arrays of numpy, and "
            "tables of pandas and pyarrow. The stop button interrupts the code; its variables stay.",
        ),
    )  # fmt: skip


def processes() -> tuple[Command, ...]:
    return (
        Command(
            "ps", "processes in the background", "%sandbox ps --all",
            (
                Option("--all", "finished ones too", short="-a"),
                Option("--long", "with ids and start time", short="-l"), IN,
            ),
        ),
        Command(
            "logs", "what a background process has written", "%sandbox logs -f",
            (Option("--follow", "go on until it ends; the stop button only stops the following", short="-f"), IN),
            (PROCESS,),
        ),
        Command(
            "attach", "watch a background process in a pane that can stop it", "%sandbox attach 1",
            (IN,), (PROCESS,),
            details="A terminal follows it as logs -f does; where nothing is live, it shows as it is now.",
        ),
        Command(
            "stdin", "type a line into a background process", "%sandbox stdin 1 yes",
            (Option("--eof", "nothing more will come after it"), IN),
            (
                Argument("process", "its number in ps", offers="process"),
                Argument("text", "the line to type", True),
            ),
            cell=True,
            details="It must have been started with --bg --stdin. As %%sandbox stdin the body is what is typed.",
        ),
        Command(
            "kill", "end a background process and its children", "%sandbox kill 1",
            (Option("--signal", "TERM asks, and KILL follows after 5 s", "SIG", short="-s", choices=SIGNALS), IN),
            (PROCESS,),
        ),
        Command(
            "term", "open a terminal in the sandbox", "%sandbox term",
            (
                Option("--id", "come back to this one", "ID", offers="terminal"),
                Option("--new", "open another, though one is open"), IN,
            ),
            details="In a notebook it comes back to one that is open; Escape and then Tab leaves it by the keyboard. "
            "Where nothing is live, its lines show as they are. "
            "nbsandbox term opens one in a terminal of yours; Ctrl-] leaves it.",
        ),
    )  # fmt: skip
