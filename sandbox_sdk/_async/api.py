"""The classes of this tree that users see."""

from __future__ import annotations

from .capabilities import AsyncCapabilities
from .client import AsyncServerClient
from .files import AsyncFiles
from .process import AsyncProcesses
from .streams import AsyncOutputStream

__all__ = ["AsyncCapabilities", "AsyncFiles", "AsyncOutputStream", "AsyncProcesses", "AsyncServerClient"]
