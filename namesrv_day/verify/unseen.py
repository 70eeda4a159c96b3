"""Answers of a day that differ only by brokers that may have registered over a connection that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.asking.answers import LIST_CODES
from namesrv_core.history.verification import Verdict, differs_by_unseen
from namesrv_core.machine.codes import Question, RequestCode
from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.day.context import RawBeats, frame
from namesrv_day.day.day_events import Frames
from schemas import bronze, gold
from schemas.table import BOOLEAN

EVER = (1 << 63) - 1
"""Behind every position."""


def unseen(
    verdicts: Sequence[Verdict], unread: Sequence[tuple[int, int | None]], raw_beats: RawBeats, replayed: Frames
) -> pa.Array:
    """Return which verdicts differ only by brokers that may have registered over a connection that cannot be read.

    A broker goes with its connection: it was open when the question was asked. That a list has more topics is a gap only if an
    answer names such a broker, or none could: whoever asks who is in the cluster would have been told. `unread`: from when and
    until when such connections were open; `raw_beats`, `replayed`: as `verify.VerifyInput` has them.
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
    """Return the names of brokers of which a registration is recorded: on the day, or before it, if they are still known."""
    today = raw_beats(bronze.REGISTRATIONS.name, columns=["broker_name"], where=pc.field("broker_name").is_valid())
    outcomes = frame(replayed, gold.EVENT_OUTCOMES)
    learned = outcomes.filter(pc.field("operation") == "observed_answer")["event_id"].combine_chunks()
    known = frame(replayed, gold.BROKER_ADDR_HISTORY).filter(~pc.field("opened_by").isin(learned))
    return {*today["broker_name"].to_pylist(), *known["broker_name"].to_pylist()}
