"""Text for people, in which nothing steers who shows it: no escape sequence, no mark of direction."""

from __future__ import annotations

import json
import re

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\u00a1-\u00ac\u00ae-\u05ff]")


def printable(text: str, keep: str = "") -> str:
    r"""Return `text` with what is not printable (ESC, C1, marks of direction ...) as \uXXXX: JSON stays what it was."""
    return _UNPRINTABLE.sub(lambda found: _escaped(found[0]) if found[0] not in keep else found[0], text)


def shortened(text: str, most: int) -> str:
    """Return a text printable, and cut where it is longer than `most`."""
    shown = printable(text[: most + 1])  # which no text becomes shorter by
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def time_left(seconds: float) -> str:
    """Return in words how long something will still take."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"about {seconds:.0f} s left"
    return f"about {minutes} min left" if minutes < 100 else f"about {minutes // 60} h {minutes % 60} min left"


def nobody(*_: object) -> None:
    """Tell nobody."""


def _escaped(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]
