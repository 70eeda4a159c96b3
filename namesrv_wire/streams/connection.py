"""One connection to a name server: both directions, what is unanswered, when it was last active, and its close by the idle limit.

Source: both generations `NettyRemotingServer` (`serverChannelMaxIdleTimeSeconds`, 120 s) and
`RemotingUtil.closeChannel`: Netty closes a channel that neither sent nor received for the limit.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Literal

from namesrv_wire.errors import MAX_WINDOW_BYTES
from namesrv_wire.lateness import STEP_BACK_NS
from namesrv_wire.packets.segments import ACK, FIN, RST, Segment
from namesrv_wire.rows import FrameRow, Values
from namesrv_wire.secrets import blot
from namesrv_wire.streams.cutting import MASK, Cut, FrameCutter, Piece, Stream

EARLY_NS: Final = 5_000_000
LATE_NS: Final = 250_000_000
"""A close between `EARLY_NS` before and `LATE_NS` after the end of the silence is the idle handler's.

Seen: 1 to 61 ms after.
"""
GIVE_UP_NS: Final = 600_000_000_000
"""A connection that is silent for this long after its idle close is done with."""

NEVER_NS: Final = 1 << 63
_BEHIND: Final = 1 << 16
"""More heartbeats or answers than one connection has in a microsecond."""

_FEW_STALE: Final = 1_000
"""So many timers of connections that are gone, beyond twice as many as are watched, wait to be forgotten."""

Verdict = Literal["idle", "timer", "other"]


class Idle:
    """Open connections of one name server; those whose silence has reached the limit are kept separately, as overdue."""

    __slots__ = ("_numbers", "_timers", "given_up", "inactive", "limit_ns", "open", "overdue", "unsigned")

    def __init__(self, idle_ms: int) -> None:
        self.limit_ns = idle_ms * 1_000_000
        self.open: dict[str, Connection] = {}
        self.overdue: dict[str, Connection] = {}
        self.given_up: list[Connection] = []
        """Of these, those that were silent for long."""
        self.inactive: dict[str, Connection] = {}
        """Of these, all that wait for the name server's next activity."""
        self.unsigned: dict[str, Connection] = {}
        """Likewise for any packet of its machine, which acknowledges while the process is frozen."""
        self._timers: list[tuple[int, str, int, Connection]] = []
        """A heap: when a connection is to be looked at, which is never later than its time runs out, and which it is."""
        self._numbers = count()

    @property
    def due_ns(self) -> int:
        """Return a time before which no silence reaches the limit, and no overdue connection is given up."""
        return self._timers[0][0] if self._timers else NEVER_NS

    def note_activity(self, connection: Connection, time_ns: int) -> None:
        """Note bytes on an open connection: its silence begins anew."""
        connection.last_byte_ns = time_ns
        if connection.idle_ns is not None:
            connection.idle_ns = connection.first_active_ns = connection.first_sign_ns = None
            self._leave(connection)
        if self.open.get(connection.client) is not connection:
            self.open[connection.client] = connection
            self._watch(connection)

    def restore(self, connection: Connection) -> None:
        """Put back a connection from an earlier capture, in the order given."""
        if connection.idle_ns is None:
            self.open[connection.client] = connection
            self._watch(connection)
        else:
            self._add_overdue(connection)

    def forget(self, connection: Connection) -> None:
        """Stop watching a connection."""
        if self.open.get(connection.client) is connection:
            del self.open[connection.client]
        self._leave(connection)

    def _leave(self, connection: Connection) -> None:
        for table in (self.overdue, self.inactive, self.unsigned):
            if table.get(connection.client) is connection:
                del table[connection.client]

    def _add_overdue(self, connection: Connection) -> None:
        self.overdue[connection.client] = connection
        if connection.first_active_ns is None:
            self.inactive[connection.client] = connection
        if connection.first_sign_ns is None:
            self.unsigned[connection.client] = connection
        self._watch(connection)

    def _runs_out_ns(self, connection: Connection) -> int | None:
        """Return when a connection's silence reaches the limit, or it is given up; None: it is not watched any more.

        What a client has sent does not count where the name server's side never acknowledged it.
        """
        table = self.open if connection.idle_ns is None else self.overdue
        if table.get(connection.client) is not connection:
            return None
        if connection.idle_ns is None:
            return (connection.taken_ns or connection.last_byte_ns) + self.limit_ns
        return connection.idle_ns + GIVE_UP_NS

    def _watch(self, connection: Connection) -> None:
        """Have a connection looked at when its time runs out. Until then that may become later, never earlier."""
        connection.timer_ns = self._runs_out_ns(connection)
        if connection.timer_ns is not None:
            heappush(self._timers, (connection.timer_ns, connection.channel_id, next(self._numbers), connection))
        if len(self._timers) > 2 * (len(self.open) + len(self.overdue)) + _FEW_STALE:
            self._timers = [each for each in self._timers if each[3].timer_ns == each[0] and self._runs_out_ns(each[3])]
            heapify(self._timers)

    def passed(self, time_ns: int) -> list[Connection]:
        """Return the connections whose silence reached the limit before `time_ns`, in that order: they are overdue from now on.

        Overdue ones that were silent for long are in `given_up` then, in the order in which their silence ended.
        """
        passed: list[Connection] = []
        while self.due_ns < time_ns:
            at_ns, *_, connection = heappop(self._timers)
            if at_ns != connection.timer_ns:
                continue
            runs_out_ns = self._runs_out_ns(connection)
            if runs_out_ns is None or runs_out_ns > at_ns:
                self._watch(connection)
            elif connection.idle_ns is None:
                connection.idle_ns, connection.first_active_ns, connection.first_sign_ns = runs_out_ns, None, None
                del self.open[connection.client]
                self._add_overdue(connection)
                passed.append(connection)
            else:
                connection.timer_ns = None
                self.given_up.append(connection)
        return passed

    def sign(self, time_ns: int) -> None:
        """Note a packet of the name server's machine, whatever its process does: nothing keeps packets back that it sends."""
        for connection in self.unsigned.values():
            connection.first_sign_ns = time_ns
        self.unsigned.clear()

    def active(self, time_ns: int) -> list[Connection]:
        """Note that the name server did something: it was not frozen at that time.

        Return the connections that are closed only now since it stood still when their silence reached the limit: its machine
        went on, and the process did not.
        """
        thawed = []
        for connection in self.inactive.values():
            connection.first_active_ns = time_ns
            if connection.first_sign_ns is not None and time_ns - connection.first_sign_ns > LATE_NS:
                connection.idle_ns = time_ns
                thawed.append(connection)
        self.inactive.clear()
        return thawed

    def is_outlasted(self, connection: Connection, time_ns: int) -> bool:
        """Return whether a connection with bytes of the server at `time_ns` should have been closed before.

        A server that was frozen closes only after it has thawed.
        """
        if connection.idle_ns is None:
            return False
        return time_ns - max(connection.idle_ns, connection.first_active_ns or time_ns) > LATE_NS

    def verdict(self, connection: Connection, time_ns: int, silent_ns: int) -> Verdict:
        """Return what a closing packet at `time_ns` on this connection means.

        'idle': the idle handler closes now, maybe late because the process was frozen; 'timer': it closed
        long ago and its packet was lost; 'other': it is no idle close. Note before that the name server is `active`.
        """
        if connection.idle_ns is None:
            return "idle" if silent_ns >= self.limit_ns - EARLY_NS else "other"
        sign_ns, is_active = connection.first_sign_ns, connection.first_active_ns is not None
        is_frozen = not is_active and sign_ns is not None and time_ns - sign_ns > LATE_NS
        since = time_ns if is_frozen else connection.idle_ns
        if connection.client_fin_ns is not None:
            since = max(since, connection.client_fin_ns)
        if time_ns - since > LATE_NS:
            return "timer"
        return "other" if connection.client_fin_ns is not None else "idle"


