"""File name extensions that a policy allows or denies."""

from __future__ import annotations

import os

from ..call import Call
from ..messages import Refusal, quoted


def judge_extension(call: Call, name: str) -> None:
    """The last suffix, lower-cased and with its dot, against the policy's two lists; deny wins."""
    suffix = os.path.splitext(name)[1].lower()
    params = call.grant.params
    allowed = params.get("allow_extensions")
    if suffix in params.get("deny_extensions", ()) or (allowed and suffix not in allowed):
        expected = f"; allowed are {', '.join(map(quoted, allowed))}" if allowed else ""
        call.deny(
            Refusal("extension_not_allowed", f"files ending in {quoted(suffix)} may not be written here{expected}")
        )
