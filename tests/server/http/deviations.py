"""Recorded raw requests that this server answers otherwise: why, and with which status and code."""

from __future__ import annotations

_JSON = "refusals of the framing are JSON like all others, never HTML"
_STRANGER = "refused before anybody is authenticated, so it does not tell which endpoint the path would reach"

DEVIATIONS: dict[str, str] = {
    "framing:http10_response_to_11_request": "answers are HTTP/1.1 and the connection stays open",
    "framing:keep_alive_not_honoured": "keep-alive is honoured",
    "framing:short_body_hangs": "a body that does not come is given up after 30 s; the recorded server waits for ever",
    "framing:chunked_400": _STRANGER,
    "framing:chunked_400_with_policy": _STRANGER,
    "framing:transfer_encoding_identity_400": _STRANGER,
    "framing:transfer_encoding_on_delete_400": _STRANGER,
    "framing:transfer_encoding_on_get_ignored": "refused everywhere: a body that nobody reads is a smuggled request",
    "framing:two_authorization_headers_any_match": "two different credentials are ambiguous, in whatever header",
    "framing:http_09_request": "a line without a version is answered with a refusal, not by a dropped connection",
    "framing:bad_version_400": _JSON + "; the status is 505",
    "framing:header_line_too_long_431": _JSON,
    "framing:too_many_headers_431": _JSON,
    "framing:request_line_too_long_414": _JSON,
    "framing:absolute_form_target": "only origin-form is served; this is no proxy",
    "framing:fragment_in_target": "a fragment is never sent by a client that knows the protocol",
    "framing:semicolon_params_stripped": "the path is matched as it is sent",
    "framing:deeply_nested_json": "refused with an answer instead of a dropped connection",
    "framing:utf16_json_accepted": "JSON is UTF-8; guessing encodings lets two readers see two documents",
    "framing:json_duplicate_keys_last_wins": "a repeated key is refused; two readers may see two documents",
}

#: The version in the status line, of every answer: recorded, and ours. The version is that of the server, not of the
#: request (RFC 9110, section 2.5), and ours keeps connections.
VERSION = ("HTTP/1.0", "HTTP/1.1")

#: What is answered instead: status and code.
OURS: dict[str, tuple[int, str | None]] = {
    "framing:http10_response_to_11_request": (200, None),
    "framing:keep_alive_not_honoured": (200, None),
    "framing:short_body_hangs": (408, "timeout"),
    "framing:chunked_400": (400, "unsupported_encoding"),
    "framing:chunked_400_with_policy": (400, "unsupported_encoding"),
    "framing:transfer_encoding_identity_400": (400, "unsupported_encoding"),
    "framing:transfer_encoding_on_delete_400": (400, "unsupported_encoding"),
    "framing:transfer_encoding_on_get_ignored": (400, "unsupported_encoding"),
    "framing:two_authorization_headers_any_match": (400, "ambiguous_credentials"),
    "framing:http_09_request": (400, "bad_request"),
    "framing:bad_version_400": (505, "version_not_supported"),
    "framing:header_line_too_long_431": (431, "headers_too_large"),
    "framing:too_many_headers_431": (431, "headers_too_large"),
    "framing:request_line_too_long_414": (414, "target_too_long"),
    "framing:absolute_form_target": (400, "bad_request"),
    "framing:fragment_in_target": (400, "bad_request"),
    "framing:semicolon_params_stripped": (404, "unknown_route"),
    "framing:deeply_nested_json": (400, "bad_body"),
    "framing:utf16_json_accepted": (400, "bad_body"),
    "framing:json_duplicate_keys_last_wins": (400, "bad_body"),
}
