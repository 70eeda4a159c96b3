"""Verification of every recorded answer of a name server's day by the replayed tables.

Equal answers to one question between two changes that concern the question are all right or all wrong, and are compared
once, unless one of them was under way during such a change. Every answer is counted.

The order of an answer's entries depends on the buckets of a map. A map grows with its keys and never shrinks, so the largest number
of keys that it had since the process started, or since the map was made, is carried on to the next day.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.answers import LIST_CODES, refusal_of
from namesrv_core.history.intervals import TABLE_OF, MapCapacity, restored, timeline_of
from namesrv_core.history.verification import (
    Concerns,
    Observed,
    Verdict,
    differs_by_unseen,
    right_in_parts,
    verify,
)
from namesrv_core.machine.codes import Question, RequestCode
from namesrv_core.machine.events import EVER, NS_PER_MS, NS_PER_US, Event
from namesrv_core.machine.java_map import string_map
from namesrv_core.machine.past import TablePart
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry, TableName
from namesrv_core.machine.step import REGISTER_FAILED
from namesrv_day.arrow import ask, conformed, distinct, empty, rows_of, table_of, with_columns, with_microseconds
from namesrv_day.context import RawBeats, capacities_in, frame, intervals_in
from namesrv_day.events import BEATS, Frames, observation_rows
from schemas import bronze, codec, gold
from schemas.sql_files import query
from schemas.table import BOOLEAN, INT, STRING, TEXT_ONCE, Table
from schemas.times import day_start_seq


class _Maps(NamedTuple):
    """Maps of one kind, and the SQL of their keys in a history: `of`, the outer key of a map; `key`, the keys in it."""

    history: Table
    key: str
    of: str = "NULL::VARCHAR"
    is_key: str = "true"

    @property
    def is_inner(self) -> bool:
        return not self.of.startswith("NULL")

    @property
    def table(self) -> TableName:
        return TABLE_OF.get(self.history.name.removesuffix("_history"), "broker_addr_table")


# Without the map of namespaces: no answer shows its order.
_MAPS = (
    _Maps(gold.TOPIC_QUEUE_HISTORY, "topic"),
    _Maps(gold.TOPIC_QUEUE_HISTORY, "broker_name", of="topic"),
    _Maps(gold.TOPIC_QUEUE_MAPPING_HISTORY, "topic"),
    _Maps(gold.TOPIC_QUEUE_MAPPING_HISTORY, "bname", of="topic"),
    _Maps(gold.CLUSTER_ADDR_HISTORY, "cluster_name"),
    _Maps(gold.CLUSTER_ADDR_HISTORY, "broker_name", of="cluster_name"),
    _Maps(gold.BROKER_ADDR_HISTORY, "broker_name"),
    _Maps(gold.BROKER_LIVE_HISTORY, "(cluster_name, broker_addr)"),
    _Maps(gold.FILTER_SERVER_HISTORY, "(cluster_name, broker_addr)"),
    _Maps(gold.KV_CONFIG_HISTORY, "config_key", of="namespace", is_key="config_key IS NOT NULL"),
)


def map_capacities(slices: Frames, before: pa.Table, namesrv: Namesrv, namesrv_id: str, day: dt.date) -> pa.Table:
    """Return the rows of map_capacities of one name server's day.

    `slices`: its histories and event_outcomes; `before`: map_capacities of the last day before.
    """
    outcomes = frame(slices, gold.EVENT_OUTCOMES)
    start_seq = pc.max(outcomes.filter(pc.field("operation") == "namesrv_started")["seq"]).as_py()
    fresh = Registry(namesrv.profile if start_seq is None else namesrv.at(start_seq).profile)
    carried, found = capacities_in(before), list[MapCapacity]()
    for maps in _MAPS:
        rows, made = frame(slices, maps.history), string_map() if maps.is_inner else getattr(fresh, maps.table)
        before_by = {of: n for table, is_inner, of, n in carried if (table, is_inner) == (maps.table, maps.is_inner)}
        if not before_by and rows["closed_by"].null_count == rows.num_rows:
            continue
        names = {"map": maps.of, "key": maps.key, "is_key": maps.is_key}
        goes_when_empty = maps.is_inner and maps.history is not gold.KV_CONFIG_HISTORY
        counted = ask(query("verify/keys_of_maps").format(**names), {"history": rows}, room=made.room)
        wanted = {*before_by} | {
            of for of, ever, now in _rows(counted) if made.capacity_of(ever) > made.capacity_of(now)
        }
        if not wanted:
            continue
        peaks = ask(
            query("verify/peaks").format(**names),
            {"history": rows, "wanted": pa.table({"map": pa.array(list(wanted), STRING)})},
            from_seq=day_start_seq(day),
            start_seq=start_seq or 0,
            goes_when_empty=goes_when_empty,
        )
        held = {of: counts for of, *counts in _rows(peaks)}
        for of in wanted:
            now, peak, is_of_before = held.get(of, (0, 0, True))
            capacity = made.capacity_of(peak)
            if is_of_before and start_seq is None:
                capacity = max(capacity, before_by.get(of, 0))
            if capacity > made.capacity_of(now) and (now or not goes_when_empty):
                found.append(MapCapacity(maps.table, maps.is_inner, of, capacity))
    return table_of(map(MapCapacity._asdict, found), gold.MAP_CAPACITIES, namesrv_id=namesrv_id, day=day)


def _rows(found: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in found.columns), strict=True)


Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class VerifyInput:
    """One name server's day. Missing frames have no rows.

    `today`: its rows of route_observations, unregistrations and admin_events; `raw_beats` reads heartbeats and registrations
    that have a response with content or changed something. `replayed`: its slices of the history tables, event_outcomes,
    order_decisions and namesrv_settings. `namesrv`: the one of the replay. `unread`: times (from, until, microseconds; None:
    still open) of connections to it that cannot be read. `capacities`: map_capacities of the day before.
    """

    namesrv_id: str
    day: dt.date
    namesrv: Namesrv
    today: Frames
    raw_beats: RawBeats
    replayed: Frames
    unread: Sequence[tuple[int, int | None]] = ()
    capacities: pa.Table = field(default_factory=lambda: empty(gold.MAP_CAPACITIES))
    is_suspected: bool = False


def verdicts(given: VerifyInput) -> dict[str, pa.Table]:
    """Return the day's answer_checks, and route_mismatches: answers that match the registry at no instant of their window."""
    answers = answers_of(given)
    if not answers.num_rows:
        return {table.name: empty(table) for table in (gold.ANSWER_CHECKS, gold.ROUTE_MISMATCHES)}
    rows = _Verifier(answers, given).verdict_rows()
    replayed = {table.name: frame(given.replayed, table) for table in (gold.ORDER_DECISIONS, gold.EVENT_OUTCOMES)}
    of_day = {"namesrv_id": given.namesrv_id, "day": given.day}
    given_to = {"verdicts": rows, "answers": answers, **replayed}
    mismatches = ask(query("verify/mismatches"), given_to, is_suspected=given.is_suspected)
    checks = ask(query("verify/checks"), {"verdicts": rows, "mismatches": mismatches})
    found = {gold.ANSWER_CHECKS: checks, gold.ROUTE_MISMATCHES: mismatches}
    return {table.name: conformed(rows, table, **of_day) for table, rows in found.items()}


