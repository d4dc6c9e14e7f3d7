"""The program inside a code context. It is sent there as text and needs nothing but a Python of 3.8 or later.

Output needs no help of ours: descriptors 1 and 2 are pipes, so whatever writes there is heard, sub-processes and C code
too. Besides there is one socket, the channel. Messages on it are a big-endian 32-bit length and a JSON object. The
server sends `run` and, for each `display` and `result`, `ack`; until it comes nothing more is written, so that output
and displays keep their order. We send `begin` once an interrupt would reach the code, `display`, `result`, `error`,
and `end`, the last word of a run.

The channel is closed in forked children, and its descriptor lies out of the way of careless `closerange` calls.
"""

from __future__ import annotations
import __future__ as futures

import _ast
import builtins
import contextlib
import fcntl
import io
import json
import linecache
import os
import select
import signal
import sys
import threading
import traceback
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

FILE = "<sandbox runner>"  # how our own frames are told from the user's
MOST_BYTES = 32 << 20  # of one message
MOST_TEXT = 1 << 20  # characters of a plain representation
MOST_TRACEBACK = 1 << 18
_FUTURES = 0
for _name in futures.all_feature_names:
    _FUTURES |= getattr(futures, _name).compiler_flag
_PARSE = _ast.PyCF_ONLY_AST | getattr(_ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0x2000)
_COROUTINE = 0x80
_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"),
)


