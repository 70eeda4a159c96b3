"""One name server of a simulated fleet while it is recorded: connections, requests, true answers, and what time does.

What it holds is the core's registry, so that its answers are true; what is asked again while nothing changes is not computed
again. Connections end as in RocketMQ: with the process, at the idle limit, or when a scan finds the lease ended.

Source: RocketMQ 4.9.7 and 5.4.0 NettyServerConfig, RouteInfoManager.scanNotActiveBroker, NamesrvController.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Final

from namesrv_core.asking.dispatch import answer_to, serve
from namesrv_core.asking.requests import Request
from namesrv_core.machine import events
from namesrv_core.machine.draft import Step
from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_core.machine.profile import CHANNEL_MAX_IDLE_MS, Namesrv
from namesrv_core.machine.question import Answer
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.schedule import START_BEFORE_FIRST_ACCEPT_NS, ScanEpoch, ScanSchedule
from namesrv_core.replay.loop import Scans
from namesrv_core.replay.take import take
from tools.fleet.asking import client_endpoint
from tools.fleet.draws import PPM
from tools.fleet.events import broker_endpoint, namesrv_id
from tools.fleet.fleet import Fleet
from tools.fleet.frames import Beat, Encoded, encoded_answer
from tools.fleet.packets import Fact, Packet
from tools.fleet.tcp import Connection

IDLE_NS: Final = CHANNEL_MAX_IDLE_MS * NS_PER_MS
_IDLE_CLOSE_NS: Final = 3 * NS_PER_MS
"""How long after the limit the idle handler closes; seen: 1 to 61 ms."""
KEEP_ALIVE_NS: Final = 60_000 * NS_PER_MS
_SHAKE_NS, _SHAKE_AT_START_NS = 150 * NS_PER_US, 400
_CLOSE_STEP_NS, _CLOSE_SPREAD_NS = 10 * NS_PER_US, 50 * NS_PER_MS
_SERVICE_NS: Final = 140 * NS_PER_US
_KEPT_ANSWERS, _NEVER = 4_096, 1 << 62
# Answers have other luck than their questions.
_OTHER_LUCK: Final = 611_953


class Serving:
    """Name server `n`, whose packets go to `out`; `starts_ns`: when its processes start."""

    def __init__(self, fleet: Fleet, n: int, starts_ns: Iterable[int], out: list[Packet], trouble_ppm: int) -> None:
        self.id, self.n, self._out, self._trouble_ppm = namesrv_id(n), n, out, trouble_ppm
        self._namesrv = Namesrv(fleet.profile)
        self._protocol = fleet.protocol
        self.registry = Registry(fleet.profile)
        epochs = [ScanEpoch(at_ns, at_ns + 1 - START_BEFORE_FIRST_ACCEPT_NS) for at_ns in starts_ns]
        schedule = ScanSchedule(epochs, self._namesrv.scan_period_ms)
        self._scans = Scans(self.registry, self._namesrv, schedule, self.id, 0)
        self.brokers: dict[int, Connection] = {}
        self.clients: dict[int, Connection] = {}
        # Whose a connection is: its table, and the key there.
        self._owners: dict[str, tuple[dict[int, Connection], int]] = {}
        # Connections by the time of their last byte: those younger than the first limit, and those older.
        self._young: OrderedDict[str, Connection] = OrderedDict()
        self._old: OrderedDict[str, Connection] = OrderedDict()
        self._answers: dict[tuple[int, str | None, int, int], Encoded] = {}
        self._acknowledged: dict[tuple[Answer, int], Encoded] = {}
        self.is_up, self._started_ns = False, 0
        self._connected: Counter[int] = Counter()
        self.silences: dict[int, list[tuple[int, int]]] = {}
        """By broker: from when and until when (ns) none of its packets come through."""
        self.stops_ns = _NEVER
        """When the process that runs will stop."""
        self._quiet_until_ns = 0

    # -- its life ----------------------------------------------------------------------------------------------------

    def start(self, at_ns: int, brokers: Iterable[int]) -> None:
        """Start a process: these brokers connect at once, in their order, a microsecond apart."""
        self._take(events.NamesrvStarted(), at_ns, at_ns)
        self.is_up, self._started_ns = True, at_ns
        for b in brokers:
            connection = Connection(broker_endpoint(b, self.n), self.id, self._out, self._trouble_ppm)
            connection.open(at_ns + b * NS_PER_US, _SHAKE_AT_START_NS)
            self._enter(connection, self.brokers, b)

    def stop(self, at_ns: int) -> None:
        """Stop the process: it closes all its connections."""
        still_open = [*self._old.values(), *self._young.values()]
        step_ns = min(_CLOSE_STEP_NS, _CLOSE_SPREAD_NS // max(1, len(still_open)))
        for number, connection in enumerate(still_open):
            connection.close(at_ns + number * step_ns, by_client=False)
        for table in (self.brokers, self.clients, self._owners, self._young, self._old):
            table.clear()
        self._take(events.NamesrvStopped(), at_ns, at_ns)
        self.is_up = False

    def refuse(self, at_ns: int, client: str) -> None:
        """Have nobody listen when somebody connects."""
        Connection(client, self.id, self._out, 0).refuse(at_ns)

    # -- requests ----------------------------------------------------------------------------------------------------

    def beat(self, at_ns: int, b: int, beat: Beat, luck: int) -> None:
        """Take a beat of broker `b` that is complete at `at_ns`; a broker without a connection makes one before."""
        connection = self.brokers.get(b)
        if connection is None:
            connection = self._accepted(broker_endpoint(b, self.n), at_ns)
            self._enter(connection, self.brokers, b)
        connection.opaque += 1
        connection.ask(at_ns, beat.request.frame(connection.opaque), luck)
        event = beat.event
        if isinstance(event, events.RegisterBroker):
            event = event._replace(channel_id=connection.channel_id)
        if beat.one_way:
            self._take(event, at_ns, at_ns)
            connection.acknowledge(at_ns)
        else:
            done_ns = self._done(at_ns)
            step = self._take(event, at_ns, done_ns)
            said = answer_to(event, step, self.registry, self._namesrv)
            connection.answer(
                done_ns,
                self._frame(said, beat.request.serialization).frame(connection.opaque),
                luck * _OTHER_LUCK % PPM,
            )
        self._heard(connection)

    def question(self, at_ns: int, request: Request, serialization: int) -> Encoded:
        """Return the true answer to a client's question as a frame, but for its number."""
        # In what questions of clients differ: no zones, no keys.
        key = (request.code, request.fields.get("topic"), request.version, serialization)
        known = self._answers.get(key)
        if known is None:
            said = serve(self.registry, request, at_ns // NS_PER_MS, self._namesrv).answer
            assert said is not None  # clients ask what any name server answers
            known = self._answers[key] = encoded_answer(said, self._protocol, serialization)
        return known

    def ask(
        self, at_ns: int, connection: Connection, request: Encoded, said: Encoded, luck: int, told: Fact | None
    ) -> None:
        """Carry a client's question and an answer to it."""
        connection.opaque += 1
        connection.ask(at_ns, request.frame(connection.opaque), luck)
        done_ns = self._done(at_ns)
        connection.answer(done_ns, said.frame(connection.opaque), luck * _OTHER_LUCK % PPM, told)
        self._heard(connection)

    def connection_of(self, c: int, at_ns: int, *, anew: bool) -> Connection:
        """Return the connection of client `c`, made before `at_ns` if there is none; `anew`: the old one is closed."""
        connection = self.clients.get(c)
        if connection is not None:
            if not anew:
                return connection
            connection.close(at_ns - 4 * _SHAKE_NS, by_client=True)
            self._forget(connection)
        self._connected[c] += 1
        connection = self._accepted(client_endpoint(c, self._connected[c]), at_ns)
        self._enter(connection, self.clients, c)
        return connection

    # -- what time does ----------------------------------------------------------------------------------------------

    def pass_time(self, until_ns: int) -> None:
        """Do what falls due before an instant: scans, the hosts' keep-alives, closes at the idle limit; in their order."""
        while self._quiet_until_ns < until_ns:
            probed, idle = next(iter(self._young.values()), None), next(iter(self._old.values()), None)
            probe_ns = _NEVER if probed is None else probed.last_ns + KEEP_ALIVE_NS
            close_ns = _NEVER if idle is None else idle.last_ns + IDLE_NS + _IDLE_CLOSE_NS
            due_ns = min(probe_ns, close_ns, until_ns)
            if self._scan(due_ns):
                continue  # it has closed connections
            if due_ns == until_ns:
                self._quiet_until_ns = min(probe_ns, close_ns, max(until_ns, self._scans.none_before))
            elif idle is not None and due_ns == close_ns:
                self._close_idle(idle, close_ns)
            elif probed is not None:
                self._probe(probed, probe_ns)

    def _scan(self, until_ns: int) -> bool:
        """Run the scans before an instant that expire something; return whether connections were closed."""
        if until_ns <= self._scans.none_before:
            return False
        closed = False
        for taken in self._scans.before(until_ns):
            self._answers.clear()
            for number, channel_id in enumerate(taken.step.closed, 1):
                table, who = self._owners.get(channel_id.split("#", maxsplit=1)[0], (self.brokers, -1))
                connection = table.get(who)
                if connection is not None and connection.channel_id == channel_id:
                    self._end(connection, taken.timed.seq + number)
                    closed = True
        return closed

    def _probe(self, connection: Connection, at_ns: int) -> None:
        self._young.pop(connection.client)
        self._old[connection.client] = connection
        if self._reaches(connection, at_ns):
            connection.keep_alive(at_ns)

    def _close_idle(self, connection: Connection, at_ns: int) -> None:
        self._end(connection, at_ns)
        self._take(events.ChannelDestroyed(connection.channel_id, connection.client), at_ns, at_ns)

    def _end(self, connection: Connection, at_ns: int) -> None:
        """Have the name server close a connection of its own accord."""
        connection.close(at_ns, by_client=False, is_answered=self._reaches(connection, at_ns))
        self._forget(connection)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _take(self, event: events.Event, at_ns: int, done_ns: int) -> Step:
        step = take(self.registry, event, done_ns // NS_PER_MS, self._namesrv)
        self._scans.passed(at_ns, step)
        if step.changes:
            self._answers.clear()
            self._quiet_until_ns = 0
        return step

    def _done(self, at_ns: int) -> int:
        """Return when a request is answered: always as long after it, so that effects keep the order of requests."""
        done_ns = at_ns + _SERVICE_NS
        return done_ns if done_ns < self.stops_ns else (at_ns + self.stops_ns) // 2

    def _accepted(self, client: str, before_ns: int) -> Connection:
        """Return a connection that was made shortly before an instant, but not before the process."""
        connection = Connection(client, self.id, self._out, self._trouble_ppm)
        at_ns = before_ns - 2 * _SHAKE_NS
        is_late = at_ns > self._started_ns + _SHAKE_NS
        connection.open(
            at_ns if is_late else self._started_ns + NS_PER_US, _SHAKE_NS if is_late else _SHAKE_AT_START_NS
        )
        return connection

    def _frame(self, said: Answer, serialization: int) -> Encoded:
        if len(self._acknowledged) > _KEPT_ANSWERS:
            self._acknowledged.clear()
        found = self._acknowledged.get((said, serialization))
        if found is None:
            found = encoded_answer(said, self._protocol, serialization)
            self._acknowledged[said, serialization] = found
        return found

    def _enter(self, connection: Connection, table: dict[int, Connection], who: int) -> None:
        table[who], self._owners[connection.client] = connection, (table, who)
        self._heard(connection)

    def _heard(self, connection: Connection) -> None:
        self._old.pop(connection.client, None)
        self._young[connection.client] = connection
        self._young.move_to_end(connection.client)

    def _forget(self, connection: Connection) -> None:
        for queue in (self._young, self._old):
            queue.pop(connection.client, None)
        table, who = self._owners.pop(connection.client)
        del table[who]

    def _reaches(self, connection: Connection, at_ns: int) -> bool:
        table, who = self._owners[connection.client]
        silences = self.silences.get(who, ()) if table is self.brokers else ()
        return not any(begin <= at_ns < end for begin, end in silences)
