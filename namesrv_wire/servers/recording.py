"""What was recorded of a name server: its life, silence, holes in a file, a clock that goes back, and how connections end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from namesrv_wire.errors import (
    BEAT_NS,
    MAX_LINGERING,
    MISSED_WITHIN_NS,
    RECORDING_GAP_NS,
    SILENCE_NS,
    SMALL_HOLE_NS,
    DecodeError,
    Reason,
)
from namesrv_wire.lateness import STEP_BACK_NS, stepped
from namesrv_wire.rows import FrameRow, Place, gap_until
from namesrv_wire.servers.exchange import Exchange, Ledger
from namesrv_wire.streams.connection import Connection, Idle
from namesrv_wire.streams.cutting import Cut

BURST_NS: Final = 100_000_000
"""A stopping process closes all its connections within this time; seen: 6 to 20 ms."""

UNKNOWN, UP, DOWN, HIDDEN = "unknown", "up", "down", "hidden"
"""Hidden: it was down, and may have started since, in a hole of the recording."""
STARTED_IN_A_HOLE: Final = "it was stopped in front of a hole in the recording, and behind it runs: it started in it"


@dataclass(slots=True)
class Burst:
    """Closings by the name server that follow each other closely. `seq` is a free position just before the first."""

    seq: int
    first_ns: int
    last_ns: int
    source: tuple[str, int]
    count: int = 1
    complete: bool = False
    """No connection was left open after the last of them."""
    silent: bool = True
    """No payload came from the name server since the first of them."""
    brokers: int = 0
    """How many of them were brokers' connections."""
    living: int = 0
    """How many of them nothing closes but the end of the process; once one is known, no more are looked at."""

    @property
    def evidence(self) -> str:
        """What the closings say, as text."""
        spread_ms = (self.last_ns - self.first_ns) / 1e6
        which = "all its" if self.complete else "without another answer"
        return f"the name server closed {which} {self.count} connections within {spread_ms:.1f} ms"

    def ends_all(self, *, broker_is_open: bool) -> bool:
        """Whether these closings end a process, though an unreachable client's connection seems open.

        Strangers may be closed together for their bad frames; a process that ends closes its brokers' connections.
        """
        return self.silent and self.count >= 2 and (self.brokers > 0 or not broker_is_open)

    @property
    def is_end(self) -> bool:
        """Whether these closings end a process, even if the next attempt to connect is accepted: another one has started."""
        return self.complete and self.silent and self.count >= 2 and self.brokers > 0 and self.living > 0


@dataclass(slots=True)
class Life:
    """The life of one name server as far as it was seen.

    `first`: position, time and place of the first packet, or of where a hole began in which it may have started.
    """

    first: tuple[int, int, str, int]
    state: str = UNKNOWN
    refused: int = 0
    """Connections refused since the last accepted one."""
    burst: Burst | None = None
    sent_ns: int = 0
    """When it sent something last."""

    def closing(self, seq: int, time_ns: int, source: tuple[str, int], *, is_broker: bool, still_open: bool) -> Burst:
        """Note that the name server closed a connection, maybe a broker's, of its own accord; return the closings around it."""
        burst = self.burst
        if burst is None or time_ns - burst.first_ns > BURST_NS:
            burst = self.burst = Burst(seq, time_ns, time_ns, source)
        else:
            if not (burst.brokers or burst.living):  # strangers' may have been closed for their bad frames
                burst.seq, burst.first_ns, burst.source = seq, time_ns, source
            burst.count += 1
            burst.last_ns = time_ns
        burst.brokers += is_broker
        burst.complete = not still_open
        return burst

    def alive(self) -> None:
        """Note payload from the name server, or a connection that it accepted: it has not stopped."""
        if self.burst is not None:
            self.burst.silent = False
            # A stranger's connection may be closed for its bad frames just before the process ends.
            if self.burst.complete or not self.burst.brokers:
                self.burst = None

    def hide(self, seq: int, time_ns: int, source: tuple[str, int]) -> None:
        """Note that what was refused before says nothing of when it started: that may have been from then on."""
        self.state = UNKNOWN if self.state == UNKNOWN else HIDDEN
        self.refused, self.burst = 0, None
        self.first = (seq, time_ns, *source)

    @classmethod
    def load(cls, state: dict[str, Any]) -> Life:
        """Return the life of which these are the fields, as JSON has them."""
        burst = state["burst"] and Burst(**{**state["burst"], "source": tuple(state["burst"]["source"])})
        return cls(tuple(state["first"]), state["state"], state["refused"], burst, state.get("sent_ns", 0))


