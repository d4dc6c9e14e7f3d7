"""A local sandbox as it was asked for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._errors import SandboxError
from .order import LEVELS
from .policies import DEFAULT_PRESET, PolicySource, load_policy, only_policy, token_variables, with_own_token


@dataclass(frozen=True, slots=True)
class Settings:
    """Judged as far as that can be done before the server sees them."""

    document: Callable[[str], Mapping[str, Any]]  # base directory inside -> policy document
    policy: str  # a word for it
    root: str | None = None
    keep: bool = False
    name: str | None = None
    network: bool = False
    isolation: str = "auto"
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)  # the tokens that the policy names

    @classmethod
    def of(
        cls,
        policy: PolicySource = DEFAULT_PRESET,
        *,
        only: str | Iterable[str] | None = None,
        download_from: str | None = None,
        upload_to: str | None = None,
        root: str | os.PathLike[str] | None = None,
        keep: bool = False,
        name: str | None = None,
        network: bool = False,
        isolation: str = "auto",
    ) -> Settings:
        """From the arguments of `Sandbox.local`."""
        document, word = _policy(policy, only, download_from, upload_to)
        return cls(
            document=document,
            policy=word,
            root=None if root is None else os.fspath(root),
            keep=keep,
            name=name,
            network=network,
            isolation=isolation,
            variables={name: os.environ[name] for name in token_variables(document("/")) if name in os.environ},
        )

    def __post_init__(self) -> None:
        if self.isolation != "auto" and self.isolation not in LEVELS:
            names = ", ".join(f'"{name}"' for name in ("auto", *LEVELS))
            raise SandboxError(f'isolation "{self.isolation}" is not known; expected one of {names}')

    @property
    def directory(self) -> str | None:
        """The directory that was given, by its real name."""
        return None if self.root is None else os.path.realpath(self.root)

    @property
    def digest(self) -> str:
        """Equal when the same sandbox is asked for again."""
        asked = [self.document("/"), self.directory, self.network, self.isolation]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _policy(
    policy: PolicySource, only: str | Iterable[str] | None, download_from: str | None, upload_to: str | None
) -> tuple[Callable[[str], Mapping[str, Any]], str]:
    """The document, for a base directory that is not known yet, and a word for it."""
    if only is None:
        if download_from is not None or upload_to is not None:
            raise SandboxError('download_from and upload_to go with only, as in only="transfer"')
        given, word = load_policy(policy)
        if "base_dir" in given:
            raise SandboxError(
                f'the policy sets base_dir "{given["base_dir"]}", but a local sandbox serves its own directory',
                hint="leave base_dir out; relative paths start from the work directory",
            )
        document = with_own_token(given)
        return lambda base: document, word
    if policy != DEFAULT_PRESET:
        raise SandboxError("policy and only exclude each other; write into the policy what only should open")
    ids = [only] if isinstance(only, str) else list(only)
    return lambda base: only_policy(
        ids, base, download_from=download_from, upload_to=upload_to
    ), f"only {', '.join(ids)}"
