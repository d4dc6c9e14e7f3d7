"""Async and sync are one API: the same names, the same signatures, and a blocking twin of every method."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

import sandbox_sdk
from sandbox_sdk import AsyncServerClient, ClientClosedError, ServerClient
from sandbox_sdk._contract import EndpointId
from scripts import unasync
from tests.support.server import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [
    (getattr(sandbox_sdk, name), getattr(sandbox_sdk, name.removeprefix("Async")))
    for name in sandbox_sdk.__all__
    if name.startswith("Async")
]
#: These are not made by users, and what they do is undone by closing them: their twins come from `stream_sync` & co.
STREAMS = {"AsyncOutputStream", "AsyncFileWatch", "AsyncFollowedOutput", "AsyncCodeStream", "AsyncTerminal"}


def public_methods(cls: type) -> dict[str, Any]:
    found = [(name, inspect.getattr_static(cls, name)) for name in dir(cls)]
    functions = ((n, m.__func__ if isinstance(m, classmethod) else m) for n, m in found)
    return {n: m for n, m in functions if not n.startswith("_") and inspect.isfunction(m) and not n.endswith("_sync")}


def signature(function: Any) -> list[tuple[str, Any, Any, str]]:
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default, unasync.rename_all(str(p.annotation))) for p in parameters]


@pytest.mark.field(134)
@pytest.mark.parametrize(("async_class", "sync_class"), PAIRS, ids=[a.__name__ for a, _ in PAIRS])
def test_field_134_both_classes_have_the_same_methods_with_the_same_signatures(
    async_class: type, sync_class: type
) -> None:
    ours = {unasync.rename(name): method for name, method in public_methods(async_class).items()}
    theirs = public_methods(sync_class)
    assert set(ours) == set(theirs)
    for name, method in ours.items():
        if name == "upload" or name == "write":  # only the async ones take asynchronous iterators
            continue
        assert signature(method) == signature(theirs[name]), name
    assert {n for n, v in vars(async_class).items() if isinstance(v, property)} - {"_twin"} == {
        n for n, v in vars(sync_class).items() if isinstance(v, property)
    }


@pytest.mark.finding("R1-U8")
@pytest.mark.parametrize(
    "async_class", [a for a, _ in PAIRS if a.__name__ not in STREAMS], ids=lambda one: one.__name__
)
def test_every_asynchronous_method_has_a_blocking_twin_of_the_same_signature(async_class: type) -> None:
    def asynchronous(method: Any) -> bool:
        return inspect.iscoroutinefunction(method) or str(method.__annotations__.get("return")).startswith("Async")

    methods = {name: method for name, method in public_methods(async_class).items() if asynchronous(method)}
    assert methods
    for name, method in methods.items():
        twin = inspect.getattr_static(async_class, f"{name}_sync", None)
        assert twin is not None, f"{async_class.__name__}.{name}_sync is missing"
        twin = getattr(twin, "__func__", twin)
        assert not inspect.iscoroutinefunction(twin)
        assert signature(method) == signature(twin), name
        assert inspect.getdoc(twin), name


class Recorder:
    """Remembers what is called on it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> object:
            self.calls.append((name, args, kwargs))
            return ANSWER

        return call


ANSWER = object()


@pytest.mark.finding("R1-U8")
@pytest.mark.parametrize(
    "async_class", [a for a, _ in PAIRS if a.__name__ not in STREAMS], ids=lambda one: one.__name__
)
def test_a_twin_passes_everything_on_and_answers_what_comes_back(async_class: type) -> None:
    recorder = Recorder()
    (mixin,) = (base for base in async_class.__mro__ if base.__name__ == f"{async_class.__name__}Twins")
    instance = type("Probe", (mixin,), {"_twin": recorder})()
    for name in [name for name, twin in vars(mixin).items() if name.endswith("_sync") and inspect.isfunction(twin)]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter in inspect.signature(getattr(instance, name)).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = object()
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kwargs["more"] = object()
            else:
                args.append(object())
        answer = getattr(instance, name)(*args, **kwargs)
        assert recorder.calls.pop() == (unasync.rename(name.removesuffix("_sync")), tuple(args), kwargs)
        returns_nothing = inspect.signature(getattr(async_class, name)).return_annotation == "None"
        assert answer is (None if returns_nothing else ANSWER)


@pytest.mark.finding("R1-U8")
def test_twins_work_inside_a_running_loop(server: ServerProcess, home: Path) -> None:
    async def main() -> None:
        async with AsyncServerClient(server.url) as client:
            assert client.health_sync()
            assert client.discover_sync().can("files_list")
            assert client.capabilities is not None, "what the twin learns, both know"
            await client.files.write(f"{home.name}/a", "one")
            client.files.write_sync(f"{home.name}/b", "two")
            assert [entry.name for entry in client.files.list_sync(home.name)] == ["a", "b"]
            assert await client.files.read(f"{home.name}/b") == b"two"
            with client.process.stream_sync("echo hi") as stream:
                assert b"".join(event.data for event in stream) == b"hi\n"
            process = await client.process.start("cat", stdin=True)
            assert process.stdin.write_sync("abc") == 3
            process.stdin.aclose_sync()
            assert process.wait_sync(60) == 0
            assert process.output_sync().data == b"abc"
            with process.follow_sync() as followed:
                assert [event.kind for event in followed] == ["output", "exit"]
            assert client.check_sync("files_list", path="/etc").code == "path_not_allowed"

    asyncio.run(main())


def test_twins_of_a_client_with_a_given_http_client_say_why_they_cannot_work() -> None:
    async def main() -> None:
        transport = httpx.MockTransport(lambda request: httpx.Response(200, json={"status": "ok"}))
        async with httpx.AsyncClient(transport=transport) as http_client:
            client = AsyncServerClient("http://host", http_client=http_client)
            assert await client.health()
            with pytest.raises(RuntimeError, match="http_client"):
                client.health_sync()

    asyncio.run(main())


def test_twins_of_a_closed_client_are_closed() -> None:
    async def main() -> None:
        client = AsyncServerClient("http://127.0.0.1:9")
        assert not client.health_sync()
        await client.aclose()
        with pytest.raises(ClientClosedError, match="the client is closed") as closed:
            client.health_sync()
        assert isinstance(closed.value, RuntimeError), "what callers of other libraries catch"

    asyncio.run(main())


def test_every_endpoint_has_a_call() -> None:
    source = "".join(path.read_text() for path in (ROOT / "sandbox_sdk").glob("*_calls.py"))
    source += "".join(path.read_text() for path in (ROOT / "sandbox_sdk/_async").glob("*.py"))
    missing = {endpoint for endpoint in get_args(EndpointId) if f'"{endpoint}"' not in source}
    assert not missing


@pytest.mark.parametrize("script", ["generate.py", "unasync.py"])
def test_generated_files_are_current(script: str) -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_sync_tree_never_mentions_what_is_asynchronous() -> None:
    for path in (ROOT / "sandbox_sdk/_sync").rglob("*.py"):
        code = path.read_text().partition("Do not edit.\n")[2]
        for word in ("async ", "await ", "asyncio", "Async", "anyio"):
            assert word not in code, f"{path.name} mentions {word!r}"


def test_a_sync_client_needs_no_event_loop(server: ServerProcess) -> None:
    with ServerClient(server.url) as client:
        assert client.health()
