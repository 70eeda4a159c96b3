"""Hold every recorded answer of a name server's day against the replayed tables.

Answers that say the same to the same question, while nothing changed, are judged once: only those are looked at one by one
that were under way when something changed. What is counted is every answer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.answers import LIST_CODES
from namesrv_core.history.intervals import restored
from namesrv_core.history.timeline import StateChange, timeline_of
from namesrv_core.history.unseen import differs_by_unseen
from namesrv_core.history.verification import Concerns, Observed, Verdict, verify
from namesrv_core.inference.races import LAG_NS
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.events import Event
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.question import Question
from namesrv_core.machine.registry import Registry
from namesrv_day.context import RawBeats, frame
from namesrv_day.day_events import BEATS, Frames, observation_rows
from namesrv_day.rows import conformed, empty, rows_of, with_microseconds
from namesrv_day.sql import ask
from namesrv_day.start import intervals_in
from schemas import bronze, codec, gold
from schemas.table import BOOLEAN, INT, STRING, Table
from schemas.times import day_start_seq

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class VerifyInput:
    """One name server's day. Frames that are missing have no rows.

    `today`: its rows of route_observations, unregistrations and admin_events; `raw_beats` reads heartbeats and
    registrations: those that were told something, and those that changed something. `replayed`: its slices of the history
    tables, event_outcomes and order_decisions. `namesrv`: as the day was replayed. `unread`: from when and until when
    (microseconds; None: it still was) connections to it were open that cannot be read.
    """

    namesrv_id: str
    day: dt.date
    namesrv: Namesrv
    today: Frames
    raw_beats: RawBeats
    replayed: Frames
    unread: Sequence[tuple[int, int | None]] = ()


class Verified(NamedTuple):
    """The day's rows of answer_checks and route_mismatches."""

    answer_checks: pa.Table
    route_mismatches: pa.Table


def verdicts(given: VerifyInput) -> Verified:
    """Return how the answers compare, and those that the registry gives at no instant of their window."""
    answers = answers_of(given)
    if not answers.num_rows:
        return Verified(empty(gold.ANSWER_CHECKS), empty(gold.ROUTE_MISMATCHES))
    judged = _judged(answers, given)
    replayed = {table.name: frame(given.replayed, table) for table in (gold.ORDER_DECISIONS, gold.EVENT_OUTCOMES)}
    of_day = {"namesrv_id": given.namesrv_id, "day": given.day}
    mismatches = ask(_MISMATCHES, {"judged": judged, "answers": answers, **replayed}, **of_day)
    checks = ask(_CHECKS, {"judged": judged, "mismatches": mismatches}, **of_day)
    return Verified(conformed(checks, gold.ANSWER_CHECKS), conformed(mismatches, gold.ROUTE_MISMATCHES))


# -- what was answered -------------------------------------------------------------------------------------------------

_OF_ROW = ("row", "event_id", "seq", "request_seq", "removed_seq", "effect_time")
"""Columns that differ from answer to answer."""
_ANSWERED = ("response_code", "remark", "response_fields", "body")
"""Columns of what was answered; all others say what was asked."""
_TOLD = {"response_remark": "remark", "response_body": "body"}
_UNUSED = (
    *("namesrv_id", "source_file", "source_offset", "ingest_run", "day", "one_way", "request_version", "compressed"),
    *("body_bytes", "operation", "queue_datas", "namespace", "config_key", "config_value"),
)


def answers_of(given: VerifyInput) -> pa.Table:
    """Return the day's answers: to questions, and to events where they say something about the registry.

    Their columns are those of which the codec makes questions, events and answers; `kind` is the table, `row` the number of
    the row. A log that keeps no more of a response than its code (`response_fields` NULL) says nothing to judge.
    """
    observations = frame(given.today, bronze.ROUTE_OBSERVATIONS)
    asked = observation_rows(observations).append_column("effect_time", observations["effect_time"])
    parts = [_of_kind(asked.drop_columns("namesrv_id"), bronze.ROUTE_OBSERVATIONS)]
    for table in bronze.EVENT_TABLES:
        if table.name in codec.RESPONSE_TABLES:
            codes = pa.array(codec.RESPONSE_TABLES[table.name], INT)
            columns = [name for name in table.column_names if name not in _UNUSED]
            told = _events(given, table, columns, pc.field("response_fields").is_valid() & pc.field("code").isin(codes))
            at_ns = pc.multiply(with_microseconds(told)["event_time"], NS_PER_US)
            said = told.rename_columns([_TOLD.get(name, name) for name in told.column_names])
            said = said.append_column("subject", told["broker_name"]).append_column("request_seq", at_ns)
            parts.append(_of_kind(said.drop_columns("event_time"), table))
    answers = pa.concat_tables([part for part in parts if part.num_rows] or parts[:1], promote_options="default")
    return answers.append_column("row", pa.array(np.arange(answers.num_rows)))