class Half:
    """One direction: bytes in order, cut into frames."""

    __slots__ = ("cutter", "stream")

    def __init__(self, *, synced: bool) -> None:
        self.stream = Stream()
        self.cutter = FrameCutter(synced=synced)

    def cuts(self, pieces: Iterable[Piece]) -> list[Cut]:
        """Return the frames that end in these pieces, and the pieces that holes broke."""
        cuts: list[Cut] = []
        is_late = False
        for piece in pieces:
            if isinstance(piece, bytes):
                found = self.cutter.feed(piece)
                cuts += (cut._replace(is_late=True) for cut in found) if is_late else found
            else:
                is_late |= piece.has_late
                cuts += self.cutter.cut_off(piece.size) if piece.is_cut else self.cutter.gap(piece.size)
        return cuts

    def dump(self) -> list[dict[str, Any]]:
        """Return the state as JSON values; secrets in unfinished frames are blotted out."""
        stream = {name: getattr(self.stream, name) for name in Stream.__slots__}
        cutter = {name: getattr(self.cutter, name) for name in FrameCutter.__slots__}
        stream["chunks"] = [[at, _text(blot(data)), lost] for at, data, lost in self.stream.chunks]
        cutter["buffer"] = _text(blot(bytes(self.cutter.buffer)))
        return [stream, cutter]

    @classmethod
    def load(cls, state: list[dict[str, Any]]) -> Half:
        """Return the half that `dump` described."""
        half = cls(synced=False)
        for name in Stream.__slots__:
            setattr(half.stream, name, state[0][name])
        for name in FrameCutter.__slots__:
            setattr(half.cutter, name, state[1][name])
        half.stream.chunks = [(at, b64decode(data), lost) for at, data, lost in state[0]["chunks"]]
        half.cutter.buffer = bytearray(b64decode(state[1]["buffer"]))
        return half


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


