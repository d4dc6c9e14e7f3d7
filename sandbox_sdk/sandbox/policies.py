"""What `Sandbox.local(policy=…, only=…)` means: a policy document. Judging it is the server's job."""

from __future__ import annotations

import importlib
import json
import os
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from .._errors import SandboxError

DEFAULT_PRESET = "workspace"
TOKEN_VARIABLE = "ABX_SERVER_TOKEN"
UPLOAD, DOWNLOAD = "files_upload_stream", "files_download_stream"
ALIASES = {"transfer": (UPLOAD, DOWNLOAD), "upload": (UPLOAD,), "download": (DOWNLOAD,)}
FILE_ENDINGS = (".json", ".yaml", ".yml")

PolicySource = str | os.PathLike[str] | Mapping[str, Any]


def load_policy(source: PolicySource) -> tuple[dict[str, Any], str]:
    """The document that a preset's name, a file or a mapping stands for, and a word for it."""
    if isinstance(source, Mapping):
        preset = source.get("preset")
        return dict(source), f"{preset} and more" if preset and len(source) > 1 else str(preset or "custom")
    text = os.fspath(source)
    if not isinstance(source, str) or "/" in text or text.endswith(FILE_ENDINGS):
        return _read(text), os.path.basename(text)
    return {"preset": text}, text


def only_policy(
    endpoints: str | Iterable[str], root: str, *, download_from: str | None = None, upload_to: str | None = None
) -> dict[str, Any]:
    """Everything off but these endpoints, and transfers bound to one directory each."""
    ids = [endpoints] if isinstance(endpoints, str) else list(endpoints)
    rules: dict[str, Any] = {"*": {"enabled": False}}
    for name in (expanded for each in ids for expanded in ALIASES.get(each, (each,))):
        rules[name] = {"enabled": True}
    for name, directory in ((DOWNLOAD, download_from), (UPLOAD, upload_to)):
        if directory is not None:
            rules.setdefault(name, {"enabled": True})["paths"] = {"allow": [posixpath.join(root, directory)]}
    return {"endpoints": rules}


def with_own_token(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document, with this notebook as one more identity when it lists identities and ours is not among them.

    A policy with tokens ignores the generated one unless an entry names its variable.
    """
    auth = document.get("auth")
    tokens = auth.get("tokens") if isinstance(auth, Mapping) else None
    if not isinstance(auth, Mapping) or not isinstance(tokens, list) or not tokens or TOKEN_VARIABLE in _names(tokens):
        return dict(document)
    own = {"id": "notebook", "scopes": ["*"], "token_env": TOKEN_VARIABLE}
    return {**document, "auth": {**auth, "tokens": [*tokens, own]}}


def token_variables(document: Mapping[str, Any]) -> list[str]:
    """The environment variables that the document takes tokens from, besides ours."""
    auth = document.get("auth")
    tokens = auth.get("tokens") if isinstance(auth, Mapping) else None
    return [name for name in _names(tokens) if name != TOKEN_VARIABLE] if isinstance(tokens, list) else []


def _names(tokens: Iterable[Any]) -> list[str]:
    return [str(entry["token_env"]) for entry in tokens if isinstance(entry, Mapping) and "token_env" in entry]


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise SandboxError(f'cannot read the policy file "{path}": {error.strerror}') from None
    document = _parse_yaml(text, path) if path.endswith((".yaml", ".yml")) else _parse_json(text, path)
    if not isinstance(document, dict):
        raise SandboxError(f'the policy file "{path}" holds no object')
    return document


def _parse_json(text: str, path: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SandboxError(f'the policy file "{path}" is not JSON: {error}') from None


def _parse_yaml(text: str, path: str) -> object:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise SandboxError(
            f'the policy file "{path}" is YAML, which needs PyYAML', hint="pip install pyyaml, or write it as JSON"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SandboxError(f'the policy file "{path}" is not YAML: {error}') from None
