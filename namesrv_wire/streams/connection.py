"""One connection to a name server: both directions, what is unanswered, and when it was last heard."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from namesrv_wire.limits import MAX_WINDOW_BYTES
from namesrv_wire.packets.capture import ACK, FIN, RST, Segment
from namesrv_wire.rows import FrameRow, Values
from namesrv_wire.secrets import blot
from namesrv_wire.streams.cutting import Cut, FrameCutter
from namesrv_wire.streams.tcp import MASK, Piece, Stream


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
    """The event as it stands without an answer: it took effect when it arrived."""
    question: Values | None
    """What an observed question adds to the row of its answer."""


_NOT_AS_IT_IS: Final = frozenset(
    {
        *("client", "opened_ns", "channel_id", "syn_seq", "last_source", "handshake", "client_seen"),
        *("from_client", "from_server", "pending", "early", "reverse", "times", "unasked", "others"),
        *("elsewhere", "timer_ns"),
    }
)
"""What a dump leaves out, or writes in its own way."""
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
    """When a hole in what the name server said was given up last, until an answer to something later comes; 0: there is none."""
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
        nobody. Of a connection whose beginning was not seen this is told where the server has not said anything else.

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
        """Whether nobody has said a word since it was opened."""
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
        """Note a heartbeat, or an answer; return how many with its code came before it in the same microsecond."""
        last_us, nth = self.times.get(code, (None, 0))
        nth = nth + 1 if last_us == at_us else 0
        self.times[code] = at_us, nth
        return nth

    def dump(self, time_ns: int) -> dict[str, Any]:
        """Return the state as JSON values, as far as it matters after `time_ns`."""
        own = ("client", "opened_ns", "syn_seq", "last_source", "unasked", "others")
        as_it_is = (name for name in self.__slots__ if name in own or name not in _NOT_AS_IT_IS)
        state: dict[str, Any] = {name: getattr(self, name) for name in as_it_is}
        if self.closed_ns is not None:
            state |= _ENDED
        state["from_client"], state["from_server"] = self.from_client.dump(), self.from_server.dump()
        state["pending"] = [(at, p.code, p.seq, p.time_ns, p.row, p.question) for at, p in self.pending.items()]
        state["early"] = [[opaque, *answered] for opaque, answered in self.early.items()]
        state["reverse"] = list(self.reverse.items())
        # None of an earlier microsecond can come again.
        state["times"] = [[code, *last] for code, last in self.times.items() if last[0] >= time_ns // 1_000]
        state["client_seen"] = sorted(self.client_seen)
        return state

    @classmethod
    def load(cls, state: dict[str, Any]) -> Connection:
        """Return the connection that `dump` described."""
        connection = cls(state["client"], state["opened_ns"], state["syn_seq"], tuple(state["last_source"]))
        for name in cls.__slots__:
            if name not in _NOT_AS_IT_IS:
                setattr(connection, name, state[name])
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
