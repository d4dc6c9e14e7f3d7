"""Recorded exchanges that this server answers otherwise, with the reason, and what it answers instead.

A listed exchange that is answered as recorded is an error, and so is one whose own answer differs from `OURS`.
"""

from __future__ import annotations

from typing import Any

MORE_ENDPOINTS = "our endpoints are counted too"
NO_CONFLICT_500 = "a conflict with what is there is no fault of the server"
NO_INPUT_500 = "malformed input is refused with 400, the same way on every endpoint"
NOT_FOUND = "a program that is not there is no fault of the server; the refusal comes before a stream begins"
TIMEOUT = "a timeout is 408 and carries the output so far"
KEPT = "a finished process keeps its exit status and output for a while, whoever lists"
AUDIT_CODE = "audit lines carry the code of the refusal"
DISGUISED = "an address that is not public is refused, however it is written"
ONE_CREDENTIAL = "a request carries one credential, so that nobody can try several at once"
ANONYMOUS = "beside tokens, anonymous callers hold only the scopes that a policy writes"
CONTENT_TYPE = "a body that calls itself something else is not read as JSON; web pages can send such bodies unasked"
PATTERN = "a malformed pattern is found when the policy is loaded, and named"
SESSION_ID = "the ids of terminals have 128 bits, so that nobody finds one by trying"
NO_STRANGERS = "who is not known is refused before the connection becomes a WebSocket, as every request is"
SIZE = "a terminal has 1 to 1000 columns and rows, when it is opened as when it is resized"
LINK_ITSELF = "deleting acts on the link that was named, not on its target"

DEVIATIONS: dict[str, str] = {
    "audit:denied_path_default_mode": AUDIT_CODE,
    "audit:not_found_counts_as_denied": AUDIT_CODE,
    "audit:server_error_counts_as_denied": NOT_FOUND,
    "audit:unrouted_not_audited": "requests that reach no endpoint are audited too",
    "auth:allow_anonymous_default_scopes_are_wildcard": ANONYMOUS,
    "auth:gateway_header_plus_valid_bearer": ONE_CREDENTIAL,
    "auth:wrong_bearer_plus_valid_x_access": ONE_CREDENTIAL,
    "commands:run_percent_encoded_name_404": "the name is decoded once, since clients encode it",
    "browser:navigate_loopback_alias_passes_decimal_ip": DISGUISED,
    "browser:navigate_loopback_alias_passes_octal_ip": DISGUISED,
    "browser:navigate_loopback_alias_passes_short_ip": DISGUISED,
    "core:capabilities_env_groups": MORE_ENDPOINTS,
    "core:capabilities_legacy_token_env": MORE_ENDPOINTS,
    "core:capabilities_preset_transfer_only": MORE_ENDPOINTS,
    "core:capabilities_token_identity": MORE_ENDPOINTS,
    "core:capabilities_unconfigured": MORE_ENDPOINTS,
    "core:capabilities_wildcard_identity_warning": MORE_ENDPOINTS,
    "core:head_501": "HEAD is answered like GET, without the body",
    "core:health_double_leading_slash": "every endpoint has one spelling; a doubled slash is another path",
    "core:unknown_route_404_before_auth": "strangers do not learn which paths exist",
    "core:unsupported_method_501": "a wrong method is 405 with Allow, in JSON",
    "core:wrong_method_is_404_not_405": "a wrong method is 405 with Allow, in JSON",
    "devtools:git_status_no_commits": "the branch has its name before the first commit too, and paths are not quoted",
    "devtools:git_status_rename": "a renamed file goes by its new path; `old_path` tells the old one",
    "files:body_array_nonempty_500": NO_INPUT_500,
    "files:body_content_type_not_checked": CONTENT_TYPE,
    "files:body_null_closes_without_response": NO_INPUT_500,
    "files:delete_dangling_symlink_404": LINK_ITSELF,
    "files:delete_symlink_removes_target": LINK_ITSELF,
    "files:list_duplicate_blank_value_not_detected": "a blank duplicate is a duplicate",
    "files:mkdir_over_file_500": NO_CONFLICT_500,
    "files:upload_empty_content_400": "an empty file is a file",
    "files:upload_onto_directory_500": NO_CONFLICT_500,
    "limits:shell_timeout_cap_500": TIMEOUT,
    "process:detail_after_list_404": KEPT,
    "process:output_lost_after_list_404": KEPT,
    "process:shell_argv_pattern_path_token_canonicalised": "the path that was judged is the one that the program gets",
    "process:shell_bad_pattern_blamed_on_caller_400": PATTERN,
    "process:shell_blank_command_500": NO_INPUT_500,
    "process:shell_missing_executable_500": NOT_FOUND,
    "process:shell_non_utf8_output_500": "output that is not UTF-8 is shown with replacement characters, and flagged",
    "process:shell_timeout_500": TIMEOUT,
    "process:shell_timeout_numeric_string": TIMEOUT,
    "process:shell_unbalanced_quote_500": NO_INPUT_500,
    "process:signal_exited_unreaped_200": "a process that has ended is not signalled, so no success is reported",
    "process:start_missing_executable_500": NOT_FOUND,
    "process:stream_blank_command_error_event": NO_INPUT_500,
    "pty_ws:auth_checked_before_session": NO_STRANGERS,
    "pty_ws:auth_header_beats_query_token": NO_STRANGERS,
    "pty_ws:auth_missing_4001": NO_STRANGERS,
    "pty_ws:auth_wrong_4001": NO_STRANGERS,
    "terminal:create_cols_out_of_range_500": SIZE,
    "terminal:create_default_bash": SESSION_ID,
    "terminal:create_env_ld_preload_silently_dropped": SESSION_ID,
    "terminal:create_policy_env_deny_is_literal_not_glob": SESSION_ID,
    "terminal:create_sh": SESSION_ID,
    "terminal:create_size_env": SESSION_ID,
    "terminal:create_ws_url_hides_token_with_identities": SESSION_ID,
    "terminal:create_zero_size_accepted": SIZE,
    "terminal:delete_ok": SESSION_ID,
    "terminal:detail": SESSION_ID,
    "terminal:list": SESSION_ID,
    "terminal:resize_numeric_strings": SESSION_ID,
    "terminal:resize_ok": SESSION_ID,
}


