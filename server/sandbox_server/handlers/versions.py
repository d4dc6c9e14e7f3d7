"""Whether a file is in the version that the caller's conditions ask for."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..call import Call
from ..guards.paths import Location
from ..messages import Headers, Refusal, quoted
from .conditions import demand_match, demands_absence, matches_none
from .metadata import etag_of


def present(look: Callable[[], os.stat_result]) -> os.stat_result | None:
    """What is there, if anything is."""
    try:
        return look()
    except FileNotFoundError:
        return None


def check_conditions(headers: Headers, path: Location, found: os.stat_result | None) -> None:
    """If-Match and If-None-Match against what was found."""
    etag = etag_of(found) if found else None
    demand_match(headers, etag)
    if not matches_none(headers, etag):
        raise already_there(path)


def check_again(call: Call, path: Location) -> None:
    """The same against what is there by now; before a change, in the path's turn."""
    headers = call.request.headers
    if "if-match" in headers or ("if-none-match" in headers and not demands_absence(headers)):
        check_conditions(headers, path, present(path.stat_now))


def already_there(path: Location) -> Refusal:
    return Refusal("precondition_failed", f"{quoted(path.path)} exists in a version that If-None-Match excludes")
