"""A server that somebody else has started, in the place of a sandbox of ours."""

from __future__ import annotations

from typing import Any

from sandbox_sdk import Capabilities, Sandbox, SandboxConnectionError, SandboxError, ServerClient

from .grammar import Mistake


class Connected(Sandbox):
    """All that a `Sandbox` does through its server. What it is comes from discovery, and to end it is to let go."""

    def __init__(self, name: str, client: ServerClient, found: Capabilities) -> None:
        self._name = name
        self._client = client
        self._found = found
        self._closed = False

    @classmethod
    def to(cls, name: str, url: str | None, socket: str | None, token: str | None) -> Connected:
        """Connect and ask who is there."""
        try:
            client = ServerClient(url, uds=socket, token=token)
        except ValueError as error:
            raise Mistake(str(error).removeprefix("base_url "), "write it as https://sandbox.example:9000") from None
        try:
            found = client.discover()
            client.forget_discovery()
            return cls(name, client, found)
        except BaseException as error:
            client.close()
            if isinstance(error, SandboxConnectionError):
                raise Mistake(
                    error.message, "check the address, and start the server there; %sandbox start needs none"
                ) from error
            raise

    @property
    def name(self) -> str:
        return self._name

    @property
    def root(self) -> str:
        return self._found.base_dir

    @property
    def isolation(self) -> str:
        return self._found.isolation

    @property
    def network(self) -> str:
        """Not told by servers."""
        return "unknown"

    @property
    def policy(self) -> str:
        return self._found.preset or "custom"

    @property
    def identity(self) -> str:
        """Whom the server takes us for."""
        return self._found.identity_id

    @property
    def kept(self) -> bool:
        return False

    @property
    def running(self) -> bool:
        return not self._closed and self._client.health()

    @property
    def server(self) -> ServerClient:
        if self._closed:
            raise SandboxError(f'the connection "{self._name}" is closed', hint="connect again")
        return self._client

    def info(self) -> dict[str, Any]:
        return {
            "name": self.name, "running": self.running, "isolation": self.isolation, "isolation_refused": [],
            "network": self.network, "policy": self.policy, "root": self.root, "directory": self._client.address,
            "kept": False,
        }  # fmt: skip

    def kill(self) -> None:
        """Let go. The server goes on."""
        self.close()

    def close(self) -> None:
        self._closed = True
        self._client.close()

    def _facts(self) -> dict[str, str]:
        if self._closed:
            return {"state": "closed"}
        return {"server": self._client.address, "isolation": self.isolation, "policy": self.policy}
