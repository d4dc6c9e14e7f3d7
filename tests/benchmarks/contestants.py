"""Adapters: how to start each server and how to phrase each operation for it.

A contestant answers ``None`` for an operation it does not offer; the workload is then
skipped. To add a server: subclass ``Contestant``, fill in the methods, add it to ``ALL``.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import time
from urllib.parse import quote

from loadgen import Conn, Req, Slice, tree

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.environ.get("BENCH_WORK", "/tmp/bench")
ROOT = os.path.join(WORK, "root")
PEERS = os.environ.get("BENCH_PEERS", "/tmp/peers")
PY = os.environ.get("BENCH_PYTHON", sys.executable)
TOKEN = "bench-token-0123456789abcdef"


def jreq(method, target, obj, **headers) -> Req:
    return Req(method, target, {"Content-Type": "application/json", **headers}, [json.dumps(obj).encode()])


def body_bytes(part) -> bytes:
    if isinstance(part, bytes):
        return part
    with open(part.path, "rb") as f:
        f.seek(part.offset)
        return f.read(len(part))


class Contestant:
    name = ""
    kind = "peer"  # peer | floor | proto | limit
    big_source = "big.bin"  # which prepared file a 1 GiB download uses
    imports = ""  # (python, module) for the import-time workload

    def __init__(self, port: int):
        self.port = port
        self.proc: subprocess.Popen | None = None

    # -- process ------------------------------------------------------------
    def argv(self) -> list[str]:
        raise NotImplementedError

    def env(self) -> dict:
        return {}

    def spawn(self) -> None:
        log = open(os.path.join(WORK, f"{self.name}.log"), "ab")
        self.proc = subprocess.Popen(
            self.argv(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT, env={**os.environ, **self.env()}
        )

    def start(self, limit: float = 60.0) -> float:
        """Start; returns seconds until the first 200 of the health request."""
        t0 = time.perf_counter()
        self.spawn()
        while time.perf_counter() - t0 < limit:
            c = Conn(self.port, 10)
            try:
                if c.request(self.health()).status == 200:
                    return time.perf_counter() - t0
            except OSError:
                pass
            except EOFError:
                pass
            finally:
                c.close()
            if self.proc.poll() is not None:
                raise RuntimeError(f"{self.name} exited {self.proc.returncode}")
            time.sleep(0.003)
        raise RuntimeError(f"{self.name} not ready")

    def stop(self) -> None:
        if not self.proc:
            return
        pids = tree(self.proc.pid)
        self.proc.terminate()
        try:
            self.proc.wait(5)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        for p in pids[1:]:  # left-over children of ours
            with contextlib.suppress(OSError):
                os.kill(p, 9)
        self.proc = None

    # -- operations ---------------------------------------------------------
    def health(self) -> Req: ...
    def stat(self, path):
        return None

    def upload(self, path, part) -> list[Req] | None:
        return None  # one or more requests

    def upload_big(self, path):
        return self.upload(path, Slice(f"{WORK}/root/big.bin"))

    def download(self, path):
        return None

    def list(self, path):
        return None

    def list_unsorted(self, path):
        return None

    def search(self, path, pat):
        return None

    def run(self, argv):
        return None

    def stream(self, argv):
        return None  # answers while the process runs

    def archive(self, path, form, level):
        return None  # "zip" or "tar"; who knows one form answers that one

    def idle(self, kind):
        return None  # a response that stays open: "" of whatever kind, "run" a command, "follow" a process


# ------------------------------------------------------------------ the simple protocol


class Simple(Contestant):
    def health(self):
        return Req("GET", "/health")

    def stat(self, path):
        return Req("GET", f"/stat?path={quote(path)}")

    def upload(self, path, part):
        return [Req("PUT", f"/files?path={quote(path)}", {}, [part])]

    def download(self, path):
        return Req("GET", f"/files?path={quote(path)}")

    def list(self, path):
        return Req("GET", f"/list?path={quote(path)}")

    def search(self, path, pat):
        return Req("GET", f"/search?path={quote(path)}&pat={quote(pat)}")

    def run(self, argv):
        return jreq("POST", "/run", {"argv": argv})

    def stream(self, argv):
        return jreq("POST", "/stream", {"argv": argv})

    def archive(self, path, form, level):
        return Req("GET", f"/archive?path={quote(path)}&fmt=zip")

    def idle(self, kind):
        return None if kind else Req("GET", "/idle")


class Asgi(Simple):
    name, kind = "asgi", "floor"
    imports = (f"{PEERS}/asgi/bin/python", "uvicorn,starlette.applications,uvloop,httptools")

    def argv(self):
        return [
            f"{PEERS}/asgi/bin/uvicorn",
            "asgi_app:app",
            "--app-dir",
            HERE,
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--no-access-log",
            "--log-level",
            "warning",
            "--backlog",
            "1024",
        ]

    def env(self):
        return {"BENCH_ROOT": ROOT}


# ------------------------------------------------------------------ peers


class AgentSandboxServer(Contestant):
    """agent-sandbox-server; limits raised by policy so that the workloads are allowed."""

    name = "ass"
    imports = (f"{PEERS}/ass/bin/python", "agent_sandbox.server.app")
    auth = {"Authorization": f"Bearer {TOKEN}"}

    def argv(self):
        policy = {
            "version": 1,
            "base_dir": ROOT,
            "endpoints": {
                "files_upload_stream": {"limits": {"max_request_bytes": 4 << 30, "max_bytes": 4 << 30}},
                "files_list": {"limits": {"max_entries": 1_000_000}},
                "files_search": {"limits": {"timeout_seconds": 120}},
                "files_archive": {"limits": {"max_bytes": 4 << 30, "max_files": 1_000_000}},
            },
        }
        path = f"{WORK}/ass-policy.json"
        with open(path, "w") as f:
            json.dump(policy, f)
        return [
            f"{PEERS}/ass/bin/agent-sandbox-server",
            "serve",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--pty-port",
            str(self.port + 500),
            "--policy",
            path,
            "--base-dir",
            ROOT,
        ]

    def env(self):
        return {"ABX_SERVER_TOKEN": TOKEN, "ABX_MAX_UPLOAD_SIZE": str(4 << 30)}

    def health(self):
        return Req("GET", "/health")

    def stat(self, path):
        return Req("GET", f"/files/stat?path={quote(ROOT + '/' + path)}", self.auth)

    def _up(self, path, b64):
        pre = f'{{"path": "{ROOT}/{path}", "content_base64": "'.encode()
        return [
            Req("POST", "/files/upload-stream", {"Content-Type": "application/json", **self.auth}, [pre, b64, b'"}'])
        ]

    def upload(self, path, part):
        return self._up(path, base64.b64encode(body_bytes(part)))

    def upload_big(self, path):
        return self._up(path, Slice(f"{WORK}/big.b64"))

    def download(self, path):
        return Req("GET", f"/files/download-stream?path={quote(ROOT + '/' + path)}", self.auth)

    def list(self, path):
        return Req("GET", f"/files/list?path={quote(ROOT + '/' + path)}&max_entries=1000000", self.auth)

    def search(self, path, pat):
        return jreq(
            "POST",
            "/files/search",
            {"path": f"{ROOT}/{path}", "pattern": pat, "max_results": 100000, "max_depth": 20},
            **self.auth,
        )

    def _sh(self, argv):
        return " ".join("'" + a + "'" for a in argv)

    def run(self, argv):
        return jreq("POST", "/shell", {"command": self._sh(argv)}, **self.auth)

    def stream(self, argv):
        return jreq("POST", "/shell/stream", {"command": self._sh(argv)}, **self.auth)

    def archive(self, path, form, level):
        return jreq("POST", "/files/archive", {"paths": [f"{ROOT}/{path}"], "format": "zip"}, **self.auth)

    def idle(self, kind):
        return None if kind else Req("GET", f"/files/watch?path={quote(ROOT + '/empty')}", self.auth)


class Ours(AgentSandboxServer):
    """This project's server: same routes, raw representations where it offers them."""

    name, kind = "ours", "product"
    python = os.environ.get("BENCH_OURS_PYTHON", sys.executable)
    imports = (python, "sandbox_server.cli")
    raw = {"Accept": "application/octet-stream"}
    frames = {"Accept": "application/vnd.docker.multiplexed-stream"}

    def argv(self):
        limits = {
            "files_upload_stream": {"limits": {"max_request_bytes": 4 << 30, "max_bytes": 4 << 30}},
            "files_download_stream": {"limits": {"max_bytes": 4 << 30}},
            "files_list": {"limits": {"max_entries": 1_000_000}},
            "files_search": {"limits": {"timeout_seconds": 120, "max_results": 100000, "max_depth": 20}},
            "shell": {"limits": {"max_output_bytes": 1 << 30}},
            "shell_stream": {"limits": {"max_output_bytes": 1 << 30}},
        }
        path = f"{WORK}/ours-policy.json"
        with open(path, "w") as f:
            json.dump({"version": 1, "base_dir": ROOT, "endpoints": limits}, f)
        return [
            self.python,
            "-m",
            "sandbox_server",
            "serve",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--pty-port",
            str(self.port + 500),
            "--policy",
            path,
            "--base-dir",
            ROOT,
        ]

    def env(self):
        return {"ABX_SERVER_TOKEN": TOKEN}

    def upload(self, path, part):
        return [
            Req(
                "POST",
                f"/files/upload-stream?path={quote(ROOT + '/' + path)}",
                {"Content-Type": "application/octet-stream", **self.auth},
                [part],
            )
        ]

    def upload_big(self, path):
        return self.upload(path, Slice(f"{WORK}/root/big.bin"))

    def download(self, path):
        return Req("GET", f"/files/download-stream?path={quote(ROOT + '/' + path)}", {**self.auth, **self.raw})

    def stream(self, argv):
        return jreq("POST", "/shell/stream", {"command": self._sh(argv)}, **self.auth, **self.frames)

    def list_unsorted(self, path):
        req = self.list(path)
        return Req(req.method, f"{req.target}&order=none", req.headers)

    def archive(self, path, form, level):
        body = {"paths": [f"{ROOT}/{path}"], "format": form}
        if level is not None:
            body["level"] = level
        media = {"zip": "application/zip", "tar": "application/x-tar"}[form]
        return jreq("POST", "/files/archive", body, **self.auth, Accept=media)

    def idle(self, kind):
        if kind == "run":
            return self.stream(["sleep", "600"])
        if kind == "follow":
            conn = Conn(self.port)
            start = {"command": "sleep 600", "capture_output": True}
            started = json.loads(conn.request(jreq("POST", "/process/start", start, **self.auth), keep=True).body)
            conn.close()
            return Req("GET", f"/process/{started['id']}/output?follow=true", {**self.auth, **self.frames})
        return super().idle(kind)


