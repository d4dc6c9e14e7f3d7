"""Files: moved between both sides, read, and changed where they are."""

from __future__ import annotations

from ..grammar import Argument, Command, Option
from .parts import IN, OVERWRITE, VERIFY, directory

FORMATS = ("tar.gz", "tar", "zip")
_REPLACED = "A file that an earlier {} of yours {}, unchanged since, is replaced; another one needs --overwrite."


def moving() -> tuple[Command, ...]:
    return (
        Command(
            "upload", "bring files into the sandbox", "%sandbox upload data.csv --to in",
            (
                Option("--to", "directory in the sandbox", "DIR", offers="remote"), OVERWRITE, VERIFY,
                Option("--pick", "choose files in the browser, or drop them there; also without a path"), IN,
            ),
            (Argument("path", "a file, directory or pattern on this side", True, many=True, offers="local"),),
            details=f"{_REPLACED.format('upload', 'put there')} nbsandbox upload - stores standard input as the file "
            "that --to names.",
        ),
        Command(
            "download", "bring files back", "%sandbox download out/plot.svg",
            (
                Option("--to", "directory on this side", "DIR", offers="local"), OVERWRITE, VERIFY, IN,
            ),
            (
                Argument("remote", "path in the sandbox", offers="remote"),
                Argument("local", "where to on this side; default: its own name here", True, offers="local"),
            ),
            details=f"{_REPLACED.format('download', 'wrote')} nbsandbox download PATH - writes the file to standard "
            "output.",
        ),
        Command(
            "archive", "bring files and directories back as one archive", "%sandbox archive out --to results.zip",
            (
                Option("--to", "the archive on this side; default: the first name, and .tar.gz", "FILE",
                       offers="local"),
                Option("--format", "what kind of archive, where its name does not tell", "KIND", choices=FORMATS),
                OVERWRITE, IN,
            ),
            (Argument("path", "what to pack, in the sandbox", many=True, offers="remote"),),
            details="What the policy hides is left out.",
        ),
        Command(
            "unpack", "unpack an archive of this side in the sandbox", "%sandbox unpack project.tar.gz --to project",
            (Option("--to", "directory in the sandbox; default: where commands run", "DIR", offers="remote"),
             OVERWRITE, IN),
            (Argument("file", "a .tar.gz, .tar or .zip on this side", offers="local"),),
            details="All of it, or nothing.",
        ),
    )  # fmt: skip


def reading() -> tuple[Command, ...]:
    return (
        Command(
            "ls", "list a directory of the sandbox", "files = %sandbox ls -l",
            (
                Option("--long", "with permissions and modification time", short="-l"),
                Option("--recursive", "with everything below", short="-R"), IN,
            ),
            (directory("directory or file; default: where commands run"),),
        ),
        Command(
            "tree", "a directory and what is below it, as a tree", "%sandbox tree -L 2",
            (Option("--level", "so many levels deep", "N", short="-L", kind="count"), IN),
            (directory("directory; default: where commands run"),),
        ),
        Command(
            "cat", "show text files", "%sandbox cat notes.txt", (IN,),
            (Argument("path", "a text file of the sandbox", many=True, offers="remote"),),
        ),
        Command(
            "head", "show how a text file begins", "%sandbox head -n 5 data.csv",
            (Option("--lines", "so many lines; default: 10", "N", short="-n", kind="count"), IN),
            (Argument("path", "a text file of the sandbox", offers="remote"),),
            details="Only the beginning is read, however large the file is.",
        ),
        Command(
            "find", "find files by their names", "%sandbox find '*.csv'",
            (
                Option("--depth", "so many levels deep", "N", kind="count"),
                Option("--most", "stop after so many; default: 1000", "N", kind="count"), IN,
            ),
            (directory("where to begin; default: where commands run"), Argument("name", "a name, or a pattern of * ?")),
        ),
        Command(
            "grep", "find lines in files", "hits = %sandbox grep -i error logs",
            (
                Option("--ignore-case", "take capital and small letters for the same", short="-i"),
                Option("--regex", "the text is a regular expression", short="-E"),
                Option("--context", "with so many lines before and after", "N", short="-C", kind="count"),
                Option("--name", "look only into files of such names, as '*.py'", "GLOB"),
                Option("--most", "stop after so many lines; default: 200", "N", kind="count"), IN,
            ),
            (Argument("text", "what to look for"), directory("where to begin; default: where commands run")),
            details="hits.to_pandas() makes a data frame of them.",
        ),
        Command(
            "watch", "tell changes below a directory while they happen", "%sandbox watch -R out",
            (
                Option("--recursive", "with everything below", short="-R"),
                Option("--timeout", "only for so many seconds; otherwise until the stop button", "S", kind="number"),
                IN,
            ),
            (directory("directory; default: where commands run"),),
        ),
        Command(
            "browse", "look through the sandbox like a folder", "%sandbox browse", (IN,),
            (directory("where to begin; default: where commands run"),),
        ),
    )  # fmt: skip


def changing() -> tuple[Command, ...]:
    path = Argument("path", "a text file of the sandbox", offers="remote")
    return (
        Command(
            "edit", "replace text or lines of a file", "%sandbox edit app.py --old DEBUG=1 --new DEBUG=0",
            (
                Option("--old", "text that stands there, exactly once", "TEXT"),
                Option("--new", "what shall stand there instead", "TEXT"),
                Option("--all", "replace the old text wherever it stands"),
                Option("--lines", "instead of --old: from line A to B; 4:3 inserts before line 4", "A:B"),
                Option("--dry-run", "only show what would become of it"), IN,
            ),
            (path,), cell=True,
            details="As %%sandbox edit PATH --lines A:B the body takes the place of the lines.",
        ),
        Command(
            "rm", "remove files", "%sandbox rm out/old.csv",
            (Option("--recursive", "directories too, with all that is in them", short="-r"), IN),
            (Argument("path", "what to remove, in the sandbox", many=True, offers="remote"),),
        ),
        Command(
            "mv", "move or rename a file or directory", "%sandbox mv draft.md final.md", (IN,),
            (
                Argument("source", "what to move, in the sandbox", offers="remote"),
                Argument("target", "its new name, or a directory that takes it in", offers="remote"),
            ),
            details="A file that has the new name already is replaced.",
        ),
        Command(
            "mkdir", "make a directory, and those above it", "%sandbox mkdir out/plots", (IN,),
            (Argument("path", "the directory, in the sandbox", many=True, offers="remote"),),
        ),
    )  # fmt: skip