def _refused(status: int, kind: str, code: str, **facts: Any) -> dict[str, Any]:
    return {"status": status, "response_json": {"error": "<str>", "type": kind, "code": code, **facts}}


def _timeout() -> dict[str, Any]:
    return _refused(408, "TimeoutError", "timeout", stdout="", stderr="", truncated=False)


def _counted(
    groups: dict[str, tuple[int, int]], identity: dict[str, Any], warnings: list[str], preset: str = "default"
) -> dict[str, Any]:
    totals = {
        "core": 4, "commands": 2, "file_ops": 13, "process": 8,
        "terminal": 6, "system": 7, "dev_tools": 9, "browser": 8,
    }  # fmt: skip
    summary = {name: {"enabled": groups.get(name, (total, 0))[0], "total": total} for name, total in totals.items()}
    return {
        "status": 200,
        "response_json": {
            "api_version": 2,
            "server_version": "<str>",
            "groups": {name: counts["enabled"] > 0 for name, counts in summary.items()},
            "group_summary": summary,
            "identity": identity,
            "policy": {"preset": preset, "revision": "<hex16>", "configured": "<bool>"},
            "endpoints": "<object>",
            "warnings": warnings,
        },
    }


_OFF = (0, 0)
_OPT_IN_OFF = {"dev_tools": _OFF, "browser": _OFF}
_ANYONE = {"id": "anonymous", "scopes": ["*"]}


def _audited(status: int, code: str, endpoint: str | None, method: str, paths: list[str]) -> list[dict[str, Any]]:
    line = {"ts": "<float>", "identity": "anonymous", "endpoint": endpoint, "method": method, "decision": "deny"}
    return [{**line, "status": status, "code": code, "paths": paths}]


