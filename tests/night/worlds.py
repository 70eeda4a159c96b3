"""Name servers with several addresses, and several behind one, as event logs of what brokers and clients ask and are answered."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from pathlib import Path

from namesrv_core import V5_4_0, Namesrv, NamesrvConfig, Question, Registry, answer, take
from namesrv_core.machine import events
from namesrv_core.machine.rows import DataVersion, TopicConfig, TopicTable
from tests.ingest.given import START_MS, Line

FIRST, SECOND = "10.0.0.1:9876", "10.0.0.2:9876"
OTHER, BALANCER = "[fd00::1]:9876", "10.0.0.9:9876"
SECONDS_OTHER = "[fd00::2]:9876"
LONG_S = 240
_NAMESRV = Namesrv(V5_4_0, NamesrvConfig())


class Process:
    """A 5.4.0 name server that started when the world did."""

    def __init__(self) -> None:
        self.registry = Registry(V5_4_0)


class World:
    """Brokers that register every 10 s, and clients that ask every 2 s; what happens at which address is what `lines` has.

    `ways`: name of a broker, addresses that it registers at, and to which process each leads. `clients`: addresses that are
    asked, likewise. What a process is told twice at once it is told once.
    """

    def __init__(
        self, ways: dict[str, dict[str, Process]], clients: Iterable[tuple[str, Process]], seconds: int = LONG_S
    ) -> None:
        self.ways, self.clients, self.seconds = ways, list(clients), seconds
        self.lines: list[Line] = []

    def run(self) -> list[Line]:
        """Return all lines, in order."""
        seen = {address for way in self.ways.values() for address in way} | {address for address, _ in self.clients}
        for address in sorted(seen):
            self._line("namesrv", address, 0, event="started")
        for second in range(1, self.seconds):
            for n, name in enumerate(sorted(self.ways)):
                # Brokers come one after the other: before that nobody shows them.
                if second >= 20 * n and second % 10 == n:
                    for address, process in self.ways[name].items():
                        self._registers(name, address, process, second)
            if second % 2 == 0:
                for k, (address, process) in enumerate(self.clients):
                    self._asks(address, process, second + 0.5 + k / 100)
        return self.lines

    def _line(self, kind: str, address: str, second: float, **fields: object) -> None:
        at = dt.datetime.fromtimestamp(START_MS / 1000 + second, dt.timezone.utc).isoformat(timespec="milliseconds")
        line = {"schema": "namesrv-event/1", "kind": kind, "namesrv_id": address, "time": at.replace("+00:00", "Z")}
        self.lines.append({**line, **fields})

    def _registers(self, name: str, address: str, process: Process, second: int) -> None:
        number = sorted(self.ways).index(name) + 1
        addr, channel = f"10.1.0.{number}:10911", f"10.1.0.{number}:40000#{START_MS * 1_000_000}"
        topics, version = ("shared", name), DataVersion(0, 1, 1)
        table = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in topics])
        event = events.RegisterBroker("C", addr, name, 0, None, version, table, (), channel, False)
        take(process.registry, event, START_MS + second * 1000, _NAMESRV)
        self._line(
            "registration",
            address,
            second,
            channel_id=channel,
            request_version=493,
            response_code=0,
            cluster_name="C",
            broker_name=name,
            broker_addr=addr,
            broker_id=0,
            enable_acting_master=False,
            data_version=version._asdict(),
            topics=[{"topic": topic, "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6} for topic in topics],
            filter_servers=[],
        )

    def _asks(self, address: str, process: Process, second: float) -> None:
        for question in (Question(106, None), Question(105, "shared")):
            found = answer(process.registry, question, _NAMESRV)
            fields = {"response_code": found.code, "response_version": 493, "remark": found.remark, "body": found.body}
            self._line(
                "observation",
                address,
                second,
                code=question.code,
                subject=question.subject,
                standard_json=True,
                channel_id=f"10.2.0.1:50000#{START_MS * 1_000_000}",
                **{name: value for name, value in fields.items() if value is not None},
            )


def log(path: Path, lines: Iterable[Line]) -> Path:
    """Write an event log."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def of(lines: Iterable[Line], *addresses: str) -> list[Line]:
    """Return the lines of some addresses."""
    return [line for line in lines if line["namesrv_id"] in addresses]


def dual_stack(seconds: int = LONG_S) -> list[Line]:
    """Return what is recorded of a process with two addresses, at each of which it has a broker, and of another one."""
    one, another = Process(), Process()
    ways = {
        "a": {FIRST: one, SECOND: another},
        "b": {FIRST: one, SECOND: another},
        "c": {OTHER: one},
    }
    return World(ways, [(FIRST, one), (OTHER, one), (SECOND, another)], seconds).run()


def balanced() -> list[Line]:
    """Return what is recorded of two processes behind one address, to each of which it leads a broker; clients ask them both."""
    one, another = Process(), Process()
    ways = {"a": {BALANCER: one}, "b": {BALANCER: another}, "c": {FIRST: one}}
    return World(ways, [(BALANCER, one), (FIRST, one), (SECOND, another)]).run()


def alternating() -> list[Line]:
    """Return what is recorded where all that is known of two processes is the balancer's address."""
    one, another = Process(), Process()
    ways = {"a": {BALANCER: one}, "b": {BALANCER: another}}
    return World(ways, [(BALANCER, one), (BALANCER, another)]).run()


def two_hosts() -> list[Line]:
    """Return what is recorded of two processes that use one port: some brokers know both, some one of them."""
    one, another = Process(), Process()
    ways = {"a": {FIRST: one, SECOND: another}, "b": {FIRST: one}, "c": {SECOND: another}}
    return World(ways, [(FIRST, one), (SECOND, another)]).run()


def balanced_dual_stacks() -> list[Line]:
    """Return what is recorded of two processes with two addresses each, and a balancer's for whoever else there is."""
    one, another = Process(), Process()
    ways = {
        "a": {FIRST: one, SECOND: another},
        "b": {OTHER: one, SECONDS_OTHER: another},
        "c": {BALANCER: one},
    }
    own = [(FIRST, one), (OTHER, one), (SECOND, another), (SECONDS_OTHER, another)]
    return World(ways, [*own, (BALANCER, one), (BALANCER, another)]).run()
