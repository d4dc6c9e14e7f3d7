"""Every route answers the same under both spellings of its path, and none redirects."""

from __future__ import annotations

import re

import pytest

from sandbox_server.catalogue import builtin
from tests.support.server import running_server


@pytest.mark.field(14)
def test_field_014_a_trailing_slash_changes_nothing(tmp_path):
    with running_server(tmp_path) as server:
        for endpoint in builtin().values():
            if endpoint.virtual:
                continue
            path = re.sub(r"\{\w+\}", "1", endpoint.path)
            plain, slashed = (server.request(endpoint.method, spelling) for spelling in (path, path + "/"))
            assert plain.status == slashed.status, endpoint.id
            assert not 300 <= plain.status < 400
            assert plain.status == 200 or plain.json() == slashed.json()
