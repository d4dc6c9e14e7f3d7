"""What the server says about its machine, its commands, its repositories, and the code it ran."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import _wire as wire
from ._display.shown import Listing, Shown
from ._models import clipped
from ._public import public
from ._wire import Json


@public
@dataclass(frozen=True)
class SystemInfo(Shown):
    """The machine as the sandbox sees it. Memory in MiB, disk (of the root) in GiB.

    `memory_source` is ``cgroup`` where a container's limit bounds the memory, else ``host``; `cpu_limit` is how many
    processors' worth of time a container may use, None without a limit.
    """

    os: str
    arch: str
    cpu_count: int
    memory_total_mb: int
    memory_available_mb: int
    disk_total_gb: float
    disk_free_gb: float
    python_version: str
    hostname: str
    cpu_limit: float | None = None
    memory_source: str = "host"

    @classmethod
    def from_wire(cls, data: Json) -> SystemInfo:
        return cls(
            os=wire.text(data, "os"),
            arch=wire.text(data, "arch"),
            cpu_count=wire.whole(data, "cpu_count"),
            memory_total_mb=wire.whole(data, "memory_total_mb"),
            memory_available_mb=wire.whole(data, "memory_available_mb"),
            disk_total_gb=wire.number(data, "disk_total_gb"),
            disk_free_gb=wire.number(data, "disk_free_gb"),
            python_version=wire.text(data, "python_version"),
            hostname=wire.text(data, "hostname"),
            cpu_limit=wire.number_or_none(data, "cpu_limit"),
            memory_source=wire.text(data, "memory_source", "host"),
        )


@public
@dataclass(frozen=True)
class SystemMetrics(Shown):
    """How busy the machine is. Memory in MiB, disk in GiB, parts in percent; load as in getloadavg(3)."""

    cpu_load_1m: float
    cpu_load_5m: float
    cpu_load_15m: float
    memory_used_mb: int
    memory_total_mb: int
    memory_percent: float
    disk_used_gb: float
    disk_total_gb: float
    disk_percent: float
    uptime_seconds: float
    cpu_limit: float | None = None
    memory_source: str = "host"

    @classmethod
    def from_wire(cls, data: Json) -> SystemMetrics:
        return cls(
            cpu_load_1m=wire.number(data, "cpu_load_1m"),
            cpu_load_5m=wire.number(data, "cpu_load_5m"),
            cpu_load_15m=wire.number(data, "cpu_load_15m"),
            memory_used_mb=wire.whole(data, "memory_used_mb"),
            memory_total_mb=wire.whole(data, "memory_total_mb"),
            memory_percent=wire.number(data, "memory_percent"),
            disk_used_gb=wire.number(data, "disk_used_gb"),
            disk_total_gb=wire.number(data, "disk_total_gb"),
            disk_percent=wire.number(data, "disk_percent"),
            uptime_seconds=wire.number(data, "uptime_seconds"),
            cpu_limit=wire.number_or_none(data, "cpu_limit"),
            memory_source=wire.text(data, "memory_source", "host"),
        )


@public
@dataclass(frozen=True)
class ListeningPort(Shown):
    """A socket that something in the sandbox listens on; ``pid`` is None where it cannot be told."""

    port: int
    protocol: str
    address: str
    pid: int | None = None

    @classmethod
    def from_wire(cls, data: Json) -> ListeningPort:
        return cls(
            port=wire.whole(data, "port"),
            protocol=wire.text(data, "protocol"),
            address=wire.text(data, "address"),
            pid=wire.whole_or_none(data, "pid"),
        )


@public
class PortList(Listing[ListeningPort]):
    """What is listened on: a list with `to_pandas`."""


@public
@dataclass(frozen=True)
class Package(Shown):
    """One installed Python package."""

    name: str
    version: str

    @classmethod
    def from_wire(cls, data: Json) -> Package:
        return cls(wire.text(data, "name"), wire.text(data, "version"))


@public
class PackageList(Listing[Package]):
    """Installed packages: a list with `to_pandas`."""


@public
@dataclass(frozen=True)
class CommandArgument(Shown):
    """One argument of an operator's command."""

    name: str
    type: str
    required: bool = False
    default: str | None = None
    description: str = ""

    @classmethod
    def from_wire(cls, data: Json) -> CommandArgument:
        return cls(
            name=wire.text(data, "name"),
            type=wire.text(data, "type", "string"),
            required=wire.flag(data, "required"),
            default=wire.text_or_none(data, "default"),
            description=wire.text(data, "description"),
        )