def _events(given: VerifyInput, table: Table, columns: Sequence[str], where: pc.Expression) -> pa.Table:
    if table in BEATS:
        return given.raw_beats(table.name, columns=columns, where=where)
    return frame(given.today, table).filter(where).select(columns)


def _of_kind(rows: pa.Table, table: Table) -> pa.Table:
    return rows.append_column("kind", pa.repeat(table.name, rows.num_rows))


# -- what the registry says --------------------------------------------------------------------------------------------


def _judged(answers: pa.Table, given: VerifyInput) -> pa.Table:
    """Return the answers that were judged with their verdicts; `rows`: the numbers of those for which each stands."""
    changed = frame(given.replayed, gold.EVENT_OUTCOMES).filter(pc.field("changes") > 0)
    starts = changed.filter(pc.field("operation") == "namesrv_started")["seq"].to_pylist()
    from_seq = day_start_seq(given.day)
    histories = (table for table in gold.HISTORY_TABLES if table is not gold.DATA_VERSION_HISTORY)
    intervals = intervals_in({table.name: frame(given.replayed, table) for table in histories})
    carried = [interval for interval in intervals if interval.opened_at.seq < from_seq]
    registry = Registry(given.namesrv.profile)
    restored(registry, carried)
    timeline = timeline_of(intervals, from_seq, _arrivals(changed, given))
    removed_seq = _removal_before(answers["request_seq"].to_numpy(), changed)
    answers = answers.append_column("removed_seq", pa.array(removed_seq))
    alike, observed = _folded(answers, timeline, Concerns(registry, timeline, starts), given.namesrv)
    found = {
        verdict.observed.event_id: verdict
        for verdict in verify(registry, timeline, observed, given.namesrv, starts=starts)
    }
    ordered = [found[one.event_id] for one in observed]
    told = [
        verdict.observed._replace(request_seq=removed_seq - 1)
        for verdict, removed_seq in zip(ordered, alike["removed_seq"].to_pylist(), strict=True)
        if removed_seq and not verdict.matched
        if given.namesrv.at(verdict.observed.seq).profile.batches_unregistrations
    ]
    late = set[str]()
    if told:
        before = Registry(given.namesrv.profile)
        restored(before, carried)
        again = verify(before, timeline, told, given.namesrv, starts=starts)
        late = {verdict.observed.event_id for verdict in again if verdict.matched}
    columns = {name: pa.array([getattr(verdict, name) for verdict in ordered], BOOLEAN) for name in _FLAGS}
    columns["unseen"] = _unseen(ordered, given)
    columns["is_late"] = pa.array([one.event_id in late for one in observed], BOOLEAN)
    columns["expected"] = pa.array(map(_expected, ordered), STRING)
    return pa.table({"code": answers["code"].take(alike["row"]), "rows": alike["rows"], **columns})


_EVER = (1 << 63) - 1
_FLAGS = ("matched", "same_order", "same_bytes", "in_flight")


def _unseen(verdicts: Sequence[Verdict], given: VerifyInput) -> pa.Array:
    """Return which verdicts differ only by brokers that may have registered over a connection that cannot be read.

    A broker goes with its connection: it was open when the question was asked. That a list has more topics is a gap only if an
    answer names such a broker, or none could: whoever asks who is in the cluster would have been told.
    """
    spans = [(begin * NS_PER_US, _EVER if end is None else (end + 1) * NS_PER_US) for begin, end in given.unread]
    asked = {
        number: (verdict.observed.question, verdict)
        for number, verdict in enumerate(verdicts)
        if isinstance(verdict.observed.question, Question)
        if any(begin <= verdict.observed.seq and verdict.observed.request_seq < end for begin, end in spans)
    }
    wrong = {number: of for number, of in asked.items() if not of[1].matched}
    seen = _registered(given) if wrong else set()
    gaps = {
        number: question.code not in LIST_CODES
        for number, (question, one) in wrong.items()
        if differs_by_unseen(question, one.observed.answered, one.expected, seen)
    }
    names_all = any(question.code == RequestCode.GET_BROKER_CLUSTER_INFO for question, _ in asked.values())
    if names_all and not any(gaps.values()):
        gaps = {}
    return pa.array([number in gaps for number in range(len(verdicts))], BOOLEAN)