class Channel:
    """Whole messages, whatever signals come in between. `deaf` once it is closed, as in a forked child."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._buffer = b""
        self._noted = False
        self._asked = 0
        self.deaf = False

    def close(self) -> None:
        self.deaf = True
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def receive(self) -> dict[str, Any]:
        """The next message. `EOFError` when the server has closed its end."""
        while True:
            length = int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) >= 4 + length and len(self._buffer) >= 4:
                payload, self._buffer = self._buffer[4 : 4 + length], self._buffer[4 + length :]
                message: dict[str, Any] = json.loads(payload)
                return message
            poll = select.poll()  # waiting may be interrupted, reading may not
            poll.register(self._descriptor, select.POLLIN)
            poll.poll()
            self._whole(self._read)

    def send(self, message: Mapping[str, Any]) -> None:
        payload = _encoded(message)
        data = memoryview(len(payload).to_bytes(4, "big") + payload)
        with self._lock:
            self._whole(lambda: self._write(data))

    def ask(self, message: dict[str, Any]) -> None:
        """Send it and wait until the server has taken it, and all output before it."""
        with self._lock:
            self._asked += 1
            message["number"] = number = self._asked
            self.send(message)
            while self.receive().get("number", 0) < number:
                pass

    def _read(self) -> None:
        data = os.read(self._descriptor, 1 << 20)
        if not data:
            raise EOFError
        self._buffer += data

    def _write(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _whole(self, work: Callable[[], None]) -> None:
        """An interrupt in the midst of a message waits until its end."""
        if threading.current_thread() is not threading.main_thread():
            work()
            return
        handler = signal.getsignal(signal.SIGINT) or signal.SIG_DFL
        try:
            signal.signal(signal.SIGINT, self._note)
            work()
        finally:
            signal.signal(signal.SIGINT, handler)
        if self._noted:
            self._noted = False
            signal.raise_signal(signal.SIGINT)

    def _note(self, number: int, frame: types.FrameType | None) -> None:
        self._noted = True


def _encoded(message: Mapping[str, Any]) -> bytes:
    payload = json.dumps(message, allow_nan=False).encode("ascii")
    if len(payload) > MOST_BYTES:
        note = f"<a representation of {len(payload)} bytes was left out; the limit is {MOST_BYTES}>"
        payload = json.dumps({**message, "data": {"text/plain": note}, "metadata": {}}).encode("ascii")
    return payload


class NoInput(io.TextIOBase):
    """Standard input: there is nobody to ask."""

    def _refuse(self, *ignored: object) -> Any:
        raise RuntimeError("a code context has no standard input; put the value into a variable instead")

    read = readline = readlines = __iter__ = __next__ = _refuse

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0


class Session:
    """One namespace, and the loop that runs code in it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._spare = [(fd, _out_of_the_way(fd)) for fd in (1, 2)]
        self._flags = 0
        self._loop: Any = None
        self._last: Any = None
        self._running = False
        self._handler: Any = signal.default_int_handler
        self._module = types.ModuleType("__main__")
        self._space = self._module.__dict__
        self._space["__builtins__"] = builtins
        sys.modules["__main__"] = self._module
        sys.stdin = NoInput()
        vars(builtins)["display"] = self.display
        os.environ.setdefault("MPLBACKEND", "Agg")
        sys.meta_path.insert(0, AfterImport(self))
        os.register_at_fork(after_in_child=channel.close)
        streams: tuple[Any, Any] = (sys.stdout, sys.stderr)
        for stream in streams:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)

    def serve(self) -> None:
        _deafen()
        while True:
            message = self._channel.receive()
            if message.get("op") == "run":
                self._mend()
                status = self._run(message["code"], message["count"])
                if os.getpid() != self._pid:  # the child of a fork in the code: its work ends where the code does
                    self._flush()
                    os._exit(0 if status == "ok" else 1)
                self._channel.send({"op": "end", "status": status})

    def display(
        self,
        *values: Any,
        raw: bool = False,
        metadata: Mapping[str, Any] | None = None,
        include: Any = None,
        exclude: Any = None,
        **ignored: Any,
    ) -> None:
        """Show each value to whoever runs this code, in its richest form."""
        for value in values:
            data, about = (dict(value), {}) if raw else bundle(value)
            if include:
                data = {mime: data[mime] for mime in data if mime in include}
            if exclude:
                data = {mime: data[mime] for mime in data if mime not in exclude}
            self._tell("display", data, {**about, **(metadata or {})})

    def show_figures(self, but: Any = None) -> None:
        """Display what pyplot holds open, and close it; one has been shown already."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            for number in pyplot.get_fignums():
                figure = pyplot.figure(number)
                if figure is not but:
                    self.display(figure)
                pyplot.close(number)

    def _tell(self, op: str, data: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        if self._channel.deaf:  # the child of a fork
            return
        if not self._running:
            print("nobody is there to see what display() shows after the end of a run", file=sys.stderr)
            return
        self._flush()
        self._channel.ask({"op": op, "data": cleaned(data), "metadata": cleaned(metadata)})

    def _run(self, code: str, count: int) -> str:
        """How it went: ok, error or interrupted."""
        self._running = True
        status = "interrupted"
        try:
            try:
                signal.signal(signal.SIGINT, self._handler)
                self._channel.send({"op": "begin"})
                self._execute(code, f"<cell {count}>")
                status = "ok"
            finally:
                self._handler = signal.getsignal(signal.SIGINT) or signal.SIG_DFL  # the code may have set its own
                _deafen()
        except BaseException as error:  # whatever the code raises is an answer, KeyboardInterrupt and SystemExit too
            _deafen()
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            if os.getpid() == self._pid:
                self._flush()
                self._channel.send({"op": "error", **described(error)})
            elif isinstance(error, SystemExit):
                self._flush()
                os._exit(error.code if isinstance(error.code, int) else 0 if error.code is None else 1)
            else:
                print("\n".join(described(error)["traceback"]), file=sys.stderr)
        finally:
            self._flush()
            self._running = False
        return status

    def _execute(self, code: str, file: str) -> None:
        linecache.cache[file] = (len(code), None, _lines(code), file)
        tree = compile(code, file, "exec", _PARSE | self._flags, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], _ast.Expr) and not _silenced(code, tree.body[-1]):
            last = _ast.Expression(tree.body.pop().value)
        parts = [self._compiled(tree, file, "exec")]
        if last is not None:
            parts.append(self._compiled(last, file, "eval"))
        value = self._evaluated(parts)
        if last is not None and value is not None:
            if self._space.get("_") is self._last:  # a "_" of the user's own stays
                self._space["_"] = self._last = value
            self._tell("result", *bundle(value))
        self.show_figures(but=value)

    def _compiled(self, tree: Any, file: str, mode: str) -> types.CodeType:
        compiled: types.CodeType = compile(tree, file, mode, _PARSE & ~_ast.PyCF_ONLY_AST | self._flags, True)
        self._flags |= compiled.co_flags & _FUTURES
        return compiled

    def _evaluated(self, parts: list[types.CodeType]) -> Any:
        """The value of the last. Where one of them awaits something, all run inside the event loop."""
        if any(part.co_flags & _COROUTINE for part in parts):
            return self._awaited(self._in_the_loop(parts))
        return [eval(part, self._space) for part in parts][-1]

    async def _in_the_loop(self, parts: list[types.CodeType]) -> Any:
        value = None
        for part in parts:
            value = eval(part, self._space)
            if part.co_flags & _COROUTINE:
                value = await value
        return value

    def _awaited(self, coroutine: Any) -> Any:
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit):
            task.cancel()
            self._loop.run_until_complete(asyncio.wait([task], timeout=1))
            raise

    def _mend(self) -> None:
        """Whatever earlier code did to its standard streams, this one has them."""
        for descriptor, spare in self._spare:
            try:
                os.fstat(descriptor)
            except OSError:
                os.dup2(spare, descriptor)
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, "closed", False):
                raw = open(descriptor, "wb", closefd=False)  # noqa: SIM115 (it stays open)
                setattr(sys, name, io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True))

    def _flush(self) -> None:
        streams: tuple[Any, ...] = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        for stream in streams:
            with contextlib.suppress(Exception):  # closed, replaced, broken: not ours to mend now
                stream.flush()
        with contextlib.suppress(Exception):
            import ctypes

            ctypes.CDLL(None).fflush(None)


class AfterImport:
    """Teaches two modules, once they are imported, that there is somebody to show things to. It imports neither."""

    def __init__(self, session: Session) -> None:
        self._teach: dict[str, Callable[..., None]] = {
            "matplotlib.pyplot": lambda module: setattr(module, "show", lambda *a, **k: session.show_figures()),
            "IPython.core.display_functions": lambda module: setattr(module, "display", session.display),
        }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        teach = self._teach.pop(name, None)
        if teach is None:
            return None
        others: list[Any] = [finder for finder in sys.meta_path if finder is not self]
        for finder in others:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None and hasattr(spec.loader, "exec_module"):
                spec.loader.exec_module = self._followed(spec.loader.exec_module, teach)
                return spec
        self._teach[name] = teach
        return None

    @staticmethod
    def _followed(execute: Callable[..., None], teach: Callable[..., None]) -> Callable[..., None]:
        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            teach(module)

        return exec_module


def bundle(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(MIME type -> representation, MIME type -> metadata) of a value, by the protocol that Jupyter established."""
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    if not isinstance(value, type) and not callable(getattr(value, "_no_object_has_this_method_", None)):
        found = _asked(value, "_repr_mimebundle_", include=None, exclude=None)
        if isinstance(found, tuple) and len(found) == 2:
            found, metadata = found
        data = dict(found) if isinstance(found, dict) else {}
        metadata = dict(metadata) if isinstance(metadata, dict) else {}
        for method, mime in _METHODS:
            if mime not in data:
                found = _asked(value, method)
                if isinstance(found, tuple) and len(found) == 2:
                    found, metadata[mime] = found
                if found is not None:
                    data[mime] = found
        if _is_figure(value):
            data["image/png"] = _picture(value)
    if "text/plain" not in data:
        data["text/plain"] = plain(value)
    return data, metadata


