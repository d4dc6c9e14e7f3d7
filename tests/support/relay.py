"""A relay in front of a real server that cuts connections in mid-request, as networks do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Relay:
    """Passes bytes on in both directions. `cuts` are the bytes of a connection's requests after which it is cut, one
    entry per connection that gets so far; `passed` counts what has gone to the server. With `half` only the client's
    side is cut: the server hears nothing any more, as behind a router that forgot the connection.
    """

    def __init__(self, port: int, cuts: list[int], *, half: bool = False) -> None:
        self.cuts = cuts
        self.half = half
        self.passed = 0
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Wait for the connections, which their clients have closed, or the server where they were cut, to end."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._pass_on, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            back = threading.Thread(target=self._down, args=(server, client))
            back.start()
            self._up(client, server)
            back.join()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        seen, cut = 0, False
        with suppress(OSError):
            while data := client.recv(65536):
                with self._lock:
                    cut = bool(self.cuts) and seen + len(data) >= self.cuts[0]
                    if cut:
                        data = data[: self.cuts.pop(0) - seen]
                    self.passed += len(data)
                seen += len(data)
                server.sendall(data)
                if cut:
                    break
        if cut and self.half:
            client.close()  # and not only shut down: a sender that waits for room would wait on
            return
        for end in (server, client):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relaying(port: int, cuts: list[int], *, half: bool = False) -> Iterator[Relay]:
    relay = Relay(port, cuts, half=half)
    try:
        yield relay
    finally:
        relay.close()
