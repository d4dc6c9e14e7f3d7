"""Runs a server and stops it gracefully."""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

from .application import Application
from .http import handler
from .http.hosts import HostRules
from .http.reactor import Reactor
from .listening import Listeners
from .machinery import Machinery
from .policy import BoundPolicy, ServerPolicy
from .process import kernel
from .settings import ConfigurationError, Settings, bind_policy, check_encoding, check_open, check_reach

log = logging.getLogger("sandbox_server")

#: Seconds that running requests get to finish, and then, with their commands killed, to be answered. Together with the
#: killing that is less than the ten seconds after which container engines lose patience.
STOP_GRACE = 5.0
ANSWER_GRACE = 4.0

#: Seconds that the ended descendants of commands may stay zombies. To be woken at the end of each command costs whoever
#: waits for its answer a twentieth of the time, so after one it is only looked again so much later. More than this, and
#: the zombies of a script that leaves many behind take all the processes that a container grants.
_REAP_EVERY = 0.1


class SandboxServer:
    """One server: listening sockets and what answers on them.

    `run` blocks until a signal or `stop`; as a context manager it runs on a thread of its own. It serves once. Making
    one opens its sockets; raises `PolicyConfigError`, `ClosedByDefault`, or `ConfigurationError` for all else.
    """

    def __init__(self, settings: Settings, policy: BoundPolicy | None = None) -> None:
        self.policy = policy or bind_policy(settings)
        check_encoding()
        check_open(settings, self.policy)
        self._machinery = Machinery(settings, self.policy)
        try:
            self._listeners = _listeners(settings, self.policy)
        except BaseException:
            self._machinery.close()
            raise
        self._machinery.terminals.port = self._listeners.terminal_port
        self._hosts = HostRules(settings.allow_hosts, settings.allow_origins)
        self._reactor: Reactor | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._reap_at = math.inf
        self._sleeper, self._rouser = socket.socketpair()
        self._rouser.setblocking(False)
        self.failed = False  # it ended, but nobody had asked for that

    @property
    def addresses(self) -> list[str]:
        """Where it listens: URLs with the real port, or ``unix:PATH``; last the terminals' own port, as ``ws:``."""
        return self._listeners.addresses

    def __enter__(self) -> SandboxServer:
        self._thread = threading.Thread(target=self.run, name="server")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGTERM, SIGINT, SIGHUP or `stop`; then let requests finish, kill the children and return.

        `ready` is called as soon as signals are heeded; whoever connects by then is answered.
        """
        if threading.current_thread() is threading.main_thread():
            with self._signals():
                self._serve(ready)
        else:
            self._serve(ready)
        self.close()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Heed signals and adopt orphans; afterwards whoever runs a server in a program of its own has its own back."""
        processes = self._machinery.processes
        # Python runs a handler only between two of its instructions; the byte that the signal itself sends wakes
        # us even when it comes just before we sleep.
        wakeup = signal.set_wakeup_fd(self._rouser.fileno(), warn_on_full_buffer=False)
        handlers: dict[signal.Signals, Callable[..., None]] = {
            signal.SIGTERM: lambda *_: self.stop(),
            signal.SIGINT: lambda *_: self.stop(),
            signal.SIGCHLD: self._child_ended,
        }
        for number in (signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is signal.SIG_IGN:  # as nohup has it, and a shell's ``&``
                handlers[number] = lambda *_: None  # unlike "ignored", programs do not inherit this
        handlers.setdefault(signal.SIGHUP, handlers[signal.SIGTERM])
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        processes.adopt_orphans()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)

    def _serve(self, ready: Callable[[], None]) -> None:
        machinery = self._machinery
        ready()
        # Beside the first requests: a large tree takes a while, and whoever writes holds its part by a lock.
        threading.Thread(target=machinery.path_guards.sweep, name="sweep", daemon=True).start()
        reactor = self._reactor = Reactor(
            machinery.application,
            self._listeners.sockets,
            doors=self._listeners.doors,
            hosts=self._hosts,
            on_stop=[self._listeners.remove_file],  # at once: the next server may want the name
        )
        reacting = threading.Thread(target=self._react, args=(reactor,), name="reactor")
        reacting.start()
        while not self._stopping:
            self._sleep()
        self._reap()  # from now on at every end: it is waited for them
        reactor.stop(STOP_GRACE + ANSWER_GRACE)
        machinery.terminals.retire()
        machinery.watches.retire()
        machinery.processes.retire()
        reacting.join(STOP_GRACE)
        machinery.processes.close()
        reacting.join()
        machinery.close()  # while signals are still heeded; the doorbell that they ring goes after them

    def _sleep(self) -> None:
        """Until a signal, `stop`, or the time to reap."""
        left = self._reap_at - time.monotonic()
        if left > 0:
            self._sleeper.settimeout(None if left == math.inf else left)
            with contextlib.suppress(TimeoutError):
                self._sleeper.recv(4096)
        else:
            self._reap()

    def _child_ended(self, *_: object) -> None:
        """On SIGCHLD: hear of no further end until `_reap`."""
        if self._stopping:
            self._machinery.processes.reap()
        else:
            kernel.pass_over(signal.SIGCHLD)
            self._reap_at = time.monotonic() + _REAP_EVERY

    def _reap(self) -> None:
        """Hear of the next end again, and then look for those that nobody told of."""
        if self._reap_at < math.inf:
            self._reap_at = math.inf
            signal.signal(signal.SIGCHLD, self._child_ended)
            self._machinery.processes.reap()

    def stop(self) -> None:
        """Ask `run` to end; asked again, it waits for nobody. Safe in a signal handler and from any thread."""
        if self._stopping and self._reactor is not None:
            self._reactor.stop(0)
        self._stopping = True
        with contextlib.suppress(OSError):  # it is roused already, or gone
            self._rouser.send(b"\0")

    def close(self) -> None:
        """Let go of everything; for a server that never ran. `run` does it by itself."""
        self._listeners.close()
        self._machinery.close()
        self._rouser.close()
        self._sleeper.close()

    def _react(self, reactor: Reactor) -> None:
        try:
            reactor.run()
        except Exception:
            log.exception("the selector thread failed")
            self.failed = True
        finally:
            self.stop()  # a server that answers nobody must not look alive


def _listeners(settings: Settings, policy: BoundPolicy) -> Listeners:
    terminals = (id for id, endpoint in policy.catalogue.items() if endpoint.group == "terminal")
    listeners = Listeners(settings, terminals=any(policy.rule(id).enabled for id in terminals))
    try:
        for host in listeners.inherited_hosts:
            check_reach(host, policy)
    except ConfigurationError:
        listeners.close()
        raise
    return listeners


class SandboxRequestHandler(handler.SandboxRequestHandler):
    """For ``ThreadingHTTPServer(address, SandboxRequestHandler)``: the policy comes from the environment.

    Where it names no identity, everybody is a stranger and gets 401.
    """

    @staticmethod
    def application_factory(environ: Mapping[str, str]) -> Application:
        """What answers, set up from these variables; children and descriptors go when the program ends."""
        settings = Settings(policy=ServerPolicy.from_environment(environ), environ=dict(environ))
        machinery = Machinery(settings, bind_policy(settings))
        atexit.register(machinery.close)
        return machinery.application
