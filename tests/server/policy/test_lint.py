"""What lint reports: each rule fires where it should and, beside it, where it should not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.policy import ServerPolicy
from sandbox_server.policy.commands import RUNNERS, loose_pattern
from sandbox_server.policy.lint import LintWarning
from tests.server.policy.helpers import ENDPOINTS, bound, codes

SCOPED = {"files_*": {"paths": {"allow": ["/srv"]}}}
QUIET = {"process": False, "terminal": False}


def token(name: str, *scopes: str, digit: str = "1", **more: Any) -> dict[str, Any]:
    return {"id": name, "scopes": list(scopes), "token_sha256": digit * 64, **more}


def messages(document: object, code: str, **more: Any) -> list[str]:
    return [warning.message for warning in bound(document, **more).lint() if warning.code == code]


def notes(document: object) -> list[str]:
    return [note.code for note in bound(document).notes()]


def test_warnings_are_in_the_order_of_their_codes() -> None:
    policy = bound(
        {
            "mode": "observe",
            "endpoints": {
                "upload": {"params": {"overwrite": False}},
                "shell": {"params": {"deny_commands": ["rm"]}, "paths": {"deny": ["x"], "allow": ["/"]}},
                "fles_*": {},
            },
        }
    )
    assert [warning.code for warning in policy.lint()] == ["L1", "L2", "L4", "L6", "L8", "L9", "L12", "L13"]
    assert {warning.level for warning in policy.lint()} == {"warning"}


def test_l1_names_who_and_what() -> None:
    (message,) = messages(
        {"groups": {"terminal": False}, "endpoints": {"files_list": {"paths": {"read_only": True}}}}, "L1"
    )
    assert message == (
        '"anonymous" has path rules (files_list) and may also run programs (shell, shell_stream, process_start), '
        "which step around them; take one away, or give what runs its own paths.allow and set require_landlock"
    )


@pytest.mark.parametrize(
    "paths", [{"allow": []}, {"deny": ["x"]}, {"read_only": True}, {"symlinks": "never"}, {"hardlinks": "deny"}]
)
def test_l1_counts_every_kind_of_path_rule(paths: dict[str, Any]) -> None:
    assert codes({"endpoints": {"files_stat": {"paths": paths}}}) == ["L1"]


def test_l1_counts_a_tokens_own_paths() -> None:
    mine = token("t", "files:read", "process:run", paths={"allow": ["/srv"]})
    assert codes({"auth": {"tokens": [mine]}}) == ["L1"]
    assert codes({"auth": {"tokens": [{**mine, "scopes": ["files:read"]}]}}) == []


def test_l1_looks_at_anonymous_callers_beside_tokens() -> None:
    auth = {"tokens": [token("f", "files:read")], "allow_anonymous": True, "anonymous_scopes": ["files:*", "process:*"]}
    assert codes({"auth": auth, "endpoints": SCOPED}) == ["L1"]


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ({"allow": ["/srv"]}, []),
        ({"allow": ["/srv/deeper", "/srv/"]}, []),
        ({"allow": ["/srv", "/etc"]}, ["L1"]),
        ({"allow": ["/srv-evil"]}, ["L1"]),
        ({}, ["L1"]),
        ({"allow": ["/srv"], "deny": ["x"]}, ["L8"]),
    ],
)
def test_l1_trusts_the_kernel_only_when_it_must_be_there(own: dict[str, Any], found: list[str]) -> None:
    document = {
        "require_landlock": True,
        "groups": {"terminal": False},
        "endpoints": {**SCOPED, "shell*": {"paths": own}, "process_start": {"paths": own}},
    }
    assert codes(document) == found
    assert "L1" in codes({**document, "require_landlock": False})


def test_l1_asks_programs_to_be_read_only_where_files_are() -> None:
    def found(read_only: bool) -> list[str]:
        return codes(
            {
                "require_landlock": True,
                "groups": QUIET,
                "endpoints": {
                    "files_*": {"paths": {"deny": ["x"], "read_only": True}},
                    "code_run": {"enabled": True, "paths": {"allow": ["/home/user"], "read_only": read_only}},
                },
            }
        )

    assert found(False) == ["L1"]
    assert found(True) == ["L8"]  # the patterns bind nobody else


def test_the_workspace_preset_is_reported_for_what_the_kernel_does_not_hold() -> None:
    assert codes({"preset": "workspace"}) == ["L1"]
    assert codes({"preset": "workspace", "require_landlock": True}) == ["L8"]  # secrets that are denied by name
    (message,) = messages({"preset": "workspace", "require_landlock": True}, "L8")
    assert message == (
        "paths.deny of files_list, files_stat, files_mkdir, files_delete, files_move and 8 more judges the paths that "
        '"anonymous" names, not what its programs open (shell, shell_stream, process_start, pty_create_session, '
        "code_run and 2 more); keep secrets out of paths.allow instead"
    )


def test_l2_knows_the_root_however_it_is_spelt() -> None:
    def found(place: str) -> list[str]:
        document = {"groups": {**QUIET, "commands": False}, "endpoints": {"files_list": {"paths": {"allow": [place]}}}}
        return codes(document) + notes(document)

    assert found("/") == found("/usr/..") == found("/.") == found("///") == ["L2"]
    assert found("//") == found("//usr/..") == ["N2"]
    assert found("/usr") == []


def test_l2_says_each_place_once_and_nothing_about_what_is_off() -> None:
    everywhere = {"groups": QUIET, "endpoints": {"files_*": {"paths": {"allow": ["/", "/"]}}}}
    (message,) = messages(everywhere, "L2")
    assert message == 'files_list may reach the whole file system (paths.allow "/"); name directories'
    assert codes({**everywhere, "groups": {**QUIET, "file_ops": False}}) == []


def test_l3_names_the_tokens_that_hold_everything() -> None:
    auth = {"tokens": [token("a", "*"), token("b", "files:read", digit="2"), token("c", "*", digit="3")]}
    assert messages({"auth": auth}, "L3") == [
        f'token "{name}" holds every scope ("*") beside narrower ones; list its scopes' for name in ("a", "c")
    ]


def test_l4_concerns_an_upload_without_a_place_of_its_own() -> None:
    rule = {"params": {"overwrite": False}}
    assert codes({"endpoints": {"files_upload_stream": rule}}) == ["L4"]
    assert codes({"endpoints": {"files_upload_stream": {**rule, "enabled": False}}}) == []
    assert codes({"endpoints": {"files_upload_stream": {"params": {"overwrite": True}}}}) == []


@pytest.mark.finding("R2-S15")
def test_l5_reports_a_policy_file_and_a_directory_that_the_server_could_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.json"
    file.write_text("{}")
    policy = ServerPolicy.from_file(str(file)).bind(ENDPOINTS, environ={})
    writable = {str(file), str(tmp_path)}
    monkeypatch.setattr(os, "access", lambda place, mode: place in writable and mode == os.W_OK)
    assert policy.lint_file(str(file)) == [
        LintWarning(
            "L5",
            f"the policy's {kind} \"{place}\" is writable by this server's user, who could relax the policy; "
            "give it to root, mode 0644 or 0755",
        )
        for kind, place in (("file", file), ("directory", tmp_path))
    ]
    writable.remove(str(file))
    assert [warning.message[:22] for warning in policy.lint_file(str(file))] == ["the policy's directory"]
    writable.clear()
    assert policy.lint_file(str(file)) == []
    assert policy.lint() == []


def test_n1_reports_a_terminal_where_nothing_else_runs_programs() -> None:
    document = {"groups": {"process": False, "commands": False}, "endpoints": SCOPED}
    (note,) = (note for note in bound(document).notes() if note.code == "N1")
    assert note.message.endswith(
        "may also open a terminal (pty_create_session), which steps around them; switch the group terminal off"
    )
    assert codes(document) == []
    assert "N1" not in notes({**document, "groups": QUIET})
    assert "N1" not in notes({"groups": {"process": False}})
    assert "N1" not in notes({"endpoints": SCOPED})  # L1 says it already


@pytest.mark.parametrize("place", ["/home/*/out", "/w/[ab]", "/w/?"])
def test_l7_reports_a_pattern_in_an_allow_list(place: str) -> None:
    document = {"groups": QUIET, "endpoints": {"files_list": {"paths": {"allow": [place]}}}}
    (message,) = messages(document, "L7")
    assert message == (
        f'paths.allow of files_list has "{place}", which is taken literally, not as a pattern; name the directories'
    )


@pytest.mark.parametrize("endpoint", ["shell", "process_start", "code_run", "pty_create_session"])
def test_l8_reports_deny_patterns_where_programs_run(endpoint: str) -> None:
    document = {"groups": ["dev_tools"], "endpoints": {endpoint: {"paths": {"deny": ["*.pem"]}}}}
    (message,) = messages(document, "L8")
    assert message.startswith(
        f'paths.deny of {endpoint} judges the paths that "anonymous" names, not what its programs open (shell, '
    )
    assert message.endswith("); keep secrets out of paths.allow instead")
    off = {"groups": ["dev_tools"], "endpoints": {endpoint: {"enabled": False, "paths": {"deny": ["*.pem"]}}}}
    assert messages(off, "L8") == []


@pytest.mark.field(161)
@pytest.mark.parametrize(
    ("pattern", "program"),
    [
        ("bash", "bash"), ("/bin/sh", "sh"), ("env ...", "env"), ("python3 script.py ...", "python3"),
        ("*", "sh"), ("py*", "python"), ("find /srv ...", "find"), ("...", "sh"),
        ("ls", None), ("ls ...", None), ("python3 script.py", None), ("git status", None), ("cat {path}", None),
    ],
)  # fmt: skip
def test_field_161_a_pattern_that_admits_any_program_is_known(pattern: str, program: str | None) -> None:
    assert loose_pattern(pattern) == program


@pytest.mark.field(161)
def test_field_161_l9_reports_command_rules_that_wrappers_get_round() -> None:
    def found(**params: list[str]) -> list[str]:
        document = {"groups": {"terminal": False}, "endpoints": {"shell": {"params": params}}}
        return messages(document, "L9")

    assert found(deny_commands=["rm"]) == [
        "deny_commands of shell stops nobody: a shell, env, or a copy under another name runs the same program; "
        "list allow_commands"
    ]
    assert found(allow_commands=["ls", "env ..."], deny_commands=["rm"]) == [
        'allow_commands of shell has "env ...", and "env" runs any other program; spell out its arguments'
    ]
    assert found(allow_commands=["ls ...", "git status"]) == []
    assert codes({"endpoints": {"shell": {"enabled": False, "params": {"deny_commands": ["rm"]}}}}) == []
    assert len(set(RUNNERS)) == len(RUNNERS)


def test_l10_reports_anonymous_callers_who_hold_everything_beside_tokens() -> None:
    auth: dict[str, Any] = {"tokens": [token("a", "files:read")], "allow_anonymous": True}
    assert codes({"auth": {**auth, "anonymous_scopes": ["*"]}}) == ["L10"]
    assert codes({"auth": auth}) == []
    assert codes({"auth": {**auth, "allow_anonymous": False, "anonymous_scopes": ["*"]}}) == []


def test_l11_reports_names_and_secrets_that_two_share() -> None:
    tokens = [token("*", "files:read"), token("anonymous", "files:read"), token("x", "files:read", digit="2")]
    assert messages({"auth": {"tokens": tokens}}, "L11") == [
        'a token is called "*", which audit lines use for something else; rename it',
        'a token is called "anonymous", which audit lines use for something else; rename it',
        'tokens "*" and "anonymous" share a secret; "*" always wins',
    ]


def test_l13_reports_a_policy_that_only_observes() -> None:
    assert codes({"mode": "observe"}) == ["L13"]
    assert codes({"mode": "enforce"}) == []


RULED = {"shell*": {"params": {"allow_commands": ["ls"]}}}
OTHERS_OFF = {"groups": {"terminal": False, "commands": False}}


@pytest.mark.parametrize("base", ["/", "/usr", "/usr/local/bin", "//usr/bin/."])
def test_l14_names_who_may_replace_the_programs_that_a_rule_allows(base: str) -> None:
    (message,) = messages({**OTHERS_OFF, "base_dir": base, "endpoints": RULED}, "L14")
    assert message.startswith(
        'allow_commands of shell, shell_stream names programs that "anonymous" may replace: files_mkdir, '
    )
    assert message.endswith('/bin"; allow directories without programs') or "/sbin" in message


@pytest.mark.parametrize(
    "document",
    [
        {"base_dir": "/", "endpoints": {}},
        {"base_dir": "/home", "endpoints": RULED},
        {"base_dir": "/usr/local/binary", "endpoints": RULED},
        {"base_dir": "/", "endpoints": {**RULED, "files_*": {"paths": {"allow": ["/data"]}}}},
        {"base_dir": "/", "endpoints": {**RULED, "files_*": {"paths": {"allow": []}}}},
        {"base_dir": "/", "endpoints": {**RULED, "files_*": {"paths": {"read_only": True}}}},
        {"base_dir": "/", "endpoints": RULED, "auth": {"tokens": [token("t", "*", paths={"allow": ["/data"]})]}},
        {"base_dir": "/", "endpoints": RULED, "auth": {"tokens": [
            token("runs", "process:run"), token("writes", "files:write", digit="2")]}},
    ],
)  # fmt: skip
def test_l14_is_silent_where_nobody_may_do_both(document: dict[str, Any]) -> None:
    assert messages({**OTHERS_OFF, **document}, "L14") == []


def test_notes_tell_what_is_true_of_sound_policies_too(tmp_path: Path) -> None:
    assert notes({}) == []
    assert notes({"base_dir": "/srv"}) == ["N4"]
    assert notes({"base_dir": "/srv", "groups": QUIET}) == []
    here = {"groups": QUIET, "endpoints": {"files_*": {"paths": {"allow": [str(tmp_path)]}}}}
    assert notes(here) == ["N3"]
    assert notes({**here, "groups": {**QUIET, "commands": False}}) == []
    gone = {"groups": QUIET, "endpoints": {"files_*": {"paths": {"allow": [str(tmp_path / "gone")]}}}}
    assert notes(gone) == ["N3", "N5"]
    assert {note.level for note in bound(gone).notes()} == {"note"}
    assert notes({**here, "base_dir": "/srv", "groups": {}}) == ["N3"]  # L1 says the rest


@pytest.mark.finding("R1-F7")
@pytest.mark.parametrize(("own", "found"), [("/srv", []), ("/srv/deeper", []), ("/var", [])])
def test_l1_knows_that_the_kernel_keeps_a_tokens_own_paths_too(own: str, found: list[str]) -> None:
    mine = token("t", "files:read", "process:run", paths={"allow": [own]})
    assert codes({"require_landlock": True, "auth": {"tokens": [mine]}}) == found
    assert codes({"require_landlock": True, "auth": {"tokens": [token("t", "*")]}, "endpoints": SCOPED})[0] == "L1"


KNOWN = sorted({scope for endpoint in ENDPOINTS.values() for scope in endpoint.scopes})


@pytest.mark.parametrize(
    ("scope", "hint"),
    [
        ("files:reed", '; did you mean "files:read"?'),
        ("file:*", '; did you mean "files:*"?'),
        ("files", '; did you mean "files:*"?'),
        ("banana", f"; known ones are {', '.join(KNOWN)}, and what --commands brings"),
    ],
)
def test_l15_names_a_scope_that_nothing_asks_for(scope: str, hint: str) -> None:
    assert messages({"auth": {"tokens": [token("t", "files:write", scope)]}}, "L15") == [
        f'token "t" holds "{scope}", which no endpoint asks for{hint}'
    ]
    auth = {"allow_anonymous": True, "anonymous_scopes": [scope]}
    assert messages({"auth": auth}, "L15") == [
        f'callers without a token hold "{scope}", which no endpoint asks for{hint}'
    ]


def test_l15_knows_every_scope_that_something_asks_for() -> None:
    assert codes({"auth": {"tokens": [token("t", *KNOWN, "files:*", "core:read")]}}) == []
    deployer = {"auth": {"tokens": [token("t", "deploy:web"), token("u", "deploy:*", digit="2")]}}
    assert codes(deployer) == ["L15", "L15"]
    assert codes(deployer, command_scopes=["deploy:web"]) == []
    assert codes({**deployer, "endpoints": {"system_info": {"scopes": ["deploy:web"]}}}) == []
