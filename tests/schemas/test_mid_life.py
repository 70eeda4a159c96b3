"""The bundled capture without its beginning: nothing that is known is wrong, and what is unknown soon is little.

Without Spark: packets to rows, rows to events, events and answers through the core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from namesrv_core import Namesrv, Outcome, Registry
from namesrv_core.history.intervals import StateChange
from namesrv_core.history.verification import Observed, verify
from namesrv_core.machine.events import NamesrvStarted
from namesrv_core.machine.past import Past
from namesrv_core.machine.profile import V4_9_7
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule
from namesrv_core.replay.loop import TimedEvent, replay
from namesrv_wire import Segment, Transcript, read_capture
from schemas import codec
from schemas.bronze import EVENT_TABLES
from tests.examples import first_quick

CAPTURE = Path(__file__).parents[2] / "examples" / "v4-lifecycle" / "capture.pcap.gz"
NS = 1_000_000_000
NAMESRV = Namesrv(V4_9_7)


@pytest.fixture(scope="module")
def segments() -> list[Segment]:
    return list(read_capture(CAPTURE))


class Recording:
    """The events and answers of a capture from `begin_s` seconds after its first packet on."""

    def __init__(self, segments: list[Segment], begin_s: float) -> None:
        self.begin_ns = segments[0].time_ns + int(begin_s * NS)
        transcript = Transcript()
        rows = [row for s in segments if s.time_ns >= self.begin_ns for row in transcript.feed(s, "capture.pcap.gz")]
        by_table: dict[str, dict[str, dict[str, Any]]] = {}
        for found in [*rows, *transcript.finish()]:  # a later row replaces an earlier one
            key = found.values.get("event_id") or found.values.get("topic_config_digest")
            by_table.setdefault(found.table, {})[str(key)] = found.values
        tables = {
            digest: codec.topic_table_of(row["topics"], row["mappings"])
            for digest, row in by_table["topic_configs"].items()
        }
        self.arrivals: dict[str, int] = {}
        self.timed_events = []
        for table in EVENT_TABLES:
            for row in by_table.get(table.name, {}).values():
                if table.name == "namesrv_events" and row["kind"] not in ("started", "stopped"):
                    continue
                event = codec.event_of({**row, "kind": table.name, "namesrv_kind": row.get("kind")}, tables)
                self.timed_events.append(TimedEvent(row["seq"], row["event_id"], row["effect_time"], event))
                if row.get("response_code") is not None:
                    self.arrivals[row["event_id"]] = row["event_time"] * 1_000
        rows_of_answers = [{**row, "kind": "route_observations"} for row in by_table["route_observations"].values()]
        self.answers = [
            TimedEvent(row["seq"], row["event_id"], row["effect_time"], codec.event_of(row, tables))
            for row in rows_of_answers
        ]
        self.observations = [
            Observed(row["event_id"], row["request_seq"], row["seq"], codec.question_of(row), codec.answer_of(row))
            for row in rows_of_answers
        ]
        closes = by_table["channel_events"].values()
        idle = {row["channel_id"] for row in closes if row["kind"] == "idle"}
        self.schedule = ScanSchedule(
            [ScanEpoch(self.begin_ns, self.begin_ns)],
            NAMESRV.scan_period_ms,
            [
                row["seq"]
                for row in closes
                if row["kind"] == "close" and row["closed_by"] == "namesrv" and row["channel_id"] not in idle
            ],
        )

    def judged(self, first: Iterable[TimedEvent] = ()) -> dict[str, str]:
        """Return the class of each answer by its id; `first`: events before the recording."""
        timed_events = sorted([*first, *self.timed_events, *self.answers], key=lambda t: (t.seq, t.event_id))
        registry = Registry(V4_9_7)
        registry.past = Past(timed_events[0].effect_us // 1_000)
        timeline, starts, unknown = [], [], set()
        for timed, step in replay(registry, timed_events, NAMESRV, self.schedule, span=(timed_events[0].seq, None)):
            if isinstance(timed.event, NamesrvStarted):
                starts.append(timed.seq)
            if step.changes:
                arrival = self.arrivals.get(timed.event_id, timed.seq)
                timeline.append(StateChange(timed.seq, arrival, step.changes))
            if step.outcome == Outcome.UNKNOWN_PAST:
                unknown.add(timed.event_id)
        verdicts = verify(Registry(V4_9_7), timeline, self.observations, NAMESRV, starts=starts)
        return {
            v.observed.event_id: "matched" if v.matched else "unknown" if v.observed.event_id in unknown else "wrong"
            for v in verdicts
        }


@pytest.mark.parametrize("begin_s", first_quick(300, 60, 464, 600))
def test_a_capture_without_its_beginning(segments: list[Segment], begin_s: int) -> None:
    """No answer is wrong; most unknown ones are in the first seconds, and hardly any after half a minute."""
    recording = Recording(segments, begin_s)
    judged = recording.judged()
    counts = Counter(judged.values())
    assert set(counts) == {"matched", "unknown"}
    assert counts["unknown"] / len(judged) < 0.03
    later = [o.event_id for o in recording.observations if o.seq > recording.begin_ns + 30 * NS]
    assert sum(judged[event_id] == "unknown" for event_id in later) / len(later) < 0.003
