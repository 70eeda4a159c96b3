"""A day with two processes of one name server: upgraded in place, put back, or started with another configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from namesrv_core import Namesrv, NamesrvConfig, Question, answer, take
from namesrv_core.machine import events
from namesrv_core.machine.profile import profile_named
from schemas import gold
from tests.ingest.given import START_MS, write
from tests.night.nights import audited, night, rows
from tests.night.server import Server

pytestmark = pytest.mark.slow

TOPICS = ("T", "U", "W", "X")
TEN_MS = START_MS + 10 * 3_600_000
FIRST_TICK_S = 4.5
"""A process scans first 5 s after its start, which lies half a second before its first connection is accepted."""
UPGRADE_S = 600


class Process(NamedTuple):
    """A release and its configuration."""

    release: str
    config: NamesrvConfig

    @property
    def properties(self) -> str:
        """Return what it says of itself."""
        said = {"orderMessageEnable": self.config.order_message_enable}
        if self.release.startswith("5"):
            said["supportActingMaster"] = self.config.support_acting_master
        return "\n".join(f"{name}={str(value).lower()}" for name, value in said.items())


OLD = Process("4.9.7", NamesrvConfig())
ACTING = Process("5.4.0", NamesrvConfig(order_message_enable=True, support_acting_master=True))


class Noted(Server):
    """A name server that scans; seconds are since ten o'clock, and increase.

    `changes`: (topic, millisecond, kind) of each change of a route.
    """

    def __init__(self) -> None:
        super().__init__(Namesrv(), TEN_MS)
        self.changes: list[tuple[str, int, str]] = []
        self._tick_s = float("inf")
        self._routes: dict[str, Any] = dict.fromkeys(TOPICS)

    def start(self, at: float, process: Process) -> None:
        """Start a process, which states its version and its configuration."""
        self._scanned(at)
        self.namesrv = Namesrv(profile_named(process.release), process.config)
        self._applied(at, events.NamesrvStarted())
        self.starts(at)
        self._tick_s = at + FIRST_TICK_S
        self.line(at + 0.02, "namesrv", event="configured", properties=process.properties)

    def stop(self, at: float) -> None:
        """Stop the process."""
        self.take(at, events.NamesrvStopped(), "namesrv", event="stopped")
        self._tick_s = float("inf")

    def put_order(self, at: float) -> None:
        """Take an order configuration of the topic T."""
        fields = {"namespace": "ORDER_TOPIC_CONFIG", "config_key": "T", "config_value": "a:4"}
        self.take(at, events.PutKvConfig(*fields.values()), "admin", code=100, response_code=0, **fields)

    def beating(self, seconds: range, name: str, broker_id: int, topics: str) -> Iterator[tuple[float, Any]]:
        """Yield registrations of a broker whose slave stands for its master, to be taken at their time."""
        of: dict[str, Any] = {"addr": f"10.0.0.{ord(name)}:{10911 + broker_id}", "broker_id": broker_id, "acting": True}
        for at in seconds:
            yield at + ord(name) % 7 + broker_id / 8, lambda at: self.joins(at, name, *topics, **of)

    def asked(self, at: float) -> None:
        """Answer a question for each topic."""
        self._scanned(at)
        for number, topic in enumerate(TOPICS):
            self.asks(at + number / 1_000, 105, topic)

    def run(self, plan: list[tuple[float, Any]]) -> None:
        """Do what is planned, in the order of time."""
        for at, do in sorted(plan, key=lambda planned: planned[0]):
            do(at)

    def take(self, at_s: float, event: events.Event, kind: str, /, **fields: object) -> None:
        """Scan until then, take an event, and write its line."""
        self._scanned(at_s)
        self.line(at_s, kind, **fields)
        self._applied(at_s, event)

    def _scanned(self, until: float) -> None:
        while self._tick_s < until:
            self._applied(self._tick_s, events.ScanNotActiveBroker())
            self._tick_s += self.namesrv.scan_period_ms / 1_000

    def _applied(self, at: float, event: events.Event) -> None:
        at_ms = TEN_MS + round(at * 1_000)
        take(self.registry, event, at_ms, self.namesrv)
        for topic in TOPICS:
            found = answer(self.registry, Question(105, topic, standard_json=True), self.namesrv).body
            route: Any = json.loads(found) if found else None
            for part in ("brokerDatas", "queueDatas") if route else ():
                route[part].sort(key=lambda one: one["brokerName"])
            was, self._routes[topic] = self._routes[topic], route
            if was != route:
                kind = "appeared" if was is None else "vanished" if route is None else "changed"
                self.changes.append((topic, at_ms, kind))


def lived(first: Process, second: Process, *, stops: bool) -> Noted:
    """Return a name server that runs as one process and, ten minutes later, as another.

    In each, the master of a group is silent for some minutes, and a broker registers first with a single topic.
    """
    server = Noted()
    plan: list[tuple[float, Any]] = [
        (0, lambda at: server.start(at, first)),
        (5, server.put_order),
        (UPGRADE_S + 5, lambda at: server.start(at, second)),
        *server.beating(range(10, 160, 30), "a", 0, "TU"),
        *server.beating(range(10, UPGRADE_S, 30), "a", 1, "TU"),
        *server.beating(range(10, UPGRADE_S, 30), "b", 0, "TW"),
        *server.beating(range(60, UPGRADE_S, 30), "c", 0, "X"),
        *server.beating(range(UPGRADE_S + 20, UPGRADE_S + 600, 30), "a", 1, "TU"),
        *server.beating(range(UPGRADE_S + 20, UPGRADE_S + 600, 30), "b", 0, "TW"),
        *server.beating(range(UPGRADE_S + 60, UPGRADE_S + 600, 30), "c", 0, "X"),
        *server.beating(range(UPGRADE_S + 200, UPGRADE_S + 360, 30), "a", 0, "TU"),
    ]
    plan += [(UPGRADE_S, server.stop)] if stops else []
    plan += [(at + 0.7, server.asked) for at in range(12, 1_200, 12) if not UPGRADE_S <= at < UPGRADE_S + 10]
    server.run(plan)
    return server


Told = tuple[str, str, float, float | None]
"""Topic, reason, and from when until when, in seconds; 0: until the first process ended; None: it still is."""
AFTER: list[Told] = [("U", "no_writable_queue", 1_079.5, None)]
UNSERVED = {
    "upgraded": [
        ("U", "no_master", 264.5, 0),
        ("U", "no_writable_queue", 264.5, 0),
        ("T", "stale_order_conf", 620.0, 626.125),
        ("U", "no_writable_queue", 626.125, 806.0),
        *AFTER,
    ],
    "put back": [
        ("U", "no_writable_queue", 259.5, 0),
        ("T", "stale_order_conf", 620.0, 806.0),
        ("U", "no_master", 1_079.5, None),
        *AFTER,
    ],
}
PROCESSES = {"upgraded": (OLD, ACTING), "put back": (ACTING, OLD)}


@pytest.mark.parametrize(("happened", "stops"), [("upgraded", False), ("put back", True)])
def test_each_process_of_a_day_is_told_by_its_own_rules(happened: str, stops: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """Answers, routes, orphans and an audit of either process are as its release and configuration have them.

    A master whose slave is alone is missed in the routes of the one, and stood for in those of the other; scans run twice as
    often in 5.x, which also refuses a lone topic; an order configuration is served by the one and not by the other.
    """
    first, second = PROCESSES[happened]
    server, path = lived(first, second, stops=stops), tmp_path / "w"
    said = night(path, write(tmp_path / "a.jsonl", server.lines))
    assert (said.status, said.quarantined, said.verify["mismatched"]) == ("published", 0, 0)
    assert said.verify["answers"] == said.verify["same_bytes"] > 350

    told = [(row["topic"], row["effect_time"] // 1_000, row["change"]) for row in rows(path, gold.ROUTE_CHANGES)]
    assert sorted(told) == sorted(server.changes)
    assert len(told) > 15

    ends_s = UPGRADE_S if stops else UPGRADE_S + 5
    unserved = [(*of[:3], ends_s if of[3] == 0 else of[3]) for of in UNSERVED[happened]]
    found = [
        (
            row["topic"],
            row["reason"],
            *(row[name] and row[name] / 1e6 - TEN_MS / 1e3 for name in ("valid_from", "valid_to")),
        )
        for row in rows(path, gold.ORPHANED_TOPICS)
    ]
    assert sorted(found, key=str) == sorted(unserved, key=str)

    assert audited(path)["wrong"] == []
