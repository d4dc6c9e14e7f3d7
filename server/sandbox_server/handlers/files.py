"""Single paths: what is there, making, removing and moving it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii as json_text

from ..call import Call
from ..guards.paths import Location
from ..messages import JSON_TYPE, Refusal, Response, json_response, quoted
from .download import files_download_stream
from .later import later
from .metadata import etag_of, iso_time, kind_of, octal, type_of


def files_stat(call: Call, *, path: Location, follow: bool) -> Response:
    """Facts about one path. That nothing is there is an answer, not a refusal."""
    target = path.readlink()
    linked = {"is_symlink": target is not None, "link_target": target}
    try:
        facts = path.stat()
    except FileNotFoundError:
        return json_response({**_NOTHING, "name": path.name, "path": path.path, **linked})
    mode, name, place = facts.st_mode, json_text(path.name), json_text(path.path)
    # Formatted by hand: this is the most frequent question, and json.dumps would cost a third of the answer.
    body = (
        f'{{"name":{name},"path":{place},"type":"{type_of(mode)}","size":{facts.st_size}'
        f',"permissions":"{mode & 0o777:03o}","modified":"{iso_time(facts.st_mtime_ns)}"'
        f',"accessed":"{iso_time(facts.st_atime_ns)}","created":"{iso_time(facts.st_ctime_ns)}","exists":true'
        f',"kind":"{kind_of(mode)}","mode":"{octal(mode)}","uid":{facts.st_uid},"gid":{facts.st_gid}'
        f',"mtime_ns":"{facts.st_mtime_ns}","etag":{json_text(etag_of(facts))}'
        f',"is_symlink":{"false" if target is None else "true"}'
        f',"link_target":{"null" if target is None else json_text(target)}}}'
    )
    return Response(200, body.encode("ascii"), [("Content-Type", JSON_TYPE)])


_NOTHING: Mapping[str, object] = {
    "type": "unknown",
    "size": 0,
    "permissions": "",
    "modified": "",
    "accessed": "",
    "created": "",
    "exists": False,
    "kind": None,
    "mode": "",
    "uid": None,
    "gid": None,
    "mtime_ns": "",
    "etag": None,
}


def files_mkdir(call: Call, *, path: Location) -> Response:
    """Make the directory and its parents; one that is there already is fine."""
    path.make_directories()
    return json_response({"path": path.path, "created": True})


def files_delete(call: Call, *, path: Location) -> Response:
    """Remove a file, a link itself, or a whole directory."""
    _demand(path)
    path.remove()
    return json_response({"path": path.path, "deleted": True})


def files_move(call: Call, *, source: Location, destination: Location) -> Response:
    """Rename. ``destination`` is what was asked for, ``path`` where it ended up."""
    _demand(source)
    final = source.move_to(destination)
    return json_response({"source": source.path, "destination": destination.path, "path": final})


def _demand(path: Location) -> None:
    if path.missing:
        raise Refusal("not_found", f"no file or directory at {quoted(path.path)}; check the path")


FILE_HANDLERS: Mapping[str, Callable[..., Response]] = {
    **later("listing", "files_list"),
    "files_stat": files_stat,
    "files_mkdir": files_mkdir,
    "files_delete": files_delete,
    "files_move": files_move,
    **later("upload", "files_upload_stream"),
    "files_download_stream": files_download_stream,
}
