"""What has been read into a warehouse, by file, and the days of which something is recorded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class ReadFile(NamedTuple):
    """A file that was given: its digest, by which run it was read, how much was in it, and on which days rows of that run are.

    `verdict`: of `sources`, as `error` and the run's `counts` are.
    """

    sha256: str
    ingest_run: str
    frames: int
    days: frozenset[dt.date]
    name: str
    verdict: str
    error: str | None
    counts: Mapping[str, int]


def days_of(read: Iterable[ReadFile], first: dt.date | None = None) -> list[dt.date]:
    """Return the days with recorded rows, from `first` on."""
    days = {day for source in read for day in source.days}
    return sorted(d for d in days if first is None or d >= first)
