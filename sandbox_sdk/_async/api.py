"""The classes of this tree that users see."""

from __future__ import annotations

from .browser import AsyncBrowser
from .capabilities import AsyncCapabilities
from .client import AsyncServerClient
from .code import AsyncCode, AsyncCodeContext, AsyncCodeStream
from .files import AsyncFiles
from .handle import AsyncProcess, AsyncStdin
from .process import AsyncProcesses
from .sandbox import AsyncSandbox
from .streams import AsyncFollowedOutput, AsyncOutputStream
from .system import AsyncCommands, AsyncGit, AsyncSystem
from .terminal import AsyncTerminal, AsyncTerminals
from .uploads import AsyncUpload
from .watch import AsyncFileWatch

__all__ = [
    "AsyncBrowser",
    "AsyncCapabilities",
    "AsyncCode",
    "AsyncCodeContext",
    "AsyncCodeStream",
    "AsyncCommands",
    "AsyncFileWatch",
    "AsyncFiles",
    "AsyncFollowedOutput",
    "AsyncGit",
    "AsyncOutputStream",
    "AsyncProcess",
    "AsyncProcesses",
    "AsyncSandbox",
    "AsyncServerClient",
    "AsyncStdin",
    "AsyncSystem",
    "AsyncTerminal",
    "AsyncTerminals",
    "AsyncUpload",
]
