"""What policies would say, asked of the server's own program: this process never judges a policy."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from .._errors import SandboxError
from .._matrix import MatrixCell, MatrixColumn, MatrixRow, PolicyMatrixData
from .._public import public
from .interpreter import find_server
from .policies import TOKEN_VARIABLE, PolicySource, load_policy, token_variables

ROOT = "/workspace"
_SECONDS = 60.0
_AT_ONCE = 4
_PREFIX = "agent-sandbox-server: "
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from sandbox_server.cli import main; main()"


@public
def policy_matrix(
    policies: PolicySource | Sequence[PolicySource],
    *,
    paths: str | Sequence[str] = (),
    op: str | None = None,
    root: str = ROOT,
) -> PolicyMatrixData:
    """What each identity of each policy may call, and why not the rest; no sandbox is started.

    A policy is a preset's name, a file or a document, as for `Sandbox.local`; `root` is the directory that it would
    call the root. For every endpoint that takes paths, `paths` are judged too, for `op` (``read``, ``write``,
    ``delete``, ``exec``) or for what the endpoint itself does. Secrets that a policy names are not needed.
    """
    listed = [policies] if isinstance(policies, (str, os.PathLike, Mapping)) else list(policies)
    if not listed:
        raise SandboxError("no policy was given", hint='policy_matrix("workspace")')
    asked = [paths] if isinstance(paths, str) else list(paths)
    loaded = [load_policy(source) for source in listed]
    flags = ["--base-dir", root, *(f"--path={path}" for path in asked), *([f"--op={op}"] if op else [])]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda one: _asked(one[0], one[1], flags), loaded))
    return _joined(list(_unique(word for _, word in loaded)), answers, tuple(asked))


def _asked(document: Mapping[str, Any], word: str, flags: Sequence[str]) -> dict[str, Any]:
    """The answer of ``agent-sandbox-server matrix`` about one policy."""
    server = find_server()
    # A policy that takes tokens from the environment is not valid without them. Which they are makes no difference.
    environ = {name: secrets.token_hex(32) for name in (TOKEN_VARIABLE, *token_variables(document))}
    with tempfile.TemporaryDirectory(prefix="notebook-sandbox-") as directory:
        file = os.path.join(directory, "policy.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(document, out)
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", _RUN, os.path.dirname(server), "matrix", "--policy", file, *flags],
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SandboxError(f'the policy "{word}" was not judged within {_SECONDS:g} s') from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].removeprefix(_PREFIX)
        raise SandboxError(f'the policy "{word}" is not valid: {said}')
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _joined(words: Sequence[str], answers: Sequence[Mapping[str, Any]], paths: tuple[str, ...]) -> PolicyMatrixData:
    columns = [
        MatrixColumn("", word, who["id"], tuple(who["scopes"]), answer["revision"], answer["mode"])
        for word, answer in zip(words, answers, strict=True)
        for who in answer["identities"]
    ]
    crowd = Counter(column.policy for column in columns)
    titled = [replace(one, title=_title(one, len(words), crowd[one.policy])) for one in columns]
    cells = [
        {endpoint: MatrixCell.from_json(endpoint, row[who["id"]]) for endpoint, row in answer["cells"].items()}
        for answer in answers
        for who in answer["identities"]
    ]
    rows = [
        MatrixRow(one["id"], one["group"], one["summary"], tuple(column[one["id"]] for column in cells))
        for one in answers[0]["endpoints"]
    ]
    return PolicyMatrixData(tuple(titled), tuple(rows), paths)


def _title(column: MatrixColumn, policies: int, identities: int) -> str:
    if identities == 1:
        return column.policy
    return column.identity if policies == 1 else f"{column.policy}: {column.identity}"


def _unique(words: Iterator[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for word in words:
        seen[word] = seen.get(word, 0) + 1
        yield word if seen[word] == 1 else f"{word} ({seen[word]})"
