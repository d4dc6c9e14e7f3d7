"""The receipt of a finished upload."""

from __future__ import annotations

from ..guards.paths import Location
from ..messages import Response, json_response
from .conditions import repr_digest
from .inplace import Placed
from .metadata import etag_of, octal
from .receiving import Content


def receipt(path: Location, placed: Placed, content: Content) -> Response:
    """What was stored, and as what."""
    facts = placed.facts
    digest = content.digest
    response = json_response(
        {
            "path": path.path,
            "bytes": content.length,
            "size": facts.st_size,
            "mode": octal(facts.st_mode),
            "mtime": facts.st_mtime,
            "etag": etag_of(facts),
            "sha256": digest.value().hex() if digest else None,
            "created": placed.created,
            "replaced_directly": placed.direct,
        }
    )
    if digest and content.length == facts.st_size:
        response.headers.append(repr_digest(digest.value()))
    return response