def _asked(value: Any, method: str, **options: Any) -> Any:
    found = getattr(value, method, None)
    if not callable(found):
        return None
    try:
        return found(**options)
    except Exception as error:  # the plain representation is still there
        print(f"{method}() of {type(value).__name__} raised {type(error).__name__}", file=sys.stderr)
        return None


def plain(value: Any) -> str:
    """As text: containers over several lines where they are long, and never endless."""
    try:
        text = repr(value)
        if 79 < len(text) < 100_000 and type(value) in (dict, list, tuple, set, frozenset):
            import pprint

            text = pprint.pformat(value, **({"sort_dicts": False} if type(value) is dict else {}))
    except Exception as error:
        return f"<{type(value).__name__} object; its repr() raised {type(error).__name__}>"
    if len(text) > MOST_TEXT:
        text = f"{text[:MOST_TEXT]}… ({len(text) - MOST_TEXT} more characters)"
    return text


def cleaned(data: Mapping[str, Any]) -> dict[str, Any]:
    """What can travel as JSON: bytes become base64 text, and what cannot is left out."""
    whole = {}
    for mime, value in data.items():
        if isinstance(value, (bytes, bytearray)):
            import binascii

            value = binascii.b2a_base64(value, newline=False).decode("ascii")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            continue
        whole[str(mime)] = value
    return whole


