"""Basics for every reader of published tables: where a version lies, whether it can be read, which run pins it.

No Arrow import here: it takes longer than many a query.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from jobs.errors import (
    BrokenLogError,
    LayoutError,
    LedgerBehindError,
    NoLongerReadableError,
    NothingPublishedError,
    TableFeatureError,
    UsageError,
    first_line,
)

if TYPE_CHECKING:  # simple queries start without this import
    from deltalake import DeltaTable

LAYOUT: Final = 15
"""Number of the layout of a warehouse: its tables, their columns, and what the ledger says of them."""
HISTORY: Final = "history.duckdb"
"""File below a local warehouse: its last published run for everybody with DuckDB (`store.history`)."""
LAST_RUN: Final = "last_run.json"
"""File below the warehouse that notes the last published run outside of the tables: its checkpoint. It is written last."""
OLDEST: Final = "namesrvHistory.oldestVersions"
"""Property of the ledger: the oldest readable version of each table."""
BEHIND = (
    f"Bring the whole warehouse back from one backup; if an older state was brought back on purpose, delete {LAST_RUN}"
)
# With these features the rows of a table may still be those of its files.
_PLAIN = frozenset({"columnMapping", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
_UNNUMBERED_LAYOUT = 1
_CHUNK = 1 << 20


def path_of(root: str, layer: str, name: str) -> str:
    """Return the path of a table: `<root>/<layer>/<name>`."""
    return f"{root}/{layer}/{name}"


def sha256_of_file(path: str) -> str:
    """Return the SHA-256 of a local file's bytes, in hex. Raises OSError."""
    import hashlib  # noqa: PLC0415  as above

    digest = hashlib.sha256()
    with open(path, "rb") as file:  # noqa: PTH123  the path is a text
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def delta_uri(path: str) -> str:
    """Return a path in the form of delta-rs.

    Raises UsageError for a URL with credentials or options: messages would show them.
    """
    scheme, _, rest = path.partition("://")
    if rest and ("@" in rest.partition("/")[0] or "?" in rest):
        raise UsageError(f"{scheme}:// URL: credentials and options belong in the environment (AWS_...), not in URLs")
    return path.replace("s3a://", "s3://", 1)


def delta_table(path: str, name: str, partition_by: Sequence[str], version: int | None) -> DeltaTable:
    """Return a version of a table (None: the newest) whose rows are those of its files.

    Raises BrokenLogError if the log cannot be read, TableFeatureError if the table needs more than its files.
    """
    from deltalake import DeltaTable  # noqa: PLC0415  as above
    from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415  as above

    for file in Path(path, "_delta_log").glob("*.json"):
        if not file.stat().st_size:  # delta-rs would read it as a commit that changed nothing
            raise BrokenLogError(f"{name}: the log of {path} cannot be read: {file} is empty")
    try:
        delta = DeltaTable(delta_uri(path), version=version)
    except TableNotFoundError as error:
        wanted = "" if version is None else f"version {version} is needed, and "
        raise BrokenLogError(f"{name}: {wanted}there is no table at {path}") from error
    except (DeltaError, OSError) as error:
        why = _log_damage(path, version) or first_line(error)
        raise BrokenLogError(f"{name}: the log of {path} cannot be read: {why}") from error
    known = delta.metadata()
    features = set(delta.protocol().reader_features or ()) - _PLAIN
    if known.configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features:
        raise TableFeatureError(
            f"{name}: somebody enabled {', '.join(sorted(features))} on the table, with which its rows are not those of its "
            f"files: {delta.table_uri} is not read"
        )
    if tuple(known.partition_columns) != tuple(partition_by):
        cut, was = (", ".join(names) or "nothing" for names in (known.partition_columns, partition_by))
        raise TableFeatureError(f"{name}: somebody partitioned the table by {cut}; it was partitioned by {was}")
    return delta


def require_rows(name: str, rows: Iterable[int | None], digest: str | None, where: str) -> None:
    """Raise BrokenLogError if the files that a log names have another number of rows than the ledger's digest.

    This detects a commit that was emptied, or lost lines, and reads as one that changed nothing. It is skipped if the log lacks
    the rows of a file, or the ledger the table.
    """
    listed = list(rows)
    known = [count for count in listed if count is not None]
    if digest is None or len(known) < len(listed):
        return
    published = int(digest.partition("-")[0])
    if sum(known) != published:
        raise BrokenLogError(
            f"{name}: the log of {where} names files with {sum(known):,} rows, but {published:,} were published"
        )