@public
@dataclass(frozen=True)
class CommandInfo(Shown):
    """A command that the operator of the server has registered."""

    name: str
    description: str = ""
    args: tuple[CommandArgument, ...] = ()

    @classmethod
    def from_wire(cls, data: Json) -> CommandInfo:
        arguments = tuple(CommandArgument.from_wire(argument) for argument in wire.objects(data, "args"))
        return cls(wire.text(data, "name"), wire.text(data, "description"), arguments)


@public
class CommandList(Listing[CommandInfo]):
    """An operator's commands: a list with `to_pandas`."""


@public
@dataclass(frozen=True, repr=False)
class CodeResult(Shown):
    """A piece of code that has run."""

    stdout: str
    stderr: str
    exit_code: int
    language: str
    execution_time_ms: float = 0.0
    truncated: bool = False

    def __repr__(self) -> str:
        """The exit, and the beginning of both outputs."""
        facts = [f"exit_code={self.exit_code}", f"language={self.language!r}"]
        facts += [f"{name}={clipped(text)}" for name in ("stdout", "stderr") if (text := getattr(self, name))]
        facts += [f"execution_time_ms={self.execution_time_ms}", *(["truncated=True"] if self.truncated else [])]
        return f"CodeResult({', '.join(facts)})"

    @property
    def success(self) -> bool:
        return self.exit_code == 0

    @classmethod
    def from_wire(cls, data: Json) -> CodeResult:
        return cls(
            stdout=wire.text(data, "stdout"),
            stderr=wire.text(data, "stderr"),
            exit_code=wire.whole(data, "exit_code"),
            language=wire.text(data, "language"),
            execution_time_ms=wire.number(data, "execution_time_ms"),
            truncated=wire.flag(data, "truncated"),
        )


@public
@dataclass(frozen=True)
class GitFile(Shown):
    """One changed file; ``status`` says how: ``modified``, ``added``, ``deleted``, ``untracked`` …

    A renamed one goes by its new path, with the old one in `old_path`.
    """

    path: str
    status: str
    old_path: str | None = None

    @classmethod
    def from_wire(cls, data: Json) -> GitFile:
        return cls(wire.text(data, "path"), wire.text(data, "status"), wire.text_or_none(data, "old_path"))


@public
@dataclass(frozen=True)
class GitStatus(Shown):
    """A repository's branch, and what differs from its last commit."""

    branch: str
    clean: bool
    files: tuple[GitFile, ...] = ()

    @classmethod
    def from_wire(cls, data: Json) -> GitStatus:
        files = tuple(GitFile.from_wire(file) for file in wire.objects(data, "files"))
        return cls(wire.text(data, "branch"), wire.flag(data, "clean"), files)


@public
@dataclass(frozen=True)
class GitDiff(Shown):
    """A unified diff, and how much it changes."""

    diff: str = field(repr=False)
    files_changed: int = 0
    insertions: int = 0
    deletions: int = 0

    @classmethod
    def from_wire(cls, data: Json) -> GitDiff:
        stats = wire.mapping(data, "stats")
        return cls(
            diff=wire.text(data, "diff"),
            files_changed=wire.whole(stats, "files_changed"),
            insertions=wire.whole(stats, "insertions"),
            deletions=wire.whole(stats, "deletions"),
        )
