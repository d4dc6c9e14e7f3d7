"""Every fault met in the field is shown not to happen here, or waits for a part by name."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.faults import FAULTS, LATER

TESTS = Path(__file__).parent


def shown() -> set[int]:
    names = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return {int(number) for number in re.findall(r"def test_field_(\d{3})_", names)}


def test_every_fault_has_a_test_or_waits_for_a_part():
    assert set(FAULTS) - set(LATER) - shown() == set()


def test_what_has_a_test_waits_for_nothing():
    assert shown() & set(LATER) == set()
    assert shown() - set(FAULTS) == set()
