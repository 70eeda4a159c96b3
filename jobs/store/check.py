"""Hold what lies on disk against the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.errors import NothingPublishedError, TamperedError
from jobs.store.files import batches_of, digests_of
from jobs.store.ledger import differing
from jobs.store.warehouse import WRITTEN_TABLES, Warehouse
from namesrv_day.digest import Digest, Slice
from schemas.table import Table


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, as which run published it; `wrong`: a sentence for each slice or table that is not so."""

    run_id: str
    tables: int
    slices: int
    wrong: list[str]


def check(house: Warehouse) -> Checked:
    """Read every table as the last published run pins it, and compare every slice with its digest.

    Bronze tables may have got rows since, which are no part of that run. Raises NothingPublishedError.
    """
    last = house.ledger().last
    if last is None:
        raise NothingPublishedError(f"{house.path}/gold/runs: no run with status 'published'; nothing to check")
    expected = house.slices_in_force()
    judged = [table for table in WRITTEN_TABLES if table.name in last.versions]
    wrong = [sentence for table in judged for sentence in _wrong(house, table, expected)]
    return Checked(last.run_id, len(judged), len(expected), wrong)


def _wrong(house: Warehouse, table: Table, expected: Mapping[Slice, Digest]) -> list[str]:
    days = house.ledger().days if table.partition_by else None
    try:
        files = house.published_files(table, days)
        if days is None:
            for _ in batches_of(house.path, table, files):
                pass
            return []
        found = digests_of(house.path, table, files)
    except TamperedError as error:
        return [str(error)]
    return differing(found, {cut: digest for cut, digest in expected.items() if cut.table == table.name})