def _registered(given: VerifyInput) -> set[str | None]:
    """Return the names of brokers of which a registration is recorded: on the day, or before it, if they are still known."""
    today = given.raw_beats(
        bronze.REGISTRATIONS.name, columns=["broker_name"], where=pc.field("broker_name").is_valid()
    )
    outcomes = frame(given.replayed, gold.EVENT_OUTCOMES)
    learned = outcomes.filter(pc.field("operation") == "observed_answer")["event_id"].combine_chunks()
    known = frame(given.replayed, gold.BROKER_ADDR_HISTORY).filter(~pc.field("opened_by").isin(learned))
    return {*today["broker_name"].to_pylist(), *known["broker_name"].to_pylist()}


def _removal_before(asked: Numbers, changed: pa.Table) -> Numbers:
    """Return of questions the position of the removal that may still have been under way; 0 where there was none.

    5.x looks a broker up when its connection ends, and takes it out in a batch of another thread.
    """
    ends = pc.or_(pc.starts_with(changed["operation"], "channel_"), pc.equal(changed["operation"], "scan"))
    removals = np.concatenate([[0], np.sort(changed.filter(ends)["seq"].to_numpy())])
    last = removals[np.searchsorted(removals[1:], asked)]
    return np.where(asked - last <= LAG_NS, last, 0)


def _expected(verdict: Verdict) -> str | None:
    """Return what the registry would have answered, in words; None where it did."""
    expected = verdict.expected
    said = [part for part in (codec.fields_json(expected), expected.body) if part]
    return None if verdict.matched else ("\n".join(said) or expected.remark)


def _arrivals(changed: pa.Table, given: VerifyInput) -> dict[int, int]:
    """Return when requests that changed something and were answered had arrived, by the position of their effect."""
    where = pc.field("event_id").isin(changed["event_id"].combine_chunks()) & pc.field("response_code").is_valid()
    arrived: dict[str, int] = {}
    for table in (bronze.REGISTRATIONS, bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS):
        rows = with_microseconds(_events(given, table, ["event_id", "event_time", "response_code"], where))
        arrived.update(zip(rows["event_id"].to_pylist(), rows["event_time"].to_pylist(), strict=True))
    effects = zip(changed["seq"].to_pylist(), changed["event_id"].to_pylist(), strict=True)
    return {seq: arrived[event_id] * NS_PER_US for seq, event_id in effects if event_id in arrived}


def _folded(
    answers: pa.Table, timeline: Sequence[StateChange], concerns: Concerns, namesrv: Namesrv
) -> tuple[pa.Table, list[Observed]]:
    """Return one of all answers that say the same where nothing changed that concerns them: `row`, and all their `rows`."""
    asked, told = (answers[name].to_numpy() for name in ("request_seq", "seq"))
    questions, question_of = _distinct(answers, [c for c in answers.column_names if c not in (*_OF_ROW, *_ANSWERED)])
    replies, reply_of = _distinct(answers, _ANSWERED)
    of_question, of_reply = list(map(_question, questions)), list(map(codec.answer_of, replies))
    state = _states(timeline, asked, told)
    version = np.empty_like(state)
    by_question = np.split(np.argsort(question_of, kind="stable"), np.cumsum(np.bincount(question_of))[:-1])
    for question, own in zip(of_question, by_question, strict=True):
        version[own] = np.searchsorted(concerns.of(question), state[own], side="right")
    lives = np.array([seq for seq, _ in namesrv.later], dtype=np.int64)
    row = answers["row"].to_numpy()
    at = {
        "question": question_of,
        "reply": reply_of,
        # Which of several states an answer shows may depend on what earlier answers have shown: it stands for itself.
        "version": np.where(state < 0, -1 - row, version),
        "life": np.searchsorted(lives, told, side="right"),
        "removed_seq": answers["removed_seq"].to_numpy(),
        "row": row,
    }
    alike = ask(_ALIKE, {"answers": pa.table(at)})
    places = answers.select(["event_id", "request_seq", "seq"]).take(alike["row"])
    asked_of = map(of_question.__getitem__, alike["question"].to_pylist())
    told_of = map(of_reply.__getitem__, alike["reply"].to_pylist())
    return alike, list(map(Observed, *(column.to_pylist() for column in places.columns), asked_of, told_of))


