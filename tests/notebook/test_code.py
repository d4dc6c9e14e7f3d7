"""``%%sandbox code``: variables that stay, native outputs, errors in two lines, objects that travel."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from IPython.core.interactiveshell import InteractiveShell

from sandbox_notebook import objects
from sandbox_sdk import Execution
from tests.support.waiting import eventually

from .conftest import Run, failure


def test_variables_stay_from_cell_to_cell_and_results_are_outputs(started: Run) -> None:
    done = started("%%sandbox code\nx = 41\nprint('hi')\nx + 1")
    assert (done.stdout, done.text) == ("hi\n", "42")
    assert started("%sandbox code x * 2").text == "82"
    assert started("""%sandbox code print('a  b', "it's")""").stdout == "a  b it's\n"
    done = started("r = %sandbox code x\nr")
    assert isinstance(done.result, Execution) and done.result.result is not None and done.result.result.text == "41"


def test_what_is_displayed_has_every_representation(started: Run) -> None:
    done = started(
        "%%sandbox code\nclass T:\n    def _repr_html_(self):\n        return '<b>T</b>'\n"
        "    def __repr__(self):\n        return 'T'\ndisplay(T())\nT()"
    )
    assert [(one["text/plain"], one["text/html"]) for one in done.outputs] == [("T", "<b>T</b>")] * 2
    assert started("%%sandbox code --quiet\nprint(1)\nT()").outputs == []


def test_an_error_is_two_lines_and_the_whole_way_only_when_asked_for(started: Run) -> None:
    done = started("%%sandbox code\ndef f():\n    1 / 0\n\nf()")
    assert failure(done) == (
        "ZeroDivisionError: division by zero",
        "line 2 of the code; --traceback shows the way there",
    )
    assert done.stderr == ""
    done = started("%%sandbox code --traceback\nx = 1\nf()")
    assert failure(done)[1].startswith("line 2 of the code")
    assert done.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert failure(started("%%sandbox code\nif True print"))[0].startswith("SyntaxError")
    assert started("%sandbox code f.__name__").text == "'f'"


def test_the_stop_button_interrupts_the_code_and_its_variables_stay(started: Run, shell: InteractiveShell) -> None:
    started("%sandbox code x = 7")
    started("sb = %sandbox use local")
    files = shell.user_ns["sb"].files

    def press() -> None:
        deadline = time.monotonic() + 60
        while not files.exists("runs") and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)  # as Jupyter does; it wakes even who waits for bytes

    thread = threading.Thread(target=press)
    thread.start()
    done = started("%%sandbox code\nimport time\nopen('runs', 'w').close()\ntime.sleep(600)")
    thread.join()
    assert isinstance(done.error, KeyboardInterrupt)
    assert "its variables are still there" in str(done.error)
    assert started("%sandbox code x").text == "7"


def test_a_time_limit_interrupts_and_keeps_the_variables(started: Run) -> None:
    started("%sandbox code x = 3")
    message, hint = failure(started("%%sandbox code --timeout 0.3\nwhile True: pass"))
    assert message == "the code took too long and was interrupted" and hint.startswith("--timeout SECONDS")
    assert started("%sandbox code x").text == "3"


def test_a_program_that_has_ended_begins_anew_and_says_so(started: Run) -> None:
    message, hint = failure(started("%%sandbox code\nx = 1\nimport os; os._exit(3)"))
    assert (message, hint) == (
        "the program has ended with exit code 3, and its variables are gone",
        "the next cell begins anew",
    )
    done = started("%sandbox code 'x' in globals()")
    assert (done.text, done.stderr) == (
        "False",
        "the program of the context has ended meanwhile: its variables are gone\n",
    )
    started("sb = %sandbox use local\nsb.code.contexts()[0].delete()")
    done = started("%sandbox code 1")
    assert (done.text, done.stderr) == ("1", "the sandbox has closed the context meanwhile: its variables are gone\n")


def test_new_begins_with_no_variables(started: Run) -> None:
    started("%sandbox code x = 1")
    assert started("%sandbox code --new").text == "✓ begun anew"
    assert started("%sandbox code 'x' in globals()").text == "False"
    started("%%sandbox code --new\nx = 2")
    assert started("%sandbox code x").text == "2"


def test_every_sandbox_has_variables_of_its_own(started: Run) -> None:
    started("%sandbox start --name second")
    started("%sandbox code x = 'second'")
    started("%sandbox code --in local x = 'first'")
    assert started("%sandbox code x").text == "'second'"
    assert started("%sandbox code --in local x").text == "'first'"


def test_plain_values_travel_both_ways_and_leave_nothing_behind(started: Run) -> None:
    started("value = {'k': [1, 2.5, None, True, 'é\\ud800'], 'big': 2**80}; nan = float('nan')")
    assert started("%%sandbox code --push value,nan --pull back --pull nan2\nback = value\nnan2 = nan").error is None
    assert started("back == value, str(nan2)").result == (True, "nan")
    assert started("%sandbox run ls -A").stdout == ""
    assert "_carry" not in started("%sandbox code dir()").text
    assert started("%sandbox code --push value").text.splitlines() == ["✓ done", "  value  dict, taken along"]


def test_what_is_no_plain_value_travels_as_a_pickle_only_when_asked_for(started: Run) -> None:
    started("pair = (1, 2)")
    message, hint = failure(started("%sandbox code --push pair"))
    assert message == '"pair" does not go along: it is of type tuple; plain values, arrays of numpy and tables travel'
    assert hint.startswith("--pickle moves any object")
    assert started("%%sandbox code --push pair --pickle\npair").text == "(1, 2)"
    assert failure(started("%sandbox code --pull pair"))[0].startswith('"pair" does not come back: it is of type tuple')
    assert started("%sandbox code --pull pair --pickle\npair").error is None


def test_what_no_pickle_takes_is_told_in_two_lines_too(started: Run) -> None:
    started("import threading\nlock = threading.Lock()\n%sandbox code nameless = lambda: 0")
    for how, name, why in (("push", "lock", "TypeError"), ("pull", "nameless", "PicklingError")):
        message, hint = failure(started(f"%sandbox code --{how} {name} --pickle"))
        assert f": not even as a pickle: {why}: " in message
        assert hint == "make plain values, arrays of numpy or tables of it"


def test_what_is_carried_is_never_among_the_refusals(started: Run) -> None:
    started("value = 1\n%sandbox code --push value")
    assert started("%sandbox code --pull value").text.startswith("✓ done")
    failure(started("%sandbox code --pull nosuch"))
    started("%sandbox download /etc/passwd")  # the last line of the log
    eventually(lambda: "passwd" in started("%sandbox audit").text)
    assert [one["endpoint"] for one in started("log = %sandbox audit\nlog").result] == ["files_download_stream"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--push nosuch", 'there is no variable "nosuch" to take along'),
        ("--pull nosuch", '"nosuch" does not come back: there is no such variable'),
        ("--push 1x", '"1x" is no name for a variable'),
        ("", "there is no code"),
    ],
)
def test_what_cannot_travel_says_why(started: Run, line: str, message: str) -> None:
    assert failure(started(f"%sandbox code {line}"))[0] == message


def test_a_policy_without_code_says_so(run: Run) -> None:
    run("%sandbox start --policy read-only")
    message, hint = failure(run("%sandbox code 1"))
    assert "denied: " in message and "is switched off" in message and hint.startswith("%sandbox caps")


@pytest.mark.parametrize(
    "value", [(1,), {1: 2}, {"a": (1,)}, [b"x"], b"x", {1}, object(), 1j, type("I", (int,), {})(3)], ids=repr
)
def test_no_value_comes_out_as_another(value: object) -> None:
    with pytest.raises(objects.Unfit, match="it is of type"):
        objects.pack(value, parquet=False, pickled=False)


def test_a_pickle_is_never_opened_unasked() -> None:
    data = objects.pack({1}, parquet=False, pickled=True)
    with pytest.raises(objects.Unfit, match="it is a pickle"):
        objects.unpack(data, pickled=False)
    assert objects.unpack(data, pickled=True) == {1}


@pytest.mark.parametrize("parquet", [True, False])
def test_tables_come_out_as_they_went_in(parquet: bool) -> None:
    pandas = pytest.importorskip("pandas")
    if parquet:
        pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "n": [1, 2, 3],
            "x": [1.5, float("nan"), float("inf")],
            "t": ["a", 'b,\n"c"', ""],
            "d": pandas.to_datetime(["2020-01-01", "2021-02-03", "2022-03-04"]),
            "b": [True, False, True],
        }
    )
    back = objects.unpack(objects.pack(frame, parquet=parquet, pickled=False), pickled=False)
    pandas.testing.assert_frame_equal(back, frame)
    series = objects.unpack(objects.pack(frame.x, parquet=parquet, pickled=False), pickled=False)
    pandas.testing.assert_series_equal(series, frame.x)
    for other in (frame.set_index("t"), frame.assign(t=frame.t.astype("category"))):
        if parquet:
            back = objects.unpack(objects.pack(other, parquet=True, pickled=False), pickled=False)
            pandas.testing.assert_frame_equal(back, other)
        else:
            with pytest.raises(objects.Unfit, match="needs pyarrow"):
                objects.pack(other, parquet=False, pickled=False)


def test_arrays_come_out_as_they_went_in() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6, dtype="f4").reshape(2, 3)
    back = objects.unpack(objects.pack(array, parquet=False, pickled=False), pickled=False)
    assert back.dtype == array.dtype and (back == array).all()
    scalar = objects.unpack(objects.pack(numpy.float32(1.5), parquet=False, pickled=False), pickled=False)
    assert type(scalar) is numpy.float32 and scalar == 1.5
    with pytest.raises(objects.Unfit):
        objects.pack(numpy.array([object()]), parquet=False, pickled=False)
