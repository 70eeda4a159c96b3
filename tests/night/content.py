"""What the gold tables of a warehouse say, short enough to be kept: `python -m tests.night.content WAREHOUSE` prints it.

A table is known by its rows and by the SHA-256 of them in order, as `tests.compare_gold` makes them comparable. `expected/`
has what the first version of this software made of five captures; of `network` it did not know that two addresses are one
process, and took light heartbeats for known to 4.9.7. Of `order_decisions` the evidence is less: the first answers that tell
decide; orders that another decision undoes are none. Since then heartbeats without a live entry are one outcome until there is
one, of `v5-lifecycle` answers tell that topics left out are not deleted, an answer right behind a removal makes nothing known,
a question asked in the first millisecond tells of what was there, the changes of an event are numbered over all brokers, an
outer key has the age that it has among all of them, and a topic that comes behind a registration is judged by the next one.
Its rows were put into today's layout: intervals whole, routes by their parts. Left out are the ledger and `findings`, which are
told otherwise now, and `last_heartbeats`, of which the rows of live entries tell.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pyarrow as pa

from namesrv_day.content import comparable
from schemas import gold
from tests.compare_gold import tables_of

EXPECTED = Path(__file__).parent / "expected"
_LEFT_OUT = {table.name for table in (gold.RUNS, gold.FINDINGS, gold.LAST_HEARTBEATS)}


def content_of(warehouse: Path) -> dict[str, str]:
    """Return rows and SHA-256 of each gold table as it was published."""
    return {name: _sum(rows) for name, rows in tables_of(warehouse).items() if name not in _LEFT_OUT}


def _sum(rows: pa.Table) -> str:
    said = comparable(rows.select(sorted(rows.column_names))).to_pylist()
    lines = sorted(json.dumps(row, default=str, ensure_ascii=False) for row in said)
    return f"{len(lines)}-{hashlib.sha256(''.join(lines).encode()).hexdigest()[:32]}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(content_of(Path(sys.argv[1])), indent=2, sort_keys=True) + "\n")
