"""Which files may stay: one of which too much is no event breaks a rule, and one of which not most could be read is named."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobs.conf import PipelineConf
from jobs.ingest.ingested import Ingested
from jobs.ingest.sources import Source
from jobs.ingest.staging import Staging
from namesrv_wire.errors import PIECES
from schemas import bronze

Values = dict[str, Any]
_PIECES = frozenset(reason.value for reason in PIECES)
_SAID_CHARS = 200


class ReadSource(NamedTuple):
    """A file that was read: its row for `sources`, and the numbers of the rows that it gave."""

    source: Source
    row: Values
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


def judged(conf: PipelineConf, staging: Staging, files: Sequence[ReadSource], result: Ingested) -> dict[str, str]:
    """Return the digests of the files that are refused, and why.

    `files`: in the order in which they were read.

    A file is refused if more of its frames or lines than the limits of the configuration let pass are in quarantine. If not most of
    it was understood its row says so, and `result`.
    """
    quarantined = _of_files(staging, [file.numbers for file in files])
    wrong: dict[str, str] = {}
    for (source, row, _), found in zip(files, quarantined, strict=True):
        count, frames = found.counts.total(), row["frames"]
        if frames == 0 and row["error"] is not None:
            row["verdict"] = bronze.UNREAD
        if not count:
            continue
        if (why := found.refusal(conf, source.path.name, frames)) is not None:
            wrong[source.sha256] = why
        elif 2 * count > frames:
            row["verdict"] = bronze.UNREAD
            if row["error"] is None:
                row["error"] = said = found.told(source.path.name, frames)
                result.errors.append(said)
    return wrong


def _of_files(staging: Staging, numbers: Sequence[range]) -> list[Quarantined]:
    """Return what is in quarantine, copies too, of each of the files that gave the rows with these numbers."""
    found, starts = [Quarantined() for _ in numbers], [own.start for own in numbers]
    if bronze.QUARANTINE.name not in staging.tables:
        return found
    for rows in staging.columns(bronze.QUARANTINE.name, ["_n", "reason", "source_offset", "detail"]):
        columns = (rows[name].to_pylist() for name in ("_n", "reason", "source_offset", "detail"))
        for number, reason, offset, detail in zip(*columns, strict=True):
            of = staging.broken.get(number, number)
            at = bisect_right(starts, of) - 1
            if reason not in _PIECES and at >= 0 and of in numbers[at]:
                found[at].add(reason, offset, detail or "")
    return found
