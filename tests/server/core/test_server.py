"""A server in this process: run on a thread, stopped, and nothing of it left."""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sandbox_server
from sandbox_server import (
    ClosedByDefault,
    ConfigurationError,
    SandboxRequestHandler,
    SandboxServer,
    ServerPolicy,
    Settings,
    confine,
)
from sandbox_server.http.reactor import Reactor
from tests.server.core.harness import descriptors

EMPTY = ServerPolicy.from_dict({})


def settings(base: Path, **more: Any) -> Settings:
    """Loopback, a free port, anonymous; and quiet."""
    plain = {"policy": EMPTY, "environ": {}, "port": 0, "allow_anonymous": True, "audit_file": os.devnull}
    return Settings(**{**plain, "base_dir": str(base), **more})


def get(address: str, path: str = "/health", **headers: str) -> tuple[int, Any]:
    if address.startswith("unix:"):
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(address.removeprefix("unix:"))
    else:
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_server_runs_on_a_thread_and_is_gone_after_the_block(base: Path) -> None:
    before, threads = descriptors(), threading.active_count()
    with SandboxServer(settings(base)) as server:
        assert server.addresses[0].startswith("http://127.0.0.1:")
        assert get(server.addresses[0]) == (200, {"status": "ok"})
        assert get(server.addresses[0], "/files/stat?path=.")[1]["path"] == str(base)
    assert not server.failed
    with pytest.raises(ConnectionRefusedError):
        get(server.addresses[0])
    server.stop()  # as often as one likes
    assert descriptors() == before
    assert threading.active_count() <= threads + 1  # an idle worker may linger for seconds


def test_a_server_that_never_ran_can_be_closed(base: Path, tmp_path: Path) -> None:
    before = descriptors()
    server = SandboxServer(settings(base, unix_socket=str(tmp_path / "s")))
    server.close()
    assert not (tmp_path / "s").exists()
    assert descriptors() == before


def test_stopping_before_the_start_ends_at_once(base: Path) -> None:
    server = SandboxServer(settings(base))
    server.stop()
    server.run()
    with pytest.raises(ConnectionRefusedError):
        get(server.addresses[0])