# -- recorded answers --------------------------------------------------------------------------------------------------

_OF_ROW = ("row", "event_id", "seq", "request_seq", "effect_time")
"""Columns that differ from answer to answer."""
_OF_ANSWER = ("response_code", "remark", "response_fields", "body")
"""Columns of the answer; the other columns are those of the question."""
_RENAMED = {"response_remark": "remark", "response_body": "body"}
_UNUSED = (
    *("namesrv_id", "stated_id", "nth", "source_file", "source_offset", "ingest_run", "day"),
    *("one_way", "request_version", "compressed", "body_bytes"),
    *("operation", "queue_datas", "namespace", "config_key", "config_value"),
)


def answers_of(given: VerifyInput) -> pa.Table:
    """Return the day's answers: to questions, and to events if they show something about the registry.

    Their columns are those from which the codec makes questions, events and answers; `kind` is the table, `row` the number
    of the row. A response of which only the code was recorded (`response_fields` NULL) is not compared, except a
    registration's refusal for a reason that only the answer shows.
    """
    answers = frame(given.today, bronze.ROUTE_OBSERVATIONS)
    times = answers["effect_time"].filter(pc.not_equal(answers["code"], RequestCode.GET_NAMESRV_CONFIG))
    observed = observation_rows(answers).append_column("effect_time", times).drop_columns("namesrv_id")
    parts = [_of_kind(observed, bronze.ROUTE_OBSERVATIONS)]
    for table in bronze.EVENT_TABLES:
        if table.name in codec.RESPONSE_TABLES:
            codes = pa.array(codec.RESPONSE_TABLES[table.name], INT)
            columns = [name for name in table.column_names if name not in _UNUSED]
            is_checked = pc.field("response_fields").is_valid()
            if table is bronze.REGISTRATIONS:
                is_checked |= pc.field("refusal").is_valid() & pc.field("response_code").is_valid()
            events = _events(given, table, columns, is_checked & pc.field("code").isin(codes))
            at_ns = pc.multiply(with_microseconds(events)["event_time"], NS_PER_US)
            rows = events.rename_columns([_RENAMED.get(name, name) for name in events.column_names])
            rows = rows.append_column("subject", events["broker_name"]).append_column("request_seq", at_ns)
            if table is bronze.REGISTRATIONS:
                rows = _without_answered_refusals(rows)
            parts.append(_of_kind(rows.drop_columns("event_time"), table))
    found = pa.concat_tables([part for part in parts if part.num_rows] or parts[:1], promote_options="default")
    return found.append_column("row", pa.array(np.arange(found.num_rows)))