def _is_figure(value: Any) -> bool:
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def _picture(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def described(error: BaseException) -> dict[str, Any]:
    """An exception as data; its traceback begins with the user's code, not with ours."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
        trace = trace.tb_next
    try:
        report = traceback.TracebackException(type(error), error, trace or error.__traceback__)
        _without_ours(report)
        lines = "".join(report.format())
    except Exception:
        lines = type(error).__name__
    if len(lines) > MOST_TRACEBACK:
        half = MOST_TRACEBACK // 2
        lines = f"{lines[:half]}\n  … ({len(lines) - 2 * half} characters left out)\n{lines[-half:]}"
    try:
        value = str(error)[:MOST_TRACEBACK]
    except Exception:
        value = "<its str() raised another>"
    return {"name": type(error).__name__, "value": value, "traceback": lines.splitlines()}


def _without_ours(report: traceback.TracebackException) -> None:
    """Leave our own frames out, of the exceptions behind it too."""
    reports: list[traceback.TracebackException | None] = [report]
    while reports:
        each = reports.pop()
        if each is not None:
            each.stack[:] = [frame for frame in each.stack if frame.filename != FILE]
            reports += (each.__cause__, each.__context__)


def _silenced(code: str, node: _ast.Expr) -> bool:
    """A semicolon after the last expression keeps its value from being shown."""
    line, column = node.end_lineno, node.end_col_offset
    rest = _lines(code)[line - 1].encode("utf-8", "replace")[column:] if line else b""
    return rest.lstrip(b" \t)").startswith(b";")


def _lines(code: str) -> list[str]:
    """As Python counts them."""
    return io.StringIO(code, newline=None).readlines()


def _ignore(number: int, frame: types.FrameType | None) -> None:
    """No user code runs."""


def _deafen() -> None:
    """From here on an interrupt means nothing. It may come just before."""
    while True:
        try:
            signal.signal(signal.SIGINT, _ignore)
            return
        except KeyboardInterrupt:
            pass


def _out_of_the_way(descriptor: int) -> int:
    for least in (1000, 500, 300, 100, 10):
        try:
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:  # more than this process may have
            pass
    return descriptor


def main() -> None:
    given = int(sys.argv[1])
    descriptor = _out_of_the_way(given)
    if descriptor != given:
        os.close(given)
    sys.argv[:] = [""]
    sys.path.insert(0, "")  # the working directory; not before our own imports were done
    try:
        Session(Channel(descriptor)).serve()
    except (EOFError, OSError):  # the server has closed the channel, or the code has
        os._exit(70)


if __name__ == "sandbox_runner":
    main()