_SESSION = {"id": "<str>", "pid": "<int>", "created_at": "<float>", "cols": 80, "rows": 24, "alive": True}
_CREATED = {
    "status": 200,
    "response_json": {"session_id": "<str>", "ws_url": "<str>", "path": "<str>", "pid": "<int>"},
}
_RESIZED = {"status": 200, "response_json": {**_SESSION, "cols": 100, "rows": 30}}
_STRANGER = _refused(401, "AuthError", "unauthorized")
_SIZE = _refused(400, "ValueError", "invalid_argument", endpoint="pty_create_session", field="cols")


OURS: dict[str, dict[str, Any]] = {
    "audit:denied_path_default_mode": {
        "status": 403, "audit": _audited(403, "path_not_allowed", "files_stat", "GET", []),
    },
    "audit:not_found_counts_as_denied": {
        "status": 404, "audit": _audited(404, "not_found", "files_download_stream", "GET", ["<tmp>/base/none"]),
    },
    "audit:server_error_counts_as_denied": {"status": 404, "audit": _audited(404, "not_found", "shell", "POST", [])},
    "audit:unrouted_not_audited": {"status": 404, "audit": _audited(404, "unknown_route", None, "GET", [])},
    "auth:wrong_bearer_plus_valid_x_access": _refused(400, "ValueError", "ambiguous_credentials"),
    "auth:gateway_header_plus_valid_bearer": _refused(400, "ValueError", "ambiguous_credentials"),
    "auth:allow_anonymous_default_scopes_are_wildcard": _refused(
        403, "PolicyDenied", "missing_scope", endpoint="shell", scope="process:run", identity="anonymous"
    ),
    "commands:run_percent_encoded_name_404": {"status": 200, "response_json": {"result": "spaced"}},
    "browser:navigate_loopback_alias_passes_decimal_ip": _refused(403, "PolicyDenied", "url_denied"),
    "browser:navigate_loopback_alias_passes_octal_ip": _refused(403, "PolicyDenied", "url_denied"),
    "browser:navigate_loopback_alias_passes_short_ip": _refused(403, "PolicyDenied", "url_denied"),
    "core:capabilities_env_groups": _counted({}, _ANYONE, []),
    "core:capabilities_legacy_token_env": _counted(_OPT_IN_OFF, {"id": "server", "scopes": ["*"]}, ["<str>"]),
    "core:capabilities_preset_transfer_only": _counted(
        {**_OPT_IN_OFF, "commands": _OFF, "file_ops": (2, 0), "process": _OFF, "terminal": _OFF, "system": _OFF},
        _ANYONE, [], "transfer-only",
    ),
    "core:capabilities_token_identity": _counted(_OPT_IN_OFF, {"id": "reader", "scopes": ["files:read"]}, []),
    "core:capabilities_unconfigured": _counted(_OPT_IN_OFF, _ANYONE, []),
    "core:capabilities_wildcard_identity_warning": _counted(_OPT_IN_OFF, {"id": "admin", "scopes": ["*"]}, ["<str>"]),
    "core:head_501": {
        "status": 200,
        "response_headers": {"content-type": "application/json; charset=utf-8", "content-length": "15"},
    },
    "core:health_double_leading_slash": _refused(404, "ValueError", "unknown_route"),
    "core:unknown_route_404_before_auth": _refused(401, "AuthError", "unauthorized"),
    "core:unsupported_method_501": {
        **_refused(405, "ValueError", "method_not_allowed"), "response_headers": {"allow": "GET, HEAD"},
    },
    "core:wrong_method_is_404_not_405": {
        **_refused(405, "ValueError", "method_not_allowed"), "response_headers": {"allow": "GET, HEAD"},
    },
    "devtools:git_status_no_commits": {
        "status": 200,
        "response_json": {"branch": "main", "clean": False, "files": [{"path": "a b.txt", "status": "untracked"}]},
    },
    "devtools:git_status_rename": {
        "status": 200,
        "response_json": {
            "branch": "main", "clean": False,
            "files": [{"path": "g.txt", "status": "renamed", "old_path": "f.txt"}],
        },
    },
    "files:body_array_nonempty_500": _refused(400, "ValueError", "bad_body"),
    "files:body_content_type_not_checked": _refused(415, "ValueError", "unsupported_media_type"),
    "files:body_null_closes_without_response": _refused(400, "ValueError", "bad_body"),
    "files:delete_dangling_symlink_404": {
        "status": 200, "response_json": {"path": "<tmp>/base/l", "deleted": True},
    },
    "files:delete_symlink_removes_target": {
        "status": 200, "response_json": {"path": "<tmp>/base/l", "deleted": True},
    },
    "files:list_duplicate_blank_value_not_detected": _refused(
        400, "ValueError", "duplicate_parameter", endpoint="files_list"
    ),
    "files:mkdir_over_file_500": _refused(409, "FileExistsError", "file_exists", endpoint="files_mkdir"),
    "files:upload_empty_content_400": {
        "status": 200, "response_json": {"path": "<tmp>/base/e", "bytes": 0, "created": True},
    },
    "files:upload_onto_directory_500": _refused(404, "FileNotFoundError", "not_found"),
    "limits:shell_timeout_cap_500": _timeout(),
    "process:detail_after_list_404": {
        "status": 200,
        "response_json": {"pid": "<int>", "command": "sh -c 'exit 7'", "state": "exited", "exit_code": 7},
    },
    "process:output_lost_after_list_404": {
        "status": 200,
        "response_json": {
            "pid": "<int>", "events": [{"seq": 0, "stream": "stdout", "data": "out\n"}], "next": 1,
            "state": "exited", "exit_code": 4, "dropped": False,
        },
    },
    "process:shell_argv_pattern_path_token_canonicalised": {
        "status": 200, "response_json": {"stdout": "alpha", "stderr": "", "exit_code": 0},
    },
    "process:shell_bad_pattern_blamed_on_caller_400": {"exit_code": 1},
    "process:shell_blank_command_500": _refused(400, "ValueError", "process_invalid", endpoint="shell"),
    "process:shell_missing_executable_500": _refused(404, "FileNotFoundError", "not_found"),
    "process:shell_non_utf8_output_500": {
        "status": 200,
        "response_json": {"stdout": "\ufffd\ufffd", "stderr": "", "exit_code": 0, "encoding_errors": True},
    },
    "process:shell_timeout_500": _timeout(),
    "process:shell_timeout_numeric_string": _timeout(),
    "process:shell_unbalanced_quote_500": _refused(400, "ValueError", "command_invalid", endpoint="shell"),
    "process:signal_exited_unreaped_200": _refused(404, "NotFoundError", "process_not_found"),
    "process:start_missing_executable_500": _refused(404, "FileNotFoundError", "not_found"),
    "process:stream_blank_command_error_event": _refused(400, "ValueError", "process_invalid", endpoint="shell_stream"),
    "pty_ws:auth_checked_before_session": _STRANGER,
    "pty_ws:auth_header_beats_query_token": _STRANGER,
    "pty_ws:auth_missing_4001": _STRANGER,
    "pty_ws:auth_wrong_4001": _STRANGER,
    "terminal:create_cols_out_of_range_500": _SIZE,
    "terminal:create_default_bash": _CREATED,
    "terminal:create_env_ld_preload_silently_dropped": _CREATED,
    "terminal:create_policy_env_deny_is_literal_not_glob": _CREATED,
    "terminal:create_sh": _CREATED,
    "terminal:create_size_env": _CREATED,
    "terminal:create_ws_url_hides_token_with_identities": _CREATED,
    "terminal:create_zero_size_accepted": _SIZE,
    "terminal:delete_ok": {"status": 200, "response_json": {"status": "closed", "session_id": "<str>"}},
    "terminal:detail": {"status": 200, "response_json": _SESSION},
    "terminal:list": {"status": 200, "response_json": {"sessions": "<array>"}},
    "terminal:resize_numeric_strings": _RESIZED,
    "terminal:resize_ok": _RESIZED,
}  # fmt: skip