def _without_answered_refusals(registrations: pa.Table) -> pa.Table:
    """Return registrations without refusals for reasons that only their answers show, since the registry cannot check these.

    Of responses with only a code, no others are returned: the rest of the response cannot be compared.
    """
    names = ("refusal", "response_code", "remark", "topic_count")
    rows = zip(*(registrations[name].to_pylist() for name in names), strict=True)
    own = [None if refusal == refusal_of(*answer) else refusal for refusal, *answer in rows]
    by_answer = pc.and_(pc.is_null(pa.array(own, STRING)), pc.not_equal(registrations["refusal"], REGISTER_FAILED))
    is_checked = pc.or_(pc.is_valid(registrations["response_fields"]), pc.fill_null(by_answer, fill_value=False))
    return with_columns(registrations, refusal=pa.array(own, STRING)).filter(is_checked)


def _events(given: VerifyInput, table: Table, columns: Sequence[str], where: pc.Expression) -> pa.Table:
    if table in BEATS:
        return given.raw_beats(table.name, columns=columns, where=where)
    return frame(given.today, table).filter(where).select(columns)


def _of_kind(rows: pa.Table, table: Table) -> pa.Table:
    rows = rows.set_column(rows.schema.get_field_index("body"), "body", rows["body"].cast(TEXT_ONCE))
    return rows.append_column("kind", pa.repeat(table.name, rows.num_rows))


# -- comparison with the registry --------------------------------------------------------------------------------------


