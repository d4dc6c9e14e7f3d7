"""Closes two gaps through which a notebook passes nbval without having been compared."""

import pytest


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
