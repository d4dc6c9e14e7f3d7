"""Options and the findings table of the whole suite."""

from __future__ import annotations

import signal
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings

from tests.support.findings import FINDINGS, LATER

# How long one attempt takes says more about the machine than about the code: a busy one stops for seconds.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

_results: dict[str, dict[str, str]] = defaultdict(dict)  # finding -> test -> outcome


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--findings", action="store_true", help="print which tests show which finding; fail on gaps")


def pytest_configure() -> None:
    """Heed Ctrl-C, and let children do so: a shell has its background jobs ignore it, and some tests press it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("finding"):
            unknown = set(mark.args) - set(FINDINGS)
            if unknown:
                raise pytest.UsageError(f"{item.nodeid}: no such finding: {', '.join(sorted(unknown))}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" or report.outcome != "passed":
        for mark in item.iter_markers("finding"):
            for finding in mark.args:
                _results[finding][item.nodeid] = report.outcome


def _gaps() -> list[str]:
    return [f for f in FINDINGS if f not in LATER and "passed" not in _results[f].values()]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.getoption("--findings") and not session.config.option.collectonly and _gaps():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--findings"):
        return
    write = terminalreporter.write_line
    terminalreporter.section("findings")
    for finding, text in FINDINGS.items():
        outcomes = list(_results[finding].values())
        if finding in LATER and not outcomes:
            state = f"later ({LATER[finding]})"
        else:
            passed = outcomes.count("passed")
            state = f"{passed} passed" + (f", {len(outcomes) - passed} not" if passed < len(outcomes) else "")
        write(f"{finding:<7} {state:<28} {text}")
    if gaps := _gaps():
        write(f"no passing test for: {', '.join(gaps)}", red=True)
