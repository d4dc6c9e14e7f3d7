"""The commands that the recorded exchanges know, as a module for ``--commands``."""

from __future__ import annotations

from typing import Any

from sandbox_server import CommandArg, CommandRegistry

registry = CommandRegistry()


@registry.command(description="greeting")
def greet(name: str = "world", times: int = 1, loud: bool = False) -> str:
    text = " ".join([f"hi {name}"] * times)
    return text.upper() if loud else text


@registry.command()
def add(a: int, b: float) -> float:
    return a + b


@registry.command()
def join(items: list[str], sep: str = ",") -> str:
    return sep.join(items)


@registry.command()
def tags(values: list[str] = ["x", "y"]) -> list[str]:  # noqa: B006  # never changed, and the record has it
    return values


@registry.command()
def untyped(value, other=None):  # type: ignore[no-untyped-def]
    return {"value": value, "other": other}


@registry.command()
def boom() -> None:
    raise KeyError("internal detail")


@registry.command(hidden=True)
def secret_cmd() -> str:
    return "hidden ok"


@registry.command()
def weird() -> set[int]:
    return {1}


@registry.command()
def nothing() -> None:
    return None


@registry.command("with space")
def spaced() -> str:
    return "spaced"


def deploy(env: str) -> str:
    return f"deployed {env}"


def fallback(n: Any) -> list[Any]:
    return [n, type(n).__name__]


registry.register(
    "deploy",
    deploy,
    args=[CommandArg("env", default="prod", description="target")],
    description="deploy it",
    scopes=["deploy"],
)
registry.register("fallback", fallback, args=[CommandArg("n", "integer", default="N/A")])
