"""Which rules a refusal comes from: those that wrote the key which its code speaks of."""

from __future__ import annotations

from ..access import Identity, PathRule
from .rules import EffectiveRule

#: Code -> the keys of a rule that it speaks of. Whatever else is refused follows from the request itself.
_KEYS: dict[str, tuple[str, ...]] = {
    "missing_scope": ("scopes",),
    "path_not_allowed": ("paths.allow",),
    "path_denied": ("paths.deny",),
    "read_only": ("paths.read_only",),
    "symlink_denied": ("paths.symlinks",),
    "hardlink_denied": ("paths.hardlinks",),
    "extension_not_allowed": ("params.allow_extensions", "params.deny_extensions"),
    "command_not_allowed": ("params.allow_commands", "params.deny_commands"),
    "env_var_not_allowed": (
        "params.allow_vars", "params.deny_vars", "params.env_deny", "params.allow_commands", "params.deny_commands",
    ),
    "signal_not_allowed": ("params.allowed_signals",),
    "shell_not_allowed": ("params.shells",),
    "language_not_allowed": ("params.languages",),
    "url_not_allowed": ("params.url_allow", "params.url_deny"),
}  # fmt: skip
_ANY = PathRule()


def deciding(rule: EffectiveRule, identity: Identity, code: str) -> str | None:
    """Every rule behind a refusal, as in ``policy:endpoints.files_*.paths.deny``; None when nobody wrote one.

    For all other codes it is the rule that switched the endpoint on or off.
    """
    if code not in _KEYS:
        return rule.rule
    found: list[str] = []
    for key in _KEYS[code]:
        section, _, name = key.partition(".")
        if section != "paths" or _speaks(rule.paths, name):
            found += (f"{origin}.{key}" for origin in rule.origins.get(key, ()))
        if section == "paths" and identity.paths is not None and _speaks(identity.paths, name):
            found.append(f"policy:auth.tokens[{identity.id}].{key}")
    return ", ".join(found) or ("base_dir" if code == "path_not_allowed" else None)


def _speaks(paths: PathRule, key: str) -> bool:
    """Whether a path rule refuses anything by this key."""
    return bool(getattr(paths, key) != getattr(_ANY, key))
