"""What somebody may have meant who names what there is not."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 3, cutoff: float = 0.6) -> str:
    """Return the words that tell the nearest of the names that there are, to stand behind what is wrong; none if none is near."""
    import difflib  # noqa: PLC0415  most questions name what there is

    found = difflib.get_close_matches(name, known, n=most, cutoff=cutoff)
    return f"; nearest are {', '.join(found)}" if found else ""
