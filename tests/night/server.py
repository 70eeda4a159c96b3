"""A name server that is told events and asked questions, and the event log of both."""

from __future__ import annotations

from namesrv_core import Namesrv, Question, Registry, answer, take
from namesrv_core.machine import events
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from namesrv_wire.codes import VERSION_NAMES
from tests.ingest.given import NAMESRV, Line

PERMS = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6}


class Server:
    """A name server by the rules of `namesrv`; times are in seconds since `begin_ms`. `lines`: what is recorded of it."""

    def __init__(self, namesrv: Namesrv, begin_ms: int) -> None:
        self.namesrv, self.registry, self.begin_ms = namesrv, Registry(namesrv.profile), begin_ms
        self.lines: list[Line] = []

    @property
    def version(self) -> int:
        """Return the protocol version that it states."""
        return VERSION_NAMES.index(self.namesrv.profile.name)

    def line(self, at_s: float, kind: str, **fields: object) -> None:
        """Write a line."""
        head = {"schema": "namesrv-event/1", "namesrv_id": NAMESRV, "time": self.begin_ms + round(at_s * 1_000)}
        self.lines.append({**head, "kind": kind, **fields})

    def starts(self, at_s: float) -> None:
        """Start; which version it is becomes known a hundredth of a second later."""
        self.line(at_s, "namesrv", event="started")
        self.line(at_s + 0.01, "namesrv", event="identified", version=self.version)

    def take(self, at_s: float, event: events.Event, kind: str, /, **fields: object) -> None:
        """Take an event, and write its line."""
        take(self.registry, event, self.begin_ms + round(at_s * 1_000), self.namesrv)
        self.line(at_s, kind, **fields)

    def joins(
        self,
        at_s: float,
        name: str,
        *topics: str,
        addr: str = "",
        cluster: str = "C",
        broker_id: int = 0,
        counter: int = 1,
        acting: bool = False,
        **more: object,
    ) -> None:
        """Take a registration over a connection of its address, or refuse it if a new broker's has one topic alone.

        `acting`: a slave may stand for its master. `more`: further fields of the line.
        """
        addr = addr or f"{name}:1"
        table, version = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in topics]), DataVersion(0, 1, counter)
        channel_id = f"{addr}#1"
        event = events.RegisterBroker(cluster, addr, name, broker_id, None, version, table, (), channel_id, acting)
        is_new = addr not in {key.broker_addr for key in self.registry.broker_live_table}
        refused = self.namesrv.profile.refuses_lone_topic and is_new and len(topics) == 1
        broker = {"cluster_name": cluster, "broker_name": name, "broker_addr": addr, "broker_id": broker_id}
        asked = {"request_version": self.version, "response_code": int(refused), "enable_acting_master": acting}
        said = {"data_version": version._asdict(), "topics": [{"topic": topic, **PERMS} for topic in topics]}
        self.take(
            at_s, event, "registration", channel_id=channel_id, **broker, **asked, **said, filter_servers=[], **more
        )

    def asks(self, at_s: float, code: int, subject: str | None, **more: object) -> None:
        """Answer a question. `more`: further fields of the line."""
        found = answer(self.registry, Question(code, subject), self.namesrv)
        told = {"response_code": found.code, "remark": found.remark, "body": found.body}
        asked = {"code": code, "subject": subject, "standard_json": True, "channel_id": "10.2.0.1:50000#1", **more}
        shown = {name: value for name, value in told.items() if value is not None}
        self.line(at_s, "observation", **asked, response_version=self.version, **shown)
