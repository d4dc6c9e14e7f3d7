"""``agent-sandbox-server``: serve, healthcheck, check-config, explain, audit, openapi, version."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .custom.commands import CommandRegistry
    from .custom.routes import Route
    from .policy import BoundPolicy, ServerPolicy
    from .server import SandboxServer
    from .settings import Settings

PROGRAM = "agent-sandbox-server"
FAILED, USAGE, REFUSED, WARNED = 1, 2, 3, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; answers the exit code. No subcommand at all means ``serve``.

    Without `argv` this is the program itself and exits with that code: the entry of a zipapp ignores what is returned.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = _parser().parse_args(arguments or ["serve"])
    code: int = options.run(options)
    if argv is None:
        sys.exit(code)
    return code


class _Parser(argparse.ArgumentParser):
    """Its help has a fixed width: asking the terminal for its own would import shutil at every start of a server."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=partial(argparse.HelpFormatter, width=100), **options)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="A policy-guarded server for the inside of a sandbox.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    serve = commands.add_parser("serve", help="serve HTTP until SIGTERM", description=_SERVE)
    serve.set_defaults(run=_serve)
    serve.add_argument("--host", help="address to bind (default: 0.0.0.0; 127.0.0.1 with --allow-anonymous)")
    serve.add_argument("--port", type=_port, help="HTTP port (default: 9000; 0 picks a free one)")
    serve.add_argument("--pty-port", type=_port, help="port of terminals alone (default: ABX_PTY_PORT or 9001)")
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

    health = commands.add_parser("healthcheck", help="exit 0 when a server answers, else 1")
    health.set_defaults(run=_healthcheck)
    health.add_argument("--host", default="127.0.0.1")
    health.add_argument("--port", type=_port, default=9000)
    health.add_argument("--timeout", type=_seconds, default=2.0, metavar="SECONDS")

    check = commands.add_parser("check-config", help="validate a policy, show what it means, explain a decision")
    check.set_defaults(run=_check_config)
    _policy_flags(check)
    check.add_argument("--base-dir", metavar="DIR", help=argparse.SUPPRESS)
    check.add_argument("--json", action="store_true", help="print JSON")
    check.add_argument("--strict", action="store_true", help="exit 2 when there are warnings")
    check.add_argument("--explain", metavar="ENDPOINT", help="would this call be admitted? exit 3 when not")
    _call_flags(check)

    explain = commands.add_parser("explain", help="would this call be admitted, and if not, why? exit 3 when not")
    explain.set_defaults(run=_check_config)
    explain.add_argument("explain", metavar="ENDPOINT", help="id of the endpoint")
    explain.add_argument("--base-dir", metavar="DIR", help=argparse.SUPPRESS)
    _policy_flags(explain)
    _call_flags(explain)

    audit = commands.add_parser("audit", help="look after audit logs").add_subparsers(metavar="ACTION", required=True)
    verify = audit.add_parser("verify", help="exit 0 when no line was changed, removed or moved, else 1")
    verify.set_defaults(run=_audit_verify)
    verify.add_argument("files", metavar="FILE", nargs="+", help="the log; of several files the oldest first")
    verify.add_argument(
        "--head", metavar="N:HASH", help="what an earlier verify printed and somebody kept: finds a missing end too"
    )

    openapi = commands.add_parser("openapi", help="print the OpenAPI document of a server with this policy")
    openapi.set_defaults(run=_openapi)
    _policy_flags(openapi)

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)
    return parser


_SERVE = "Serve HTTP. Needs an identity: ABX_SERVER_TOKEN, auth.tokens in the policy, or --allow-anonymous."


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
    parser.add_argument("--scopes", default="*", metavar="A,B", help="scopes of the explained caller (default: *)")
    parser.add_argument("--op", choices=["read", "write", "delete", "exec"], help="operation of the explained call")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is no whole number') from None


def _port(text: str) -> int:
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


def _directories(text: str) -> tuple[str, ...]:
    directories = tuple(part for part in text.split(":") if part.startswith("/"))
    if not directories:
        raise argparse.ArgumentTypeError(f'"{text}" names no absolute directory')
    return directories


def _load_policy(options: argparse.Namespace) -> ServerPolicy:
    """The explicit policy, else the one the environment names."""
    from .policy import ServerPolicy

    if options.policy:
        policy = ServerPolicy.from_file(options.policy)
        return policy.with_options(preset=options.preset) if options.preset else policy
    if options.preset:
        return ServerPolicy.preset(options.preset)
    return ServerPolicy.from_environment(os.environ)


def _serve(options: argparse.Namespace) -> int:
    import logging

    from .policy import PolicyConfigError
    from .process.kernel import raise_open_files
    from .secrecy import hide
    from .server import SandboxServer
    from .settings import ClosedByDefault, ConfigurationError, bind_policy

    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.INFO)
    if options.confine_network and not options.confine:
        return _fail("--confine-network restricts nothing by itself; add --confine landlock", USAGE)
    try:
        settings = _settings(options, raise_open_files())
        bound = bind_policy(settings)
        server = SandboxServer(settings, bound)
        if options.confine:
            _confine(server, bound, options)
    except ClosedByDefault as error:
        return _fail(str(error), USAGE)
    except (PolicyConfigError, ConfigurationError) as error:
        return _fail(str(error), FAILED)
    hide(bound.secret_names)  # children and neighbours could read them
    for warning in bound.lint():
        logging.getLogger("sandbox_server").warning("%s: %s", warning.code, warning.message)
    for note in bound.notes():
        logging.getLogger("sandbox_server").info("%s: %s", note.code, note.message)
    server.run(ready=lambda: print(*(f"listening on {a}" for a in server.addresses), sep="\n", flush=True))
    return FAILED if server.failed else 0