def test_two_servers_live_side_by_side(base: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with SandboxServer(settings(base)) as one, SandboxServer(settings(other)) as two:
        for server, place in ((one, base), (two, other)):
            assert get(server.addresses[0], "/capabilities")[1]["base_dir"] == str(place)


def test_when_the_selector_thread_fails_the_server_ends_and_says_so(
    base: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = Reactor.run

    def fail(self: Reactor) -> None:
        self.stop(0)
        run(self)
        raise RuntimeError("the kernel is out of order")

    monkeypatch.setattr(Reactor, "run", fail)
    server = SandboxServer(settings(base))
    server.run()
    assert server.failed
    assert "the kernel is out of order" in caplog.text


# -- where it listens -----------------------------------------------------------------------------------------------


def test_a_unix_socket_alone_opens_no_port_and_is_private(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with SandboxServer(settings(base, unix_socket=str(path), port=None)) as server:
        assert server.addresses == [f"unix:{path}"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert get(server.addresses[0]) == (200, {"status": "ok"})
    assert not path.exists()


def test_a_unix_socket_and_a_port_serve_side_by_side(base: Path, tmp_path: Path) -> None:
    with SandboxServer(settings(base, unix_socket=str(tmp_path / "s"))) as server:
        assert [get(address) for address in server.addresses] == [(200, {"status": "ok"})] * 2


def test_ipv6_is_written_in_brackets(base: Path) -> None:
    with SandboxServer(settings(base, host="::1")) as server:
        assert server.addresses[0].startswith("http://[::1]:")
        assert get(server.addresses[0]) == (200, {"status": "ok"})


def test_a_stale_socket_is_replaced(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with SandboxServer(settings(base, unix_socket=str(path), port=None)) as server:
        assert get(server.addresses[0])[0] == 200


def test_a_socket_that_somebody_listens_on_is_left_alone(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = descriptors()
    with SandboxServer(settings(base, unix_socket=str(path), port=None)) as server:
        with pytest.raises(ConfigurationError, match=f'another server listens on "{path}"'):
            SandboxServer(settings(base, unix_socket=str(path), port=None))
        assert get(server.addresses[0])[0] == 200
    assert descriptors() == before


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_is_left_alone(base: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("mine")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    before = descriptors()
    with pytest.raises(ConfigurationError, match=f'"{path}" exists and is no socket'):
        SandboxServer(settings(base, unix_socket=str(path), port=None))
    assert os.path.lexists(path)
    assert descriptors() == before


def test_the_next_server_may_take_the_name_while_the_last_one_still_stops(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    with SandboxServer(settings(base, unix_socket=str(path), port=None)) as first:
        # As if its name had been taken over between closing and removing.
        os.rename(path, tmp_path / "old")
        second = SandboxServer(settings(base, unix_socket=str(path), port=None))
        first.stop()
    with second:
        assert get(second.addresses[0])[0] == 200
    assert not path.exists()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"unix_socket": "{tmp}/no/such/dir/s"}, "No such file or directory"),
        ({"unix_socket": "{tmp}/" + "x" * 200}, "too long"),
        ({"unix_socket": "{tmp}/file/s"}, "Not a directory"),
        ({"host": "no.such.host.invalid", "policy": "tokens"}, 'cannot listen on "no.such.host.invalid:0": '),
        ({"host": "192.0.2.1", "policy": "tokens"}, "Cannot assign requested address"),
        ({"audit_file": "{tmp}/no/such/file"}, "cannot write the audit file"),
        ({"base_dir": "{tmp}/missing"}, "does not exist; create it or pass --base-dir DIR"),
        ({"base_dir": "{tmp}/file"}, "is no directory; name one by --base-dir DIR"),
    ],
)
def test_what_cannot_be_set_up_is_told_and_leaves_nothing_open(
    base: Path, tmp_path: Path, more: dict[str, Any], reason: str
) -> None:
    (tmp_path / "file").write_text("")
    more = {name: value.replace("{tmp}", str(tmp_path)) for name, value in more.items()}
    if more.get("policy"):
        more |= {"policy": EMPTY, "environ": {"ABX_SERVER_TOKEN": "t"}, "allow_anonymous": False}
    before = descriptors()
    with pytest.raises(ConfigurationError) as failed:
        SandboxServer(settings(base, **more))
    assert reason in str(failed.value)
    assert "Success" not in str(failed.value)
    assert descriptors() == before


def test_a_port_in_use_is_told(base: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f'cannot listen on "127.0.0.1:{port}": Address already in use'):
            SandboxServer(settings(base, port=port))


# -- inherited sockets ----------------------------------------------------------------------------------------------


@contextmanager
def listener(path: Path | None = None, host: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A socket that somebody listens on already."""
    family = socket.AF_UNIX if path else socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as found:
        found.bind(str(path) if path else (host, 0))
        found.listen()
        yield found


def test_callers_may_connect_before_the_server_that_inherits_the_socket(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listener(path) as inherited, socket.socket(socket.AF_UNIX) as early:
        early.connect(str(path))
        early.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        os.set_inheritable(inherited.fileno(), True)
        with SandboxServer(settings(base, port=None, listen_fds=(inherited.detach(),))) as server:
            assert server.addresses == [f"unix:{path}"]
            assert early.recv(4096).startswith(b"HTTP/1.1 200 ")
            assert get(server.addresses[0]) == (200, {"status": "ok"})
            assert not any(os.get_inheritable(each.fileno()) for each in server._listeners.sockets)
    assert path.exists()  # its name is not the server's to take away
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(ConnectionRefusedError):
        late.connect(str(path))


def test_inherited_sockets_serve_beside_all_others(base: Path, tmp_path: Path) -> None:
    with listener(tmp_path / "a") as one, listener() as two, listener(host="::1") as three:
        inherited = tuple(each.detach() for each in (one, two, three))
    with SandboxServer(settings(base, unix_socket=str(tmp_path / "b"), listen_fds=inherited)) as server:
        assert [get(address) for address in server.addresses] == [(200, {"status": "ok"})] * 5
        assert server.addresses[2].startswith("http://[::1]:")


@pytest.mark.skipif(sys.platform != "linux", reason="no way here: abstract names exist on Linux only")
def test_an_inherited_socket_with_an_abstract_name_is_told_as_such(base: Path) -> None:
    with socket.socket(socket.AF_UNIX) as inherited:
        inherited.bind(b"\0nsb-%d" % os.getpid())
        inherited.listen()
        with SandboxServer(settings(base, port=None, listen_fds=(inherited.detach(),))) as server:
            assert server.addresses == [f"unix:@nsb-{os.getpid()}"]


@pytest.mark.parametrize("kind", ["file", "closed", "not listening", "datagram", "pair", "negative", "huge"])
def test_a_descriptor_of_something_else_is_refused_and_left_alone(base: Path, tmp_path: Path, kind: str) -> None:
    left, right = socket.socketpair()
    silent, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with (tmp_path / "file").open("wb") as file, left, right, silent, datagram:
        held = {"file": file, "not listening": silent, "datagram": datagram, "pair": left}
        number = {"closed": 9999, "negative": -1, "huge": 2**40}.get(kind)
        number = held[kind].fileno() if number is None else number
        before = descriptors()
        with pytest.raises(
            ConfigurationError, match=f"--listen-fd {number} is no listening unix or TCP socket; bind it"
        ):
            SandboxServer(settings(base, port=None, listen_fds=(number,)))
        assert descriptors() == before


def test_a_descriptor_that_is_given_twice_is_refused(base: Path) -> None:
    with listener() as inherited:
        number = inherited.detach()
    with pytest.raises(ConfigurationError, match=f"--listen-fd {number} is given twice"):
        SandboxServer(settings(base, port=None, listen_fds=(number, number)))


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_anonymous_callers_are_not_let_in_by_an_inherited_socket_that_is_open_to_the_network(
    base: Path, host: str
) -> None:
    before = descriptors()
    for more in ({}, {"allow_anonymous": False, "environ": TOKEN}):
        with listener(host=host) as inherited:
            number = inherited.detach()
        if more:
            SandboxServer(settings(base, port=None, listen_fds=(number,), **more)).close()
        else:
            with pytest.raises(ClosedByDefault, match=f'anonymous access on "{host}" would be open to the network'):
                SandboxServer(settings(base, port=None, listen_fds=(number,)))
        assert descriptors() == before


# -- closed by default ----------------------------------------------------------------------------------------------

TOKEN = {"ABX_SERVER_TOKEN": "t"}


@pytest.mark.field(142)
@pytest.mark.parametrize("more", [{}, {"host": "127.0.0.1"}, {"port": None, "unix_socket": "{tmp}/s"}])
def test_field_142_without_an_identity_no_server_starts(base: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    more = {k: v.replace("{tmp}", str(tmp_path)) if isinstance(v, str) else v for k, v in more.items()}
    with pytest.raises(ClosedByDefault, match="set ABX_SERVER_TOKEN .* or pass --allow-anonymous"):
        SandboxServer(settings(base, allow_anonymous=False, **more))
    SandboxServer(settings(base, allow_anonymous=False, environ=TOKEN, **more)).close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "127.0.0.1.example.org"])
@pytest.mark.parametrize("more", [{}, {"environ": TOKEN}])
def test_anonymous_callers_are_not_let_in_from_elsewhere(base: Path, host: str, more: dict[str, Any]) -> None:
    with pytest.raises(ClosedByDefault, match="would be open to the network"):
        SandboxServer(settings(base, host=host, **more))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_anonymous_callers_are_let_in_on_loopback(base: Path, host: str) -> None:
    with SandboxServer(settings(base, host=host)) as server:
        assert get(server.addresses[0], "/capabilities")[1]["identity"] == {"id": "anonymous", "scopes": ["*"]}


def test_the_default_address_is_any_unless_anonymous_callers_are_let_in(base: Path) -> None:
    assert settings(base).address == "127.0.0.1"
    assert settings(base, allow_anonymous=False).address == "0.0.0.0"
    assert settings(base, host="10.0.0.1").address == "10.0.0.1"


def test_a_unix_socket_may_be_anonymous_whatever_the_host(base: Path, tmp_path: Path) -> None:
    SandboxServer(settings(base, host="0.0.0.0", port=None, unix_socket=str(tmp_path / "s"))).close()


def test_a_policy_that_lets_anonymous_callers_in_is_bound_to_loopback_too(base: Path) -> None:
    policy = ServerPolicy.from_dict({"auth": {"allow_anonymous": True}})
    with pytest.raises(ClosedByDefault, match="would be open to the network"):
        SandboxServer(settings(base, policy=policy, allow_anonymous=False))
    SandboxServer(settings(base, policy=policy, allow_anonymous=False, host="127.0.0.1")).close()


def test_a_scratch_directory_that_is_not_there_stops_the_start(base: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no directory; make it first"):
        SandboxServer(settings(base, allow_anonymous=True, port=0, scratch=(str(base / "missing"),)))


@pytest.mark.field(154)
def test_field_154_landlock_that_a_policy_requires_and_a_kernel_lacks_stops_the_start(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confine, "CREATE_RULESET", 9999)
    with pytest.raises(ConfigurationError, match="policy.require_landlock"):
        SandboxServer(settings(base, policy=ServerPolicy.from_dict({"require_landlock": True})))


# -- from where -----------------------------------------------------------------------------------------------------


def test_other_names_and_other_pages_pass_only_where_allowed(base: Path) -> None:
    more = {"allow_hosts": ("box.example",), "allow_origins": ("https://lab.example",)}
    for allowed in ({}, more):
        with SandboxServer(settings(base, **allowed)) as server:
            address = server.addresses[0]
            assert get(address, Host="box.example")[0] == (200 if allowed else 421)
            assert get(address, Origin="https://lab.example")[0] == (200 if allowed else 403)
            assert get(address, Host="evil.example")[0] == 421
            assert get(address, Origin="https://evil.example")[0] == 403


def test_a_refused_page_is_audited(base: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit"
    with SandboxServer(settings(base, audit_file=str(log))) as server:
        assert get(server.addresses[0], Host="evil.example")[0] == 421
        with socket.create_connection(("127.0.0.1", int(server.addresses[0].rpartition(":")[2]))) as raw:
            raw.sendall(b"GET /health\r\n\r\n")
            answer = raw.recv(4096)
            assert b'"code":"bad_request"' in answer
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert f"X-Request-Id: {lines[1]['id']}\r\n".encode() in answer
    assert [(line["code"], line["status"], line["endpoint"]) for line in lines] == [
        ("host_not_allowed", 421, None), ("bad_request", 400, None),
    ]  # fmt: skip
    assert all(line["client"].startswith("127.0.0.1:") for line in lines)


def test_children_inherit_what_the_settings_say_and_no_secret(base: Path) -> None:
    environ = {"PLAIN": "1", "ABX_SERVER_TOKEN": "s3cret", "ABX_SERVER_POLICY": "{}"}
    with SandboxServer(settings(base, environ=environ, allow_anonymous=False)) as server:
        connection = http.client.HTTPConnection(server.addresses[0].removeprefix("http://"), timeout=60)
        connection.request("POST", "/shell", '{"command": "/usr/bin/env"}', {"X-Access-Token": "s3cret"})
        told = json.loads(connection.getresponse().read())["stdout"]
        connection.close()
    assert "PLAIN=1\n" in told
    assert "s3cret" not in told and "ABX_" not in told


@pytest.mark.parametrize("sent", ["half an upload", "a stream that nobody reads on"])
def test_a_caller_who_vanishes_frees_the_place_that_it_had(base: Path, sent: str) -> None:
    rules = {name: {"limits": {"max_concurrency": 1}} for name in ("files_upload_stream", "shell_stream")}
    upload = (
        b"POST /files/upload-stream?path=f HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/octet-stream\r\nContent-Length: 9\r\n\r\nhalf"
    )
    command = b'{"command":"sleep 1000"}'
    stream = b"POST /shell/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(command), command)
    data = upload if sent == "half an upload" else stream
    with SandboxServer(settings(base, policy=ServerPolicy.from_dict({"endpoints": rules}))) as server:
        address = ("127.0.0.1", int(server.addresses[0].rpartition(":")[2]))

        def refused() -> bool:
            with socket.create_connection(address, timeout=60) as second:
                second.sendall(data)
                second.settimeout(0.2)  # who is let in is answered later or never
                try:
                    return b"concurrency_limited" in second.recv(65536)
                except TimeoutError:
                    return False

        with socket.create_connection(address) as first:
            first.sendall(data)
            while not refused():
                pass
        while refused():
            pass
    assert os.listdir(base) == []


# -- by hand --------------------------------------------------------------------------------------------------------


@contextmanager
def by_hand(monkeypatch: pytest.MonkeyPatch, **environ: str) -> Iterator[str]:
    """The standard library's server with our handler, in an environment."""
    for name in list(os.environ):
        if name.startswith("ABX_"):
            monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    at_exit: list[Any] = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    with ThreadingHTTPServer(("127.0.0.1", 0), SandboxRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
    for call in at_exit:
        call()


@pytest.mark.finding("R2-C1")
def test_a_threading_server_with_our_handler_serves_the_policy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, base: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    policy = json.dumps({"base_dir": str(base), "endpoints": {"shell": {"enabled": False}}})
    with by_hand(monkeypatch, ABX_SERVER_TOKEN="t", ABX_SERVER_POLICY=policy) as address:
        assert get(address) == (200, {"status": "ok"})
        assert get(address, "/files/stat?path=.")[0] == 401
        token = {"X-Access-Token": "t"}
        status, told = get(address, "/files/stat?path=.", **token)
        assert (status, told["path"]) == (200, str(base))
        assert not get(address, "/capabilities", **token)[1]["endpoints"]["shell"]["enabled"]
    assert '"code":"unauthorized"' in capfd.readouterr().err  # its audit lines go to standard error


@pytest.mark.finding("R2-C1")
def test_wired_by_hand_without_an_identity_everybody_is_a_stranger(
    monkeypatch: pytest.MonkeyPatch, base: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with by_hand(monkeypatch, ABX_SERVER_BASE_DIR=str(base)) as address:
        assert get(address)[0] == 200
        status, told = get(address, "/capabilities")
        assert (status, told["code"]) == (401, "unauthorized")
    capfd.readouterr()


# -- the package ----------------------------------------------------------------------------------------------------


def test_the_package_exports_exactly_what_it_says() -> None:
    for name in sandbox_server.__all__:
        assert getattr(sandbox_server, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        sandbox_server.Nothing  # noqa: B018  # it is the access that is tried


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import sys, sandbox_server; print([m for m in sys.modules if m.startswith('sandbox_server.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['sandbox_server._version']"


def test_a_start_imports_nothing_that_only_few_requests_need() -> None:
    """Of the standard library, what costs most; on a bare interpreter, since the site's own hooks import too."""
    code = "import sys, sandbox_server.server, sandbox_server.cli; print(*sys.modules)"
    environ = {"PYTHONPATH": str(Path(sandbox_server.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=environ)
    slow = {"asyncio", "ctypes.util", "dataclasses", "email", "http.client", "inspect", "pty", "random", "secrets",
            "shutil", "ssl", "tarfile", "tempfile", "urllib.parse", "zipfile"}  # fmt: skip
    late = {f"sandbox_server.handlers.{name}" for name in ("archive", "browser", "git", "shell", "terminal", "upload")}
    assert not (slow | late) & set(done.stdout.split())


def test_the_main_thread_hears_of_ended_children_ten_times_a_second_at_most(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of one that ended at that very moment without a word about an exception that was ignored."""

    def caught() -> bool:
        [mask] = re.findall(r"^SigCgt:\t(.+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
        return bool(int(mask, 16) >> signal.SIGCHLD - 1 & 1)

    monkeypatch.setattr("sandbox_server.server.time", SimpleNamespace(monotonic=lambda: 100.0))
    server = SandboxServer(settings(base))
    before = signal.getsignal(signal.SIGCHLD)
    try:
        with server._signals():
            for _ in range(2):
                assert caught() and server._reap_at == math.inf
                os.kill(os.getpid(), signal.SIGCHLD)
                assert not caught() and server._reap_at == 100.1
                assert signal.getsignal(signal.SIGCHLD) not in (before, signal.SIG_DFL)  # for one that came before
                os.kill(os.getpid(), signal.SIGCHLD)
                server._reap()
        assert signal.getsignal(signal.SIGCHLD) == before and not caught()
    finally:
        server.close()


def test_a_thread_leaves_the_signals_of_the_process_alone(base: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)]
    with SandboxServer(settings(base)) as server:
        assert get(server.addresses[0])[0] == 200
        assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)] == before
