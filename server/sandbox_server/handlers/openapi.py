"""This server as an OpenAPI 3.1 document."""

from __future__ import annotations

from ..call import Call
from ..messages import Response, json_response


def openapi(call: Call) -> Response:
    return json_response({})