class OursByCopying(Ours):
    """The same where the kernel does not move an upload by itself, as outside Linux."""

    name = "ours-copying"
    without_splice = "import os; del os.splice; from sandbox_server.cli import main; raise SystemExit(main())"

    def argv(self):
        python, _, _, *arguments = super().argv()
        return [python, "-c", self.without_splice, *arguments]


# ------------------------------------------------------------------ limits


class Nginx(Contestant):
    name, kind = "nginx", "limit"

    def argv(self):
        base = f"{WORK}/nginx"
        os.makedirs(f"{base}/tmp", exist_ok=True)
        conf = f"{base}/nginx.conf"
        with open(conf, "w") as f:
            f.write(f"""
user root; daemon off; master_process on; worker_processes 1; pid {base}/nginx.pid;
error_log {base}/error.log error;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
  client_max_body_size 0; client_body_temp_path {base}/tmp;
  proxy_temp_path {base}/tmp; fastcgi_temp_path {base}/tmp; uwsgi_temp_path {base}/tmp;
  scgi_temp_path {base}/tmp; default_type application/octet-stream;
  client_body_buffer_size 256k;
  server {{
    listen 127.0.0.1:{self.port} backlog=1024;
    location = /health {{ return 200 '{{"status": "ok"}}'; }}
    location /files/ {{ alias {ROOT}/; dav_methods PUT DELETE; create_full_put_path on;
                        autoindex on; autoindex_format json; }}
  }}
}}
""")
        return ["/usr/sbin/nginx", "-p", base, "-c", conf]

    def health(self):
        return Req("GET", "/health")

    def upload(self, path, part):
        return [Req("PUT", f"/files/{quote(path)}", {}, [part])]

    def download(self, path):
        return Req("GET", f"/files/{quote(path)}")

    def list(self, path):
        return Req("GET", f"/files/{quote(path)}/")


def ALL() -> dict[str, Contestant]:
    contestants = [Ours(7100), AgentSandboxServer(7101), Asgi(7106), Nginx(7107)]
    return {c.name: c for c in contestants}
