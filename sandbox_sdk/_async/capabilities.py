"""What `discover` answers: a snapshot that can also ask the server about paths."""

from __future__ import annotations

from .. import _calls as calls
from .._capabilities import Snapshot
from .._models import Decision
from .._public import public
from .._sync.capabilities import Capabilities  # async only
from .._wire import Json
from ._twins import AsyncCapabilitiesTwins  # async only
from .connection import AsyncConnection


@public
class AsyncCapabilities(AsyncCapabilitiesTwins, Snapshot):
    """What the calling identity may do, endpoint by endpoint, as of the last `discover`."""

    def __init__(self, document: Json, connection: AsyncConnection) -> None:
        super().__init__(document)
        self._connection = connection

    @property
    def _twin(self) -> Capabilities:  # async only
        return Capabilities(self.as_dict(), self._connection.twin._connection)

    async def check_path(self, endpoint: str, path: str, op: str | None = None) -> Decision:
        """Ask the server whether its policy lets an endpoint touch a path; the file system is not looked at."""
        return await self._connection.send(calls.check(endpoint, path, None, op))