def _settings(options: argparse.Namespace, open_files: int | None) -> Settings:
    from .services import PROGRAM_PATH
    from .settings import DEFAULT_PORT, Settings

    commands, routes = _custom(options)
    elsewhere = options.unix_socket or options.listen_fd
    port = options.port if options.port is not None or elsewhere else DEFAULT_PORT
    return Settings(
        policy=_load_policy(options),
        environ=dict(os.environ),
        base_dir=options.base_dir,
        host=options.host,
        port=port,
        pty_port=_pty_port(options.pty_port, port),
        unix_socket=options.unix_socket,
        listen_fds=tuple(options.listen_fd),
        allow_anonymous=options.allow_anonymous,
        allow_hosts=tuple(options.allow_host),
        allow_origins=tuple(options.allow_origin),
        audit_file=options.audit_file,
        audit_max_bytes=options.audit_max_bytes,
        isolation=options.isolation_level,
        program_path=options.program_path or PROGRAM_PATH,
        commands=commands,
        routes=routes,
        scratch=tuple(options.scratch),
        open_files=open_files,
    )


def _pty_port(given: int | None, port: int | None) -> int | None:
    """The terminals' own port: as asked for, else one where HTTP has one; a free one where that has a free one."""
    from .settings import DEFAULT_PTY_PORT

    if given is not None or port is None:
        return given
    with contextlib.suppress(ValueError, argparse.ArgumentTypeError):
        return _port(os.environ.get("ABX_PTY_PORT", ""))
    return DEFAULT_PTY_PORT if port else 0


def _confine(server: SandboxServer, bound: BoundPolicy, options: argparse.Namespace) -> None:
    """Bind this process. What the server has opened by now, such as its audit file, stays open to it."""
    from . import confine
    from .settings import ConfigurationError

    try:
        writable = [os.path.dirname(os.path.abspath(options.unix_socket))] if options.unix_socket else []
        confine.restrict_to(bound.base_dir, writable=writable, tcp=not options.confine_network)
    except OSError as error:
        server.close()
        raise ConfigurationError(f"--confine landlock is not available: {os.strerror(error.errno or 0)}") from None


def _healthcheck(options: argparse.Namespace) -> int:
    """A bare GET /health: no HTTP library, so that it is over before one would have been imported."""
    import socket

    try:
        with socket.create_connection((options.host, options.port), options.timeout) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            return 0 if connection.recv(64).startswith((b"HTTP/1.1 200 ", b"HTTP/1.0 200 ")) else FAILED
    except OSError:
        return FAILED


def _check_config(options: argparse.Namespace) -> int:
    from .policy import PolicyConfigError
    from .settings import ConfigurationError

    try:
        bound = _bound(options, options.base_dir)
    except (PolicyConfigError, ConfigurationError) as error:
        return _fail(str(error), FAILED)
    if options.explain:
        scopes = tuple(scope for scope in options.scopes.split(",") if scope)
        paths = () if options.path is None else (options.path,)
        decision = bound.explain(options.explain, scopes=scopes, paths=paths, op=options.op)
        print(json.dumps(decision, indent=2))
        return 0 if decision["allowed"] else REFUSED
    warnings = [*bound.lint(), *bound.lint_file(options.policy)] if options.policy else bound.lint()
    rows = bound.rows()
    if options.json:
        listed = [{"code": w.code, "message": w.message} for w in warnings]
        print(json.dumps({"revision": bound.revision, "endpoints": rows, "warnings": listed}, indent=2))
    else:
        print(f"policy is valid, revision {bound.revision}")
        for row in rows:
            print(f"  {'on ' if row['enabled'] else 'off'} {row['endpoint']:<24} {row['rule'] or ''}".rstrip())
        for warning in warnings:
            print(f"warning {warning.code}: {warning.message}")
        for note in bound.notes():
            print(f"note {note.code}: {note.message}")
    return WARNED if options.strict and warnings else 0


def _bound(options: argparse.Namespace, base_dir: str | None = None) -> BoundPolicy:
    """The policy as it would be in force. Raises `ConfigurationError` and `PolicyConfigError`."""
    from .settings import Settings, bind_policy

    _, routes = _custom(options)
    return bind_policy(
        Settings(policy=_load_policy(options), environ=dict(os.environ), base_dir=base_dir, routes=routes)
    )


def _custom(options: argparse.Namespace) -> tuple[CommandRegistry, tuple[Route, ...]]:
    """What ``--commands`` names. Raises `ConfigurationError`."""
    from .custom.loading import LoadError, load
    from .settings import ConfigurationError

    try:
        return load(options.commands)
    except LoadError as error:
        raise ConfigurationError(str(error)) from None


def _audit_verify(options: argparse.Namespace) -> int:
    from .verifying import Broken, Head, report

    try:
        report(options.files, Head.parse(options.head) if options.head else None)
    except Broken as error:
        return _fail(str(error), FAILED)
    except ValueError as error:
        return _fail(str(error), USAGE)
    except OSError as error:
        return _fail(f'cannot read "{error.filename}": {os.strerror(error.errno or 0)}', USAGE)
    return 0


def _openapi(options: argparse.Namespace) -> int:
    from .catalogue import builtin
    from .handlers import HANDLERS
    from .handlers.openapi import document
    from .policy import PolicyConfigError
    from .settings import ConfigurationError

    try:
        bound = _bound(options)
    except (PolicyConfigError, ConfigurationError) as error:
        return _fail(str(error), FAILED)
    implemented = HANDLERS.keys() | (bound.catalogue.keys() - builtin().keys())
    print(json.dumps(document(bound.catalogue, bound, implemented), indent=2))
    return 0


def _version(options: argparse.Namespace) -> int:
    print(__version__)
    return 0


def _fail(message: str, code: int) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    return code
