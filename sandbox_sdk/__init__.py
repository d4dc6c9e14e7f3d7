"""Drive a sandbox from Python: `Sandbox` on this machine, `ServerClient` for a server that runs already.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from ._archive_calls import Unpacked
    from ._async.api import (
        AsyncBrowser,
        AsyncCapabilities,
        AsyncCode,
        AsyncCodeContext,
        AsyncCodeStream,
        AsyncCommands,
        AsyncFiles,
        AsyncFileWatch,
        AsyncFollowedOutput,
        AsyncGit,
        AsyncOutputStream,
        AsyncProcess,
        AsyncProcesses,
        AsyncSandbox,
        AsyncServerClient,
        AsyncStdin,
        AsyncSystem,
        AsyncTerminal,
        AsyncTerminals,
        AsyncUpload,
    )
    from ._browser_calls import BrowserContent, BrowserPage, ConsoleList, ConsoleLog
    from ._capabilities import EndpointInfo, PathsInfo
    from ._changes import FileChange
    from ._code_models import ContextInfo, ContextList, ErrorInfo, Execution, Result
    from ._errors import (
        AuthenticationError,
        ClientClosedError,
        CodeFailedError,
        CommandFailedError,
        CommandTimeoutError,
        ConflictError,
        EndpointNotAvailableError,
        FilePolicyDeniedError,
        NoSpaceError,
        NotFoundError,
        NotTextError,
        PayloadTooLargeError,
        PolicyDeniedError,
        RateLimitedError,
        SandboxConnectionError,
        SandboxError,
        ServerAPIError,
        StreamInterruptedError,
        TransferError,
    )
    from ._listings import FileList, ProcessList
    from ._matrix import MatrixCell, MatrixChange, MatrixColumn, MatrixRow, PolicyMatrixData
    from ._models import (
        CommandResult,
        Decision,
        Event,
        FileEntry,
        FileInfo,
        FileOutcome,
        OutputPart,
        ProcessInfo,
        Receipt,
    )
    from ._pty_models import TerminalInfo, TerminalList
    from ._reports import (
        CodeResult,
        CommandArgument,
        CommandInfo,
        CommandList,
        GitDiff,
        GitFile,
        GitStatus,
        ListeningPort,
        Package,
        PackageList,
        PortList,
        SystemInfo,
        SystemMetrics,
    )
    from ._search import SearchHit, SearchResult
    from ._sync.api import (
        Browser,
        Capabilities,
        Code,
        CodeContext,
        CodeStream,
        Commands,
        Files,
        FileWatch,
        FollowedOutput,
        Git,
        OutputStream,
        Process,
        Processes,
        Sandbox,
        ServerClient,
        Stdin,
        System,
        Terminal,
        Terminals,
        Upload,
    )
    from ._writing import EditResult
    from .sandbox.errors import (
        IsolationUnavailableError,
        IsolationWarning,
        SandboxNameTakenError,
        SandboxNotFoundError,
        SandboxStartError,
    )
    from .sandbox.judging import policy_matrix
    from .sandbox.local_sandbox import LocalSandbox, SandboxList

#: Where public names live; what needs no HTTP library comes first.
_MODULES = (
    *(
        "_errors",
        "sandbox.errors",
        "_models",
        "_listings",
        "_matrix",
        "_reports",
        "_archive_calls",
        "_browser_calls",
        "_search",
        "_changes",
        "_code_models",
        "_pty_models",
        "_writing",
        "_capabilities",
        "sandbox.local_sandbox",
        "sandbox.judging",
    ),
    *("_sync.api", "_async.api"),
)

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
    "AuthenticationError",
    "Browser",
    "BrowserContent",
    "BrowserPage",
    "Capabilities",
    "ClientClosedError",
    "Code",
    "CodeContext",
    "CodeFailedError",
    "CodeResult",
    "CodeStream",
    "CommandArgument",
    "CommandFailedError",
    "CommandInfo",
    "CommandList",
    "CommandResult",
    "CommandTimeoutError",
    "Commands",
    "ConflictError",
    "ConsoleList",
    "ConsoleLog",
    "ContextInfo",
    "ContextList",
    "Decision",
    "EditResult",
    "EndpointInfo",
    "EndpointNotAvailableError",
    "ErrorInfo",
    "Event",
    "Execution",
    "FileChange",
    "FileEntry",
    "FileInfo",
    "FileList",
    "FileOutcome",
    "FilePolicyDeniedError",
    "FileWatch",
    "Files",
    "FollowedOutput",
    "Git",
    "GitDiff",
    "GitFile",
    "GitStatus",
    "IsolationUnavailableError",
    "IsolationWarning",
    "ListeningPort",
    "LocalSandbox",
    "MatrixCell",
    "MatrixChange",
    "MatrixColumn",
    "MatrixRow",
    "NoSpaceError",
    "NotFoundError",
    "NotTextError",
    "OutputPart",
    "OutputStream",
    "Package",
    "PackageList",
    "PathsInfo",
    "PayloadTooLargeError",
    "PolicyDeniedError",
    "PolicyMatrixData",
    "PortList",
    "Process",
    "ProcessInfo",
    "ProcessList",
    "Processes",
    "RateLimitedError",
    "Receipt",
    "Result",
    "Sandbox",
    "SandboxConnectionError",
    "SandboxError",
    "SandboxList",
    "SandboxNameTakenError",
    "SandboxNotFoundError",
    "SandboxStartError",
    "SearchHit",
    "SearchResult",
    "ServerAPIError",
    "ServerClient",
    "Stdin",
    "StreamInterruptedError",
    "System",
    "SystemInfo",
    "SystemMetrics",
    "Terminal",
    "TerminalInfo",
    "TerminalList",
    "Terminals",
    "TransferError",
    "Unpacked",
    "Upload",
    "__version__",
    "policy_matrix",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    if name in __all__:
        for module in _MODULES:
            value = getattr(import_module(f".{module}", __name__), name, None)
            if value is not None:
                globals()[name] = value
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext sandbox_sdk``: hand over to the notebook extension, wherever it is installed."""
    _notebook_extension().load_ipython_extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    _notebook_extension().unload_ipython_extension(ipython)


def _notebook_extension() -> Any:
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="sandbox_sdk.ipython"):
        return entry_point.load()
    raise ImportError("no notebook extension is installed; install it with: pip install 'notebook-sandbox[notebook]'")
