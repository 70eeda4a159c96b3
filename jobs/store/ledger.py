"""The ledger, `runs`: what published runs read and wrote, whether that is unchanged, which files were read; and its chain.

Each row holds the hash of the row before, and the Merkle root of all files at that time. Trees are built over rows as canonical
text, with SHA-256 alone, so that anybody can repeat it (docs/auditors.md). With one such hash, a checkpoint, its keeper can tell
whether anything published before it was rewritten, by whomever and by whatever means.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import LedgerBehindError, TamperedError
from jobs.store.published import BEHIND, Noted, require_layout
from namesrv_day.arrow import Digest, Slice, ask
from schemas import bronze

_AT_ONCE = 8192
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
Pieces = tuple[tuple[int, str], ...]
"""Pieces of a file, as first written: consecutive rows, with the Merkle root of each piece."""


def texts_of(rows: pa.Table) -> Iterable[str]:
    """Yield each row as a JSON array of its values, in the order of the columns.

    Instants are microseconds since 1970, days are days since then; a struct is an object, a map an array of pairs.
    """
    columns = (column.cast(_with_numbers(column.type)).to_pylist() for column in rows.columns)
    return map(text_of, zip(*columns, strict=True))


def _with_numbers(kind: pa.DataType) -> pa.DataType:
    """Return a type with integers in place of instants and days."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_numbers(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _with_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_numbers(kind.value_type)))
    return pa.int64() if pa.types.is_timestamp(kind) else pa.int32() if pa.types.is_date(kind) else kind


def text_of(value: Any) -> str:
    """Return a value as compact JSON."""
    return _ENCODER.encode(value)


def leaf_of(text: str) -> bytes:
    """Return the hash of a leaf with this text."""
    return hashlib.sha256(b"\0" + text.encode()).digest()


def leaves_of(rows: pa.Table) -> list[bytes]:
    """Return the leaf of each row."""
    parts = (rows.slice(start, _AT_ONCE) for start in range(0, rows.num_rows, _AT_ONCE))
    return [leaf_of(text) for part in parts for text in texts_of(part)]


def root_of(leaves: Sequence[bytes]) -> str:
    """Return the root of a tree in hex: nodes are joined in pairs; a single last node moves up unchanged."""
    level = list(leaves) or [hashlib.sha256(b"").digest()]
    while len(level) > 1:
        level = _above(level)
    return level[0].hex()


def nodes_beside(leaves: Sequence[bytes], index: int) -> bytes:
    """Return the sibling nodes on the way from a leaf up to the root, concatenated."""
    level, nodes = list(leaves), b""
    while len(level) > 1:
        nodes += b"".join(level[index ^ 1 : (index ^ 1) + 1])  # a single last node has no sibling
        level, index = _above(level), index // 2
    return nodes


def _above(level: Sequence[bytes]) -> list[bytes]:
    pairs = zip(level[::2], level[1::2], strict=False)
    joined = [hashlib.sha256(b"\1" + one + two).digest() for one, two in pairs]
    return joined + list(level[2 * len(joined) :])


FIRST: Final = "0" * 64
"""Stands for the hash before the first row."""
LOG: Final = "_delta_log/"


class Entry(NamedTuple):
    """A file in the chain: its path below the table's folder, the SHA-256 of its bytes; `pieces`: see `DataFile`."""

    table: str
    path: str
    sha256: str
    pieces: Pieces = ()

    def row(self) -> dict[str, Any]:
        """Return the entry as an element of `files` of the ledger."""
        return {**self._asdict(), "pieces": [{"rows": rows, "root": root} for rows, root in self.pieces]}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Entry:
        """Return the entry of an element of `files`."""
        pieces = tuple((piece["rows"], piece["root"]) for piece in row["pieces"])
        return cls(row["table"], row["path"], row["sha256"], pieces)


Files = dict[tuple[str, str], Entry]
"""Files by table and path."""


class Link(NamedTuple):
    """One row of the ledger; `sha256`: the hash of the chain up to it."""

    run_id: str
    finished_time: dt.datetime
    is_published: bool
    sha256: str

    def is_of(self, checkpoint: Noted) -> bool:
        """Return whether a checkpoint of this run says what the ledger says: the hash, and the time of publication."""
        return (self.sha256, self.finished_time) == (checkpoint.sha256, checkpoint.finished_time)


