"""A server with the developer tools on, and somebody who runs code in its contexts."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from sandbox_server.messages import FRAMES_TYPE
from tests.support.server import Reply, ServerProcess

POLICY = {"groups": ["dev_tools"]}


class Stream:
    """A run whose events are read one by one. Leaving it closes the connection."""

    def __init__(self, server: ServerProcess, target: str, body: dict[str, Any]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Accept": FRAMES_TYPE, "Content-Type": "application/json"}
        self._connection.request("POST", target, json.dumps(body), headers)
        self._answer = self._connection.getresponse()
        if self._answer.status != 200:
            told = self._answer.read()
            self._connection.close()
            raise AssertionError(told)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._answer.close()

    def frames(self) -> Iterator[tuple[int, Any]]:
        """(1 or 2, bytes) and (3, record)."""
        while len(head := self._answer.read(8)) == 8:
            payload = self._answer.read(int.from_bytes(head[4:], "big"))
            yield head[0], json.loads(payload) if head[0] == 3 else payload

    def until(self, kind: str) -> dict[str, Any]:
        """The next record of this kind."""
        return next(record for stream, record in self.frames() if stream == 3 and record["kind"] == kind)

    def until_output(self, text: bytes) -> None:
        seen = b""
        for stream, data in self.frames():
            seen += data if stream != 3 else b""
            if text in seen:
                return
        raise AssertionError(f"the stream ended without {text!r}: {seen!r}")


class Context:
    """One code context, as its owner sees it."""

    def __init__(self, server: ServerProcess, headers: dict[str, str] | None = None, /, **fields: Any) -> None:
        self.server = server
        self._headers = headers or {}
        self.facts = self.post("", fields, target="/code/contexts").json()
        self.id = self.facts["id"]

    def post(self, action: str, fields: dict[str, Any], *, target: str = "") -> Reply:
        target = target or f"/code/contexts/{self.id}{action}"
        return self.server.request("POST", target, fields, self._headers, timeout=60)

    def run(self, code: str, **fields: Any) -> Any:
        reply = self.post("/run", {"code": code, **fields})
        assert reply.status == 200, reply.body
        return reply.json()

    def stream(self, code: str, **fields: Any) -> Stream:
        return Stream(self.server, f"/code/contexts/{self.id}/run", {"code": code, **fields})

    def value(self, code: str, **fields: Any) -> str:
        """The plain text of the last expression."""
        answer = self.run(code, **fields)
        assert answer["status"] == "ok", answer
        text: str = answer["results"][-1]["data"]["text/plain"]
        return text

    def state(self) -> dict[str, Any] | None:
        listed = self.server.request("GET", "/code/contexts", headers=self._headers).json()["contexts"]
        return next((each for each in listed if each["id"] == self.id), None)

    def is_(self, state: str) -> bool:
        found = self.state()
        return found is not None and found["state"] == state

    def delete(self) -> Reply:
        return self.server.request("DELETE", f"/code/contexts/{self.id}", headers=self._headers)
