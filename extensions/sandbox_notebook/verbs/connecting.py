"""``connect``: a server that is there already."""

from __future__ import annotations

import os

from ..connected import Connected
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..results import Notice
from ..session import Entry

_TOKEN = "ABX_SERVER_TOKEN"


def connect(call: Invocation) -> Outcome:
    url, socket = call.parsed.text("url"), call.parsed.text("uds")
    if bool(url) == bool(socket):
        raise Mistake("give a URL, or a socket by --uds", call.parsed.command.example)
    if url and "://" not in url:
        raise Mistake(f'"{url}" is no URL of a server', f"%sandbox connect http://{url}")
    variable = call.parsed.text("token_env", _TOKEN)
    if "@" in url.partition("://")[2].partition("/")[0]:
        hint = f"set {variable} before this kernel starts, and write the URL without it"
        raise Mistake("a URL with a password in it is kept in the notebook", hint)
    token = os.environ.get(variable)
    if not token and "token_env" in call.parsed.values:
        raise Mistake(f'the environment has no variable "{variable}"', f"set {variable} before this kernel starts")
    name = call.parsed.text("name", "server")
    known = call.session.entries.get(name)
    if known is not None and not isinstance(known.sandbox, Connected):
        raise Mistake(f'a sandbox "{name}" is running', "%sandbox connect … --name OTHER")
    sandbox = Connected.to(name, url or None, socket or None, token)
    if known is not None:
        known.sandbox.kill()
    call.session.add(Entry(name, sandbox, again=call.parsed.line))
    facts = [("identity", sandbox.identity), ("policy", sandbox.policy), ("isolation", sandbox.isolation)]
    return Outcome(sandbox, Notice(f'"{name}" is {sandbox.server.address}', *facts))
