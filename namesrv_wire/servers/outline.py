"""A capture looked through for where its connections are, at a fraction of what reading it costs.

Packets that only carry a known connection on are passed over: of most it is enough to know how far they take it. Where the next
stretch begins a few thousand are read. What this knows there is a guess, to be compared with what reading ends with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from namesrv_wire.packets.capture import ACK, FIN, RST, SYN, Segment
from namesrv_wire.packets.columns import Headers, Ints, Packets, Truths
from namesrv_wire.servers.flows import Flow
from namesrv_wire.servers.server import Server
from namesrv_wire.servers.transcript import DEFAULT_IDLE_MS, Transcript
from namesrv_wire.streams.connection import Connection, Half
from namesrv_wire.streams.cutting import plausible_start

READ_BEFORE_END: Final = 2_000
"""Packets that are read before a stretch begins: what is half done there began in these."""
_READ_OF_EACH: Final = 8
"""Packets of a connection that are read from its beginning: who speaks, in which version, whether it is a broker."""
_BEHIND_BEGINNING: Final = 12
_NEAR_END: Final = 4
"""Packets of a connection that are read behind one that opens it, and before and behind one that ends it."""
_OF_LIMIT: Final = 0.65
"""In each time as long as this share of an idle limit the first bytes of a connection count ..."""
_PAUSE: Final = 0.3
"""... and those before and behind a pause as long as this share. Both together are less than the limit: what goes on does not
seem silent."""
_IN_HOLE: Final = 12
"""Packets of a way with bytes that are read behind one in front of which some are missing: what is missing comes in between."""
_HALF: Final = 1 << 31
_WAY: Final = 1 << 33
_OPENS_OR_ENDS: Final = SYN | FIN | RST
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


class _Kept(NamedTuple):
    """Which packets are looked at. Of each: whether it is read, or if not whether the one before it on its way was left out."""

    indices: Ints
    is_read: list[bool]
    is_jump: list[bool]


class Outline(Transcript):
    """A transcript that makes no rows, but knows afterwards where everything is, nearly always."""

    def __init__(self, idle_ms: Mapping[str, int] | int, namesrv: Collection[str], carry: Mapping[str, str]) -> None:
        super().__init__(idle_ms, namesrv, carry)
        self._read: dict[Connection, int] = dict.fromkeys(self._flows.connections(), _READ_OF_EACH)
        self._moved: dict[Half, bool] = {}
        """What was passed over: whether what comes then was looked at. It ends where a frame ends, unless there is more to tell."""
        limits = [idle_ms] if isinstance(idle_ms, int) else [*idle_ms.values(), DEFAULT_IDLE_MS]
        self._bucket_ns, self._pause_ns = (
            max(1, int(share * min(limits) * 1_000_000)) for share in (_OF_LIMIT, _PAUSE)
        )

    def look_through(self, headers: Headers, source_file: str, *, is_end: bool) -> None:
        """Take in packets; `is_end`: behind them a stretch begins."""
        size = len(headers.time_ns)
        read_from = max(0, size - READ_BEFORE_END) if is_end else size
        kept = self._kept(headers, read_from)
        packets, flows, pair = headers.packets(kept.indices), self._flows.by_ends, self._endpoints.pair
        columns = (packets.keys, packets.flags, kept.is_read, kept.is_jump)
        for at, (key, flags, is_read, is_jump) in enumerate(zip(*columns, strict=True)):
            flow = flows.get(pair(key)) if key else None
            if flow is not None and flow[2] is not None and flow[0].confirmed and not flags & _OPENS_OR_ENDS:
                if not is_read:
                    self._pass(flow, packets, at, source_file, is_jump=is_jump)
                    continue
                if (flow[1].from_server if flow[2] else flow[1].from_client) not in self._moved:
                    self._read_on(flow, packets, at, source_file)
                    continue
            segment = packets.segment(at, self._endpoints)
            if segment is not None:
                self._look_at(segment, source_file)
        for server in self._servers.values():
            server.ledger.take()
        if is_end:
            for cutter in (half.cutter for half in self._moved):
                if not (cutter.buffer or cutter.is_stranger):
                    cutter.synced, cutter.need = True, 4
            self._moved.clear()

    def _look_at(self, segment: Segment, source_file: str) -> None:
        """Read a segment as any transcript does."""
        flow = self._flows.by_ends.get((segment.src, segment.dst))
        if flow is not None and flow[2] is not None and segment.payload:
            half = flow[1].from_server if flow[2] else flow[1].from_client
            if self._moved.get(half) is False and not half.stream.ahead(segment.seq):
                half.cutter.synced = bool(plausible_start(segment.payload))
                self._moved[half] = True
            self._read[flow[1]] = self._read.get(flow[1], 0) + 1
        self.feed(segment, source_file)

    def _read_on(self, flow: Flow, packets: Packets, at: int, source_file: str) -> None:
        """Read a packet of a connection of which nothing was passed over since it was read."""
        (server, connection, from_server), size = flow, packets.stop[at] - packets.start[at]
        self._read[connection] = self._read.get(connection, 0) + (size > 0)
        place = packets.time_ns[at], (source_file, packets.number(at))
        header, payload = (
            (packets.seq[at], packets.ack[at], packets.flags[at]),
            packets.data[packets.start[at] : packets.stop[at]],
        )
        if not server.go_on((connection, bool(from_server)), place, header, payload):
            segment = packets.segment(at, self._endpoints)
            assert segment is not None, "it is of a connection"
            self._take(server, connection, segment, from_server=bool(from_server))

    def _pass(self, flow: Flow, packets: Packets, at: int, source_file: str, *, is_jump: bool) -> None:
        """Note that a connection has gone on by a packet, without reading it."""
        server, connection, from_server = flow[0], flow[1], bool(flow[2])
        time_ns, seq, size = packets.time_ns[at], packets.seq[at], packets.stop[at] - packets.start[at]
        if not server.begin(time_ns, (source_file, packets.number(at))):
            return
        if packets.flags[at] & ACK:
            connection.note_ack(packets.ack[at], from_server=from_server)
        if not size:
            return
        half = connection.from_server if from_server else connection.from_client
        stream, cutter = half.stream, half.cutter
        before = stream.position
        if not is_jump or stream.next_seq is None:
            stream.push(seq, b"", size, time_ns)
            stream.overdue(time_ns, connection.acks[from_server])
        elif (ahead := stream.ahead(seq) + size) > 0:
            stream.chunks, stream.hole_since_ns = [], None
            stream.next_seq = (seq + size) & 0xFFFFFFFF
            stream.position += ahead
        if stream.position > before:
            cutter.position, cutter.need, cutter.skip = stream.position, 4, 0
            cutter.buffer.clear()
            self._moved[half] = False
            connection.pending.clear()
            connection.orphans.clear()
            server.heard(connection, from_server=from_server)

    def _leave(self, server: Server, connection: Connection) -> None:
        super()._leave(server, connection)
        self._read.pop(connection, None)

    def _kept(self, headers: Headers, read_from: int) -> _Kept:
        """Return which packets are looked at."""
        size = len(headers.time_ns)
        both = _ends(headers)
        has_bytes = headers.is_plain & (headers.stop > headers.start)
        is_kept = ~headers.is_plain | (headers.flags & _OPENS_OR_ENDS > 0)
        is_kept[read_from:] = True
        way, connection = _numbered(both[:, 0] * _MIX ^ both[:, 1]), _numbered(both[:, 0] ^ both[:, 1])
        # Packets near the beginning and the end of a connection, and all of one that may be no name server's.
        is_first, unknown = headers.flags & SYN > 0, np.zeros(int(connection.max(initial=0)) + 1, bool)
        is_last = is_kept & (np.arange(size) < read_from) & ~is_first
        firsts = np.unique(way, return_index=True)[1]
        for at in firsts[headers.is_plain[firsts]].tolist():
            ends = self._endpoints.pair(headers.data[headers.key[at] : headers.key_end[at]])
            flow = self._flows.by_ends.get(ends)
            servers = [flow[0]] if flow is not None else [*filter(None, map(self._servers.get, ends))]
            if not any(server.confirmed for server in servers):
                unknown[connection[at]] = True
            elif flow is None or self._read.get(flow[1], 0) < _READ_OF_EACH:
                is_first[at] = True
        is_read = unknown[connection] | _are_near(connection, is_first, 0, _BEHIND_BEGINNING)
        is_read |= _are_near(connection, is_last, _NEAR_END, _NEAR_END)
        is_read[read_from:] = True
        is_kept |= is_read
        # Before what is read, how far it has come must be known.
        order = np.argsort(way, kind="stable")
        is_kept[order[_edges(way[order], is_read[order])[1]]] = True
        with_bytes = order[has_bytes[order]]
        first, last = _edges(way[with_bytes], is_read[with_bytes])
        is_kept[with_bytes[first | last | self._in_holes(headers, way, with_bytes)]] = True
        is_kept[self._that_count(connection, headers.time_ns, has_bytes)] = True
        is_jump = np.zeros(size, bool)
        is_jump[with_bytes[1:]] = ~is_kept[with_bytes[:-1]] & (way[with_bytes[1:]] == way[with_bytes[:-1]])
        indices = np.flatnonzero(is_kept)
        return _Kept(indices, is_read[indices].tolist(), is_jump[indices].tolist())

    def _that_count(self, connection: Ints, time_ns: Ints, has_bytes: Truths) -> Ints:
        """Return some packets with bytes, one way or the other, that show for how long connections were silent."""
        order = np.argsort(connection, kind="stable")
        with_bytes = order[has_bytes[order]]
        of, when = connection[with_bytes], time_ns[with_bytes]
        pauses = np.cumsum(np.diff(when, prepend=when[:1]) > self._pause_ns)
        first, last = _edges(of, pauses)
        return with_bytes[first | last | _edges(of, when // self._bucket_ns)[0]]

    def _in_holes(self, headers: Headers, way: Ints, with_bytes: Ints) -> Truths:
        """Return which packets with bytes, in order of their ways, are read one by one: near holes, and before old bytes.

        Where a way is in order it is enough to know where it ends.
        """
        of, seq = way[with_bytes], headers.seq[with_bytes]
        begins, _ = _edges(of, of)
        first = np.flatnonzero(begins)
        is_open = np.zeros(len(of), bool)
        for at in first.tolist():
            index = with_bytes[at]
            flow = self._flows.by_ends.get(
                self._endpoints.pair(headers.data[headers.key[index] : headers.key_end[index]])
            )
            if flow is not None and flow[2] is not None:
                is_open[at] = bool((flow[1].from_server if flow[2] else flow[1].from_client).stream.chunks)
        place = np.cumsum(begins) - 1
        ahead = (seq - seq[first][place] + _HALF & 0xFFFFFFFF) - _HALF
        reached = (
            np.maximum.accumulate(ahead + headers.stop[with_bytes] - headers.start[with_bytes] + place * _WAY)
            - place * _WAY
        )
        before = np.where(begins, ahead, np.r_[np.int64(0), reached[:-1]])
        return _are_near(of, (ahead > before) | is_open, 1, _IN_HOLE) | _are_near(of, ahead < before, 1, 0)


def _ends(headers: Headers) -> NDArray[np.uint64]:
    """Return source and target of each packet as numbers that tell them apart, but for chance."""
    data, at = headers.data + bytes(40), headers.key
    half = np.where(headers.is_plain, (headers.key_end - headers.key - 4) // 2, 4)

    def word(where: Ints, kind: str) -> NDArray[np.uint64]:
        found: NDArray[np.uint64] = np.ndarray(len(headers.data), kind, data, strides=(1,))[where].astype(np.uint64)
        return found

    ports = at + 2 * half
    with np.errstate(over="ignore"):
        ends = []
        for side in (0, 1):
            first = at + side * half
            address = word(first, ">u4")
            if (half > 4).any():
                rest = word(first, ">u8") * _MIX ^ word(first + 8, ">u8")
                address = np.where(half > 4, rest * _MIX, address)
            ends.append((address << np.uint64(16) | word(ports + 2 * side, ">u2")) * _MIX)
        found: NDArray[np.uint64] = np.stack(ends, axis=1)
        return found


def _numbered(values: NDArray[np.uint64]) -> Ints:
    found: Ints = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return found


def _are_near(connection: Ints, is_near: Truths, before: int, behind: int) -> Truths:
    """Return which packets are one of these, or so few packets of their connection before or behind one."""
    order = np.argsort(connection, kind="stable")
    of, marked, place = connection[order], np.flatnonzero(is_near[order]), np.arange(len(order))
    found = np.zeros(len(order), bool)
    if len(marked):
        later = np.searchsorted(marked, place)
        following, last = marked[np.minimum(later, len(marked) - 1)], marked[np.maximum(later - 1, 0)]
        is_before = (following >= place) & (following - place <= before) & (of[following] == of)
        is_behind = (last <= place) & (place - last <= behind) & (of[last] == of)
        found[order] = is_before | is_behind
    return found


def _edges(way: Ints, of_it: Ints | Truths) -> tuple[Truths, Truths]:
    """Return which of packets in order of their ways are the first, and the last, of their way while `of_it` does not change."""
    changes = (way[1:] != way[:-1]) | (of_it[1:] != of_it[:-1])
    return np.r_[np.ones(min(1, len(way)), bool), changes], np.r_[changes, np.ones(min(1, len(way)), bool)]
