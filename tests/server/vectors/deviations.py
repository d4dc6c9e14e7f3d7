"""Recorded exchanges that this server answers otherwise, with the reason, and what it answers instead.

A listed exchange that is answered as recorded is an error, and so is one whose own answer differs from `OURS`.
"""

from __future__ import annotations

from typing import Any

DEVIATIONS: dict[str, str] = {}
OURS: dict[str, dict[str, Any]] = {}
