"""Late, repeated and out-of-order events: what is refused, and that the rest gives what an orderly log gives."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from namesrv_core import Namesrv, Registry
from namesrv_core.machine.profile import V5_4_0
from namesrv_core.replay.loop import TimedEvent, replay
from namesrv_wire.errors import Reason
from namesrv_wire.lateness import MAX_NOTED, STEP_BACK_US, Lateness
from namesrv_wire.logs.event_log import SCHEMA
from namesrv_wire.rows import AnyRow, Counts
from schemas import codec
from tests.examples import examples
from tests.wire.counted import read_event_log
from tools.trace.trace_state import StateText

NAMESRV = "10.0.0.1:9876"
START_MS = 1_767_312_000_000  # a midnight
DAY_MS = 86_400_000
LIMIT_DAYS = 2
Line = dict[str, Any]


def line_at(ms: int, **said: Any) -> Line:
    """Return a line: by default a light heartbeat of one broker."""
    said = said or {"kind": "heartbeat", "code": 904, "broker_addr": "10.0.0.2:10911", "cluster_name": "C"}
    return {"schema": SCHEMA, "namesrv_id": NAMESRV, "time": ms, **said}


def random_log(rng: random.Random, count: int) -> list[Line]:
    """Return registrations, departures, wipes and beats of three brokers within the limit, each at an instant of its own."""
    times = sorted(rng.sample(range(START_MS, START_MS + LIMIT_DAYS * DAY_MS, 10), count))
    lines = []
    for number, ms in enumerate(times):
        broker = rng.choice("abc")
        who = {"cluster_name": "C", "broker_name": f"broker-{broker}", "broker_addr": f"10.0.0.{ord(broker)}:10911"}
        topics = [
            {"topic": topic, "read_queue_nums": 8, "write_queue_nums": 8, "perm": 6}
            for topic in rng.sample("TUVW", rng.randint(2, 4))
        ]
        version = {"timestamp": ms, "counter": number}
        said: list[Line] = [
            {"kind": "registration", **who, "broker_id": 0, "data_version": version, "topics": topics},
            {"kind": "heartbeat", "code": 904, **who},
            {"kind": "unregistration", **who, "broker_id": 0},
            {"kind": "admin", "code": 205, "broker_name": who["broker_name"]},
        ]
        lines.append(line_at(ms, **rng.choices(said, weights=(5, 3, 1, 1))[0]))
    return lines


def judged(files: list[list[Line]], folder: Path, lateness: Lateness) -> tuple[list[AnyRow], int]:
    """Return the rows of event logs, judged, and how many lines there were."""
    rows, counts = [], Counts()
    for number, lines in enumerate(files):
        path = folder / f"{number}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        lateness.begin_file()
        rows += [lateness.checked(row) for row in read_event_log(path, counts)]
    return rows, counts.frames


def states_of(rows: list[AnyRow]) -> list[str]:
    """Return a digest of all tables after each event, in order of position, each event once."""
    topics = {
        row.values["topic_config_digest"]: codec.topic_table_of(row.values["topics"], row.values["mappings"])
        for row in rows
        if row.table == "topic_configs"
    }
    events = {row.values["event_id"]: row for row in rows if row.table not in ("topic_configs", "quarantine")}.values()
    registry = Registry(V5_4_0)
    state = StateText(registry)
    timed = (
        TimedEvent(
            row.values["seq"],
            row.values["event_id"],
            row.values["effect_time"],
            codec.event_of({"kind": row.table, **row.values}, topics),
        )
        for row in sorted(events, key=lambda row: (row.values["seq"], row.values["event_id"]))
    )
    digests = []
    for taken in replay(registry, timed, Namesrv(V5_4_0)):
        state.changed(taken.step.changes, taken.step.refreshed)
        digests.append(state.digest())
    return digests


def late(seed: int, folder: Path) -> tuple[str, str]:
    """Shuffle a log within the limit, double a part, deal it out to uneven files, set the clock of some lines back beyond it."""
    rng = random.Random(seed)
    lines = random_log(rng, 40)
    orderly, _ = judged([lines], folder, Lateness({}, LIMIT_DAYS))
    dealt = [*lines, *rng.choices(lines, k=rng.randrange(5))]
    rng.shuffle(dealt)
    beyond_ms = (LIMIT_DAYS + rng.randrange(1, 40)) * DAY_MS
    stepped = [{**line, "time": line["time"] - beyond_ms} for line in rng.sample(lines, rng.randrange(5))]
    stepped = [line for line in stepped if line["time"] < START_MS]
    for line in stepped:
        dealt.insert(rng.randrange(len(dealt)), line)
    # One file may have nearly all, and others a line or none.
    skew = rng.choice((1, 1, 8))
    cuts = sorted(round(len(dealt) * rng.random() ** skew) for _ in range(3))
    files = [dealt[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(dealt)], strict=True)]
    lateness = Lateness({NAMESRV: (START_MS + LIMIT_DAYS * DAY_MS) * 1_000}, LIMIT_DAYS)
    shuffled, frames = judged(files, folder, lateness)
    assert frames == len(dealt) == len([row for row in shuffled if row.table != "topic_configs"])
    assert lateness.refused.total() == len(stepped) == len([row for row in shuffled if row.table == "quarantine"])
    assert states_of(shuffled) == states_of(orderly)
    return "survived", f"{len(stepped)} lines refused"


def test_order_copies_files_and_stepping_clocks_do_not_matter_within_the_limit(tmp_path: Path) -> None:
    """Every state is that of the orderly log; what its clock puts beyond the limit is refused; each line is one or the other."""
    for seed in range(examples(50)):
        late(seed, tmp_path)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(days=[0], watermark=LIMIT_DAYS + 1)
@example(days=[LIMIT_DAYS + 1, 0], watermark=None)
@given(days=st.lists(st.integers(-6, 6), max_size=30), watermark=st.none() | st.integers(-4, 4))
def test_what_lies_further_back_than_the_limit_is_refused_and_nothing_is_lost(
    tmp_path: Path, days: list[int], watermark: int | None
) -> None:
    """Against the watermark and against the lines before it, by whole days; lines in are rows out plus refusals."""
    known = {} if watermark is None else {NAMESRV: (START_MS + watermark * DAY_MS) * 1_000}
    lateness = Lateness(known, LIMIT_DAYS)
    rows, frames = judged([[line_at(START_MS + day * DAY_MS + n) for n, day in enumerate(days)]], tmp_path, lateness)
    expected: list[str | None] = []
    latest: int | None = None
    for day in days:
        if watermark is not None and day < watermark - LIMIT_DAYS:
            expected.append(Reason.TOO_LATE.value)
        elif latest is not None and day < latest - LIMIT_DAYS:
            expected.append(Reason.CLOCK_WENT_BACK.value)
        else:
            expected.append(None)
            latest = day if latest is None else max(latest, day)
    assert [row.values.get("reason") for row in rows] == expected
    kept = sum(row.table == "heartbeats" for row in rows)
    assert frames == len(days) == kept + lateness.refused.total()
    assert {NAMESRV: (latest or 0) + START_MS // DAY_MS} == {
        name: us // (DAY_MS * 1_000) for name, us in (lateness.latest_us or {NAMESRV: START_MS * 1_000}).items()
    }


def test_a_refused_row_says_what_it_was_and_why(tmp_path: Path) -> None:
    """Place, time, reason and the row itself; the same line refused again is the same piece of quarantine."""
    line = line_at(START_MS)
    known = {NAMESRV: (START_MS + 3 * DAY_MS) * 1_000}
    ((first, second), frames) = judged([[line], [line]], tmp_path, Lateness(known, LIMIT_DAYS))
    assert frames == 2
    assert first.values["quarantine_id"] == second.values["quarantine_id"]
    assert (first.values["source_file"], second.values["source_file"]) == ("0.jsonl", "1.jsonl")
    assert (first.values["namesrv_id"], first.values["event_time"]) == (NAMESRV, START_MS * 1_000)
    assert first.values["detail"] == (
        "2026-01-02T00:00:00.000000Z: more than 2 days behind what is known of 10.0.0.1:9876 (late.limit_days)"
    )
    assert b'"broker_addr":"10.0.0.2:10911"' in bytes.fromhex(first.values["first_bytes"])


def test_name_servers_have_clocks_of_their_own(tmp_path: Path) -> None:
    """A line is compared with lines and with the watermark of its own name server only."""
    other = "10.0.0.9:9876"
    lines = [line_at(START_MS + 9 * DAY_MS), {**line_at(START_MS), "namesrv_id": other}]
    rows, _ = judged([lines], tmp_path, Lateness({NAMESRV: START_MS * 1_000}, LIMIT_DAYS))
    assert [row.table for row in rows] == ["heartbeats", "heartbeats"]


@pytest.mark.parametrize(("back_us", "noted"), [(STEP_BACK_US, 0), (STEP_BACK_US + 1_000, 1)])
def test_a_step_back_is_noted_as_a_fact(tmp_path: Path, back_us: int, noted: int) -> None:
    """From five seconds on, with the times in words and at the line that goes back; it refuses nothing."""
    lateness = Lateness({}, LIMIT_DAYS)
    rows, _ = judged([[line_at(START_MS + 60_000), line_at(START_MS + 60_000 - back_us // 1_000)]], tmp_path, lateness)
    assert [row.table for row in rows] == ["heartbeats", "heartbeats"]
    facts = lateness.steps_back
    assert len(facts) == noted
    for fact in facts:
        assert (fact.table, fact.values["kind"], fact.values["source_offset"]) == (
            "namesrv_events",
            "clock_went_back",
            2,
        )
        assert fact.values["evidence"] == (
            "2026-01-02T00:00:54.999000Z after 2026-01-02T00:01:00.000000Z: back by 5.001 s"
        )
        assert not fact.seq_is_given


def test_steps_back_are_noted_up_to_a_limit(tmp_path: Path) -> None:
    """A shuffled file of any length notes so many, and the next file begins anew."""
    lateness = Lateness({}, LIMIT_DAYS)
    back = [line_at(START_MS + DAY_MS - number * 6_000) for number in range(MAX_NOTED + 5)]
    judged([back], tmp_path, lateness)
    assert len(lateness.steps_back) == MAX_NOTED
    judged([[line_at(START_MS)]], tmp_path, lateness)
    assert lateness.steps_back == []
