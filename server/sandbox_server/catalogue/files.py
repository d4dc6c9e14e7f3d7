"""Files and directories."""

from __future__ import annotations

from ..messages import JSON_TYPE, OCTETS_TYPE, SSE_TYPE
from .model import Endpoint, Field, Step

MIB = 1 << 20
PARTIAL_TYPE = "application/partial-upload"  # Resumable Uploads for HTTP
ARCHIVE_TYPES = ("application/x-tar", "application/gzip", "application/zip")
_UPLOAD = "/files/uploads/{id}"
_UPLOAD_ID = Field("id", "text", "path", "Id of the upload, from the Location of its creation.")


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("files_list", "GET", "/files/list", "file_ops", "Directory entries, optionally recursive.",
                 ("files:read",),
                 (
                     Field("path", "path", "query", "Directory.", op="read"),
                     Field("recursive", "bool", "query", "Descend into subdirectories.", False),
                     Field("max_entries", "int", "query", "Most entries to answer.", None, lenient=True),
                     Field("max_depth", "int", "query", "Levels to descend when recursive.", None, lenient=True),
                     Field("order", "text", "query", "name (sorted) or none (as read).", "name"),
                     Field("cursor", "text", "query", "Where the previous page ended.", ""),
                 ), {"max_entries": 1000, "max_depth": 3}),
        Endpoint("files_stat", "GET", "/files/stat", "file_ops",
                 "Metadata of one path; a missing path is a normal answer.", ("files:read",),
                 (
                     Field("path", "path", "query", "Path.", op="read", follow="follow"),
                     Field("follow", "bool", "query", "Follow a link in the last component.", True),
                 ), inline=True),
        Endpoint("files_mkdir", "POST", "/files/mkdir", "file_ops", "Makes a directory and any missing parents.",
                 ("files:write",), (Field("path", "path", "body", "Directory.", op="write"),)),
        Endpoint("files_delete", "DELETE", "/files", "file_ops", "Removes a file, a link or a whole directory.",
                 ("files:delete",),
                 (Field("path", "path", "query", "What to remove.", op="delete", follow=False),)),
        Endpoint("files_move", "POST", "/files/move", "file_ops", "Renames or relocates a path.",
                 ("files:write", "files:delete"),
                 (
                     Field("source", "path", "body", "What to move.", op="delete", follow=False),
                     Field("destination", "path", "body", "New place; an existing directory receives it inside.",
                           op="write"),
                 )),
        Endpoint("files_search", "POST", "/files/search", "file_ops",
                 "Finds files by name, and lines by their text, below a directory.", ("files:read",),
                 (
                     Field("path", "path", "body", "Directory.", op="read"),
                     Field("pattern", "text", "body", "Glob on the file name; needed without contents.", None),
                     Field("contents", "text", "body", "Text to find inside the files.", None),
                     Field("regex", "bool", "body", "contents is a regular expression.", False),
                     Field("ignore_case", "bool", "body", "Letters match in either case, in contents.", False),
                     Field("context", "int", "body", "Lines to answer before and after each hit, at most 20.", 0),
                     Field("max_depth", "int", "body", "Levels to look.", None),
                     Field("max_results", "int", "body", "Most hits.", None),
                 ), {"max_depth": 5, "max_results": 100, "timeout_seconds": 10},
                 answers=(JSON_TYPE, "application/x-ndjson")),
        Endpoint("files_upload_stream", "POST", "/files/upload-stream", "file_ops",
                 "Stores a file: base64 inside JSON, or the raw body.", ("files:write",),
                 (
                     Field("path", "path", "body", "Target file.", op="write"),
                     Field("content_base64", "base64", "body", "The content; JSON form only.", None),
                     Field("overwrite", "bool", "body", "False: refuse an existing target.", None),
                     Field("append", "bool", "body", "Add to the end of the file instead of replacing it.", False),
                     Field("offset", "int", "body", "Write from this byte on, keeping the rest of the file.", None),
                     Field("mode", "text", "body", "Permission bits as octal text.", ""),
                     Field("mtime", "number", "body", "Modification time in Unix seconds.", None),
                     Field("durable", "bool", "body", "Flush file and directory to disk first.", False),
                 ), {"max_bytes": 100 * MIB},
                 ("overwrite", "allow_extensions", "deny_extensions"), raw_types=(OCTETS_TYPE,), also=(201, 204),
                 steps=(
                     Step("status", "GET", _UPLOAD, (_UPLOAD_ID,)),
                     Step("append", "PATCH", _UPLOAD, (_UPLOAD_ID,), (PARTIAL_TYPE,)),
                     Step("cancel", "DELETE", _UPLOAD, (_UPLOAD_ID,)),
                 )),
        Endpoint("files_download_stream", "GET", "/files/download-stream", "file_ops",
                 "Reads a file: base64 inside JSON, or raw bytes with ranges.", ("files:read",),
                 (Field("path", "path", "query", "File.", op="read"),), {"max_bytes": None}, inline=True,
                 answers=(JSON_TYPE, OCTETS_TYPE), also=(206, 304)),
        Endpoint("files_archive", "POST", "/files/archive", "file_ops", "Packs files into one archive.",
                 ("files:read",),
                 (
                     Field("paths", "paths", "body", "What to pack.", op="read"),
                     Field("format", "text", "body", "tar, tar.gz or zip; else as Accept says, else tar.gz.", None),
                     Field("level", "int", "body", "Compression of tar.gz and zip, 0 (none) to 9.", None),
                 ), {"max_bytes": 100 * MIB, "max_files": 10_000}, answers=(JSON_TYPE, *ARCHIVE_TYPES)),
        Endpoint("files_unpack", "POST", "/files/unpack", "file_ops", "Unpacks an uploaded archive.",
                 ("files:write",),
                 (
                     Field("path", "path", "query", "Target directory; made when missing.", op="write"),
                     Field("overwrite", "bool", "query", "False: refuse when a member exists already.", None),
                 ), {"max_bytes": None, "max_files": None},
                 ("overwrite", "allow_extensions", "deny_extensions"), raw_types=ARCHIVE_TYPES),
        Endpoint("files_edit", "POST", "/files/edit", "file_ops",
                 "Replaces exact text or lines in a file; all edits or none.", ("files:read", "files:write"),
                 (
                     Field("path", "path", "body", "File, UTF-8 text.", op="write"),
                     Field("edits", "object", "body",
                           "List of {old, new, all} or {start_line, end_line, new}, applied in order."),
                     Field("expected_sha256", "text", "body", "Refuse unless the file has this digest, as hex.", None),
                     Field("dry_run", "bool", "body", "Answer the diff, write nothing.", False),
                 ), {"max_bytes": 16 * MIB}, ("allow_extensions", "deny_extensions")),
        Endpoint("files_chmod", "POST", "/files/chmod", "file_ops", "Sets permission bits.",
                 ("files:write",),
                 (
                     Field("path", "path", "body", "File or directory.", op="write"),
                     Field("mode", "text", "body", "Permission bits as octal text, 000 to 777."),
                     Field("recursive", "bool", "body", "A directory and everything below it.", False),
                 )),
        Endpoint("files_watch", "GET", "/files/watch", "file_ops", "Streams changes below a directory.",
                 ("files:read",),
                 (
                     Field("path", "path", "query", "Directory.", op="read"),
                     Field("recursive", "bool", "query", "Watch subdirectories too.", False),
                     Field("interval", "number", "query", "Seconds between polls where the kernel is silent.", 0.5),
                     Field("timeout", "number", "query", "Seconds to watch.", None),
                     Field("renames", "bool", "query", "Tell a rename as one change instead of two.", False),
                     Field("cursor", "text", "query", "Where an earlier watch ended: what happened since comes first.",
                           ""),
                 ), {"max_duration_seconds": 300}, streaming=True, answers=(SSE_TYPE,)),
    )  # fmt: skip
