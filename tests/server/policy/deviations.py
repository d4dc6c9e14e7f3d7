"""Recorded cases that this policy engine decides otherwise, with the reason. `docs/compatibility.md` lists them."""

from __future__ import annotations

DEVIATIONS: dict[str, str] = {
    "policy_errors:preset_unhashable": "a preset that is a list is refused like any other wrong value, not by a crash",
    "policy_errors:param_bad_command_pattern_not_caught": "a malformed command pattern is refused at start, "
    "not blamed on every caller",
    "policy_errors:unknown_endpoint_legacy_upload": "the old names upload and download are accepted, with a warning",
    "policy_errors:text_duplicate_keys_last_wins": "a key given twice is refused: one of the two would be lost unseen",
    "policy_errors:env_groups_unknown": "refused as recorded, without a hint: the group agents does not exist",
    "sizes:size_36": "sizes are written in ASCII digits",
    "layers:exact_allow_empty_resets": "an empty allow list denies every path; null returns to the base directory",
    "lint:glob_matching_nothing_not_flagged": "a glob that matches no endpoint is reported (L6)",
}