class _Verifier:
    """Compares the answers of a day with the name server's tables."""

    def __init__(self, answers: pa.Table, given: VerifyInput) -> None:
        self._given, self._answers = given, answers
        outcomes = frame(given.replayed, gold.EVENT_OUTCOMES)
        changed = outcomes.filter(pc.field("changes") > 0)
        self._starts = outcomes.filter(pc.field("operation") == "namesrv_started")["seq"].to_pylist()
        from_seq = day_start_seq(given.day)
        histories = (table for table in gold.HISTORY_TABLES if table is not gold.DATA_VERSION_HISTORY)
        intervals = intervals_in({table.name: frame(given.replayed, table) for table in histories})
        self._carried = [interval for interval in intervals if interval.opened_at.seq < from_seq]
        self._capacities = capacities_in(given.capacities)
        is_setting = pc.field("operation") == "update_namesrv_config"
        arrivals, one_way = _arrivals(outcomes.filter((pc.field("changes") > 0) | is_setting), given)
        self._under_way = UnderWay(changed, one_way, given.namesrv)
        self._timeline = timeline_of(intervals, from_seq, arrivals, [seq for seq, _ in given.namesrv.later])
        contents, numbers = distinct(answers, [name for name in answers.column_names if name not in _OF_ROW])
        questions, question_of = distinct(contents, [name for name in contents.column_names if name not in _OF_ANSWER])
        replies, reply_of = distinct(contents, _OF_ANSWER)
        self._question_of, self._reply_of = question_of[numbers], reply_of[numbers]
        self._questions = list(map(_question, rows_of(questions)))
        self._replies = list(map(codec.answer_of, rows_of(replies)))
        self._concerns = Concerns(self._registry(), self._timeline, self._starts)
        self._effects: dict[TablePart, tuple[Numbers, Numbers]] = {}

    def verdict_rows(self) -> pa.Table:
        """Return the verdicts: one for all equal answers (`rows`) between two changes that concern them."""
        namesrv, starts = self._given.namesrv, self._starts
        alike, observed = self._folded()
        compared = verify(self._registry(), self._timeline, observed, namesrv, starts=starts)
        found = {verdict.observed.event_id: verdict for verdict in compared}
        ordered = [found[one.event_id] for one in observed]
        by_unseen = unseen(ordered, self._given.unread, self._given.raw_beats, self._given.replayed)
        is_odd = [not (one.matched or other) for one, other in zip(ordered, by_unseen.to_pylist(), strict=True)]
        begun = [
            verdict.observed._replace(request_seq=begun_seq - 1)
            for verdict, begun_seq in compress(zip(ordered, alike["begun_seq"].to_pylist(), strict=True), is_odd)
            if begun_seq
        ]
        again = verify(self._registry(), self._timeline, begun, namesrv, starts=starts) if begun else []
        late = {
            verdict.observed.event_id: self._under_way.class_of(verdict.observed.request_seq + 1)
            for verdict in again
            if verdict.matched
        }
        odd = [one for one in compress(observed, is_odd) if one.event_id not in late]
        in_parts = right_in_parts(self._registry(), self._timeline, odd, namesrv, starts=starts) if odd else []
        late |= dict.fromkeys(in_parts, IN_PARTS)
        columns = {name: pa.array([getattr(verdict, name) for verdict in ordered], BOOLEAN) for name in _FLAGS}
        columns["unseen"] = by_unseen
        columns["late"] = pa.array([late.get(one.event_id) for one in observed], STRING)
        columns["expected"] = pa.array(map(_expected, ordered), STRING)
        code = self._answers["code"].take(alike["row"])
        return pa.table({"code": code, "rows": alike["rows"], "answers": alike["answers"], **columns})

    def _folded(self) -> tuple[pa.Table, list[Observed]]:
        """Return one `row` for all equal answers between two changes that concern them, with all their `rows`."""
        asked, answered, row = (self._answers[name].to_numpy() for name in ("request_seq", "seq", "row"))
        version = self._versions(asked, answered)
        at = {
            "question": self._question_of,
            "reply": self._reply_of,
            # An answer near a change is compared by itself: which state it shows may depend on earlier answers.
            "version": np.where(version < 0, -1 - row, version),
            "begun_seq": self._under_way.before(asked),
            "row": row,
            "seq": answered,
        }
        alike = ask(_ALIKE, {"answers": pa.table(at)})
        places = self._answers.select(["request_seq", "seq"]).take(alike["row"])
        names = (f"{row:012}" for row in alike["row"].to_pylist())
        asked_of = map(self._questions.__getitem__, alike["question"].to_pylist())
        reply_of = map(self._replies.__getitem__, alike["reply"].to_pylist())
        return alike, list(map(Observed, names, *(column.to_pylist() for column in places.columns), asked_of, reply_of))

    def _versions(self, asked: Numbers, answered: Numbers) -> Numbers:
        """Return for each answer the number of earlier changes that concern its question; -1 if one was near.

        A change is near if it happened, or may have, between the question and the answer.
        """
        question_of, versions = self._question_of, np.empty_like(asked)
        of_question = np.split(np.argsort(question_of, kind="stable"), np.cumsum(np.bincount(question_of))[:-1])
        for question, own in zip(self._questions, of_question, strict=True):
            since, until = asked[own], answered[own]
            count, is_near = np.zeros_like(until), np.zeros(len(own), dtype=bool)
            for part in self._concerns.of(question):
                effects, arrivals = self._effects_on(part)
                earlier = np.searchsorted(effects, until)
                is_near |= (np.searchsorted(effects, since, side="right") < earlier) | (arrivals[earlier] < until)
                count += earlier  # sums are equal only if each number of changes is
            versions[own] = np.where(is_near, -1, count)
        return versions

    def _effects_on(self, part: TablePart) -> tuple[Numbers, Numbers]:
        """Return the positions of changes of a part of the registry, and for each the earliest arrival of it or a later one."""
        if part not in self._effects:
            changes = [self._timeline[number - 1] for number in self._concerns.numbers[part]]
            arrivals = np.array([*(change.arrival_seq for change in changes), EVER], dtype=np.int64)
            first = np.minimum.accumulate(arrivals[::-1])[::-1]
            self._effects[part] = np.array([change.seq for change in changes], dtype=np.int64), first
        return self._effects[part]

    def _registry(self) -> Registry:
        """Return the registry at the beginning of the day."""
        registry = Registry(self._given.namesrv.profile)
        restored(registry, self._carried, self._capacities)
        return registry


