"""Take back what a reading of files that did not finish has left in the bronze tables.

Reads   sources, and the commits of the bronze tables since the last published run
Writes  bronze tables, back to what they were

Files are noted in `sources` last of all. A run that died before has left rows that nobody will ask for, under a name that no
later run covers: they go, and the files are read again as if for the first time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial

from pyspark.sql import Row

from jobs import tables
from jobs.warehouse import Warehouse, run_of
from schemas import bronze
from schemas.table import Table

log = logging.getLogger(__name__)


def take_back_unfinished(house: Warehouse) -> None:
    """Make bronze tables again what they were before runs wrote to them that noted no file."""
    last = house.ledger().last
    pinned = {} if last is None else last.versions
    work = {}
    for table in bronze.TABLES:
        version, known = tables.version_of(house.spark, house.path, table), pinned.get(table.name, -1)
        if table is not bronze.SOURCES and version not in (None, known):
            work[table.name] = partial(_taken_back, house, table, known)
    if not work:
        return
    house.recorded()  # read once, not by each of the following
    taken = sorted(name for name, is_taken in tables.in_parallel(work).items() if is_taken)
    if taken:
        log.warning("taken back, since the run that wrote it noted no file: %s", ", ".join(taken))
        house.forget(*bronze.TABLES)


def _taken_back(house: Warehouse, table: Table, pinned: int) -> bool:
    """Take back the newest commits of `table` after version `pinned` as far as they are of unfinished runs, if there are such."""
    commits = tables.commits_after(house.spark, house.path, table, pinned)
    finished = {source.ingest_run for source in house.recorded()}
    kept = max((commit["version"] for commit in commits if _is_kept(commit, finished)), default=pinned)
    if all(commit["version"] <= kept for commit in commits):
        return False
    if kept >= 0:
        tables.restore(house.spark, house.path, table, kept)
        return True
    has_rows = not house.table(table).isEmpty()
    if has_rows:
        tables.clear(house.spark, house.path, table)
    return has_rows


def _is_kept(commit: Row, finished: Collection[str]) -> bool:
    """Return whether a table is to stay as a commit left it: it put back such a state, is of a finished run, or not ours."""
    run = run_of(commit)
    return commit["operation"] == "RESTORE" or run is None or run in finished
