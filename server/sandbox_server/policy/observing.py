"""`mode: observe`: every call runs as if the policy allowed it, and what the policy would refuse is noted.

Three things stay as they are, because nobody could take back what happened beyond them: who is calling, how much a
request may ask for, and the boundary: the base directory and the directories that rules allow.
"""

from __future__ import annotations

from ..access import Grant, PathRule
from ..messages import Refusal

_NEVER = ("/proc", "/sys", "/dev")
#: Rules whose guards are asked twice, once with them and once without. Handlers note what the other ones refuse.
_GUARDED = frozenset({"allow_commands", "deny_commands", "url_allow", "url_deny"})


def observed(strict: Grant, refusal: Refusal | None, base_dir: str) -> Grant:
    """What a call gets instead of `strict`, which stays within reach so that every step can ask what it would say."""
    rule = strict.paths
    allow = tuple(dict.fromkeys((*(rule.allow or ()), base_dir))) if rule.bounded else None
    return strict._replace(
        paths=PathRule(allow=allow, deny=_NEVER),
        params={name: value for name, value in strict.params.items() if name not in _GUARDED},
        strict=strict,
        would=refusal,
    )
