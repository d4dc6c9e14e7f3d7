"""Closes two gaps through which a notebook passes nbval without having been compared, and one in which a kernel dies."""

import random
import socket

import pytest
from jupyter_client.connect import LocalPortCache


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    result = yield
    cell = getattr(item, "cell", None)
    if cell is None:
        return result
    for output in getattr(item, "test_outputs", None) or []:
        if output.get("output_type") == "stream" and "UsageError" in output.get("text", ""):
            pytest.fail("a magic reported a UsageError, which nbval does not see: " + output["text"], pytrace=False)
    if item.config.option.nbval and cell.execution_count is None and not item.options["skip"]:
        pytest.fail("the stored notebook has no output for this cell: it was never executed", pytrace=False)
    return result


def _port(cache, ip):
    """Not one of those that the system gives to whoever wants any: some seconds pass before the kernel takes it."""
    while True:
        port = random.randrange(15_000, 32_000)
        try:
            socket.create_server((ip, port)).close()
        except OSError:
            continue  # taken
        if port not in cache.currently_used_ports:
            cache.currently_used_ports.add(port)
            return port


LocalPortCache.find_available_port = _port
