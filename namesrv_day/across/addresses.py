"""Which addresses are one name server's, and what is said once of them all.

A broker that registers at one address shows in the answers at every other address of the same process, and in none of another
process unless it registers there, too. So each answer is held against the brokers that beat at one of two addresses alone.
"""

# ruff: noqa: S608  the SQL is made of constants of this module

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import pyarrow as pa

from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow.sql import ask
from namesrv_wire.rows import UNTIL_MS
from schemas.table import LONG, STRING

ENOUGH: Final = 20
DOUBTED: Final = 5
"""So many answers must speak for it, and of so many it is told where two stay apart."""
AGAINST_SHARE: Final = 0.02
AGAINST_FEW: Final = 2
"""Of the answers at each of the two, this share and so many may speak against it: they cross what changes the registry."""
SHARED_SHARE: Final = 0.25
"""Of the changes between answers that show everything, so many that only take back the one before tell of several processes."""
BOTH_SHARE: Final = 0.1
"""Of the brokers at the address that has fewer, so many may beat at both at once. A broker beats once to each process."""
MAX_ANSWERS: Final = 1_000
"""Answers of each request code that are looked at of one address, spread over the time."""
SHOWN: Final = 5
"""Answers that are kept as evidence."""
BEATS: Final = pa.schema([("namesrv_id", STRING), ("broker_addr", STRING), ("first_seq", LONG), ("last_seq", LONG)])
"""When a broker was heard by a name server, as far as it is known to be one; without broker: what else was heard of it."""
REGISTERED: Final = pa.schema(
    [
        *(("namesrv_id", STRING), ("broker_addr", STRING), ("broker_name", STRING), ("broker_id", LONG)),
        *(
            ("topic_config_digest", STRING),
            ("channel_id", STRING),
            ("received", LONG),
            ("seq", LONG),
            ("lease_ms", LONG),
        ),
    ]
)
"""Registrations that were accepted; `received`: the position of the request's last byte."""
ENDS: Final = pa.schema([("namesrv_id", STRING), ("channel_id", STRING), ("broker_addr", STRING), ("seq", LONG)])
"""Ends of connections (without `broker_addr`), and unregistrations."""

_STILL_NS: Final = 100 * NS_PER_MS
"""An answer is judged by a registration that took effect so long before its question arrived."""
_FRESH_NS: Final = 30_000 * NS_PER_MS
"""... and no longer than this before it left, or than half of the lease."""
_DYING_NS: Final = 1_000 * NS_PER_MS
"""What a stopping process still sends."""
_AT_ADDRESS: Final = "address_"
_NEVER: Final = 1 << 63


class Pair(NamedTuple):
    """What answers say about two name servers being one; of one and itself, whether it is one.

    An answer may speak both for and against. `answers_early`: such as speak for it, but may show what was so before the recording
    began. `brokers`: at that of the two which has fewer; `at_both`: of all, those that beat at both at the same time.
    `is_denied`: too much speaks against it. `evidence`: ids of the first answers that speak for it, or if none does, against it;
    `first_seq`, `last_seq`: of the answers that count.
    """

    one: str
    other: str
    answers_for: int
    answers_early: int
    answers_against: int
    brokers: int
    at_both: int
    is_denied: bool
    evidence: tuple[str, ...]
    first_seq: int
    last_seq: int

    @property
    def is_likely(self) -> bool:
        """Return whether the two are taken to be one, unless others are it."""
        return self.answers_for >= ENOUGH and not self.is_denied

    @property
    def is_doubtful(self) -> bool:
        """Return whether people should know of it where the two are not taken to be one."""
        return self.answers_for + self.answers_early >= DOUBTED


def may_be_one(beats: pa.Table) -> bool:
    """Return whether there are two name servers of which one hears a broker that the other does not; `beats`: `BEATS`."""
    return bool(ask(f"{_AT} SELECT one FROM pairs WHERE brokers > 0 LIMIT 1", {"beats": beats}).num_rows)


def sampled(answers: pa.Table) -> pa.Table:
    """Return so many answers as are looked at.

    `answers`: namesrv_id, code, subject, response_code, seq. That there is no route tells something of topics only
    that have one somewhere: who asks for others, however often, crowds nothing out.
    """
    return ask(_SAMPLED, {"answers": answers}, kept=MAX_ANSWERS)