_FLAGS = ("matched", "same_order", "same_bytes", "in_flight")


def _expected(verdict: Verdict) -> str | None:
    """Return the expected answer as text; None for a match."""
    expected = verdict.expected
    parts = [part for part in (codec.fields_json(expected), expected.body) if part]
    return None if verdict.matched else ("\n".join(parts) or expected.remark)


def _arrivals(changed: pa.Table, given: VerifyInput) -> tuple[dict[int, int], list[str]]:
    """Return, for requests that `changed` something, the arrivals of answered ones by position of their effect.

    Also return the ids of the one-way ones.
    """
    is_one_way, is_answered = pc.field("one_way"), pc.field("response_code").is_valid()
    where = pc.field("event_id").isin(changed["event_id"].combine_chunks()) & (is_one_way | is_answered)
    arrived, one_way = dict[str, int](), list[str]()
    for table in (bronze.REGISTRATIONS, bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS):
        rows = with_microseconds(_events(given, table, ["event_id", "event_time", "response_code", "one_way"], where))
        answered = rows.filter(is_answered)
        arrived.update(zip(answered["event_id"].to_pylist(), answered["event_time"].to_pylist(), strict=True))
        one_way += rows.filter(is_one_way)["event_id"].to_pylist()
    effects = zip(changed["seq"].to_pylist(), changed["event_id"].to_pylist(), strict=True)
    return {seq: arrived[event_id] * NS_PER_US for seq, event_id in effects if event_id in arrived}, one_way


_ALIKE = """
SELECT arg_min(row, (seq, row)) AS row, begun_seq, question, reply, list(row) AS rows, count(*) AS answers FROM answers
GROUP BY question, reply, version, begun_seq
"""


def _question(row: Mapping[str, Any]) -> Question | Event:
    if row["kind"] == bronze.ROUTE_OBSERVATIONS.name:
        return codec.question_of(row)
    return codec.response_of({**row, **_NOTHING}).question


_NOTHING = {**dict.fromkeys((*_OF_ROW, *_OF_ANSWER)), "response_code": 0}


# -- work of other threads, and brokers on unreadable connections ------------------------------------------------------

REMOVAL, ONE_WAY = "removal_under_way", "one_way_under_way"
IN_PARTS = "changes_under_way"
"""Class of an answer among several changes that shows each broker as at some instant, but not all as at the same."""
# Measured on busy machines: 53 ms after a scan's packet, 45 ms after a one-way request; after the end of a connection 36 ms
# to an answer and 73 ms to the name server's log; otherwise, and after an unregistration, 3 ms.
_LIMIT_NS: Final = 100 * NS_PER_MS
_REMOVALS: Final = ("channel_", "scan")
_UNREGISTRATION: Final = "unregister_broker"


