"""Hold what lies on disk against the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from jobs.errors import NothingPublishedError, TamperedError
from jobs.printable import nobody
from jobs.store.damage import differences, require_restatements
from jobs.store.ledger import Run
from jobs.store.warehouse import WRITTEN_TABLES, Warehouse
from namesrv_day.arrow.digest import Digest, Slice
from schemas.table import Table


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, as which run published it; `wrong`: a sentence for each slice or table that is not so."""

    run_id: str
    tables: int
    slices: int
    wrong: list[str]


def check(warehouse: Warehouse, share: Callable[[int, int], None] = nobody) -> Checked:
    """Read every table as the last published run pins it, and compare every slice with its digest.

    `share` is told how many tables are done, of how many. Bronze tables may have got rows since, which are no part of that run;
    what somebody else has changed since, and the next night would refuse, is wrong, too. Raises NothingPublishedError,
    LedgerBehindError.
    """
    last = warehouse.ledger().last
    if last is None:
        raise NothingPublishedError(f"{warehouse.path}/gold/runs: no run with status 'published'; nothing to check")
    warehouse.require_ledger()
    expected = warehouse.slices_in_force()
    judged = [table for table in WRITTEN_TABLES if table.name in last.versions]
    wrong = dict[str, None]()
    for number, table in enumerate(judged):
        share(number, len(judged))
        wrong |= dict.fromkeys(_wrong(warehouse, table, last, expected))
    try:
        require_restatements(warehouse, deep=True)
    except TamperedError as error:
        wrong[error.said] = None
    return Checked(last.run_id, len(judged), len(expected), list(wrong))


def _wrong(warehouse: Warehouse, table: Table, run: Run, expected: Mapping[Slice, Digest]) -> Iterator[str]:
    try:
        found = differences(warehouse, table, run, expected)
        yield from found
        warehouse.require_published(table)
        if not found and warehouse.rearranged(table) != run.versions[table.name]:
            warehouse.hold([table])  # the same rows in other files, from which the next night starts
    except TamperedError as error:
        yield error.said