class Chain:
    """The rows of a ledger in order: all of them, or those from one whose hash is known."""

    def __init__(self, runs: pa.Table, where: str, known: Noted | None = None) -> None:
        """`runs`: all columns, in any order; `known`: the run of the first row, whose hash the caller compares.

        Raises LedgerBehindError for a row that does not follow from the one before.
        """
        self._runs = runs.sort_by([("finished_time", "ascending"), ("run_id", "ascending")])
        self._links: list[Link] = []
        is_known = known is not None and runs.num_rows > 0 and self._runs["run_id"][0].as_py() == known.run_id
        previous = self._runs["previous_sha256"][0].as_py() if is_known else FIRST
        names = ("run_id", "finished_time", "status", "previous_sha256", "files_root")
        rows = zip(*(self._runs[name].to_pylist() for name in names), strict=True)
        for text, (run_id, at, status, linked, root) in zip(texts_of(self._runs), rows, strict=True):
            if linked != previous:
                raise LedgerBehindError(
                    f"{where}: its rows are not those that were published: {run_id} does not follow from the row before",
                    BEHIND,
                )
            previous = link_of(previous, root, text)
            self._links.append(Link(run_id, at, status == "published", previous))
        self.sha256: str = previous
        self.links = {link.run_id: link for link in self._links}

    @property
    def last(self) -> Link | None:
        """Return the last row."""
        return self._links[-1] if self._links else None

    def changes(self) -> Iterator[tuple[Link, list[Entry], list[tuple[str, str]]]]:
        """Yield each row with the files added since the row before, and those removed."""
        for link, files, gone in zip(self._links, self._runs["files"], self._runs["gone"], strict=True):
            yield (
                link,
                [Entry.of(of) for of in files.as_py() or ()],
                [(of["table"], of["path"]) for of in gone.as_py() or ()],
            )

    def files(self, run_id: str | None = None) -> Files:
        """Return the data files as of a row; None: as of the last row."""
        return files_after(self._runs if run_id is None else self._runs.slice(0, self._place(run_id) + 1))

    def _place(self, run_id: str) -> int:
        return [link.run_id for link in self._links].index(run_id)

    def parts(self, run_id: str) -> tuple[str, str]:
        """Return what the hash of a row covers beside its root of files: the hash before it, and the SHA-256 of its text."""
        number = self._place(run_id)
        (text,) = texts_of(self._runs.slice(number, 1))
        return self._runs["previous_sha256"][number].as_py(), hashlib.sha256(text.encode()).hexdigest()

    def root(self, run_id: str | None = None) -> str:
        """Return the root of all files in a run's row; None: in the last row, or the root of no files."""
        roots = dict(zip((link.run_id for link in self._links), self._runs["files_root"].to_pylist(), strict=True))
        return str(roots[run_id]) if run_id is not None else [root_of_files({}), *roots.values()][-1]


def link_of(previous: str, files_root: str, row: str) -> str:
    """Return the hash of the chain up to a row, from the hash before it, the root of its files, and its text's SHA-256."""
    text = f"{previous} {files_root} {hashlib.sha256(row.encode()).hexdigest()}"
    return hashlib.sha256(text.encode()).hexdigest()


def root_of_files(files: Mapping[tuple[str, str], Entry]) -> str:
    """Return the Merkle root of data files, in the order of tables and paths. Commits of logs are in the rows alone."""
    return root_of([leaf_of(text_of(files[key].row())) for key in sorted(files) if not key[1].startswith(LOG)])


def files_after(runs: pa.Table) -> Files:
    """Return the data files as of the last of these ledger rows, which may be in any order.

    `runs` has run_id, finished_time, files and gone.
    """
    entries = (Entry.of(row["file"]) for row in ask(_IN_FORCE, {"runs": runs}).to_pylist())
    return {(entry.table, entry.path): entry for entry in entries}


def last_commits(runs: pa.Table) -> dict[str, str]:
    """Return for each table the file name of the last commit that ledger rows list; `runs` has files."""
    return {row["table"]: row["path"].removeprefix(LOG) for row in ask(_LAST_COMMITS, {"runs": runs}).to_pylist()}


# A removed file may come back. A file that one row both adds and removes is there.
_IN_FORCE = """
    WITH each AS (SELECT row_number() OVER (ORDER BY finished_time, run_id) AS number, files, gone FROM runs),
    added AS (
        SELECT number, unnest(list_filter(files, lambda file: NOT starts_with(file.path, $log))) AS file FROM each
    ),
    removed AS (SELECT number, unnest(gone) AS file FROM each)
    SELECT file FROM added ANTI JOIN removed
    ON removed.file."table" = added.file."table" AND removed.file.path = added.file.path AND removed.number > added.number
    ORDER BY added.number
    """.replace("$log", f"'{LOG}'")
_LAST_COMMITS = """
    SELECT file."table", max(file.path) AS path
    FROM (SELECT unnest(list_filter(files, lambda file: starts_with(file.path, $log))) AS file FROM runs) GROUP BY ALL
    """.replace("$log", f"'{LOG}'")


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
