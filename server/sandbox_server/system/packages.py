"""What is installed, from the metadata on the disk. No package manager is run: it would read the caller's settings."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from .reading import text

MOST_PACKAGES = 10_000
_METADATA_BYTES = 1 << 16
_PYTHON = re.compile(r"python(\d+\.\d+)")

Package = tuple[str, str]


def python_packages(program_path: Sequence[str]) -> list[Package]:
    """Name and version of what the ``python3`` of this search path can import, by name."""
    found: dict[str, Package] = {}
    for directory in _site_directories(program_path):
        for entry in _entries(directory):
            if entry.endswith(".dist-info"):
                file = f"{directory}/{entry}/METADATA"
            elif entry.endswith(".egg-info"):
                folder = f"{directory}/{entry}"
                file = f"{folder}/PKG-INFO" if _entries(folder) else folder
            else:
                continue
            if len(found) < MOST_PACKAGES and (package := _described(file)):
                found.setdefault(_normalised(package[0]), package)
    return sorted(found.values(), key=lambda package: package[0].lower())


def node_packages(program_path: Sequence[str]) -> list[Package]:
    """Name and version of what is installed globally for ``node``, by name."""
    found: dict[str, Package] = {}
    for prefix in _prefixes(program_path, "node"):
        modules = f"{prefix}/lib/node_modules"
        for entry in _entries(modules):
            names = [f"{entry}/{inner}" for inner in _entries(f"{modules}/{entry}")] if entry[0] == "@" else [entry]
            for name in names:
                if len(found) < MOST_PACKAGES and (package := _manifest(f"{modules}/{name}/package.json")):
                    found.setdefault(package[0], package)
    return sorted(found.values())


def _site_directories(program_path: Sequence[str]) -> Iterator[str]:
    """Where the first ``python3`` looks for packages, its virtual environment first."""
    prefixes = list(_prefixes(program_path, "python3"))
    for prefix in prefixes:
        for version in _versions(program_path, prefixes):
            for folder in ("site-packages", "dist-packages"):
                yield f"{prefix}/lib/python{version}/{folder}"
        yield f"{prefix}/lib/python3/dist-packages"


def _versions(program_path: Sequence[str], prefixes: Iterable[str]) -> list[str]:
    """The version that ``python3`` is a link to; those that have a library where the link does not tell."""
    for place in _places(program_path, "python3"):
        if named := _PYTHON.fullmatch(os.path.basename(place)):
            return [named[1]]
    matches = (_PYTHON.fullmatch(entry) for prefix in prefixes for entry in _entries(f"{prefix}/lib"))
    return sorted({match[1] for match in matches if match})


def _prefixes(program_path: Sequence[str], program: str) -> Iterator[str]:
    """The directories above ``bin`` on the way from the name of a program to its file, each once.

    A program of the system also knows what was added below ``/usr/local``.
    """
    prefixes = [os.path.dirname(os.path.dirname(place)) for place in _places(program_path, program)]
    if "/usr" in prefixes:
        prefixes.insert(0, "/usr/local")
    yield from dict.fromkeys(prefixes)


def _places(program_path: Sequence[str], program: str) -> list[str]:
    """The first such file of the search path, and where its links lead."""
    for directory in program_path:
        place = f"{directory}/{program}"
        if os.access(place, os.X_OK):
            places = [place]
            while len(places) < 40:
                try:
                    place = os.path.normpath(os.path.join(os.path.dirname(place), os.readlink(place)))
                except OSError:
                    return places
                places.append(place)
    return []


def _entries(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _described(file: str) -> Package | None:
    """The ``Name`` and ``Version`` of core metadata (the head of an e-mail message)."""
    facts: dict[str, str] = {}
    for line in text(file, _METADATA_BYTES).splitlines():
        if not line:
            break
        name, _, value = line.partition(":")
        facts.setdefault(name.lower(), value.strip())
    return _named(facts.get("name"), facts.get("version"))


def _manifest(file: str) -> Package | None:
    try:
        facts = json.loads(text(file))
    except (ValueError, RecursionError):
        return None
    return _named(facts.get("name"), facts.get("version")) if isinstance(facts, dict) else None


def _named(name: object, version: object) -> Package | None:
    if isinstance(name, str) and isinstance(version, str) and name and version:
        return name[:214], version[:214]
    return None


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