_SAMPLED = """
FROM answers
WHERE response_code = 0 OR subject IN (SELECT subject FROM answers WHERE response_code = 0)
QUALIFY (row_number() OVER (PARTITION BY namesrv_id, code ORDER BY seq) - 1)
    % ceil(count(*) OVER (PARTITION BY namesrv_id, code) / $kept)::BIGINT = 0
"""


def compared(tables: Mapping[str, pa.Table]) -> list[Pair]:
    """Return what answers say of each two name servers, as far as they say anything.

    `tables`: `beats`, `registered` and `ends`, with the columns `BEATS`, `REGISTERED` and `ENDS`; `answers` to 105 and 106, sampled
    (namesrv_id, code, subject, request_seq, seq, event_id, body, response_version; no body: there is no route); `topics` that
    registrations name (topic_config_digest, topic). Two that answer as different releases are not one.
    """
    values: dict[str, float] = {
        "still": _STILL_NS,
        "fresh_ns": _FRESH_NS,
        "lease_ns": BROKER_CHANNEL_EXPIRED_MS * NS_PER_MS,
        "stall_ns": STALL_NS,
    }
    values |= {"against_share": AGAINST_SHARE, "against_few": AGAINST_FEW, "both_share": BOTH_SHARE}
    found = ask(f"{_AT}{_JUDGED}", tables, **values, shown=SHOWN).to_pylist()
    return [Pair(**{**row, "evidence": tuple(row["evidence"])}) for row in found]


def taken_as_one(pairs: Iterable[Pair]) -> list[list[str]]:
    """Return the groups of name servers that are taken to be one: likely ones, of which no two are denied to be.

    Where an address seems to be two others', it is that one's of which hardly an answer speaks against it, if there is just one.
    """
    likely = [pair for pair in pairs if pair.is_likely]
    denied = {frozenset((pair.one, pair.other)) for pair in pairs if pair.is_denied}
    found = []
    for group in _groups(likely):
        best = [pair for pair in likely if pair.one in group and pair.answers_against <= AGAINST_FEW]
        for part in [group] if _agrees(group, denied) else _groups(best):
            found += [part] if _agrees(part, denied) else []
    return found


def _agrees(group: Iterable[str], denied: Collection[frozenset[str]]) -> bool:
    return not any(frozenset(two) in denied for two in combinations(group, 2))


def _groups(pairs: Iterable[Pair]) -> list[list[str]]:
    """Return the name servers that pairs join, group by group."""
    group_of: dict[str, list[str]] = {}
    for pair in pairs:
        together = [*group_of.get(pair.one, [pair.one])]
        together += [name for name in group_of.get(pair.other, [pair.other]) if name not in together]
        group_of.update(dict.fromkeys(together, together))
    return list({id(group): group for group in group_of.values()}.values())


def shared(answers: pa.Table) -> list[Pair]:
    """Return the name servers that seem to be several behind one address: what they hold goes back and forth.

    `answers`: answers to 106, which each show all that there is (namesrv_id, seq, event_id, and body or a hash of it).
    """
    rows = ask(_FLIPS, {"answers": answers}, shown=SHOWN, enough=ENOUGH, share=SHARED_SHARE).to_pylist()
    return [
        Pair(**{**row, "evidence": tuple(row["evidence"])}, answers_early=0, brokers=0, at_both=0, is_denied=True)
        for row in rows
    ]