@dataclass(slots=True, eq=False)
class Pending:
    """A request that has no answer yet: an event's row, a question, or (neither) one that is only counted."""

    code: int
    seq: int
    time_ns: int
    row: FrameRow | None
    """The event without an answer: it took effect when it arrived."""
    question: Values | None
    """What an observed question adds to the row of its answer."""


_LEFT_OUT: Final = frozenset({"channel_id", "handshake", "elsewhere", "timer_ns"})
"""What a dump leaves out."""
_ENDED: Final[Values] = {
    **dict.fromkeys(("client_fin_ns", "first_active_ns", "first_sign_ns", "idle_ns")),
    **dict.fromkeys(("idle_seq", "last_byte_ns", "taken_ns"), 0),
    "last_source": ["", 0],
}
"""What a dump says of a connection that has ended, of which this does not matter any more."""


@dataclass(slots=True, eq=False)
class Connection:
    """A connection that the name server accepted, or that was open when the capture began.

    `syn_seq`: the client's initial sequence number; None if the connection was open before the capture.
    """

    client: str
    opened_ns: int
    syn_seq: int | None
    last_source: tuple[str, int]
    channel_id: str = field(init=False)
    from_client: Half = field(init=False)
    from_server: Half = field(init=False)
    last_byte_ns: int = field(init=False)
    acks: list[int | None] = field(default_factory=lambda: [None, None])
    """Last acknowledgement of the client's and of the server's bytes."""
    pending: dict[int, Pending] = field(default_factory=dict)
    early: dict[int, tuple[int, int, Values]] = field(default_factory=dict)
    """Answers to what waits behind a hole of the capture, by opaque: position, time in microseconds, what was answered."""
    reverse: dict[int, int] = field(default_factory=dict)
    """Codes of the name server's own requests, by opaque."""
    beats: bool = False
    """A broker has registered or beaten on it."""
    lease_ms: int | None = None
    """How long a broker that has registered on it may be silent; None: none has."""
    broker_addr: str | None = None
    """The first broker that has registered on it, since it last was where it may have ended unseen."""
    times: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of its last heartbeat, by code, the microsecond, and how many there were in that before."""
    taken_ns: int = 0
    """When a byte came for the last time before those of the client that are not acknowledged; 0: all are."""
    lost_ns: int = 0
    """When a hole in what the name server sent was given up last, until an answer to something later comes; 0: there is none."""
    client_fin_ns: int | None = None
    closed_ns: int | None = None
    idle_ns: int | None = None
    """Set once the connection was silent for the idle limit: the end of that silence."""
    idle_seq: int = 0
    timer_ns: int | None = None
    """When it is to be looked at next (`closing.Idle`)."""
    first_active_ns: int | None = None
    """First activity of the name server after `idle_ns`."""
    first_sign_ns: int | None = None
    """First packet of its machine after that, be it an acknowledgement only."""
    handshake: tuple[int, int] | None = None
    """Initial sequence numbers of client and server."""
    is_cut: bool = False
    """A frame of it was cut by the capture's snapshot length."""
    asked_cut: bool = False
    """One of these was a question that only a name server answers."""
    others: list[tuple[str, str]] = field(default_factory=list)
    """Client and server as seen on the other side of an address translation."""
    side: int | None = None
    """The name server's interface, if packets are seen on several."""
    client_seen: set[int] = field(default_factory=set)
    """Interfaces on which the client's segments were seen."""
    elsewhere: list[Segment] = field(default_factory=list)
    """The client's segments that were seen on another interface than the name server's, until it acknowledges them."""
    unasked: tuple[int, int, int] | None = None
    """Of the last SYN/ACK that came though this is open and nobody had asked: both initial numbers, and the interface."""

    def __post_init__(self) -> None:
        self.channel_id, self.last_byte_ns = f"{self.client}#{self.opened_ns}", self.opened_ns
        synced = self.syn_seq is not None
        self.from_client, self.from_server = Half(synced=synced), Half(synced=synced)

    def half(self, *, from_server: bool) -> Half:
        """Return one direction."""
        return self.from_server if from_server else self.from_client

    def takes(self, segment: Segment, *, from_server: bool) -> bool:
        """Return whether the other side takes a segment with its numbers (`Stream.takes`)."""
        fin, rst, size = bool(segment.flags & FIN), bool(segment.flags & RST), len(segment.payload) + segment.lost
        stream = self.half(from_server=from_server).stream
        return stream.takes(segment.seq, size, self.acks[from_server], fin=fin, rst=rst)

    def is_nobodys(self, segment: Segment) -> bool:
        """Return whether a segment of the server is a RST of its kernel, which knows of no such connection.

        Such a one has no acknowledgement, and the number that the client's last segment asks for: what that brought reached
        nobody. Of a connection whose beginning was not seen this holds where the server has not sent anything else.

        Source: RFC 9293, 3.10.7.1.
        """
        is_unheard = self.syn_seq is None and self.acks[0] is None and not self.from_server.stream.position
        return is_unheard and segment.flags & (RST | ACK) == RST and segment.seq == self.acks[1]

    def went_on_unseen(self, segment: Segment, *, from_server: bool) -> bool:
        """Return whether a segment comes behind bytes of both sides of which none was seen (a FIN counts as one)."""
        mine, other = self.half(from_server=from_server).stream, self.half(from_server=not from_server).stream
        if not segment.flags & ACK or mine.chunks or other.chunks:
            return False
        return mine.ahead(segment.seq) > 1 and 1 < other.ahead(segment.ack) <= MAX_WINDOW_BYTES

    def has_lost_fin(self, ack: int) -> bool:
        """Return whether the client acknowledges an end of the name server's that was not seen: no answer has a single byte."""
        stream = self.from_server.stream
        return self.closed_ns is None and not stream.chunks and stream.ahead(ack) == 1

    def note_ack(self, ack: int, *, from_server: bool) -> None:
        """Note an acknowledgement: of the client's bytes the name server's side has got those before it."""
        self.acks[not from_server] = ack
        if from_server and self.taken_ns and self.from_client.stream.ahead(ack) >= 0:
            self.taken_ns = 0

    def missed(self, ack: int) -> list[Segment]:
        """Return the client's segments that the name server has got, up to `ack`, and that were seen elsewhere alone."""
        stream, got, left = self.from_client.stream, [], []
        had_fin = self.client_fin_ns is not None or self.closed_ns is not None
        for segment in self.elsewhere:
            end = segment.seq + len(segment.payload) + segment.lost + bool(segment.flags & FIN)
            if stream.ahead(end) > stream.ahead(ack):
                left.append(segment)
            elif stream.ahead(end) > had_fin:
                got.append(segment)
        self.elsewhere = left
        return got

    def is_over_with(self, segment: Segment, *, from_server: bool) -> bool:
        """Return whether a segment says that the SYN/ACK nobody had asked for was none that anybody can send.

        Both sides go on with its numbers then: its client answers it, or something comes that this connection would not take.
        """
        assert self.unasked is not None
        begins = [(initial + 1) & MASK for initial in self.unasked[:2]]
        own, other = reversed(begins) if from_server else begins
        ahead, acked = (segment.seq - own) & MASK, (segment.ack - other) & MASK
        if not segment.flags & ACK or max(ahead, acked) > MAX_WINDOW_BYTES:
            return False
        is_answer = not (from_server or ahead or acked)
        return is_answer or not self.takes(segment, from_server=from_server)

    @property
    def proxied(self) -> str | None:
        """The client's ip:port that a PROXY preamble named."""
        return self.from_client.cutter.proxied

    @property
    def is_silent(self) -> bool:
        """Whether neither side has sent a byte since it was opened."""
        return self.syn_seq is not None and not (self.from_client.stream.position or self.from_server.stream.position)

    def give_up(self) -> None:
        """Read no more of it: what is spoken is no remoting protocol."""
        self.from_client.cutter.give_up()
        self.from_server.cutter.give_up()

    @property
    def waiting(self) -> list[Pending]:
        """The requests without an answer."""
        return [*self.pending.values()]

    def wait_for(self, is_wanted: Callable[[Pending], bool]) -> list[Pending]:
        """Wait for the answers to such requests alone; return the others."""
        others = [pending for pending in self.waiting if not is_wanted(pending)]
        if others:
            self.pending = {opaque: pending for opaque, pending in self.pending.items() if is_wanted(pending)}
        return others

    def has_lost_answer(self, pending: Pending) -> bool:
        """Return whether the answer to a request may be among bytes of the name server that were not seen."""
        acked = self.acks[1]
        return pending.time_ns <= self.lost_ns or (acked is not None and self.from_server.stream.ahead(acked) > 1)

    def nth_at(self, code: int, at_us: int) -> int:
        """Note a heartbeat, or an answer; return how many with its code came before it in the same microsecond.

        Behind a step back of the clock the same microseconds come again: numbers then go on from `_BEHIND`.
        """
        latest_us, nth = self.times.get(code, (-1, 0))
        again = nth + 1 if at_us == latest_us else max(nth + 1, _BEHIND)
        nth = 0 if at_us > latest_us else again
        self.times[code] = max(at_us, latest_us), nth
        return nth

    def dump(self, time_ns: int) -> dict[str, Any]:
        """Return the state as JSON values, as far as it matters after `time_ns`."""
        state: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if name not in _LEFT_OUT}
        if self.closed_ns is not None:
            state |= _ENDED
        state["from_client"], state["from_server"] = self.from_client.dump(), self.from_server.dump()
        state["pending"] = [(at, p.code, p.seq, p.time_ns, p.row, p.question) for at, p in self.pending.items()]
        state["early"] = [[opaque, *answered] for opaque, answered in self.early.items()]
        state["reverse"] = list(self.reverse.items())
        # None of an earlier microsecond can come again, however the clock steps back.
        since_us = (time_ns - STEP_BACK_NS) // 1_000
        state["times"] = [[code, *last] for code, last in self.times.items() if last[0] >= since_us]
        state["client_seen"] = sorted(self.client_seen)
        return state

    @classmethod
    def load(cls, state: dict[str, Any]) -> Connection:
        """Return the connection that `dump` described."""
        connection = cls(state["client"], state["opened_ns"], state["syn_seq"], ("", 0))
        for name in cls.__slots__:
            if name not in _LEFT_OUT:
                setattr(connection, name, state[name])
        connection.last_source = tuple(state["last_source"])
        connection.unasked = None if state["unasked"] is None else tuple(state["unasked"])
        connection.client_seen = set(state["client_seen"])
        connection.from_client, connection.from_server = map(Half.load, (state["from_client"], state["from_server"]))
        connection.pending = {
            opaque: Pending(code, seq, time_ns, row and FrameRow(*row), question)
            for opaque, code, seq, time_ns, row, question in state["pending"]
        }
        connection.early = {opaque: (seq, at_us, answered) for opaque, seq, at_us, answered in state["early"]}
        connection.reverse = dict(state["reverse"])
        connection.others = [(client, server) for client, server in state["others"]]
        connection.times = {code: (us, nth) for code, us, nth in state["times"]}
        return connection
