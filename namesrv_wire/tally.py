"""What was met, by kind: the figures behind the conservation law."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """frames + pieces == sum(events) + observations + sum(quarantined) + sum(ignored), always.

    `pieces` counts what is no whole frame: holes, broken lengths, unfinished and cut frames, connections of
    strangers. `quarantined` counts quarantine rows by reason. `cut_frames`: of which the capture has not kept all.
    `strange_segments`: of a connection, with numbers that its other side does not take, whoever sent them.
    `sightings`: packets that were seen before, on another interface or the other side of an address translation.
    `behind`: packets that have no place, since their clock went back to a time that was read already.
    `dropped_rows`: events and observations that an endpoint had to give up before it was known to be a name server.
    """

    frames: int = 0
    pieces: int = 0
    packets: int = 0
    events: Counter[str] = field(default_factory=Counter)
    observations: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    copied_segments: int = 0
    strange_segments: int = 0
    sightings: int = 0
    cut_frames: int = 0
    behind: int = 0
    dropped_rows: int = 0
    foreign_connections: int = 0

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        for name in self.__slots__:
            value = getattr(other, name)
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
            elif value:
                getattr(self, name).update(value)

    def dump(self) -> dict[str, int | dict[str, int]]:
        """Return the figures as JSON values."""
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name in self.__slots__
            if isinstance(value := getattr(self, name), int | Counter)
        }

    def load(self, figures: dict[str, int | dict[str, int]] | list[object]) -> None:
        """Add figures from `dump`; an empty list adds nothing."""
        if not figures or isinstance(figures, list):
            return
        for name in self.__slots__:
            value = figures.get(name, 0)  # an older state has less
            if isinstance(value, dict):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)
