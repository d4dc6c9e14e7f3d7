"""Every subcommand of ``%sandbox``, declared once: parser, help and completion read these."""

from __future__ import annotations

from .grammar import Argument, Command, Option

LANGUAGES = ("python", "bash", "sh", "node")
PRESETS = ("workspace", "transfer-only", "read-only", "hardened", "locked", "default")
ISOLATIONS = ("auto", "bubblewrap", "landlock", "none")
OPS = ("read", "write", "delete", "exec")
SIGNALS = ("TERM", "KILL", "INT")

_IN = Option("--in", "which sandbox, when there are several", "NAME", offers="sandbox")
_OVERWRITE = Option("--overwrite", "replace a file that is in the way")
_VERIFY = Option("--verify", "compare SHA-256 on both sides")


def commands() -> dict[str, Command]:
    """By name, in the order in which one meets them."""
    declared = (*_lifecycle(), *_files(), *_runs(), *_rules(), *_processes(), *_sandboxes(), *_settings())
    return {command.name: command for command in declared}


def _lifecycle() -> tuple[Command, ...]:
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
                Option("--keep", "keep it and its files when the kernel ends; the same line finds it again"),
                Option("--network", "share this machine's network; otherwise there is none"),
                Option("--isolation", "how it is closed off", "HOW", choices=ISOLATIONS),
            ),
            details="One that runs already under that name and the same options is used as it is.",
        ),
    )  # fmt: skip


def _files() -> tuple[Command, ...]:
    return (
        Command(
            "upload", "bring files into the sandbox", "%sandbox upload data.csv --to in",
            (
                Option("--to", "directory in the sandbox", "DIR", offers="remote"), _OVERWRITE, _VERIFY,
                Option("--pick", "choose files in the browser, or drop them there; also without a path"), _IN,
            ),
            (Argument("path", "a file, directory or pattern on this side", True, many=True, offers="local"),),
            details="A file that an earlier upload of yours put there, unchanged since, is replaced; another one needs "
            "--overwrite.",
        ),
        Command(
            "download", "bring files back", "%sandbox download out/plot.svg",
            (
                Option("--to", "directory on this side", "DIR", offers="local"), _OVERWRITE, _VERIFY, _IN,
            ),
            (
                Argument("remote", "path in the sandbox", offers="remote"),
                Argument("local", "where to on this side; default: its own name here", True, offers="local"),
            ),
            details="A file that an earlier download of yours wrote, unchanged since, is replaced; another one needs "
            "--overwrite.",
        ),
        Command(
            "ls", "list a directory of the sandbox", "files = %sandbox ls -l",
            (
                Option("--long", "with permissions and modification time", short="-l"),
                Option("--recursive", "with everything below", short="-R"), _IN,
            ),
            (Argument("path", "directory; default: where commands run", True, offers="remote"),),
        ),
    )  # fmt: skip


def _runs() -> tuple[Command, ...]:
    return (
        Command(
            "run", "run a command, or the cell's body", "%sandbox run python3 --version",
            (
                Option("--lang", "language of the cell's body; default: python", "LANG", choices=LANGUAGES),
                _IN,
                Option("--out", "put the result (stdout, stderr, exit_code) into this variable", "VAR"),
                Option("--timeout", "stop it after so many seconds", "S", kind="number"),
                Option("--env", "an environment variable", "K=V", kind="pair", many=True),
                Option("--cwd", "working directory", "DIR", offers="remote"),
                Option("--file", "write this variable to a file there first", "NAME=VAR", kind="pair", many=True),
                Option("--fill", "replace {name} by that variable; {{ and }} stand for braces"),
                Option("--quiet", "show no output"),
                Option("--ok", "a non-zero exit code is no error"),
                Option("--bg", "do not wait; see ps, logs, kill"),
            ),
            (Argument("command", "the command and its arguments; no shell reads it", True, True),),
            verbatim=True, cell=True,
            details="As %%sandbox run the body is the program, byte for byte; with a command on the line the body is "
            "its standard input. The stop button ends the command in the sandbox as well.",
        ),
    )  # fmt: skip


def _rules() -> tuple[Command, ...]:
    return (
        Command(
            "caps", "what you may do here", "%sandbox caps files_upload_stream", (_IN,),
            (Argument("endpoint", "one endpoint, with its limits and paths", True, offers="endpoint"),),
        ),
        Command(
            "check", "would this be allowed, and why", "%sandbox check files_download_stream /etc/passwd",
            (Option("--op", "judge the path for this operation", "OP", choices=OPS), _IN),
            (
                Argument("endpoint", "what would be done", offers="endpoint"),
                Argument("path", "and to which path", True, offers="remote"),
            ),
            details="Asks the rules only: nothing is done, and the answer does not tell whether the path exists.",
        ),
    )  # fmt: skip


def _processes() -> tuple[Command, ...]:
    process = Argument("process", "its number in ps; default: the latest", True, offers="process")
    return (
        Command(
            "ps", "processes in the background", "%sandbox ps --all",
            (
                Option("--all", "finished ones too", short="-a"),
                Option("--long", "with ids and start time", short="-l"), _IN,
            ),
        ),
        Command(
            "logs", "what a background process has written", "%sandbox logs -f",
            (Option("--follow", "go on until it ends; the stop button only stops the following", short="-f"), _IN),
            (process,),
        ),
        Command(
            "attach", "watch a background process in a pane that can stop it", "%sandbox attach 1",
            (_IN,), (process,),
        ),
        Command(
            "kill", "end a background process and its children", "%sandbox kill 1",
            (Option("--signal", "TERM asks, and KILL follows after 5 s", "SIG", short="-s", choices=SIGNALS), _IN),
            (process,),
        ),
    )  # fmt: skip


def _sandboxes() -> tuple[Command, ...]:
    name = Argument("name", "which one", True, offers="sandbox")
    return (
        Command("stop", "end the sandbox and remove its files", "%sandbox stop",
                (Option("--all", "all of this kernel's"),), (name,)),
        Command("use", "make another sandbox the current one", "%sandbox use second",
                (), (Argument("name", "which one", offers="sandbox"),)),
        Command("list", "the sandboxes of this kernel", "%sandbox list"),
        Command("info", "policy, isolation and place of the sandbox", "%sandbox info -l",
                (Option("--long", "with directories and addresses", short="-l"), _IN)),
    )  # fmt: skip


def _settings() -> tuple[Command, ...]:
    return (
        Command(
            "config", "see or change settings", "%sandbox config tracebacks true", (),
            (
                Argument("setting", "which one", True, offers="setting"),
                Argument("value", "its new value", True),
            ),
            details="The same as %config SandboxMagics.SETTING = VALUE.",
        ),
        Command("help", "this table, or one subcommand in full", "%sandbox help run", (),
                (Argument("command", "which one", True, offers="command"),)),
    )  # fmt: skip