class UnderWay:
    """Changes that another thread makes: a query received just after their beginning may still see the state before.

    A one-way request is processed by another thread, and no response tells when. After the end of a connection, another
    thread removes its broker; in 5.x a second one does, which also applies unregistrations already answered.
    """

    def __init__(self, changed: pa.Table, one_way: Collection[str], namesrv: Namesrv) -> None:
        """`changed`: outcomes of events that changed something; `one_way`: ids of the one-way requests among them."""
        operations = changed["operation"]
        removes = [pc.starts_with(operations, operation) for operation in _REMOVALS]
        removes.append(pc.and_(pc.equal(operations, _UNREGISTRATION), _batches(changed["seq"], namesrv)))
        begun = {REMOVAL: np.logical_or.reduce([each.to_numpy() for each in removes])}
        begun[ONE_WAY] = np.isin(changed["event_id"].to_numpy(), [*one_way])
        seqs = changed["seq"].to_numpy()
        self._is_one_way = frozenset(seqs[begun[ONE_WAY]].tolist())
        self._begun = np.concatenate([np.sort(seqs[begun[REMOVAL] | begun[ONE_WAY]]), [EVER]])

    def before(self, asked: Numbers) -> Numbers:
        """Return for each question the position of the first such change that may still have been under way; 0: none."""
        first: Numbers = self._begun[np.searchsorted(self._begun, asked - _LIMIT_NS)]
        return np.where(first < asked, first, 0)

    def class_of(self, seq: int) -> str:
        """Return the class of an answer that shows the state before the change at a position."""
        return ONE_WAY if seq in self._is_one_way else REMOVAL


def _batches(seqs: pa.ChunkedArray, namesrv: Namesrv) -> pa.Array:
    if not namesrv.later:
        return pa.repeat(namesrv.profile.batches_unregistrations, len(seqs))
    return pa.array([namesrv.at(seq).profile.batches_unregistrations for seq in seqs.to_pylist()], pa.bool_())


def unseen(
    verdicts: Sequence[Verdict], unread: Sequence[tuple[int, int | None]], raw_beats: RawBeats, replayed: Frames
) -> pa.Array:
    """Return which verdicts differ only by brokers that may have registered over a connection that cannot be read.

    A broker goes with its connection, so this must have been open when the question was asked. A list with more topics
    counts only if another answer names such a broker, or if there is no cluster info, which would name it. `unread`: times
    at which such connections were open; `raw_beats`, `replayed`: as in `VerifyInput`.
    """
    spans = [(begin * NS_PER_US, EVER if end is None else (end + 1) * NS_PER_US) for begin, end in unread]
    asked = {
        number: (verdict.observed.question, verdict)
        for number, verdict in enumerate(verdicts)
        if isinstance(verdict.observed.question, Question)
        if any(begin <= verdict.observed.seq and verdict.observed.request_seq < end for begin, end in spans)
    }
    wrong = {number: of for number, of in asked.items() if not of[1].matched}
    seen = _registered(raw_beats, replayed) if wrong else set()
    gaps = {
        number: question.code not in LIST_CODES
        for number, (question, one) in wrong.items()
        if differs_by_unseen(question, one.observed.answered, one.expected, seen)
    }
    names_all = any(question.code == RequestCode.GET_BROKER_CLUSTER_INFO for question, _ in asked.values())
    if names_all and not any(gaps.values()):
        gaps = {}
    return pa.array([number in gaps for number in range(len(verdicts))], BOOLEAN)


def _registered(raw_beats: RawBeats, replayed: Frames) -> set[str | None]:
    """Return the broker names with a recorded registration: on the day, or before it if they are still in a group."""
    today = raw_beats(bronze.REGISTRATIONS.name, columns=["broker_name"], where=pc.field("broker_name").is_valid())
    outcomes = frame(replayed, gold.EVENT_OUTCOMES)
    learned = outcomes.filter(pc.field("operation") == "observed_answer")["event_id"].combine_chunks()
    known = frame(replayed, gold.BROKER_ADDR_HISTORY).filter(~pc.field("opened_by").isin(learned))
    return {*today["broker_name"].to_pylist(), *known["broker_name"].to_pylist()}
