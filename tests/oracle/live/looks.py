"""What nights over recordings of one life say, and in what they differ."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from jobs.night.nightly import Summary
from schemas import gold
from schemas.table import Table
from tests.night.nights import rows

_HISTORIES = (
    *(gold.TOPIC_QUEUE_HISTORY, gold.BROKER_ADDR_HISTORY, gold.CLUSTER_ADDR_HISTORY, gold.FILTER_SERVER_HISTORY),
    *(gold.KV_CONFIG_HISTORY, gold.TOPIC_QUEUE_MAPPING_HISTORY, gold.DATA_VERSION_HISTORY),
)
_SHOWN = 3


def told(name: str, said: Summary) -> str:
    """Return a recording's lines: how its answers compare, what was not understood, and what was said of it."""
    counts = {"frames": said.frames, "events": said.events, "answers": said.observations, "reasons": said.reasons}
    lines = [f"{name}: {said.verify}", f"    {counts}", *(f"    {line}" for line in (*said.errors, *said.warnings))]
    return "".join(f"{line}\n" for line in lines)


def differences(one: Path, other: Path) -> list[str]:
    """Return the rows of histories that one of two warehouses has more often, whenever they held: clocks of recorders differ."""
    found = []
    for table in _HISTORIES:
        here, there = _content(one, table), _content(other, table)
        for side, more in (("host", here - there), ("any", there - here)):
            found += [f"{table.name}, {sum(more.values())} more in {side}: {row}" for row in [*more][:_SHOWN]]
    return found


def _content(warehouse: Path, table: Table) -> Counter[str]:
    timed = ("valid_", "opened_", "closed_", "entered_", "outer_entered_", "known_from", "ingest_run")
    return Counter(
        str({name: value for name, value in row.items() if not name.startswith(timed)})
        for row in rows(warehouse, table)
    )
