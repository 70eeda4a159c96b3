"""Compare the gold tables of two warehouses by what they say: `python -m tests.compare_gold OLD NEW`.

Each side is read as its last published run left it: `runs` pins a version of every table. A folder without `runs`, or one
with a `runs` that pins nothing, is read as it is. Rows are compared whole and as often as they are there, whatever files,
partitions and types of text they are in. What is another in every run (run ids, clocks, digests, versions) is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from namesrv_day.content import SHOWN, Difference, Tables, compare_tables
from schemas import bronze, gold
from schemas.table import Table

RUN_COLUMNS = ("ingest_run", "run_id", "previous_run")
"""Columns that name a run: other ones in every warehouse."""


def compare(
    left: Tables, right: Tables, *, without: Iterable[str] = (), ignore: Iterable[str] = (), shown: int = SHOWN
) -> list[Difference]:
    """Return how each table of either side differs, in order of their names; a table that a side lacks is empty there.

    `without`: tables left out; `ignore`: columns left out (`column`, or `table.column`). Both sides are made comparable first.
    """
    ignored = set(ignore)
    found = []
    for name in sorted({*left, *right} - set(without)):
        one, other = left.get(name), right.get(name)
        one = other.slice(0, 0) if one is None and other is not None else one
        other = one.slice(0, 0) if other is None and one is not None else other
        found.append(compare_tables(name, one, other, ignored, shown))
    return found


def told(of: Difference) -> str:
    """Return a table's line, and the samples below it."""
    if of.is_equal:
        return f"{of.table:30}{of.both:>10,} equal"
    lines = [f"{of.table:30}{of.both:>10,} equal {of.only_left:>9,} only left {of.only_right:>9,} only right"]
    lines += [f"    column {name}" for name in of.columns]
    for left, right in of.rows:
        if left is not None and right is not None:
            lines.append(f"    changed {_json(of.key_of(left))}")
            lines += [f"        {n}: {_json(left[n])} -> {_json(right[n])}" for n in left if left[n] != right[n]]
        else:
            lines.append(f"    {'right' if left is None else 'left'} {_json(left or right)}")
    return "\n".join(lines)


def _json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def tables_of(warehouse: Path | str, *, layers: Sequence[str] = ("gold", "internal")) -> dict[str, pa.Table]:
    """Return the tables of a warehouse by name as its last published run left them, `runs` as what its runs say.

    Columns that name runs are left out; a table that the run does not pin, or that is not there, is empty.
    """
    root = Path(warehouse)
    runs = sorted(_published(root), key=lambda row: (row["finished_time"], row["run_id"]))
    versions: dict[str, int] = dict(runs[-1]["versions"]) if runs else {}
    found = {}
    for table in (*bronze.TABLES, *gold.TABLES):
        if table.layer not in layers or table is gold.RUNS:
            continue
        rows = _read(root, table, versions.get(table.name), is_pinned=bool(runs))
        found[table.name] = rows.drop_columns([c for c in (*RUN_COLUMNS, "ingest_runs") if c in rows.column_names])
    if "gold" in layers:
        found["runs"] = pa.Table.from_pylist([_said(number, run) for number, run in enumerate(runs)])
    return found


def _read(root: Path, table: Table, version: int | None, *, is_pinned: bool) -> pa.Table:
    path = str(root / table.layer / table.name)
    if not DeltaTable.is_deltatable(path) or (is_pinned and version is None):
        return table.schema.empty_table()
    return DeltaTable(path, version=version).to_pyarrow_table()


def _published(root: Path) -> list[dict[str, Any]]:
    path = str(root / "gold" / "runs")
    rows = DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []
    return [row for row in rows if row["status"] == "published" and row["versions"]]


def _said(number: int, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run says that another run over the same input must say, too: slices by their rows, not their hashes."""

    def rows_of(slices: Iterable[Mapping[str, Any]]) -> str:
        named = [(str(s["day"]), s["table"], s["namesrv_id"] or "", int(s["digest"].split("-")[0])) for s in slices]
        return json.dumps(sorted(named))

    return {
        "number": number,
        "days": [str(day) for day in run["days"]],
        "sources": sorted(run["sources"]),
        "gate": run["gate"],
        "counts": json.dumps(dict(run["counts"]), sort_keys=True),
        **{name: json.dumps(said, sort_keys=True) for name, said in json.loads(run["report"] or "{}").items()},
        "inputs": rows_of(run["inputs"]),
        "outputs": rows_of(run["outputs"]),
    }


def main(arguments: Sequence[str]) -> int:
    """Print how two warehouses differ; return 0 if they do not, 1 if they do."""
    parser = argparse.ArgumentParser(prog="python -m tests.compare_gold", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--without", nargs="*", default=[], metavar="TABLE", help="tables that are not compared")
    given = parser.parse_args(arguments)
    found = compare(tables_of(given.old), tables_of(given.new), without=given.without)
    for difference in found:
        sys.stdout.write(f"{told(difference)}\n")
    differing = [difference.table for difference in found if not difference.is_equal]
    sys.stdout.write(
        f"{len(differing)} of {len(found)} tables differ: {', '.join(differing)}\n" if differing else "All equal\n"
    )
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
