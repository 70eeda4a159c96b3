"""What every reader of published tables must know: where a version lies, whether it can be read, which run pins it.

Nothing here imports Arrow, which takes longer than many a question.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from jobs.errors import BrokenLogError, LayoutError, NoLongerReadableError, TableFeatureError, UsageError, first_line

LAYOUT: Final = 4
"""Number of the layout of a warehouse: which tables there are, their columns, and what the ledger says of them."""
OLDEST: Final = "namesrvHistory.oldestVersions"
"""Property of the ledger: from which version on each table is readable."""
FROM_BACKUP: Final = "Bring the table's folder back from a backup"
IN_FORCE: Final = """
    WITH published AS (
        SELECT row_number() OVER (ORDER BY finished_time, run_id) AS number, days,
            outputs || list_filter(inputs, lambda cut: list_contains($bronze, cut."table")) AS cuts
        FROM runs WHERE status = 'published'
    ),
    last AS (SELECT day, max(number) AS number FROM (SELECT unnest(days) AS day, number FROM published) GROUP BY day)
    SELECT cut."table", cut.day, cut.namesrv_id, cut.digest
    FROM (SELECT number, unnest(cuts) AS cut FROM published) AS cuts
    JOIN last ON last.number = cuts.number AND last.day = cut.day"""
"""The slices as the ledger has them, in DuckDB: of `$bronze` tables as read, of the others as written."""
# Features with which the rows of a table may still be those of its files.
_PLAIN = frozenset({"columnMapping", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
_UNNUMBERED_LAYOUT = 1
_CHUNK = 1 << 20


def path_of(root: str, layer: str, name: str) -> str:
    """Return where a table lies: `<root>/<layer>/<name>`."""
    return f"{root}/{layer}/{name}"


def sha256_of_file(path: str) -> str:
    """Return the SHA-256 of a local file's bytes, in hex. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:  # noqa: PTH123  the path is a text
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def delta_uri(path: str) -> str:
    """Return a path as delta-rs takes it.

    Raises UsageError for a URL with credentials or options in it: such a URL would be told to whoever reads a message.
    """
    scheme, _, rest = path.partition("://")
    if rest and ("@" in rest.partition("/")[0] or "?" in rest):
        raise UsageError(f"{scheme}:// URL: credentials and options belong into the environment (AWS_...), not into it")
    return path.replace("s3a://", "s3://", 1)


def delta_table(path: str, name: str, partition_by: Sequence[str], version: int | None) -> DeltaTable:
    """Return a version of a table (None: the newest) whose rows are those of its files.

    Raises BrokenLogError if the log cannot be read, TableFeatureError if the table is more than its files.
    """
    try:
        delta = DeltaTable(delta_uri(path), version=version)
    except TableNotFoundError as error:
        wanted = "" if version is None else f"version {version} is needed, and "
        raise BrokenLogError(f"{name}: {wanted}there is no table at {path}") from error
    except (DeltaError, OSError) as error:
        raise BrokenLogError(f"{name}: the log of {path} cannot be read: {first_line(error)}") from error
    _require_plain(delta, name, tuple(partition_by))
    return delta


def _require_plain(delta: DeltaTable, name: str, partition_by: tuple[str, ...]) -> None:
    known = delta.metadata()
    features = set(delta.protocol().reader_features or ()) - _PLAIN
    if known.configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features:
        raise TableFeatureError(
            f"{name}: somebody gave the table {', '.join(sorted(features))}, with which its rows are not those of its "
            f"files: {delta.table_uri} is not read. {FROM_BACKUP}"
        )
    if tuple(known.partition_columns) != partition_by:
        cut, was = (", ".join(names) or "nothing" for names in (known.partition_columns, partition_by))
        raise TableFeatureError(f"{name}: somebody has the table cut by {cut}; it was cut by {was}. {FROM_BACKUP}")


def require_layout(warehouse: str, layout: int | None) -> None:
    """Raise LayoutError if a published run says another layout than this software's."""
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


def oldest_kept(runs: DeltaTable) -> dict[str, int]:
    """Return for each table the version from which on it is readable, as the ledger, as it is now, says."""
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
