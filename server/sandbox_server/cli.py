"""``agent-sandbox-server``: serve, healthcheck, check-config, explain, matrix, audit, openapi, version."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ._version import __version__
from .flags import PROGRAM, parser, port_number

if TYPE_CHECKING:
    from .custom.commands import CommandRegistry
    from .custom.routes import Route
    from .policy import BoundPolicy, ServerPolicy
    from .server import SandboxServer
    from .settings import Settings

FAILED, USAGE, REFUSED, WARNED = 1, 2, 3, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; answers the exit code. No subcommand at all means ``serve``.

    Without `argv` this is the program itself and exits with that code: the entry of a zipapp ignores what is returned.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    arguments = arguments or ["serve"]
    options = parser(_runs(), arguments).parse_args(arguments)
    try:
        code: int = options.run(options)
        print(end="", flush=True)
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its end
        code = FAILED
    if argv is None:
        sys.exit(code)
    return code


def _runs() -> Mapping[str, Callable[[argparse.Namespace], int]]:
    return {
        "serve": _serve,
        "healthcheck": _healthcheck,
        "check_config": _check_config,
        "matrix": _matrix,
        "audit_verify": _audit_verify,
        "openapi": _openapi,
        "version": _version,
    }


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
        return port_number(os.environ.get("ABX_PTY_PORT", ""))
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

    path, timeout = options.unix_socket, options.timeout
    try:
        tcp = None if path else socket.create_connection((options.host, options.port), timeout)
        with tcp or socket.socket(socket.AF_UNIX) as connection:
            if tcp is None:
                connection.settimeout(timeout)
                connection.connect(path)
            connection.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            return 0 if connection.recv(64).startswith((b"HTTP/1.1 200 ", b"HTTP/1.0 200 ")) else FAILED
    except OSError:
        return FAILED


def _check_config(options: argparse.Namespace) -> int:
    from .policy import PolicyConfigError
    from .settings import ConfigurationError

    if not options.explain:
        for flag in ("path", "scopes", "op"):
            if getattr(options, flag) is not None:
                return _fail(f"--{flag} is about one call; add --explain ENDPOINT", USAGE)
    try:
        bound = _bound(options, options.base_dir)
    except (PolicyConfigError, ConfigurationError) as error:
        return _fail(str(error), FAILED)
    if options.explain:
        return _explain(bound, options)
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


def _explain(bound: BoundPolicy, options: argparse.Namespace) -> int:
    from .policy.scopes import idle

    scopes = ("*",) if options.scopes is None else options.scopes
    for scope, hint in idle(scopes, bound.asked_scopes):
        print(f"warning: no endpoint asks for {scope}{hint}", file=sys.stderr)
    paths = () if options.path is None else (options.path,)
    decision = bound.explain(options.explain, scopes=scopes, paths=paths, op=options.op)
    print(json.dumps(decision, indent=2))
    return 0 if decision["allowed"] else REFUSED


def _matrix(options: argparse.Namespace) -> int:
    from .policy import PolicyConfigError
    from .policy.matrix import matrix
    from .settings import ConfigurationError

    try:
        bound = _bound(options, options.base_dir)
    except (PolicyConfigError, ConfigurationError) as error:
        return _fail(str(error), FAILED)
    print(json.dumps(matrix(bound, paths=options.path, op=options.op), indent=2))
    return 0


def _bound(options: argparse.Namespace, base_dir: str | None = None) -> BoundPolicy:
    """The policy as it would be in force. Raises `ConfigurationError` and `PolicyConfigError`."""
    from .settings import Settings, bind_policy

    commands, routes = _custom(options)
    policy = _load_policy(options)
    return bind_policy(
        Settings(policy=policy, environ=dict(os.environ), base_dir=base_dir, commands=commands, routes=routes)
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