_ALIKE = """
SELECT min(row) AS row, question, reply, removed_seq, list(row) AS rows FROM answers
GROUP BY question, reply, version, life, removed_seq
"""


def _question(row: Mapping[str, Any]) -> Question | Event:
    if row["kind"] == bronze.ROUTE_OBSERVATIONS.name:
        return codec.question_of(row)
    return codec.response_of({**row, **_NOTHING}).question


_NOTHING = {**dict.fromkeys((*_OF_ROW, *_ANSWERED)), "response_code": 0}


def _distinct(rows: pa.Table, columns: Sequence[str]) -> tuple[list[dict[str, Any]], Numbers]:
    """Return what rows say in `columns`, each once, and for each row the number of what it says."""
    said = ", ".join(columns)
    found = ask(f"SELECT {said}, list(row) AS rows FROM answers GROUP BY {said}", {"answers": rows})  # noqa: S608  our columns
    of_said = found["rows"].combine_chunks()
    numbers = np.empty(rows.num_rows, dtype=np.int64)
    numbers[of_said.flatten().to_numpy()] = np.repeat(np.arange(found.num_rows), of_said.value_lengths().to_numpy())
    return list(rows_of(found.drop_columns("rows"))), numbers


def _states(timeline: Sequence[StateChange], asked: Numbers, told: Numbers) -> Numbers:
    """Return the number of the one state that each answer can show; -1 where something changed or was under way."""
    effects = np.array([change.seq for change in timeline], dtype=np.int64)
    arrivals = np.array([*(change.arrival_seq for change in timeline), np.iinfo(np.int64).max])
    state = np.searchsorted(effects, told)
    is_alone = (np.searchsorted(effects, asked, side="right") >= state) & (arrivals[state] >= told)
    return np.where(is_alone, state, -1)


# -- reports -----------------------------------------------------------------------------------------------------------

_MISMATCHES = """
WITH explaining AS (
    SELECT unnest(evidence_against) AS event_id, 'order_decision' AS classification, decision_id FROM order_decisions
    UNION ALL
    SELECT regexp_replace(event_id, '-response$', ''), 'unknown_past', NULL FROM event_outcomes
    WHERE operation = 'observed_answer' AND outcome = 'unknown_past'
), explained AS (
    SELECT event_id, min(classification) AS classification, min(decision_id) AS decision_id
    FROM explaining GROUP BY event_id
)
SELECT
    $namesrv_id AS namesrv_id, event_id, code, subject, make_timestamp(request_seq // 1000) AS request_time,
    effect_time AS answer_time, decision_id,
    coalesce(
        classification, if(unseen, 'unseen_broker', if(is_late, 'removal_under_way', 'mismatched'))
    ) AS classification,
    coalesce(nullif(concat_ws(chr(10), nullif(response_fields, '{}'), body), ''), remark) AS answered, expected, $day AS day
FROM (SELECT unnest(rows) AS row, expected, unseen, is_late FROM judged WHERE NOT matched)
JOIN answers USING (row) LEFT JOIN explained USING (event_id)
"""
_CHECKS = """
WITH counted AS (
    SELECT
        code, sum(len(rows)) AS answers, sum(len(rows)) FILTER (matched) AS matched,
        sum(len(rows)) FILTER (matched AND same_order) AS same_order,
        sum(len(rows)) FILTER (matched AND same_bytes) AS same_bytes,
        sum(len(rows)) FILTER (matched AND in_flight) AS in_flight
    FROM judged GROUP BY code
), unmatched AS (
    SELECT
        code, count(*) FILTER (classification IN ('order_decision', 'removal_under_way')) AS explained,
        count(*) FILTER (classification IN ('unknown_past', 'unseen_broker')) AS unknown_past,
        count(*) FILTER (classification = 'mismatched') AS mismatched
    FROM mismatches GROUP BY code
)
SELECT
    $namesrv_id AS namesrv_id, code, $day AS day, CAST(coalesce(COLUMNS(* EXCLUDE (code)), 0) AS BIGINT)
FROM counted LEFT JOIN unmatched USING (code)
"""
