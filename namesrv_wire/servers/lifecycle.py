"""Whether a name server is up.

Learned from refused and accepted connections and from closings that come together.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Final

BURST_NS: Final = 100_000_000
"""A stopping process closes all its connections within this time; seen: 6 to 20 ms."""

UNKNOWN, UP, DOWN, HIDDEN = "unknown", "up", "down", "hidden"
"""Hidden: it was down, and may have started since, in a hole of the recording."""


@dataclass(slots=True)
class Burst:
    """Closings by the name server that follow each other closely. `seq` is a free position just before the first."""

    seq: int
    first_ns: int
    last_ns: int
    source: tuple[str, int]
    count: int = 1
    complete: bool = False
    """No connection was left open after the last of them."""
    silent: bool = True
    """No payload came from the name server since the first of them."""
    brokers: int = 0
    """How many of them were brokers' connections."""
    living: int = 0
    """How many of them nothing closes but the end of the process."""

    @property
    def evidence(self) -> str:
        """What the closings say, as text."""
        spread_ms = (self.last_ns - self.first_ns) / 1e6
        which = "all its" if self.complete else "without another answer"
        return f"the name server closed {which} {self.count} connections within {spread_ms:.1f} ms"

    def ends_all(self, *, broker_is_open: bool) -> bool:
        """Whether these closings end a process, though an unreachable client's connection seems open.

        Strangers may be closed together for their bad frames; a process that ends closes its brokers' connections.
        """
        return self.silent and self.count >= 2 and (self.brokers > 0 or not broker_is_open)

    @property
    def is_end(self) -> bool:
        """Whether these closings end a process, even if the next attempt to connect is accepted: another one has started."""
        return self.complete and self.silent and self.count >= 2 and self.brokers > 0 and self.living > 0


@dataclass(slots=True)
class Life:
    """The life of one name server as far as it was seen.

    `first`: position, time and place of the first packet, or of where a hole began in which it may have started.
    """

    first: tuple[int, int, str, int]
    state: str = UNKNOWN
    refused: int = 0
    """Connections refused since the last accepted one."""
    burst: Burst | None = None

    def closing(
        self, seq: int, time_ns: int, source: tuple[str, int], *, is_broker: bool, is_living: bool, still_open: bool
    ) -> None:
        """Note that the name server closed a connection, maybe a broker's, of its own accord.

        `is_living`: while it goes on it has no reason to.
        """
        burst = self.burst
        if burst is None or time_ns - burst.first_ns > BURST_NS:
            burst = self.burst = Burst(seq, time_ns, time_ns, source)
        else:
            burst.count += 1
            burst.last_ns = time_ns
        burst.brokers += is_broker
        burst.living += is_living
        burst.complete = not still_open

    def alive(self) -> None:
        """Note payload from the name server, or a connection that it accepted: it has not stopped."""
        if self.burst is not None:
            self.burst.silent = False
            if self.burst.complete:
                self.burst = None

    def hide(self, seq: int, time_ns: int, source: tuple[str, int]) -> None:
        """Note that what was refused before says nothing of when it started: that may have been from then on."""
        self.state = UNKNOWN if self.state == UNKNOWN else HIDDEN
        self.refused, self.burst = 0, None
        self.first = (seq, time_ns, *source)

    def dump(self) -> list[Any]:
        """Return the state as JSON values."""
        burst = None if self.burst is None else list(astuple(self.burst))
        return [self.state, self.first, self.refused, burst]

    @classmethod
    def load(cls, state: list[Any]) -> Life:
        """Return the life that `dump` described."""
        name, first, refused, burst = state
        life = cls(tuple(first), name, refused)
        life.burst = None if burst is None else Burst(burst[0], burst[1], burst[2], tuple(burst[3]), *burst[4:])
        return life
