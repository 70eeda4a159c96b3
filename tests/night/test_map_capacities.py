"""Maps that grew, over midnight: the next day's answers are those of a name server that went on."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.machine import events
from schemas import gold
from tests.day.lives import MIDNIGHT_MS
from tests.ingest.given import write
from tests.night.nights import night, rows
from tests.night.server import Server

pytestmark = pytest.mark.slow

NAMES = [f"broker-{number}" for number in range(56)]
QUESTIONS = [(105, "T"), (105, "U"), (106, None), (206, None), (304, None), (224, "C"), (311, None)]


class Grown(Server):
    """A name server that goes on over midnight, from which seconds count; then it answers all questions after each event."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(Namesrv(profile), MIDNIGHT_MS)
        self.starts(-100)

    def take(self, at_s: float, event: events.Event, kind: str, /, **fields: object) -> None:
        """Take an event, and on the second day answer all questions then."""
        super().take(at_s, event, kind, **fields)
        for number, (code, subject) in enumerate(QUESTIONS if at_s > 0 else ()):
            self.asks(at_s + (number + 1) / 1_000, code, subject, nth=len(self.lines))

    def leaves(self, at_s: float, name: str) -> None:
        """Take a broker's unregistration."""
        broker = {"cluster_name": "C", "broker_name": name, "broker_addr": f"{name}:1", "broker_id": 0}
        self.take(at_s, events.UnregisterBroker("C", f"{name}:1", name, 0), "unregistration", response_code=0, **broker)

    def deletes(self, at_s: float, topic: str) -> None:
        """Take the deletion of a topic."""
        self.take(at_s, events.DeleteTopic(topic, None), "admin", code=216, topic=topic, response_code=0)

    def written(self, folder: Path) -> Path:
        """Return the event log."""
        return write(folder / "log.jsonl", self.lines)


def crowds(profile: Profile, seed: int) -> Grown:
    """Return a name server to which crowds of brokers come and from which they go, before and after midnight."""
    server, draw = Grown(profile), Random(seed)
    topics = ["T", "U", *(f"t{number}" for number in range(16))]
    for hour, shares in ((-90, (1.0, 0.7)), (10, (0.5, 0.4))):
        for number, name in enumerate(draw.sample(NAMES, round(len(NAMES) * shares[0]))):
            server.joins(hour + number / 10, name, *topics[:2], *draw.sample(topics, 12))
        for number, name in enumerate(draw.sample(NAMES, round(len(NAMES) * shares[1]))):
            server.leaves(hour + 10 + number / 10, name)
        for number, topic in enumerate(draw.sample(topics[2:], 11)):
            server.deletes(hour + 20 + number / 10, topic)
    return server


@pytest.mark.parametrize("profile", [V5_4_0, V4_9_7], ids=lambda profile: profile.name)
def test_midnight_changes_no_byte_where_maps_grew(profile: Profile, tmp_path: Path) -> None:
    """Every answer of the second day is equal byte for byte, lists in their order among them; each broker is a unit.

    A night that begins with the second day starts from those of the first, and gives what one over both gives.
    """
    server = crowds(profile, 1)
    said = night(tmp_path / "w", server.written(tmp_path))
    assert (said.days, said.quarantined) == (["2026-01-02", "2026-01-03"], 0)
    answers = sum(line["kind"] == "observation" for line in server.lines)
    counts = {name: said.verify[name] for name in ("answers", "matched", "same_order", "same_bytes")}
    assert counts == dict.fromkeys(counts, answers)
    told = {(row["map_table"], row["is_inner"]) for row in rows(tmp_path / "w", gold.MAP_CAPACITIES)}
    assert ("topic_queue_table", True) in told
    if profile is V4_9_7:
        return
    for number, is_second in enumerate((False, True)):
        some = [line for line in server.lines if (line["time"] >= MIDNIGHT_MS) is is_second]
        later = night(tmp_path / "w2", write(tmp_path / f"{number}.jsonl", some))
    assert later.verify["same_bytes"] == later.verify["answers"]
    one, other = (sorted(map(repr, rows(tmp_path / name, gold.MAP_CAPACITIES))) for name in ("w", "w2"))
    assert one == other
    assert later.digests == said.digests
