"""The policy: which endpoints exist, who may call them, and within which bounds."""

from __future__ import annotations

from .bound import BoundPolicy, PathJudge, PathJudges
from .lint import LintWarning
from .presets import PRESETS
from .rules import EffectiveRule
from .server_policy import ServerPolicy
from .sizes import parse_size
from .wording import PolicyConfigError

__all__ = [
    "PRESETS",
    "BoundPolicy",
    "EffectiveRule",
    "LintWarning",
    "PathJudge",
    "PathJudges",
    "PolicyConfigError",
    "ServerPolicy",
    "parse_size",
]
