"""The ledger, `runs`: what published runs read and wrote, whether that is unchanged, and which files were read."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import TamperedError
from jobs.store.published import require_layout
from namesrv_day.arrow.digest import Digest, Slice
from schemas import bronze

HALTED: Final = "outcome.scan_failed"
"""Key of `counts`: events that ended a name server's periodic scan."""
_RUN = ("run_id", "finished_time", "days", "versions", "digests", "counts", "config_sha256", "code_version", "report")
COLUMNS: Final = (*_RUN, "layout", "status", "ingest_runs")
"""Columns of `runs` that are read to know what was published. The slices are queried separately."""


@dataclass(frozen=True, slots=True)
class Run:
    """What later runs need to know of a published run."""

    run_id: str
    finished_time: dt.datetime
    days: list[dt.date]
    versions: Mapping[str, int]
    digests: Mapping[str, Digest]
    counts: Mapping[str, int]
    config_sha256: str
    code_version: str
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ledger:
    """All published runs together; `last` is None if nothing was published.

    `runs`: run ids, with when each was published; `covered`: ingest runs whose rows are published; `days`: published days;
    `halting_days`: days of runs in which a scan failed.
    """

    last: Run | None = None
    runs: Mapping[str, dt.datetime] = field(default_factory=dict)
    covered: frozenset[str] = frozenset()
    days: frozenset[dt.date] = frozenset()
    halting_days: frozenset[dt.date] = frozenset()


def read_ledger(runs: pa.Table, warehouse: str) -> Ledger:
    """Return the published runs together; `runs` has `COLUMNS`. Raises LayoutError."""
    published = runs.filter(pc.field("status") == "published")
    for layout in published.column("layout").to_pylist():
        require_layout(warehouse, layout)
    if not published.num_rows:
        return Ledger()
    halted = pc.map_lookup(published.column("counts").combine_chunks(), pa.scalar(HALTED), "first").to_pylist()
    days = published.column("days").to_pylist()
    halting = {day for is_one, of in zip(halted, days, strict=True) if is_one for day in of}
    return Ledger(
        last_of(published),
        dict(zip(*(published.column(name).to_pylist() for name in ("run_id", "finished_time")), strict=True)),
        frozenset(run for of in published.column("ingest_runs").to_pylist() for run in of),
        frozenset(day for of in days for day in of),
        frozenset(halting),
    )


def as_rows(digests: Mapping[Slice, Digest]) -> list[dict[str, Any]]:
    """Return slices with their digests in the form of `inputs` and `outputs`."""
    return [{**cut._asdict(), "digest": str(digests[cut])} for cut in sorted(digests, key=_place)]


IN_FORCE: Final = """
    WITH published AS (
        SELECT row_number() OVER (ORDER BY finished_time, run_id) AS number, days,
            outputs || list_filter(inputs, lambda cut: list_contains($bronze, cut."table")) AS cuts
        FROM runs WHERE status = 'published'
    ),
    last AS (
        SELECT day, max(number) AS number FROM (SELECT unnest(days) AS day, number FROM published) GROUP BY day
        UNION ALL SELECT NULL, max(number) FROM published
    )
    SELECT cut."table", cut.day, cut.namesrv_id, cut.digest
    FROM (SELECT number, unnest(cuts) AS cut FROM published) AS cuts
    JOIN last ON last.number = cuts.number AND last.day IS NOT DISTINCT FROM cut.day
    """.replace("$bronze", str([table.name for table in bronze.TABLES]))
"""The ledger's slices with their digests: gold tables as written, bronze tables as read.

Each day is as the last run that recomputed it left it. Each run states anew the slice without a day, the open intervals.
"""
_FROM_BACKUP = (
    "Bring the table's folder back from a backup; a gold day that follows from intact events can also be recomputed with "
    "`nightly --from DAY --to DAY`, a history from the first recorded day on with `nightly --from FIRST_DAY`"
)


def require_same(found: Mapping[Slice, Digest], expected: Mapping[Slice, Digest], remedy: str = _FROM_BACKUP) -> None:
    """Raise TamperedError, naming the first slice that differs and the remedy, if `found` is not what the ledger expects."""
    wrong = differing(found, expected)
    if wrong:
        more = f" ({len(wrong) - 1} more partitions differ)" if len(wrong) > 1 else ""
        raise TamperedError(f"{wrong[0]}{more}. Nothing was published. `check` lists all of them", remedy)


def differing(found: Mapping[Slice, Digest], expected: Mapping[Slice, Digest]) -> list[str]:
    """Return a sentence for each slice whose digests differ."""
    none = Digest()
    wrong = (cut for cut in {**expected, **found} if found.get(cut, none) != expected.get(cut, none))
    return [
        f"{cut.table} of {cut.day or 'what is open'} ({cut.namesrv_id or 'no name server'}): its rows have digest "
        f"{found.get(cut, none)}, the ledger says {expected.get(cut, none)}"
        for cut in sorted(wrong, key=_place)
    ]


def finished_after(last: dt.datetime | None, now: dt.datetime) -> dt.datetime:
    """Return `now`, or just after the `last` run: this time orders the runs, even if the machine's clock was set back."""
    return now if last is None else max(now, last + dt.timedelta(microseconds=1))


def _place(cut: Slice) -> tuple[dt.date, str, str]:
    return cut.day or dt.date.max, cut.table, cut.namesrv_id or ""


def last_of(published: pa.Table) -> Run:
    """Return the last of some published runs; `published` has all columns of a `Run`."""
    order = pc.sort_indices(published, [("finished_time", "descending"), ("run_id", "descending")])
    row = published.select(_RUN).slice(order[0].as_py(), 1).to_pylist()[0]
    maps = {name: dict(row[name] or ()) for name in ("versions", "digests", "counts")}
    maps["digests"] = {table: Digest.parse(text) for table, text in maps["digests"].items()}
    return Run(**{**row, **maps, "report": json.loads(row["report"] or "{}")})


# -- files that were read -----------------------------------------------------------------------------------------------


class ReadFile(NamedTuple):
    """A file given as input: its digest, the run that read it, its number of frames, and the days with rows of that run.

    `verdict`, `error` and the run's `counts` are as in `sources`.
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
