"""``%sandbox run?`` asks about the subcommand; IPython would tell about whatever else is called ``run``."""

from __future__ import annotations

import re

from .vocabulary import commands

_QUESTION = re.compile(r"\s*%%?sandbox[ \t]+([\w-]+)[ \t]*\?{1,2}\s*")


def questions(lines: list[str]) -> list[str]:
    """The cell with such a question, which stands alone, in the words of ``%sandbox help``."""
    asked = _QUESTION.fullmatch("".join(lines))
    return [f"%sandbox help {asked[1]}\n"] if asked and asked[1] in commands() else lines
