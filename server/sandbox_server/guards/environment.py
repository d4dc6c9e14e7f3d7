"""Variables that a caller gives a child."""

from __future__ import annotations

import re
from collections.abc import Collection

from ..messages import Refusal, quoted
from .encoding import encodable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

#: Variables by which a program loads other code, reads other settings or finds other programs. Under a rule that
#: names the allowed commands they would choose what really runs. In order: the loader and the C library; shells;
#: interpreters; building; packing, searching and showing; editors; the network; clients of other systems; desktops;
#: and whatever tells by its name that it is of that sort. `re` compiles it at its first use and keeps it: few servers
#: ever need it, and it would take a good part of every start.
_STEERING = r"""(?:
    LD_.* | DYLD_.* | LIBPATH | SHLIB_PATH | GCONV_PATH | LOCPATH | NLSPATH | GLIBC_TUNABLES | MALLOC_.* | HOSTALIASES
    | RES_OPTIONS | LOCALDOMAIN | .*SAN_OPTIONS
    | PATH | CDPATH | FPATH | ENV | IFS | BASH.* | SHELLOPTS | PS[0-9] | PROMPT_COMMAND | GLOBIGNORE | ZDOTDIR
    | ZSH.* | FISH_.* | fish_.* | SHELL | FCEDIT | HISTFILE | INPUTRC | POSIXLY_CORRECT
    | PYTHON.* | IPYTHON.* | JUPYTER.* | MPL(?:BACKEND|CONFIGDIR) | PIP_.* | PIPENV_.* | POETRY_.* | UV_.* | VIRTUAL_ENV
    | CONDA.* | SETUPTOOLS_.* | PYTEST_.* | TOX_.* | NODE_.* | NPM_.* | npm_.* | YARN_.* | PNPM_.* | DENO_.* | BUN_.*
    | PERL.* | RUBY.* | GEM_.* | BUNDLE_.* | LUA.* | PHP.* | JAVA_.* | _JAVA_OPTIONS | JDK_.* | CLASSPATH | MAVEN_.*
    | GRADLE_.* | ANT_.* | R_.* | JULIA_.* | OCTAVE.* | TCL.* | TK_.* | AWK.* | GAWK.* | GUILE_.* | SCHEME.*
    | ERL.* | ELIXIR_.* | MIX_.* | HEX_.* | OCAML.* | CAML.* | GHC.* | STACK_(?:ROOT|YAML) | CABAL_.* | DOTNET_.*
    | COMPlus_.* | MONO_.* | NUGET_.*
    | RUST.* | CARGO_.* | GO.* | CC | CXX | CPP | LD | AR | AS | NM | LDSHARED | GCC_.* | COMPILER_PATH
    | LIBRARY_PATH | CPATH | .*_INCLUDE_PATH | COLLECT_.* | CCACHE_.* | DISTCC_.* | MAKEFILES | CMAKE_.* | CTEST_.*
    | PKG_CONFIG.* | ACLOCAL.* | AUTOCONF | AUTOM4TE.* | M4.* | NINJA_.* | MESON.*
    | GZIP | BZIP2? | XZ_.* | ZSTD_.* | ZIP | ZIPOPT | UNZIP | UNZIPOPT | ZIPINFO.* | TAR_.* | TAPE | RIPGREP_.*
    | FZF_.* | PARALLEL.* | LESS.* | MORE | MAN(?:OPT|PAGER|PATH) | TERMINFO.* | TERMCAP | TERMPATH | SCREEN(?:RC|DIR)
    | TMUX.* | VISUAL | EXINIT | VIM.* | MYVIMRC | NVIM.* | EMACS.* | BROWSER
    | (?i:\w+_proxy) | OPENSSL_.* | SSL.* | SSH_.* | RSYNC_.* | CVS.* | SVN_.* | HG.* | GIT_.* | WGETRC | SYSTEM_WGETRC
    | CURL_.* | NETRC | GNUPGHOME | GPG_.* | SUDO_.* | KRB5.* | NSS_.* | P11_.* | PKCS11.*
    | AWS_.* | AZURE_.* | GOOGLE_.* | CLOUDSDK_.* | KUBE.* | DOCKER_.* | HELM_.* | TF_(?:CLI|PLUGIN|DATA).* | VAULT_.*
    | ANSIBLE_.* | PG(?:SERVICE|SYSCONF|PASS|SSL|HOST).* | PSQL.* | MYSQL_.* | MARIADB_.* | ODBC.*
    | GTK.* | GDK_.* | GIO_.* | GST_.* | QT_.* | QML.* | KDE.* | DBUS_.* | LIBGL_.* | VK_.* | MAGICK_.* | GS_.*
    | FONTCONFIG_.* | CUDA_INJECTION.* | HOME | XDG_.*
    | .*(?:OPTIONS|OPTS|FLAGS|PRELOAD|_RSH|_SSH|ASKPASS|PAGER|EDITOR|_COMMAND|_CONFIG|_CONFIG_FILE|_HOOKS?|_PLUGINS?)
    )\Z"""


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
            if restricted and self.steers(name):
                raise Refusal("env_var_not_allowed", f"{quoted(name)} may not be set where a rule names the commands")
        return variables

    @staticmethod
    def steers(name: str) -> bool:
        """Whether a variable of this name may change what a command means."""
        return re.match(_STEERING, name, re.VERBOSE) is not None


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