_FLIPS = """
WITH told AS (SELECT namesrv_id, seq, event_id, hash(body) AS body FROM answers
), changes AS (
    SELECT *, lag(body) OVER own AS last, lag(body, 2) OVER own AS before_last FROM told
    WINDOW own AS (PARTITION BY namesrv_id ORDER BY seq) QUALIFY body <> last
)
SELECT namesrv_id AS one, namesrv_id AS other, count_if(body <> before_last)::BIGINT AS answers_for,
    count_if(body = before_last)::BIGINT AS answers_against, min(seq) AS first_seq, max(seq) AS last_seq,
    (list(event_id ORDER BY seq) FILTER (body = before_last))[1:$shown] AS evidence
FROM changes GROUP BY namesrv_id HAVING answers_against >= greatest($enough, $share * count(*))
"""
_AT = """
WITH counts AS (SELECT namesrv_id, count(broker_addr) AS brokers FROM beats GROUP BY ALL),
pairs AS (
    SELECT a.namesrv_id AS one, b.namesrv_id AS other, least(a.brokers, b.brokers) AS fewer,
        (SELECT count(*) FROM beats AS x JOIN beats AS y USING (broker_addr)
            WHERE x.namesrv_id = a.namesrv_id AND y.namesrv_id = b.namesrv_id
            AND x.first_seq < y.last_seq AND y.first_seq < x.last_seq) AS at_both,
        (SELECT count(*) FROM (SELECT broker_addr FROM beats WHERE namesrv_id IN (a.namesrv_id, b.namesrv_id)
            AND broker_addr IS NOT NULL GROUP BY broker_addr HAVING count(*) = 1)) AS brokers
    FROM counts AS a JOIN counts AS b ON a.namesrv_id < b.namesrv_id
)
"""
_JUDGED = r"""
, rivals AS (
    -- Two addresses that are one broker by name and id take each other's place.
    SELECT DISTINCT unnest(addrs) AS broker_addr FROM (SELECT list(DISTINCT broker_addr) AS addrs FROM registered
        GROUP BY broker_name, broker_id HAVING count(DISTINCT broker_addr) > 1)
), bodies AS (
    SELECT body, list_distinct(regexp_extract_all(body, '"?-?[0-9]+"?:"([^"]+)"', 1)) AS shown
    FROM (SELECT DISTINCT body FROM answers)
), asked AS (
    SELECT namesrv_id, code, subject, request_seq, seq, event_id, coalesce(shown, []) AS shown
    FROM answers LEFT JOIN bodies USING (body)
), since AS (
    -- What it shows of brokers that had registered before the recording began is gone when their leases are over.
    SELECT namesrv_id, min(first_seq) + (SELECT max(greatest(lease_ms * 1000000, $lease_ns)) FROM registered) AS known_seq
    FROM beats GROUP BY namesrv_id
), closed AS (SELECT * FROM ends WHERE broker_addr IS NULL
), left_by AS (SELECT * FROM ends WHERE broker_addr IS NOT NULL
), waited AS (
    -- Who thaws works off in any order what has come meanwhile: what a broker registered in a stall, or before it, may be gone.
    SELECT namesrv_id, from_seq, max(until_seq) OVER (PARTITION BY namesrv_id ORDER BY from_seq) AS until_seq
    FROM (SELECT namesrv_id, received AS from_seq, seq AS until_seq FROM registered WHERE seq - received >= $stall_ns
        UNION ALL SELECT namesrv_id, request_seq, seq FROM asked WHERE seq - request_seq >= $stall_ns)
), fresh AS (
    SELECT r.namesrv_id, r.broker_addr, r.seq + $still AS from_seq, if(broker_id = 0, topic_config_digest, NULL) AS digest,
        least(r.seq + least(r.lease_ms * 500000, $fresh_ns), c.seq, u.seq, n.from_seq) AS until_seq
    FROM registered AS r
    ASOF LEFT JOIN waited AS w
        ON w.namesrv_id = r.namesrv_id AND r.received >= w.from_seq
    ASOF LEFT JOIN waited AS n
        ON n.namesrv_id = r.namesrv_id AND r.received < n.from_seq
    ASOF LEFT JOIN closed AS c
        ON c.namesrv_id = r.namesrv_id AND c.channel_id = r.channel_id AND r.seq < c.seq
    ASOF LEFT JOIN left_by AS u
        ON u.namesrv_id = r.namesrv_id AND u.broker_addr = r.broker_addr AND r.seq < u.seq
    WHERE r.broker_addr NOT IN (FROM rivals) AND (w.until_seq IS NULL OR w.until_seq < r.received)
), elsewhere AS (
    -- Before answers are joined: nearly all that is fresh has beaten where they were given.
    SELECT s.namesrv_id, s.known_seq, f.namesrv_id AS heard_at, f.broker_addr, f.from_seq, f.until_seq, f.digest
    FROM since AS s CROSS JOIN fresh AS f
    WHERE (s.namesrv_id, f.broker_addr) NOT IN (SELECT (namesrv_id, broker_addr) FROM beats WHERE broker_addr IS NOT NULL)
), met AS (
    SELECT a.namesrv_id, e.heard_at, a.event_id, a.code, a.subject, a.seq, a.seq <= e.known_seq AS is_early, e.digest,
        list_contains(shown, e.broker_addr) AS is_shown
    FROM asked AS a
    JOIN elsewhere AS e ON e.namesrv_id = a.namesrv_id AND e.from_seq <= a.request_seq AND a.seq <= e.until_seq
), judged AS (
    -- A route shows who has the topic: a master that has just registered it must be there.
    SELECT least(namesrv_id, heard_at) AS one, greatest(namesrv_id, heard_at) AS other, namesrv_id, event_id, seq, is_early,
        bool_or(is_shown) AS is_for, NOT bool_and(is_shown) AS is_against
    FROM met
    WHERE is_shown OR code = 106 OR (digest, subject) IN (SELECT (topic_config_digest, topic) FROM topics)
    GROUP BY ALL
), releases AS (
    SELECT b.namesrv_id, list(DISTINCT response_version) FILTER (response_version IS NOT NULL) AS versions
    FROM (SELECT DISTINCT namesrv_id FROM beats) AS b LEFT JOIN answers USING (namesrv_id) GROUP BY ALL
), contradicted AS (
    SELECT DISTINCT one, other FROM judged WHERE NOT is_early GROUP BY one, other, namesrv_id
    HAVING count_if(is_against) > $against_few + $against_share * count_if(is_for)
), votes AS (
    SELECT one, other, count_if(is_for AND NOT is_early)::BIGINT AS answers_for,
        count_if(is_for AND is_early)::BIGINT AS answers_early, count_if(is_against AND NOT is_early)::BIGINT AS answers_against,
        list(event_id ORDER BY is_early, is_against, seq)[1:$shown] AS evidence, min(seq) AS first_seq, max(seq) AS last_seq
    FROM judged GROUP BY one, other
)
SELECT one, other, answers_for, answers_early, answers_against, fewer AS brokers, at_both,
    at_both > $both_share * fewer OR (one, other) IN (FROM contradicted)
        OR coalesce(NOT list_has_any(a.versions, b.versions), false) AS is_denied,
    evidence, first_seq, last_seq
FROM votes JOIN pairs USING (one, other)
    JOIN releases AS a ON a.namesrv_id = one JOIN releases AS b ON b.namesrv_id = other
ORDER BY one, other
"""


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
        return any(_any_between(seqs, fact["seq"] + _DYING_NS, until_seq) for seqs in others)

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
            until_seq = int(fact["properties"].removeprefix(UNTIL_MS)) * NS_PER_MS
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


def _any_between(seqs: Sequence[int], after: int, before: int) -> bool:
    at = bisect_right(seqs, after)
    return at < len(seqs) and seqs[at] < before


# -- positions ---------------------------------------------------------------------------------------------------------

PLACED: Final = pa.schema([("namesrv_id", STRING), ("namesrv_addr", STRING), ("event_id", STRING), ("seq", LONG)])


def own_positions(events: pa.Table) -> dict[str, int]:
    """Return by event id the positions of those events that have one with another event of their name server.

    `events`: `PLACED`. What was met at the address by which the name server is called keeps its place; the rest goes behind the
    last event of its microsecond.
    """
    rows = ask(_MOVED, {"events": events}).to_pylist()
    return {row["event_id"]: row["seq"] for row in rows}


_MOVED = """
WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY namesrv_id, seq ORDER BY namesrv_addr <> namesrv_id, namesrv_addr, event_id) AS place,
        max(seq) OVER (PARTITION BY namesrv_id, seq // 1000) AS last_seq
    FROM events
)
SELECT event_id, last_seq + row_number() OVER (PARTITION BY namesrv_id, last_seq ORDER BY seq, namesrv_addr, event_id) AS seq
FROM ranked WHERE place > 1
"""
