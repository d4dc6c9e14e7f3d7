"""What can be written on the command line: subcommands, their options, and what those may say."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction["_Parser"]
Runs = Mapping[str, Callable[[argparse.Namespace], int]]

PROGRAM = "agent-sandbox-server"
_SERVE = "Serve HTTP. Needs an identity: ABX_SERVER_TOKEN, auth.tokens in the policy, or --allow-anonymous."


def parser(runs: Runs, arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The command line; `runs` are the functions that carry a subcommand out, by name.

    Where `arguments` begin with a subcommand it knows no other: all of them would take a good part of a server's start.
    """
    top = _Parser(prog=PROGRAM, description="A policy-guarded server for the inside of a sandbox.")
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = arguments[0] if arguments else ""
    for declare in (_DECLARED[wanted],) if wanted in _DECLARED else _DECLARED.values():
        declare(commands, runs)
    return top


def _serve(commands: _Commands, runs: Runs) -> None:
    serve = commands.add_parser("serve", help="serve HTTP until SIGTERM", description=_SERVE)
    serve.set_defaults(run=runs["serve"])
    serve.add_argument("--host", help="address to bind (default: 0.0.0.0; 127.0.0.1 with --allow-anonymous)")
    serve.add_argument("--port", type=port_number, help="HTTP port (default: 9000; 0 picks a free one)")
    serve.add_argument("--pty-port", type=port_number, help="port of terminals alone (default: ABX_PTY_PORT or 9001)")
    serve.add_argument("--unix-socket", metavar="PATH", help="serve on this socket; alone unless --port is given too")
    serve.add_argument(
        "--listen-fd",
        type=_descriptor,
        metavar="N",
        action="append",
        default=[],
        help="serve on this inherited listening socket; alone unless --port or --unix-socket is given too",
    )
    serve.add_argument("--base-dir", metavar="DIR", help="directory that files and commands live in")
    serve.add_argument("--allow-anonymous", action="store_true", help="let callers in without a token, loopback only")
    serve.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="accept this Host header too")
    serve.add_argument("--allow-origin", metavar="ORIGIN", action="append", default=[], help="accept this web origin")
    serve.add_argument("--audit-file", metavar="PATH", help="append audit lines here (default: standard error)")
    serve.add_argument(
        "--audit-max-bytes", type=_count, metavar="N", help="cut the oldest lines off a longer audit log"
    )
    serve.add_argument("--confine", choices=["landlock"], help="restrict this process and its children by the kernel")
    serve.add_argument("--confine-network", action="store_true", help="with --confine: no TCP either (Linux 6.7)")
    serve.add_argument("--isolation-level", metavar="NAME", default="none", help="what discovery reports as isolation")
    serve.add_argument(
        "--program-path",
        type=_directories,
        metavar="DIRS",
        help="where programs are looked up, like PATH (default: the system's)",
    )
    serve.add_argument(
        "--scratch",
        metavar="DIR",
        action="append",
        default=[],
        help="let programs that a path rule confines write here too (default: a temporary directory per rule)",
    )
    _policy_flags(serve)


def _healthcheck(commands: _Commands, runs: Runs) -> None:
    health = commands.add_parser("healthcheck", help="exit 0 when a server answers, else 1")
    health.set_defaults(run=runs["healthcheck"])
    health.add_argument("--host", default="127.0.0.1", help="where it listens (default: 127.0.0.1)")
    health.add_argument("--port", type=port_number, default=9000, help="and its HTTP port (default: 9000)")
    health.add_argument("--unix-socket", metavar="PATH", help="ask on this socket instead")
    health.add_argument(
        "--timeout", type=_seconds, default=2.0, metavar="SECONDS", help="how long to wait (default: 2)"
    )


def _check_config(commands: _Commands, runs: Runs) -> None:
    check = commands.add_parser("check-config", help="validate a policy, show what it means, explain a decision")
    check.set_defaults(run=runs["check_config"])
    _policy_flags(check)
    check.add_argument("--base-dir", metavar="DIR", help=argparse.SUPPRESS)
    check.add_argument("--json", action="store_true", help="print JSON")
    check.add_argument("--strict", action="store_true", help="exit 2 when there are warnings")
    check.add_argument("--explain", metavar="ENDPOINT", help="would this call be admitted? exit 3 when not")
    _call_flags(check)


