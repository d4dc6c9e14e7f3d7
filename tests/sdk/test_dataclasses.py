"""Public dataclasses grow only at the end, by fields with defaults: code that builds or unpacks them goes on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import sandbox_sdk

#: The fields of each public dataclass as first released, in order. Only ever add lines and names at the end.
RECORDED = json.loads((Path(__file__).parents[1] / "vectors" / "public_dataclasses.json").read_text())
PUBLIC = {
    name: value
    for name in sandbox_sdk.__all__
    if dataclasses.is_dataclass(value := getattr(sandbox_sdk, name)) and isinstance(value, type)
}


@pytest.mark.finding("R2-C2")
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_recorded_fields_stay_in_front_and_later_ones_have_defaults(name):
    fields = dataclasses.fields(PUBLIC[name])
    recorded = RECORDED[name]
    assert [field.name for field in fields[: len(recorded)]] == recorded
    for field in fields[len(recorded) :]:
        assert field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING, field.name


def test_every_public_dataclass_is_recorded():
    assert sorted(PUBLIC) == sorted(RECORDED)
