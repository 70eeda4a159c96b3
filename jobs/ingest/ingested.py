"""What a run has read: files, and numbers that must add up."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobs.conf import PipelineConf
from jobs.ingest.sources import Source
from namesrv_wire.errors import Reason

_NUMBERS = ("frames", "pieces", "packets", "events", "observations", "duplicates", "quarantined", "sightings")
_REFUSED = frozenset((Reason.TOO_LATE.value, Reason.CLOCK_WENT_BACK.value, Reason.AHEAD_OF_CLOCK.value))
_SAID_CHARS = 200


@dataclass
class Read:
    """What was read, in numbers and names.

    `pieces`: what was no whole frame, of which quarantine or `ignored` tells. `sightings`: packets that were seen before, on
    another interface or before an address translation. `reasons`: rows of quarantine, by reason; `refused`: those that were too
    late or whose clock went back. `sources` were read now, `known_sources` before. `left_out`: what else was in
    captures and logs. `never_met`: addresses of name servers that conf/ or --namesrv names, and that occur in nothing that was
    read, now or before.
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


class ReadSource(NamedTuple):
    """A file that was read: its row for `sources`, and the numbers of the rows that it gave."""

    source: Source
    row: dict[str, Any]
    numbers: range


@dataclass(slots=True)
class Quarantined:
    """What is in quarantine of a file's whole frames or lines: how many by reason, and of the first where it is and what it is."""

    counts: Counter[str] = field(default_factory=Counter)
    first: tuple[int, str] = (0, "")

    def add(self, reason: str, offset: int, detail: str) -> None:
        """Add one."""
        if not self.counts or offset < self.first[0]:
            self.first = offset, detail
        self.counts[reason] += 1

    def add_behind(self, other: Quarantined, line: int) -> None:
        """Add those of lines that begin at `line`."""
        if other.counts and not self.counts:
            self.first = line + other.first[0], other.first[1]
        self.counts.update(other.counts)

    def told(self, name: str, frames: int) -> str:
        """Return in words how many of a file's frames or lines that is."""
        shown = ", ".join(f"{reason} {of:,}" for reason, of in sorted(self.counts.items()))
        offset, detail = self.first
        return (
            f"{name}: {self.counts.total():,} of {frames:,} frames or lines are no events ({shown}; the first at {offset:,}: "
            f"{detail[:_SAID_CHARS]})"
        )

    def refusal(self, conf: PipelineConf, name: str, frames: int) -> str | None:
        """Return why a file with so many frames or lines is refused; None: it is not."""
        count = self.counts.total()
        if count <= conf.quarantine_share_max * frames or count <= conf.quarantine_frames_min:
            return None
        limits = f"more than {conf.quarantine_share_max:.1%} and {conf.quarantine_frames_min:,}"
        return f"{self.told(name, frames)}: refused, since that is {limits} (conf: ingest.quarantine_share_max)"