def _log_damage(path: str, version: int | None) -> str | None:
    """Return which commit of a log in a local folder is missing or damaged; None if none is."""
    folder = Path(path, "_delta_log")
    numbers = sorted(int(file.stem) for file in folder.glob("*.json") if file.stem.isdecimal())
    if not numbers:
        return None
    for number in range(numbers[0], max(numbers[-1], version or 0) + 1):
        file = folder / f"{number:020d}.json"
        try:
            for line in file.read_text(encoding="utf-8").splitlines():
                json.loads(line)
        except FileNotFoundError:
            return f"{file} is not there"
        except (OSError, ValueError):
            return f"{file} is damaged"
    return None


def require_layout(warehouse: str, layout: int | None) -> None:
    """Raise LayoutError if a published run has another layout than this software."""
    found = layout or _UNNUMBERED_LAYOUT
    if found == LAYOUT:
        return
    older = found < LAYOUT
    advice = (
        "Run `nightly` with the same inputs, or with what `export` of that version writes, into a new folder"
        if older
        else "Use that version with it"
    )
    raise LayoutError(
        f"{warehouse} has layout {found}, of {'an older' if older else 'a newer'} version of this software; this one reads and "
        f"writes layout {LAYOUT}. {advice}. Nothing was changed"
    )


class Noted(NamedTuple):
    """A checkpoint, also kept outside the ledger: a published run, and the hash of the chain up to it (`store.chain`)."""

    run_id: str
    finished_time: dt.datetime
    sha256: str

    def text(self) -> str:
        """Return the checkpoint as a line of JSON."""
        return json.dumps({**self._asdict(), "finished_time": self.finished_time.isoformat()}) + "\n"

    @classmethod
    def of(cls, noted: Mapping[str, str]) -> Noted:
        """Return the checkpoint of a parsed line. Raises ValueError, KeyError, TypeError if it is not one."""
        finished_time = dt.datetime.fromisoformat(noted["finished_time"])
        if finished_time.tzinfo is None:
            raise ValueError("finished_time: no time zone")
        return cls(str(noted["run_id"]), finished_time, str(noted["sha256"]))


def noted_in(text: str | None, warehouse: str) -> Noted | None:
    """Return the checkpoint in the file's text; None if there is no file. Raises LedgerBehindError if it is not one."""
    if text is None:
        return None
    try:
        return Noted.of(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerBehindError(f"{warehouse}/{LAST_RUN}: cannot be read", BEHIND) from error


def require_not_behind(noted: Noted | None, warehouse: str, runs: Collection[str]) -> None:
    """Raise LedgerBehindError if the published `runs` lack the run that is noted outside the ledger."""
    if noted is not None and noted.run_id not in runs:
        raise LedgerBehindError(
            f"{path_of(warehouse, 'gold', 'runs')}: lacks run {noted.run_id}, published at "
            f"{noted.finished_time.isoformat()}, which {warehouse}/{LAST_RUN} names: the ledger is older than what was published",
            BEHIND,
        )


def run_id_in_force(warehouse: str, published: Mapping[str, dt.datetime], as_known_at: str | dt.datetime | None) -> str:
    """Return the run as of which tables are read: the last one, one by its id, or the last one published by an instant.

    `published`: the published runs, with when each was published. Raises NothingPublishedError if there is no such run.
    """
    where, runs = path_of(warehouse, "gold", "runs"), sorted(published, key=lambda run: (published[run], run))
    if not runs:
        raise NothingPublishedError(f"{where}: no run with status 'published'; run the nightly job first")
    last, known = runs[-1], as_known_at
    if known is not None:
        runs = [run for run in runs if (run == known if isinstance(known, str) else published[run] <= known)]
    if not runs:
        raise NothingPublishedError(f"{where}: no run had been published by {known}; the last one is {last}")
    return runs[-1]


def oldest_kept(runs: DeltaTable) -> dict[str, int]:
    """Return the oldest readable version of each table, from the current ledger."""
    found: dict[str, int] = json.loads(runs.metadata().configuration.get(OLDEST, "{}"))
    return found


def require_kept(runs: DeltaTable, run_id: str, versions: Mapping[str, int]) -> None:
    """Raise NoLongerReadableError if maintenance has deleted a version that a published run had pinned."""
    oldest = oldest_kept(runs)
    gone = sorted(table for table, version in versions.items() if version < oldest.get(table, 0))
    if gone:
        raise NoLongerReadableError(
            f"run {run_id} is older than what maintenance keeps (maintain --retain-days): {gone[0]} is readable from version "
            f"{oldest[gone[0]]} on, and the run has pinned version {versions[gone[0]]}"
        )
