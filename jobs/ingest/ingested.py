"""What a run has read, in numbers that must add up."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from namesrv_wire.errors import Reason

_NUMBERS = ("frames", "pieces", "packets", "events", "observations", "duplicates", "quarantined", "sightings")
_REFUSED = frozenset((Reason.TOO_LATE.value, Reason.CLOCK_WENT_BACK.value, Reason.AHEAD_OF_CLOCK.value))


@dataclass
class Read:
    """What was read, in numbers and names.

    `pieces`: what was no whole frame, of which quarantine or `ignored` tells. `sightings`: packets that were seen before, on
    another interface or before an address translation. `reasons`: rows of quarantine, by reason; `refused`: those that were too
    late or whose clock went back. `sources` were read now, `known_sources` before. `left_out`: what other packets were in
    captures. `never_met`: addresses of name servers that conf/ or --namesrv names, and that occur in nothing that was read, now
    or before.
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
    empty: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
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
    def counts(self) -> dict[str, int]:
        """Return what became of all that was read, by name, as the ledger and `sources` have it."""
        return {
            **{name: getattr(self, name) for name in _NUMBERS},
            "ignored": sum(self.ignored.values()),
            **{f"ignored.{rule}": count for rule, count in sorted(self.ignored.items())},
            **{f"quarantined.{reason}": count for reason, count in sorted(self.reasons.items())},
            **self.refused,
        }

    def take_up(self, counts: Mapping[str, int]) -> None:
        """Add the `counts` of an earlier run that published nothing: what it has read is told once, by whoever publishes it."""
        for name, count in counts.items():
            kind, _, which = name.partition(".")
            if name in _NUMBERS:
                setattr(self, name, getattr(self, name) + count)
            elif which and kind in ("ignored", "quarantined"):
                (self.ignored if kind == "ignored" else self.reasons)[which] += count
            elif name in _REFUSED:
                self.refused[name] += count

    @property
    def unaccounted(self) -> int:
        """Return frames and pieces that are in none of the classes: 0, or something was lost, or counted twice."""
        classes = self.events + self.observations + self.duplicates + self.quarantined
        return self.frames + self.pieces - classes - sum(self.ignored.values())
