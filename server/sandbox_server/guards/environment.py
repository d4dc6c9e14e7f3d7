"""Variables that a caller gives a child."""

from __future__ import annotations

import re
from collections.abc import Collection

from ..messages import Refusal, quoted
from .encoding import encodable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

#: Variables by which a program loads other code, reads other settings or finds other programs. Under a rule that
#: names the allowed commands they would choose what really runs.
_STEERING = re.compile(
    r"""(?:
    LD_.* | DYLD_.* | GCONV_PATH | LOCPATH | NLSPATH | GLIBC_TUNABLES | MALLOC_.* | HOSTALIASES | RES_OPTIONS
    | PATH | CDPATH | ENV | IFS | BASH.* | SHELLOPTS | PS[0-9] | PROMPT_COMMAND | GLOBIGNORE | ZDOTDIR | SHELL
    | PYTHON.* | PIP_.* | UV_.* | VIRTUAL_ENV | CONDA.* | NODE_.* | NPM_.* | npm_.* | YARN_.* | PERL.* | RUBY.*
    | GEM_.* | BUNDLE_.* | LUA_.* | PHP.* | JAVA_.* | _JAVA_OPTIONS | JDK_.* | CLASSPATH | R_.* | RUST.* | CARGO_.*
    | GO.* | CC | CXX | CPP | LD | MAKEFLAGS | MAKEFILES | GNUMAKEFLAGS | TAR_OPTIONS | OPENSSL_.* | SSL_.*
    | GIT_.* | SSH_.* | EDITOR | VISUAL | PAGER | .*_PAGER | .*_EDITOR | LESS.* | BROWSER | HOME | XDG_.*
    )\Z""",
    re.VERBOSE,
)


class EnvGuard:
    """Judges the variables of one call."""

    def __init__(self, protected: Collection[str]) -> None:
        self._protected = frozenset(protected)

    def admit(self, raw: object, *, restricted: bool) -> dict[str, str]:
        """The variables. `restricted`: a command rule is active, so nothing may change what a command means."""
        variables = _shaped(raw)
        for name in variables:
            if name.upper().startswith("ABX_"):
                raise Refusal("env_var_denied", f"{quoted(name)} is reserved for the server; use another name")
        for name in variables:
            if name in self._protected:
                raise Refusal("env_var_not_allowed", f"{quoted(name)} is protected; use another name")
            if restricted and _STEERING.match(name):
                raise Refusal("env_var_not_allowed", f"{quoted(name)} may not be set where a rule names the commands")
        return variables


def _shaped(raw: object) -> dict[str, str]:
    """A map of names to text."""
    if not isinstance(raw, dict):
        raise Refusal("env_invalid", "variables are an object that maps names to text")
    for name, value in raw.items():
        if not isinstance(name, str) or not _NAME.match(name):
            raise Refusal("env_invalid", f"{quoted(name)} is no variable name; use letters, digits and _")
        if not isinstance(value, str) or "\0" in value or not encodable(value):
            raise Refusal("env_invalid", f"the value of {quoted(name)} must be text without NUL")
    return dict(raw)
