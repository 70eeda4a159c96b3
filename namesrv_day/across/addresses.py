"""What is said once of all addresses of a name server: facts that each shows by itself, and positions."""

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
"""What a stopping process still sends."""
_AT_ADDRESS: Final = "address_"
_NEVER: Final = 1 << 63

# -- facts that each address shows by itself ---------------------------------------------------------------------------


def told_once(
    facts: Sequence[Mapping[str, Any]], answered: Mapping[str, Sequence[int]], *, is_up: bool | None
) -> dict[str, str]:
    """Return by event id the kinds of those facts that are to have another one, so that each holds of the whole name server.

    `facts`: of one name server in order (event_id, namesrv_addr, seq, kind, properties); `answered`: by address, the positions
    of answers in order; `is_up`: whether it ran before, None if nothing is known. What one address shows and another has shown
    before, or denies by answering all the while, becomes `address_...`.
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
    """Return by event id the positions of those events that have one with another event of their name server.

    `events`: `PLACED`. What was met at the address by which the name server is called keeps its place; the rest goes behind the
    last event of its microsecond.
    """
    rows = ask(query("across/positions"), {"events": events}).to_pylist()
    return {row["event_id"]: row["seq"] for row in rows}
