"""What the kernel under the tests can confine."""

from __future__ import annotations

import ctypes

_CREATE_RULESET, _VERSION = 444, 1  # landlock(7): this call with this flag answers the version


def abi() -> int:
    """The version of Landlock that the kernel offers; 0 when it has none or has it switched off."""
    answer: int = ctypes.CDLL(None).syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_long(0), ctypes.c_long(_VERSION)
    )
    return max(answer, 0)
