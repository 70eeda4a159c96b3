"""Parts of a registry, and when each of them changed last: what was found of some of them stands until one changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Part = tuple[str | None, ...]
"""A table, or of a table what has one key: a topic, a broker name, an address ..."""
_Change = tuple[str, tuple[str | None, ...], object | None]  # as `registry.Change`


def parts_changed(change: _Change) -> Iterator[Part]:
    """Yield the parts that a change touches."""
    table, key, _ = change
    yield (table,)
    yield (table, key[1] if table == "broker_live_table" else next(iter(key), None))


class Versions:
    """The versions of the parts of one registry. `number`: how often it was changed."""

    def __init__(self) -> None:
        self.number = 0
        self._changed: dict[Part, int] = {}

    def note(self, changes: Iterable[_Change]) -> None:
        """Note what changes at once."""
        self.number += 1
        for change in changes:
            for part in parts_changed(change):
                self._changed.pop(part, None)  # the last to change stands last
                self._changed[part] = self.number

    def stand_since(self, number: int, parts: Iterable[Part]) -> bool:
        """Return whether none of `parts` has changed since the change of that number."""
        return number == self.number or all(self._changed.get(part, 0) <= number for part in parts)

    def changed_since(self, number: int) -> Iterator[Part]:
        """Yield the parts that have changed since the change of that number, each once."""
        for part in reversed(self._changed) if number < self.number else ():
            if self._changed[part] <= number:
                return
            yield part
