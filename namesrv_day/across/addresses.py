"""Which addresses are one name server's, and what is said once of them all.

A broker that registers at one address shows in the answers at every other address of the same process, and in none of another
process unless it registers there, too. So each answer is held against the brokers that beat at one of two addresses alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_core.machine.schedule import STALL_NS
from namesrv_day.arrow.sql import ask
from namesrv_wire.rows import gap_end_ms
from schemas.sql_files import query
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
REGISTRATIONS_AT_A_TIME: Final = 20_000
"""So many, about, are held against answers together."""
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
TOLD: Final = pa.schema(
    [
        *(("namesrv_id", STRING), ("code", pa.int32()), ("subject", STRING), ("is_shown", pa.bool_())),
        ("seqs", pa.list_(LONG)),
    ]
)
"""Positions of answers to 105 and 106 that show a route (`is_shown`) or that there is none."""
ENDS: Final = pa.schema([("namesrv_id", STRING), ("channel_id", STRING), ("broker_addr", STRING), ("seq", LONG)])
"""Ends of connections (without `broker_addr`), and unregistrations."""
_BROKERS: Final = pa.schema([("broker_name", STRING), ("broker_id", LONG), ("broker_addr", STRING), ("lease_ms", LONG)])
_STALLS: Final = pa.schema([("namesrv_id", STRING), ("from_seq", LONG), ("until_seq", LONG)])

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
    return bool(pc.any(pc.greater(_pairs(beats)["brokers"], 0)).as_py())


def _pairs(beats: pa.Table) -> pa.Table:
    return ask(query("across/pairs"), {"beats": beats})


def sampled(answers: pa.Table) -> pa.Table:
    """Return which answers are looked at (namesrv_id, seq): so many of each name server and request code, spread over the time.

    `answers`: `TOLD`. That there is no route tells something of topics only that have one somewhere: who asks for others,
    however often, crowds nothing out.
    """
    shown = pc.unique(answers.filter(answers["is_shown"])["subject"])
    told = answers.filter(pc.or_(answers["is_shown"], pc.is_in(answers["subject"], value_set=shown, skip_nulls=True)))
    found = [pa.table({"namesrv_id": pa.array([], STRING), "seq": pa.array([], LONG)})]
    for of in told.select(["namesrv_id", "code"]).group_by(["namesrv_id", "code"]).aggregate([]).to_pylist():
        own = told.filter((pc.field("namesrv_id") == of["namesrv_id"]) & (pc.field("code") == of["code"]))
        seqs = np.sort(pc.list_flatten(own["seqs"]).to_numpy())
        kept = pa.array(seqs[:: -(-len(seqs) // MAX_ANSWERS)])
        found.append(pa.table({"namesrv_id": pa.repeat(pa.scalar(of["namesrv_id"], STRING), len(kept)), "seq": kept}))
    return pa.concat_tables(found)


class Telling:
    """What may tell something of name servers, picked part by part: of most rows no more is kept than what holds of all.

    `beats`: `BEATS`. `answers` to 105 and 106, sampled (namesrv_id, code, subject, request_seq, seq, event_id, body,
    response_version; no body: there is no route).
    """

    def __init__(self, beats: pa.Table, answers: pa.Table) -> None:
        bodies = answers["body"].combine_chunks().dictionary_encode()
        texts = pa.table({"body": pa.array(range(len(bodies.dictionary)), pa.int32()), "text": bodies.dictionary})
        self._shown = ask(query("across/shown"), {"bodies": texts})
        self.beats = beats
        self.answers = answers.drop_columns(["body"]).append_column("body", bodies.indices)
        names = pc.count_distinct(beats["namesrv_id"]).as_py()
        heard_at = beats.select(["broker_addr", "namesrv_id"]).group_by("broker_addr", use_threads=False)
        heard = heard_at.aggregate([("namesrv_id", "count_distinct")])
        self._missing = heard.filter(pc.less(heard["namesrv_id_count_distinct"], names))["broker_addr"].combine_chunks()
        self._reach = _Reach(answers)
        self._brokers, self._stalls = [_BROKERS.empty_table()], [_STALLS.empty_table()]
        self._registered, self._ends = [_compact(REGISTERED.empty_table())], [_compact(ENDS.empty_table())]

    def registered(self, rows: pa.Table) -> None:
        """Take in registrations, as `REGISTERED`. Such as no answer can show, or all addresses do, tell nothing."""
        brokers = rows.group_by(["broker_name", "broker_id", "broker_addr"], use_threads=False)
        self._brokers.append(brokers.aggregate([("lease_ms", "max")]).rename_columns(_BROKERS.names).cast(_BROKERS))
        stalled = rows.filter(pc.greater_equal(pc.subtract(rows["seq"], rows["received"]), STALL_NS))
        self._stalls.append(stalled.select(["namesrv_id", "received", "seq"]).rename_columns(_STALLS.names))
        is_missing = pc.is_in(rows["broker_addr"], value_set=self._missing)
        self._registered.append(_compact(self._reach.of(rows.filter(is_missing))))

    def ended(self, rows: pa.Table) -> None:
        """Take in ends, as `ENDS`."""
        self._ends.append(_compact(self._reach.of(rows)))

    def compared(self, topics: pa.Table) -> list[Pair]:
        """Return what answers say of each two name servers, as far as they say anything.

        `topics` that registrations name (topic_config_digest, topic). Two that answer as different releases are not one.
        """
        values = {"still": _STILL_NS, "fresh_ns": _FRESH_NS, "lease_ns": BROKER_CHANNEL_EXPIRED_MS * NS_PER_MS}
        stalls = pa.concat_tables(self._stalls)
        waited = ask(query("across/waited"), {"stalls": stalls, "answers": self.answers}, stall_ns=STALL_NS)
        tables = {"beats": self.beats, "brokers": pa.concat_tables(self._brokers), "waited": waited, "topics": topics}
        tables["bodies"] = self._shown
        judged = [ask(query("across/met"), {**tables, **part}, **values) for part in self._parts()]
        given = {"judged": pa.concat_tables(judged), "beats": self.beats, "answers": self.answers}
        shares = {"against_share": AGAINST_SHARE, "against_few": AGAINST_FEW, "both_share": BOTH_SHARE, "shown": SHOWN}
        found = ask(query("across/judged"), {**given, "pairs": _pairs(self.beats)}, **shares).to_pylist()
        return [Pair(**{**row, "evidence": tuple(row["evidence"])}) for row in found]

    def _parts(self) -> Iterator[dict[str, pa.Table]]:
        """Yield the answers, those of about the same time together, with what they may show."""
        registered, ends = pa.concat_tables(self._registered), pa.concat_tables(self._ends)
        answers = self.answers.sort_by("seq")
        size = -(-len(answers) // (1 + len(registered) // REGISTRATIONS_AT_A_TIME)) or 1
        for at in range(0, len(answers) or 1, size):
            some = answers.slice(at, size)
            reach = _Reach(some)
            yield {"answers": some, "registered": reach.of(registered), "ends": reach.of(ends)}

    @property
    def digests(self) -> pa.Array:
        """The topic tables of the registrations that may tell something."""
        found = [pc.unique(part["topic_config_digest"]).cast(STRING) for part in self._registered]
        return pc.drop_null(pc.unique(pa.chunked_array(found, STRING)))


class _Reach:
    """Where what answers may show has taken effect: between the question and the answer, or so long before."""

    def __init__(self, answers: pa.Table) -> None:
        asked, told = answers["request_seq"].to_numpy(), answers["seq"].to_numpy()
        first, last = np.minimum(asked, told), np.maximum(asked, told)
        order = np.argsort(first)
        self._first: NDArray[np.int64] = first[order]
        self._last: NDArray[np.int64] = np.maximum.accumulate(last[order])

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows whose `seq` is in reach."""
        seqs = rows["seq"].to_numpy()
        before = np.searchsorted(self._first, seqs + _FRESH_NS, "right")
        is_near = before > 0
        is_near[is_near] = self._last[before[is_near] - 1] >= seqs[is_near]
        return rows if is_near.all() else rows.filter(pa.array(is_near))


def _compact(rows: pa.Table) -> pa.Table:
    """Return rows with each text once."""
    columns = [column.dictionary_encode() if column.type == STRING else column for column in rows.columns]
    return pa.Table.from_arrays(columns, rows.column_names)


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
    rows = ask(query("across/flips"), {"answers": answers}, shown=SHOWN, enough=ENOUGH, share=SHARED_SHARE).to_pylist()
    return [
        Pair(**{**row, "evidence": tuple(row["evidence"])}, answers_early=0, brokers=0, at_both=0, is_denied=True)
        for row in rows
    ]


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
    rows = ask(query("across/positions"), {"events": events}).to_pylist()
    return {row["event_id"]: row["seq"] for row in rows}
