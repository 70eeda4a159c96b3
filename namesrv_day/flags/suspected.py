"""Suspicions that several addresses are one name server process, or that one address is several processes.

A broker that registers at one address is in the answers at every other address of the same process. At another process it
is not, unless it registers there, too. A suspicion suggests a line for conf/; it does not join name servers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import chain, combinations
from typing import Final

import pyarrow as pa

from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_day.arrow.rows import rows_of
from namesrv_day.arrow.sql import ask
from schemas.sql_files import query
from schemas.table import LONG, STRING, STRINGS

ENOUGH: Final = 5
"""Number of answers needed as evidence."""
LACKING_SHARE: Final = 0.25
"""Share of the brokers just registered at one address that may be missing in the answers at the other."""
SHARED_FLIPS: Final = 20
SHARED_SHARE: Final = 0.25
"""Number and share of changes between answers without an explaining registration that indicate several processes."""
FRESH_NS: Final = 5_000 * NS_PER_MS
"""A broker counts as just registered for this long, or for half of its lease."""
_SETTLED_NS: Final = (BROKER_CHANNEL_EXPIRED_MS + 10_000) * NS_PER_MS
"""For this long, a recording may show brokers that registered before it began."""
_SHOWN: Final = 5
HEARD: Final = pa.schema([("namesrv_id", STRING), ("broker_addr", STRING), ("first_seq", LONG), ("last_seq", LONG)])
"""First and last beat of a broker at a name server."""
TOLD: Final = pa.schema(
    [("namesrv_id", STRING), ("seq", LONG), ("event_id", STRING), ("brokers", pa.list_(STRING))],
)
"""Answers to 106, which list all brokers; these in order."""
REGISTERED: Final = pa.schema(
    [
        *(("namesrv_id", STRING), ("broker_addr", STRING), ("broker_name", STRING), ("broker_id", LONG)),
        *(("seq", LONG), ("lease_ms", LONG)),
    ]
)
"""Accepted registrations."""
SUSPECTED: Final = pa.schema(
    [
        *(("namesrv_id", STRING), ("kind", STRING), ("others", STRINGS), ("answers", LONG), ("changes", LONG)),
        *(("at_both", LONG), ("first_seq", LONG), ("last_seq", LONG), ("evidence", STRINGS)),
    ]
)
"""A name server whose answers show brokers that registered elsewhere, or a content that no single process has.

`kind`: `one` with `others`, by all evidence; `unsure`: only some of `others` can be the same; `shared` by several processes;
`told`: it only shows brokers registered elsewhere. `answers`: number in evidence; `changes` between answers of a shared
one; `at_both`: brokers that beat at two of them at once; `evidence`: the first few answers.
"""


def suspected(
    heard: pa.Table,
    told: pa.Table,
    registered: Callable[[], pa.Table],
    apart: Collection[frozenset[str]],
    known: Collection[str],
) -> pa.Table:
    """Return a day's suspicions: `SUSPECTED`.

    `heard`, `told`: `HEARD`, `TOLD`; `registered` reads `REGISTERED`, only if there may be a suspicion. `apart`: pairs that
    the configuration declares as two; `known`: name servers preferred as the name of a group.
    """
    given = {"heard": heard, "told": told, "registered": REGISTERED.empty_table()}
    values = {"flips": SHARED_FLIPS, "share": SHARED_SHARE, "shown": _SHOWN}
    shared = ask(query("flags/shared"), given, **values)
    if not shared.num_rows and not ask(query("flags/elsewhere"), given).num_rows:
        return SUSPECTED.empty_table()
    given["registered"] = registered()
    shared = list(rows_of(ask(query("flags/shared"), given, **values)))
    near = {"fresh_ns": FRESH_NS, "settled_ns": _SETTLED_NS, "lease_ms": BROKER_CHANNEL_EXPIRED_MS}
    pairs = {
        (row["one"], row["other"]): row for row in rows_of(ask(query("flags/suspects"), given, **near, shown=_SHOWN))
    }
    at_both = {frozenset((row["one"], row["other"])): row["brokers"] for row in rows_of(ask(_AT_BOTH, given))}
    several = {row["namesrv_id"] for row in shared}
    shows = {pair for pair, row in pairs.items() if row["answers"]}
    lacks = {pair for pair, row in pairs.items() if row["lacking"] > LACKING_SHARE * (row["lacking"] + row["shown"])}
    denied = {*at_both, *apart, *map(frozenset, lacks)}
    likely = {pair for pair in shows if several.isdisjoint(pair) and frozenset(pair) not in denied}
    mutual = {pair for pair in likely if pair[::-1] in likely}
    # Two addresses that show each other's brokers explain what they show; one-sided pairs count for other addresses only.
    alone = {pair for pair in likely if pair[0] not in set(chain(*mutual))}
    rows, met = [{**row, "kind": "shared"} for row in shared], set[str]()
    elsewhere = {pair for pair in shows if pairs[pair]["answers"] >= ENOUGH and frozenset(pair) not in apart}
    names = heard["namesrv_id"].to_pylist()
    for some in (likely, elsewhere):
        linked = mutual | alone if some is likely else {pair for pair in some if (met | several).isdisjoint(pair)}
        for group in groups_of(linked):
            told_by = [pairs[pair] for pair in sorted(some) if {*pair} <= group]
            answers = {
                name: sum(row["answers"] for row in told_by if name in (row["one"], row["other"])) for name in group
            }
            if min(answers.values()) < ENOUGH:
                continue
            met |= group
            first, *others = sorted(group, key=lambda one: (one not in known, -names.count(one), one))
            two = [pair for pair in map(frozenset, combinations(sorted(group), 2)) if pair in denied]
            rows.append(
                {
                    "namesrv_id": first,
                    "kind": "unsure" if two else "one",
                    "others": others,
                    "answers": sum(row["answers"] for row in told_by),
                    "at_both": max((at_both.get(pair, 0) for pair in two), default=0),
                    "first_seq": min(row["first_seq"] for row in told_by),
                    "last_seq": max(row["last_seq"] for row in told_by),
                    "evidence": [event_id for row in told_by for event_id in row["evidence"]][:_SHOWN],
                }
            )
    told_of = {one for one, _ in elsewhere} - {row["namesrv_id"] for row in rows}
    return pa.Table.from_pylist([*rows, *({"namesrv_id": name, "kind": "told"} for name in sorted(told_of))], SUSPECTED)


def groups_of(pairs: Iterable[tuple[str, str]]) -> list[set[str]]:
    """Return the groups of name servers that `pairs` connect, directly or through others."""
    groups: list[set[str]] = []
    for pair in sorted(pairs):
        met = [group for group in groups if not group.isdisjoint(pair)]
        groups = [*(group for group in groups if group not in met), {*pair}.union(*met)]
    return groups


_AT_BOTH = """
SELECT a.namesrv_id AS one, b.namesrv_id AS other, count(*) AS brokers FROM heard AS a JOIN heard AS b USING (broker_addr)
WHERE one < other AND a.first_seq < b.last_seq AND b.first_seq < a.last_seq GROUP BY ALL
"""