def _explain(commands: _Commands, runs: Runs) -> None:
    explain = commands.add_parser("explain", help="would this call be admitted, and if not, why? exit 3 when not")
    explain.set_defaults(run=runs["check_config"])
    explain.add_argument("explain", metavar="ENDPOINT", help="id of the endpoint")
    explain.add_argument("--base-dir", metavar="DIR", help=argparse.SUPPRESS)
    _policy_flags(explain)
    _call_flags(explain)


def _matrix(commands: _Commands, runs: Runs) -> None:
    matrix = commands.add_parser("matrix", help="print, as JSON, what each identity may call, and why not the rest")
    matrix.set_defaults(run=runs["matrix"])
    matrix.add_argument("--base-dir", metavar="DIR", help=argparse.SUPPRESS)
    _policy_flags(matrix)
    matrix.add_argument("--path", action="append", default=[], help="say what would become of this path, too")
    _op_flag(matrix)


def _audit(commands: _Commands, runs: Runs) -> None:
    audit = commands.add_parser("audit", help="look after audit logs").add_subparsers(metavar="ACTION", required=True)
    verify = audit.add_parser("verify", help="exit 0 when no line was changed, removed or moved, else 1")
    verify.set_defaults(run=runs["audit_verify"])
    verify.add_argument("files", metavar="FILE", nargs="+", help="the log; of several files the oldest first")
    verify.add_argument(
        "--head", metavar="N:HASH", help="what an earlier verify printed and somebody kept: finds a missing end too"
    )


def _openapi(commands: _Commands, runs: Runs) -> None:
    openapi = commands.add_parser("openapi", help="print the OpenAPI document of a server with this policy")
    openapi.set_defaults(run=runs["openapi"])
    _policy_flags(openapi)


def _version(commands: _Commands, runs: Runs) -> None:
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=runs["version"])


_DECLARED: Mapping[str, Callable[[_Commands, Runs], None]] = {
    "serve": _serve,
    "healthcheck": _healthcheck,
    "check-config": _check_config,
    "explain": _explain,
    "matrix": _matrix,
    "audit": _audit,
    "openapi": _openapi,
    "version": _version,
}


class _Parser(argparse.ArgumentParser):
    """Its help has a fixed width: asking the terminal for its own would import shutil at every start of a server."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=partial(argparse.HelpFormatter, width=100), **options)


def _policy_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", metavar="FILE", help="policy document (JSON, or YAML where PyYAML is installed)")
    parser.add_argument("--preset", metavar="NAME", help="preset; with --policy it replaces the document's own")
    parser.add_argument(
        "--commands",
        metavar="FILE_OR_MODULE",
        action="append",
        default=[],
        help="Python file or module with commands and endpoints of your own",
    )


def _call_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", help="path of the explained call")
    parser.add_argument("--scopes", type=_scopes, metavar="A,B", help="scopes of the explained caller (default: *)")
    _op_flag(parser)


def _op_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--op", choices=["read", "write", "delete", "exec"], help="operation of the explained call")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is no whole number') from None


def port_number(text: str) -> int:
    port = _whole(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is no port; use 0 to 65535")
    return port


def _descriptor(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is no descriptor; use 0 or more")
    return number


def _count(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is no count; use 1 or more")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f'"{text}" is no time to wait; use more than 0 and at most 3600 seconds')
    return seconds


def _scopes(text: str) -> tuple[str, ...]:
    from .policy.scopes import is_scope

    scopes = tuple(scope for scope in map(str.strip, text.split(",")) if scope)
    for scope in scopes:
        if not is_scope(scope):
            raise argparse.ArgumentTypeError(f'"{scope}" is no scope; write them like files:read,files:write')
    return scopes


def _directories(text: str) -> tuple[str, ...]:
    directories = tuple(part for part in text.split(":") if part.startswith("/"))
    if not directories:
        raise argparse.ArgumentTypeError(f'"{text}" names no absolute directory')
    return directories
