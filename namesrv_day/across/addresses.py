"""A name server with several addresses: facts that each address shows by itself, and positions of events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from namesrv_core.machine.instants import NS_PER_MS
from namesrv_day.arrow.sql import ask
from namesrv_wire.rows import gap_end_ms
from schemas.sql_files import query
from schemas.table import LONG, STRING

_DYING_NS: Final = 1_000 * NS_PER_MS
"""A stopping process may still send packets for this long."""
_AT_ADDRESS: Final = "address_"
_NEVER: Final = 1 << 63

# -- facts that each address shows by itself ---------------------------------------------------------------------------


def told_once(
    facts: Sequence[Mapping[str, Any]], answered: Mapping[str, Sequence[int]], *, is_up: bool | None
) -> dict[str, str]:
    """Return the new kinds of facts by event id, for facts whose kind must change to hold for the whole name server.

    `facts`: of one name server, in order (event_id, namesrv_addr, seq, kind, properties). `answered`: by address, the
    positions of answers in order. `is_up`: whether the server ran before; None: unknown. A fact becomes `address_...` if
    another address has shown it before, or contradicts it by answering at that time.
    """
    starts = [fact["seq"] for fact in facts if _plain(fact["kind"]) == "started"]

    def lives_elsewhere(fact: Mapping[str, Any], until_seq: int) -> bool:
        others = (seqs for addr, seqs in answered.items() if addr != fact["namesrv_addr"])
        first = (seqs[at] for seqs in others if (at := bisect_right(seqs, fact["seq"] + _DYING_NS)) < len(seqs))
        return any(seq < until_seq for seq in first)

    changed, gap_until = {}, 0
    for fact in facts:
        kind = _plain(fact["kind"])
        if kind == "stopped":
            at = bisect_right(starts, fact["seq"])
            until_seq = starts[at] if at < len(starts) else _NEVER
            counts = is_up is not False and not lives_elsewhere(fact, until_seq)
            is_up = False if counts else is_up
        elif kind in ("started", "observed_from"):
            counts = is_up is None or (kind == "started" and not is_up)
            is_up = True
        elif kind == "recording_gap":
            until_seq = gap_end_ms(fact["properties"]) * NS_PER_MS
            counts = fact["seq"] >= gap_until and not lives_elsewhere(fact, until_seq)
            gap_until = until_seq if counts else gap_until
        else:
            continue
        wanted = kind if counts else f"{_AT_ADDRESS}{kind}"
        if wanted != fact["kind"]:
            changed[fact["event_id"]] = wanted
    return changed


def _plain(kind: str) -> str:
    return kind.removeprefix(_AT_ADDRESS)


# -- positions ---------------------------------------------------------------------------------------------------------

PLACED: Final = pa.schema([("namesrv_id", STRING), ("namesrv_addr", STRING), ("event_id", STRING), ("seq", LONG)])


def own_positions(events: pa.Table) -> dict[str, int]:
    """Return new positions by event id for events that share theirs with another event of their name server.

    `events`: `PLACED`. An event at the address that names the name server keeps its position; others move behind the last
    event of their microsecond.
    """
    rows = ask(query("across/positions"), {"events": events}).to_pylist()
    return {row["event_id"]: row["seq"] for row in rows}
