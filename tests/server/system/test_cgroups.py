"""What the control groups leave, read from directories laid out like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_server.system import cgroups, machine
from sandbox_server.system.cgroups import Memory


def lay_out(top: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(top)


def own(tmp_path: Path, text: str) -> str:
    (tmp_path / "own").write_text(text)
    return str(tmp_path / "own")


def test_the_tightest_memory_limit_on_the_way_up_counts_with_its_own_usage(tmp_path: Path) -> None:
    mount = lay_out(
        tmp_path / "cgroup",
        {
            "a/memory.max": "1000\n", "a/memory.current": "600\n", "a/memory.stat": "anon 1\ninactive_file 200\n",
            "a/b/memory.max": "max\n", "a/b/memory.current": "500\n",
        },
    )  # fmt: skip
    assert cgroups.memory(mount, own(tmp_path, "0::/a/b\n")) == Memory(1000, 400)


def test_memory_of_version_1_is_read_where_its_controller_is_mounted(tmp_path: Path) -> None:
    mount = lay_out(
        tmp_path / "cgroup",
        {
            "memory/box/memory.limit_in_bytes": "2000", "memory/box/memory.usage_in_bytes": "900",
            "memory/box/memory.stat": "total_inactive_file 100\n",
            "memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "5",
        },
    )  # fmt: skip
    assert cgroups.memory(mount, own(tmp_path, "4:memory:/box\n1:name=systemd:/x\n")) == Memory(2000, 800)


def test_processor_time_is_the_smallest_share(tmp_path: Path) -> None:
    mount = lay_out(
        tmp_path / "cgroup",
        {"cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n", "a/b/cpu.max": "400000 100000\n"},
    )
    assert cgroups.processors(mount, own(tmp_path, "0::/a/b\n")) == 1.5
    v1 = lay_out(
        tmp_path / "v1", {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"}
    )
    assert cgroups.processors(v1, own(tmp_path, "3:cpu,cpuacct:/x\n")) == 0.5
    unlimited = lay_out(tmp_path / "free", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"})
    assert cgroups.processors(unlimited, own(tmp_path, "3:cpu:/\n")) is None


@pytest.mark.parametrize("lines", ["", "nonsense\n", "0::/../../x\n", "0::/gone\n"])
def test_without_groups_nothing_is_limited(tmp_path: Path, lines: str) -> None:
    mount = lay_out(tmp_path / "cgroup", {"memory.max": "max\n", "cpu.max": "max 100000\n"})
    assert cgroups.memory(mount, own(tmp_path, lines)) is None
    assert cgroups.processors(mount, own(tmp_path, lines)) is None


def test_facts_say_that_a_group_bounds_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "memory", lambda: Memory(64 << 20, 16 << 20))
    monkeypatch.setattr(cgroups, "processors", lambda: 1.5)
    info, metrics = machine.info(), machine.metrics(0.0)
    assert (info["memory_total_mb"], info["memory_available_mb"], info["memory_source"]) == (64, 48, "cgroup")
    assert (metrics["memory_used_mb"], metrics["memory_total_mb"], metrics["memory_percent"]) == (16, 64, 25.0)
    assert info["cpu_limit"] == metrics["cpu_limit"] == 1.5


def test_a_group_that_is_wider_than_the_machine_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "memory", lambda: Memory(1 << 60, 0))
    assert machine.info()["memory_source"] == "host"
