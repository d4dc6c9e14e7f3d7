"""Pairs of names for what async and sync code do differently. `scripts/unasync.py` swaps one for the other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

#: What a generator function that only yields answers.
AsyncStream: TypeAlias = AsyncGenerator[T, None]
Stream: TypeAlias = Generator[T, None, None]


async def asleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


async def arun_blocking(work: Callable[[], T]) -> T:
    """Run work that waits for the disk where it does not hold up the event loop."""
    return await asyncio.to_thread(work)


def run_blocking(work: Callable[[], T]) -> T:
    return work()


async def apieces(source: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a blocking iterator, each fetched off the event loop."""
    while (piece := await asyncio.to_thread(next, source, None)) is not None:
        yield piece


def pieces(source: Iterator[bytes]) -> Iterator[bytes]:
    return source


def acallback(callback: Callable[[int, int], object] | None) -> Callable[[int, int], object] | None:
    """A callback that always runs on the event loop of whoever gave it. If it fails, the next report raises that."""
    if callback is None:
        return None
    loop, here, failures = asyncio.get_running_loop(), threading.get_ident(), list[BaseException]()

    def call(done: int, total: int) -> None:
        try:
            callback(done, total)
        except BaseException as error:
            failures.append(error)

    def report(done: int, total: int) -> None:
        if failures:
            raise failures[0]
        if threading.get_ident() == here:
            callback(done, total)
        else:
            loop.call_soon_threadsafe(call, done, total)

    return report


def callback(callback: Callable[[int, int], object] | None) -> Callable[[int, int], object] | None:
    return callback
