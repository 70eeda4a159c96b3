"""How far the reading of a run's files is, in words for a person who waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from jobs.ingest.sources import Source
from jobs.printable import time_left
from namesrv_wire.packets.container import Position

Tell = Callable[[str], None]
_EVERY_S = 1.0


class Progress:
    """Tells bytes, packets and lines of all files of a run, how many there are a second, and how long the rest will take.

    `clock`: seconds.
    """

    def __init__(self, sources: Sequence[Source], tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._all = sum(source.bytes for source in sources)
        self._behind, self._file, self._reached = 0, 0, 0
        self._counts = {"packets": 0, "lines": 0}
        self._began = self._told = clock()
        self.position = Position()

    def begin(self, source: Source) -> None:
        """Begin a file: those before it are read."""
        self._behind += self._file
        self._file, self._reached, self.position = source.bytes, 0, Position()

    def reached(self, size: int | None) -> None:
        """Note that so many bytes of the file are read; None: all of them."""
        self._reached = self._file if size is None else size

    @property
    def size(self) -> int:
        """Return how many bytes of the file are read."""
        return min(max(self.position.bytes, self._reached), self._file)

    def more(self, what: str, count: int) -> None:
        """Note that so many more "packets" or "lines" were read."""
        self._counts[what] += count
        now = self._clock()
        if now - self._told >= _EVERY_S:
            self._told = now
            self._tell(self.text(now - self._began))

    def text(self, seconds: float) -> str:
        """Return how far it is after so many seconds."""
        done = self._behind + self.size
        read = [f"{count:,} {what}, {count / seconds:,.0f} a second" for what, count in self._counts.items() if count]
        left = [time_left(seconds * (self._all - done) / done)] if done else []
        return "; ".join([f"{done / 1e6:,.1f} of {self._all / 1e6:,.1f} MB", *read, *left])
