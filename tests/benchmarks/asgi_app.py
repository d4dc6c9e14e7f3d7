"""Minimal Starlette file/process app: the 'async ASGI floor' (uvicorn + httptools + uvloop)."""

import asyncio
import fnmatch
import os
import re
import tempfile
import zipfile

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, JSONResponse, StreamingResponse
from starlette.routing import Route

ROOT = os.environ["BENCH_ROOT"]


def resolve(request):
    return os.path.join(ROOT, request.query_params["path"].lstrip("/"))


async def health(request):
    return JSONResponse({"status": "ok"})


async def stat(request):
    p = resolve(request)
    st = os.stat(p)
    return JSONResponse(
        {"name": os.path.basename(p), "path": p, "size": st.st_size, "mode": st.st_mode, "modified": st.st_mtime}
    )


async def get_file(request):
    return FileResponse(resolve(request))


async def put_file(request):
    p = resolve(request)
    tmp = f"{p}.part{id(request):x}"
    n = 0
    with open(tmp, "wb", buffering=0) as f:
        async for chunk in request.stream():
            f.write(chunk)
            n += len(chunk)
    os.replace(tmp, p)
    return JSONResponse({"path": p, "bytes": n})


def _list(path):
    out = []
    with os.scandir(path) as it:
        for e in it:
            st = e.stat(follow_symlinks=False)
            out.append(
                {
                    "name": e.name,
                    "type": "directory" if e.is_dir() else "file",
                    "size": st.st_size,
                    "modified": st.st_mtime,
                }
            )
    return JSONResponse({"entries": out})


async def list_dir(request):
    return await run_in_threadpool(_list, resolve(request))


def _search(path, pat):
    match = re.compile(fnmatch.translate(pat)).match
    return JSONResponse({"results": [os.path.join(d, f) for d, _, fs in os.walk(path) for f in fs if match(f)]})


async def search(request):
    return await run_in_threadpool(_search, resolve(request), request.query_params["pat"])


async def run(request):
    p = await asyncio.create_subprocess_exec(
        *(await request.json())["argv"],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await p.communicate()
    return JSONResponse(
        {"stdout": out.decode(errors="replace"), "stderr": err.decode(errors="replace"), "exit_code": p.returncode}
    )


async def stream(request):
    argv = (await request.json())["argv"]

    async def body():
        p = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        while data := await p.stdout.read(65536):
            yield data
        yield b"exit %d\n" % await p.wait()

    return StreamingResponse(body(), media_type="application/octet-stream")


def _zip(path):
    fd, tmp = tempfile.mkstemp(suffix=".zip", dir=os.path.dirname(ROOT))
    with os.fdopen(fd, "wb") as f, zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z:
        for d, _, files in os.walk(path):
            for name in files:
                full = os.path.join(d, name)
                z.write(full, os.path.relpath(full, path))
    return tmp


async def archive(request):
    tmp = await run_in_threadpool(_zip, resolve(request))
    return FileResponse(tmp, background=BackgroundTask(os.unlink, tmp))


async def idle(request):
    async def body():
        yield b"ready"
        await asyncio.sleep(3600)

    return StreamingResponse(body(), media_type="text/event-stream")


app = Starlette(
    routes=[
        Route("/health", health),
        Route("/stat", stat),
        Route("/files", get_file, methods=["GET"]),
        Route("/files", put_file, methods=["PUT"]),
        Route("/list", list_dir),
        Route("/search", search),
        Route("/archive", archive),
        Route("/run", run, methods=["POST"]),
        Route("/stream", stream, methods=["POST"]),
        Route("/idle", idle),
    ]
)