class Hole(NamedTuple):
    """What could not be read of a capture, from the last packet that could on.

    `is_seen`: a name server has packets in the file before. `is_step`: it is there since the clock went back, and says nothing of
    how long it was.
    """

    begin_ns: int
    source_file: str
    is_seen: bool
    is_step: bool = False


class Silence(NamedTuple):
    """A time in which nothing came from or to a name server, and the first of two free positions at its beginning."""

    begin_ns: int
    end_ns: int
    seq: int


class Start(NamedTuple):
    """A start that is not written yet, since it may have been in the silence before; where it is otherwise."""

    seq: int
    evidence: str
    place: Place


class Recording:
    """How far a name server's recording has come, and the gaps in it: nobody's silence counts in them."""

    def __init__(self, ledger: Ledger, idle: Idle, exchange: Exchange, connections: Mapping[str, Connection]) -> None:
        """`connections`: those of the name server, by client."""
        self._ledger, self._idle, self._exchange, self._connections = ledger, idle, exchange, connections
        self.last_packet_ns = 0
        self.calm_until_ns = -1
        """Nothing runs out before this time: a packet that is not later, and not earlier than the last, opens nothing else."""
        self.hole: Hole | None = None
        """What could not be read since the last packet."""
        self.hole_end_ns = 0
        """Until when the last gap was that a hole has left: what was open before may have ended in it."""
        self.silences: list[Silence] = []
        """Those of late, of which connections may yet show that one was not recorded."""
        self.start: Start | None = None
        """The name server started behind some of `silences`, or in one."""
        self.whole_since_ns = 0
        """Since when the beginning of each connection was recorded."""
        self.is_behind = False
        """The clock went back: until it is where it was, what comes has no place."""
        self._taken: tuple[int, int] | None = None
        """From when to when packets were read by somebody else."""

    def go_on(self, time_ns: int, life: Life) -> None:
        """Note what was not recorded until `time_ns`: nobody's silence counts until then."""
        if self.hole is not None:
            hole, self.hole = self.hole, None
            self._pass_hole(hole, time_ns, life)
        if not self.last_packet_ns:
            self.whole_since_ns = time_ns
        silent_ns = time_ns - self.last_packet_ns if self.last_packet_ns else 0
        if silent_ns > self._idle.limit_ns + RECORDING_GAP_NS:
            open_now = [*self._idle.open.values()]
            if any(connection.beats for connection in open_now):  # a broker beats: nothing was recorded
                begin_ns = self.last_packet_ns
                self._ledger.at(begin_ns)
                self._lose_track(self._connections.values())
                self._ledger.at(time_ns)
                evidence = f"no packet for {silent_ns / 1e9:.3f} s with {len(open_now)} connections open"
                self._gap(begin_ns, time_ns, evidence)
                return
        if self.silences and time_ns - self.silences[0].end_ns > MISSED_WITHIN_NS:
            self.pass_silences(self.silences[0].end_ns)
        if silent_ns > SILENCE_NS:
            begin_ns = self.last_packet_ns
            self.silences.append(Silence(begin_ns, time_ns, self._ledger.reserve(begin_ns)))

    def pass_silences(self, until_ns: int) -> None:
        """Note that nothing has shown those until a time not to have been recorded, or can show it any more."""
        self.silences = [silence for silence in self.silences if silence.begin_ns >= until_ns]
        if self.start is not None and self._silence(0, self.start.place.time_ns) is None:
            start, self.start = self.start, None
            self._ledger.fact("started", start.evidence, seq=start.seq, place=start.place)

    def pass_start(self, evidence: str) -> None:
        """Note that the name server has started: now, unless a silence before turns out not to have been recorded."""
        self.start = Start(self._ledger.slot(), evidence, self._ledger.place)
        self.pass_silences(0)
        self.whole_since_ns = self._ledger.time_ns - self._idle.limit_ns  # no connection is older than its process

    def pass_unrecorded(self, connection: Connection, *, is_new: bool) -> None:
        """Note that something was not recorded, as a connection shows: the longest silence that may have been it.

        It goes on behind bytes of both sides that nobody saw, in the silence or later; or (new) it is in use, its beginning was not
        seen, and it was not open before all that was recorded: such a one is used, or closed, within the idle limit.

        What was not active since the silence may have been used in it: its own counts from now on, and what comes next on it does
        not wait for what was lost.
        """
        if is_new and connection.opened_ns < self.whole_since_ns + self._idle.limit_ns:
            return
        between = (0, connection.opened_ns) if is_new else (connection.last_byte_ns, self._ledger.time_ns)
        self._missed(self._silence(*between), f"{connection.channel_id} goes on behind what nobody saw")

    def pass_refused(self) -> None:
        """Note that connections are refused: if brokers' are open, and silent for longer than any broker is, they ended unseen."""
        silence = self._silence(0, self._ledger.time_ns)
        if silence is not None and self._is_too_long(silence):
            self._end_silence(silence, "connections are refused, though brokers' are open")
            self.hole_end_ns = self._ledger.time_ns

    def pass_anew(self, connection: Connection, *, is_new: bool) -> None:
        """Note that a broker registers on a connection for the first time. If it has another one, that has ended: it uses one.

        Nobody saw that end. If nobody saw this one begin either (new), something was not recorded; else a silence was not in which
        no broker beat.
        """
        others = (each for each in self._idle.open.values() if each is not connection)
        last_ns = [each.last_byte_ns for each in others if each.broker_addr == connection.broker_addr]
        silence = self._silence(max(last_ns), connection.opened_ns) if last_ns else None
        if last_ns and (is_new or (silence is not None and self._is_too_long(silence))):
            self._missed(silence, f"{connection.channel_id} is of a broker that has another one open")

    def _silence(self, since_ns: int, until_ns: int) -> Silence | None:
        """Return the longest silence of late between two times."""
        between = (one for one in self.silences if since_ns <= one.begin_ns and one.end_ns <= until_ns)
        return max(between, key=lambda one: one.end_ns - one.begin_ns, default=None)

    def _is_too_long(self, silence: Silence) -> bool:
        """Return whether brokers are silent for less, and nothing has come since on what was open before."""
        before = [each for each in self._idle.open.values() if each.opened_ns <= silence.begin_ns]
        is_quiet = all(each.last_byte_ns <= silence.begin_ns for each in before)
        return silence.end_ns - silence.begin_ns > BEAT_NS and is_quiet and any(each.beats for each in before)

    def _missed(self, silence: Silence | None, why: str) -> None:
        """Note that something was not recorded: in a silence, or (none) nobody knows when, so that nothing is known from now on."""
        if silence is None:
            self._exchange.doubt(why)
        else:
            self._end_silence(silence, why)

    def _end_silence(self, silence: Silence, why: str) -> None:
        """Note that nothing was recorded in a silence, as something shows (`why`): what began behind a stop began in it."""
        if self.start is not None and silence.end_ns <= self.start.place.time_ns:
            self.start, place = None, Place(*self._ledger.source, silence.begin_ns)
            self._ledger.fact("started", STARTED_IN_A_HOLE, seq=silence.seq, place=place)
            silence = silence._replace(seq=silence.seq + 1)
        self.pass_silences(silence.end_ns)
        every = self._connections.values()
        quiet = [each for each in every if each.closed_ns is None and each.last_byte_ns <= silence.begin_ns]
        self._lose_track(quiet)
        evidence = f"no packet for {(silence.end_ns - silence.begin_ns) / 1e9:.3f} s, and {why}"
        self._note_gap(silence.seq, silence.begin_ns, silence.end_ns, evidence)
        self._may_have_ended(quiet, self._ledger.time_ns)

    def _may_have_ended(self, quiet: Collection[Connection], until_ns: int) -> None:
        """Note connections that may have ended in a gap: their silence counts from `until_ns` on."""
        for each in quiet:
            each.taken_ns, each.broker_addr = 0, None
            self._idle.note_activity(each, until_ns)

    def _lose_track(self, connections: Collection[Connection]) -> None:
        """Take what is behind holes of connections: what is missing there never comes, and a gap covers it."""
        self._ledger.note_gap()
        for connection in connections:
            for from_server, half in enumerate((connection.from_client, connection.from_server)):
                for cut in half.cuts(half.stream.lose_track(self._ledger.time_ns)):
                    self._exchange.frame(connection, cut, from_server=bool(from_server))

    def may_miss(self, hole: Hole) -> None:
        """Note that what follows lies behind a hole in its file."""
        if self.hole is not None:
            first = self.hole
            is_seen, is_step = first.is_seen or hole.is_seen, first.is_step or hole.is_step
            hole = Hole(first.begin_ns, hole.source_file, is_seen, is_step)
        self.hole, self.calm_until_ns = hole, -1

    def _pass_hole(self, hole: Hole, time_ns: int, life: Life) -> None:
        """Note a gap where a file had a hole, unless what was lost shows in the connections."""
        ledger = self._ledger
        begin_ns = max(hole.begin_ns, self.last_packet_ns)
        end_ns = max(begin_ns + 1_000_000 * hole.is_step, time_ns)
        is_of_it = hole.is_seen or hole.source_file == ledger.source[0]
        if not is_of_it or (end_ns - begin_ns <= SMALL_HOLE_NS and not hole.is_step):
            return
        for connection in self._idle.passed(begin_ns):
            connection.idle_seq = ledger.reserve(connection.idle_ns or 0)
        ledger.at(begin_ns)
        self._lose_track(self._connections.values())
        ledger.at(time_ns)
        self.last_packet_ns = end_ns
        if life.state == UNKNOWN:
            self.whole_since_ns = end_ns
            life.hide(ledger.reserve(end_ns), end_ns, ledger.source)
            return
        if life.state == DOWN:
            life.hide(ledger.reserve(begin_ns), begin_ns, ledger.source)
            begin_ns += 1_000
        evidence = f"{hole.source_file}: what it recorded for {(end_ns - begin_ns) / 1e9:.3f} s cannot be read"
        if hole.is_step:
            evidence = f"{hole.source_file}: the clock went back; what came until it was there again has no place"
        self._gap(begin_ns, end_ns, evidence)
        self.hole_end_ns = end_ns

    def step_back(self, until_ns: int) -> None:
        """Note that the clock went back: what has times from `until_ns` on came before, and the time up to then is a gap."""
        begin_ns = self.last_packet_ns
        evidence = f"{stepped(until_ns // 1_000, begin_ns // 1_000)} or more, since connections go on"
        self._note_step(begin_ns, evidence)
        self._gap(begin_ns, until_ns, "the clock went back")

    def end_beside(self, known_ns: int) -> None:
        """Note that what follows the last packet was read before; nothing was recorded until `known_ns`, if that is later."""
        last_ns = self.last_packet_ns
        self._gap(last_ns, max(known_ns, last_ns + 1_000_000), "what came after was read before")

    def taken_by_others(self, begin_ns: int, end_ns: int) -> None:
        """Note that what was recorded from one time to another is read by somebody else: it has no place here."""
        self._taken, self.calm_until_ns = (begin_ns, end_ns), -1

    def taken_until(self, last_ns: int) -> None:
        """Note until when somebody else has read: what comes before that has no place here."""
        if self.last_packet_ns < last_ns:
            self.last_packet_ns, self.is_behind, self.calm_until_ns = last_ns, True, -1

    def has_place(self, time_ns: int, source: tuple[str, int]) -> bool:
        """Return whether a packet lies in a time that was not read already; else note that the clock went back, once."""
        ledger, last_ns = self._ledger, self.last_packet_ns
        if self.is_behind and time_ns >= last_ns:
            self.is_behind = False
            self.may_miss(Hole(last_ns, source[0], is_seen=True, is_step=True))
        is_taken = self._taken is not None and self._taken[0] <= time_ns < self._taken[1]
        if not (self.is_behind or is_taken or time_ns < last_ns - STEP_BACK_NS):
            return True
        if not self.is_behind:
            self.is_behind, self.calm_until_ns = True, -1
            if is_taken and self._taken is not None:
                last_ns = self.last_packet_ns = self._taken[1]
            ledger.source = source
            self._note_step(last_ns, stepped(last_ns // 1_000, time_ns // 1_000))
        ledger.counts.packets += 1
        ledger.counts.behind += 1
        ledger.files.add(source[0])
        return False

    def _gap(self, begin_ns: int, end_ns: int, evidence: str) -> None:
        self._note_gap(self._ledger.reserve(begin_ns), begin_ns, end_ns, evidence)
        self._may_have_ended([*self._idle.open.values()], end_ns)

    def _note_gap(self, seq: int, begin_ns: int, end_ns: int, evidence: str) -> None:
        self.whole_since_ns = max(self.whole_since_ns, end_ns)
        place = Place(*self._ledger.source, begin_ns)
        self._ledger.fact("recording_gap", evidence, seq=seq, place=place, properties=gap_until(begin_ns, end_ns))
        self._ledger.doubted_ns = self._ledger.time_ns

    def _note_step(self, time_ns: int, evidence: str) -> None:
        place = Place(*self._ledger.source, time_ns)
        self._ledger.fact("clock_went_back", evidence, seq=self._ledger.reserve(time_ns), place=place)


class Endings:
    """Ends connections, by a packet, by the idle limit, or because they had ended before."""

    def __init__(self, ledger: Ledger, idle: Idle, exchange: Exchange, recording: Recording) -> None:
        self._ledger, self._idle, self._exchange, self._recording = ledger, idle, exchange, recording
        self.lingering: OrderedDict[str, Connection] = OrderedDict()
        """Ended connections, remembered to know late copies of their segments."""

    def close(self, connection: Connection, closed_by: str, kinds: tuple[str, ...], silent_ns: int) -> None:
        """Write the end of a connection. First its unanswered requests, then its kinds, all at this packet."""
        self._flush(connection)
        waiting = connection.waiting
        for pending in waiting:
            if pending.row is not None and not connection.has_lost_answer(pending):
                # It stays so: an answer that comes all the same changes nothing about when it took effect.
                pending.row = pending.row._replace(seq=self._ledger.slot(), effect_us=self._ledger.time_ns // 1_000)
            self._exchange.unanswered(connection, pending)
        for kind in kinds:
            self._emit(connection, kind, closed_by, silent_ns, len(waiting))
        self.ended(connection)

    def by_timer(self, connection: Connection, closed_by: str | None = None, silent_ns: int = 0) -> None:
        """Write the end of a connection that the idle limit closed without a packet.

        `closed_by`: who sent the packet that came later. It is kept: with another limit it is the end.
        """
        for row in self.timer_rows(connection):
            self._ledger.emit(row)
        self._flush(connection)
        if closed_by is not None:
            self._emit(connection, "late_close", closed_by, silent_ns, len(connection.waiting))
        self._exchange.unanswered_at_arrival(connection)
        self.ended(connection)

    def _emit(self, connection: Connection, kind: str, closed_by: str, silent_ns: int, unanswered: int) -> None:
        of = connection, self._ledger.slot(), self._ledger.place
        self._ledger.emit(self._ledger.channel_row(*of, kind, closed_by, silent_ns // 1_000_000, unanswered))

    def timer_rows(self, connection: Connection) -> list[FrameRow]:
        """Return the idle and close rows at the end of a connection's silence."""
        place = Place(*connection.last_source, connection.idle_ns or 0)
        silent_ms, pending = self._idle.limit_ns // 1_000_000, len(connection.waiting)
        return [
            self._ledger.channel_row(connection, connection.idle_seq + step, place, kind, "timer", silent_ms, pending)
            for step, kind in enumerate(("idle", "close"))
        ]

    def reached_nobody(self, connection: Connection) -> None:
        """Take back what came on a connection that had ended before the capture."""
        self._flush(connection)
        self._exchange.withdraw(connection, 0)
        self.ended(connection)

    def ended(self, connection: Connection) -> None:
        """Note that a connection has ended: now, or before the capture."""
        if connection.is_silent:
            nothing = DecodeError(Reason.SILENT_CONNECTION, "opened and ended without a byte")
            self._exchange.refused(connection, Cut(0, b"", nothing), from_server=False)
        connection.closed_ns = self._ledger.time_ns
        self._idle.forget(connection)
        self.lingering[connection.client] = connection
        if len(self.lingering) > MAX_LINGERING:
            self._recording.calm_until_ns = -1

    def _flush(self, connection: Connection) -> None:
        """Decode what is behind holes, and refuse frames that never ended."""
        for half, from_server in ((connection.from_server, True), (connection.from_client, False)):
            for cut in [*half.cuts(half.stream.flush(self._ledger.time_ns)), *half.cutter.end()]:
                self._exchange.frame(connection, cut, from_server=from_server)
