"""Text in which nothing steers who shows it: no escape sequence, no mark of direction."""

from __future__ import annotations

import json
import re

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\u00a1-\u00ac\u00ae-\u05ff]")


def printable(text: str, keep: str = "") -> str:
    r"""Return `text` with what is not printable (ESC, C1, marks of direction ...) as \uXXXX: JSON stays what it was."""
    return _UNPRINTABLE.sub(lambda found: _escaped(found[0]) if found[0] not in keep else found[0], text)


def _escaped(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]
