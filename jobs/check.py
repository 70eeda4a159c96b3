"""Hold what lies on disk against the ledger.

Reads   every slice of every table at the version that the last published run pins
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from jobs.digest import Digest
from jobs.ledger import TamperedError, differing, digests_of, require_readable, slices_in_force
from jobs.tables import Slice, in_parallel
from jobs.views import NothingPublishedError
from jobs.warehouse import WRITTEN_TABLES, Warehouse
from schemas import gold
from schemas.table import Table


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, as which run published it; `wrong`: a sentence for each slice or table that is not so."""

    run_id: str
    tables: int
    slices: int
    wrong: list[str]


def check(house: Warehouse) -> Checked:
    """Compare every slice of the last published run with its digest. Raises NothingPublishedError.

    Bronze tables may have got rows since, which are no part of that run; the slices are those of the pinned versions.
    """
    last = house.ledger().last
    if last is None:
        raise NothingPublishedError(f"{house.path}/gold/runs: no run with status 'published'; nothing to check")
    expected = slices_in_force(house.table(gold.RUNS))
    judged = [table for table in WRITTEN_TABLES if "day" in table.column_names and table.name in last.versions]
    wrong = in_parallel({table.name: partial(_wrong, house, table, expected) for table in judged})
    return Checked(last.run_id, len(judged), len(expected), [sentence for each in wrong.values() for sentence in each])


def _wrong(house: Warehouse, table: Table, expected: dict[Slice, Digest]) -> list[str]:
    own = {cut: digest for cut, digest in expected.items() if cut.table == table.name}
    try:
        with require_readable(table.name):
            found = digests_of({table.name: house.published(table)}, house.ledger().days)
    except TamperedError as error:
        return [str(error)]
    return differing(found, own)
