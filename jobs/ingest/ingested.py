"""What a run has read, in numbers that must add up."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field

from namesrv_wire.errors import PIECES


@dataclass
class Read:
    """What was read, in numbers and names.

    `pieces`: what was no whole frame, of which quarantine or `ignored` tells. `sightings`: packets that were seen before, on
    another interface or before an address translation. `reasons`: rows of quarantine, by reason; `refused`: those that were too
    late or whose clock went back. `sources` were read now, `known_sources` before. `never_met`: addresses of name servers that
    conf/ or --namesrv names, and that occur in nothing that was read, now or before.
    """

    frames: int = 0
    pieces: int = 0
    packets: int = 0
    sightings: int = 0
    events: int = 0
    observations: int = 0
    duplicates: int = 0
    quarantined: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    sources: list[str] = field(default_factory=list)
    known_sources: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    never_met: list[str] = field(default_factory=list)


@dataclass
class Ingested(Read):
    """What a run read. The law: frames + pieces = events + observations + duplicates + quarantined + the sum of `ignored`.

    The two sides are counted apart: frames and what is ignored by whoever reads them, the rest in what was staged.
    `unordered`: files whose clock went back too far. `days`: with rows that the run has written or changed.
    """

    unordered: list[str] = field(default_factory=list)
    days: list[dt.date] = field(default_factory=list)

    @property
    def misunderstood(self) -> int:
        """Return the rows of quarantine that are whole frames or lines: what was not understood, if not by strangers."""
        return sum(count for reason, count in self.reasons.items() if reason not in PIECES)

    @property
    def unaccounted(self) -> int:
        """Return frames and pieces that are in none of the classes: 0, or something was lost, or counted twice."""
        classes = self.events + self.observations + self.duplicates + self.quarantined
        return self.frames + self.pieces - classes - sum(self.ignored.values())
