"""Packets of a capture as columns: TCP headers, addresses and payloads of many at once, out of whatever they lie in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np

from namesrv_wire.errors import CaptureError
from namesrv_wire.limits import MAX_LEFT_OUT
from namesrv_wire.packets.capture import INCOMING, OUTGOING, Fragments, Segment, ends_of
from namesrv_wire.packets.container import Ints, Records, Truths, read_records
from namesrv_wire.packets.links import DEFAULT_VXLAN_PORTS, LINUX_SLL, LINUX_SLL2, Kind, LeftOut, Peeled

_OTHERS: Final = f"more than {MAX_LEFT_OUT:,} other kinds and ports"
_SLL_OUTGOING: Final = 4
"""What the first cooked format says of a packet that this host sent."""
DISORDER_NS: Final = 100_000_000


@dataclass(slots=True)
class Packets:
    """Packets of a capture that follow each other, the first of them number `first` of its file.

    Columns, an item a packet: `keys`, the bytes of both addresses and both ports; numbers of the TCP header; where in `data` the
    payload begins and ends. A packet whose key is empty holds no TCP segment.
    """

    first: int
    data: bytes
    keys: list[bytes]
    time_ns: list[int]
    seq: list[int]
    ack: list[int]
    flags: list[int]
    start: list[int]
    stop: list[int]
    lost: dict[int, int] = field(default_factory=dict)
    """Bytes of payloads that were not kept, of packets of which not all was."""
    interface: list[int] | None = None
    """Where each was seen, if the capture tells: then packets may be there more than once."""

    numbers: list[int] | None = None
    """Their numbers, if some between them were left out."""

    def number(self, index: int) -> int:
        """Return which packet of its file one is, from 1."""
        return self.first + index if self.numbers is None else self.numbers[index]

    def only(self, wanted: Sequence[int]) -> Packets:
        """Return those at these indices, in their order; each keeps its number."""
        columns = (self.time_ns, self.seq, self.ack, self.flags, self.start, self.stop)
        time_ns, seq, ack, flags, start, stop = ([column[at] for at in wanted] for column in columns)
        lost = {at: self.lost[index] for at, index in enumerate(wanted) if index in self.lost}
        keys = [self.keys[at] for at in wanted]
        interface = None if self.interface is None else [self.interface[at] for at in wanted]
        numbers = [self.number(at) for at in wanted]
        return Packets(self.first, self.data, keys, time_ns, seq, ack, flags, start, stop, lost, interface, numbers)

    def segment(self, index: int) -> Segment | None:
        """Return the TCP segment of a packet; None if it has none."""
        key, number = self.keys[index], self.number(index)
        if not key:
            return None
        payload = self.data[self.start[index] : self.stop[index]]
        header = (self.seq[index], self.ack[index], self.flags[index])
        interface = self.interface[index] if self.interface else 0
        lost = self.lost.get(index, 0)
        return Segment(number, self.time_ns[index], *ends_of(key), *header, payload, lost, interface)

    def segments(self) -> Iterator[Segment]:
        """Yield their TCP segments."""
        for index in range(len(self.keys)):
            segment = self.segment(index)
            if segment is not None:
                yield segment


@dataclass(slots=True)
class CaptureStats:
    """What a reader met: packets, of which segments, and what the others were that were left out."""

    packets: int = 0
    segments: int = 0
    read_bytes: int = 0
    """Of the file, as it lies on disk."""
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    kept_bytes: int = 0
    longest_bytes: int = 0
    """Of packets of which not all was kept: how much of one was at most, and how long the longest was, by their own headers.
    Not everybody who cuts packets says so in the file's."""

    def note_cut(self, kept: Ints, missing: Ints) -> None:
        """Note how many bytes of packets were kept, and how many were not."""
        is_cut = missing > 0
        self.kept_bytes = max(self.kept_bytes, int(kept[is_cut].max(initial=0)))
        self.longest_bytes = max(self.longest_bytes, int((kept + missing)[is_cut].max(initial=0)))

    def add(self, records: Records, segments: int, left_out: Mapping[LeftOut, int]) -> None:
        """Add some packets."""
        self.read_bytes = records.read_bytes
        self.packets += len(records.start)
        self.segments += segments
        self.left_out.update(left_out)
        if len(self.left_out) > MAX_LEFT_OUT:  # keep the most frequent by name and port, of the rest how many there are
            known = Counter(dict(self.left_out.most_common(MAX_LEFT_OUT // 2)))
            for one, count in (self.left_out - known).items():
                known[LeftOut(_OTHERS, 0, one.may_hide)] += count
            self.left_out = known
        times = records.time_ns[records.is_timed]
        if len(times):
            self.first_time_ns = int(times[0]) if self.first_time_ns is None else self.first_time_ns
            self.last_time_ns = int(times[-1])


def read_columns(
    path: Path, stats: CaptureStats | None = None, vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS
) -> Iterator[Packets]:
    """Yield the packets of a capture in order, many at a time; memory does not grow with the file.

    Each has its number in the file; what lies out of order by a little is put into that of its times.

    pcap and pcapng, compressed or not; link types and tunnels are those of `links`. `stats` counts. Raises
    `CaptureError` at once for a foreign file, and after the last packet that can be read for one that ends early.
    """
    yield from _in_order(_as_they_lie(path, CaptureStats() if stats is None else stats, vxlan_ports))


def _as_they_lie(path: Path, stats: CaptureStats, vxlan_ports: Collection[int]) -> Iterator[Packets]:
    fragments, waited = Fragments(), LeftOut("IP fragments", 0)
    try:
        for records in read_records(path):
            peeled = Peeled(records, fragments, vxlan_ports)
            is_tcp = peeled.peel()
            stats.note_cut(records.kept, np.where(is_tcp, peeled.stop - peeled.end, 0))
            packets = _packets(records, peeled, is_tcp)
            stats.add(records, sum(map(bool, packets.keys)), peeled.left_out())
            yield packets
    finally:
        if (lost := fragments.lost + fragments.waiting) > 0:
            stats.left_out[waited] += lost


def _in_order(some: Iterator[Packets]) -> Iterator[Packets]:
    """Yield packets in the order of their times.

    Several queues of a network card, or interfaces, bring them out of order by a little. Where time goes back by more, the clock
    was set (NTP steps one by 128 ms at least), and they stay where they are. From where the first one lies out of order on, the
    last ones wait for those that follow.
    """
    held: Packets | None = None
    try:
        for packets in some:
            found = packets if held is None else _joined(held, packets)
            order = _in_time(found.time_ns)
            if order is None and held is None:
                yield found
                continue
            places: Sequence[int] = range(len(found.time_ns)) if order is None else order
            count, last_ns = len(places), found.time_ns[places[-1]]
            while count and last_ns - DISORDER_NS < found.time_ns[places[count - 1]] <= last_ns:
                count -= 1
            held = found.only(places[count:])
            yield found.only(places[:count])
    except CaptureError:
        if held is not None:
            yield held
        raise
    if held is not None:
        yield held


def _in_time(time_ns: Sequence[int]) -> list[int] | None:
    """Return the places of packets in the order of their times, between steps of the clock; None: they lie in it."""
    times = np.array(time_ns, np.int64)
    if not (np.diff(times) < 0).any():
        return None
    steps, latest = np.zeros(len(times), np.int64), time_ns[0]
    for place, now in enumerate(time_ns):
        steps[place] = now < latest - DISORDER_NS
        latest = now if steps[place] else max(latest, now)
    order: list[int] = np.lexsort((times, np.cumsum(steps))).tolist()
    return order


def _joined(held: Packets, packets: Packets) -> Packets:
    """Return some packets, and those that follow them."""
    kept = b"".join(held.data[low:high] for low, high in zip(held.start, held.stop, strict=True))
    ends = list(accumulate(high - low for low, high in zip(held.start, held.stop, strict=True)))
    both: Packets = packets.only(range(len(packets.keys)))
    both.data, size = kept + packets.data, len(held.keys)
    both.start = [*([0, *ends][:-1]), *(at + len(kept) for at in packets.start)]
    both.stop = [*ends, *(at + len(kept) for at in packets.stop)]
    for name in ("keys", "time_ns", "seq", "ack", "flags", "numbers"):
        setattr(both, name, [*getattr(held, name), *getattr(both, name)])
    both.lost = held.lost | {index + size: lost for index, lost in packets.lost.items()}
    if held.interface or packets.interface:
        both.interface = [*(held.interface or [0] * size), *(packets.interface or [0] * len(packets.keys))]
    return both


def _packets(records: Records, peeled: Peeled, is_tcp: Truths) -> Packets:
    """Return the columns of packets, whose end is what their IP headers say: padding of a link is no payload."""
    at, end, stop = peeled.at, peeled.end, peeled.stop
    where = np.where(is_tcp, at, 0)
    size = (peeled.one(where + 12) >> 4) * 4
    body = at + size
    is_right = is_tcp & (at + 20 <= end) & (size >= 20) & (body <= stop)
    peeled.kind[is_tcp & ~is_right] = Kind.MALFORMED
    is_tcp = is_right & (peeled.suspect == 0)
    last = np.minimum(end, stop)
    first = np.minimum(body, last)
    lost = np.where(is_tcp, stop - body - (last - first), 0)
    # Addresses and ports stand together; where something lies between them, they are put together after the data.
    key, width = np.where(is_tcp, peeled.addr, 0), np.where(is_tcp, 2 * peeled.width + 4, 0)
    apart = np.flatnonzero(is_tcp & (peeled.addr + 2 * peeled.width != at))
    if len(apart):
        places = zip(*(each[apart].tolist() for each in (peeled.addr, peeled.width, at)), strict=True)
        made = [peeled.data[a : a + 2 * size] + peeled.data[port : port + 4] for a, size, port in places]
        key[apart] = peeled.append(b"".join(made)) + np.cumsum([0, *map(len, made[:-1])])
    data = peeled.data
    keys = [data[low:high] for low, high in zip(key.tolist(), (key + width).tolist(), strict=True)]
    columns = (peeled.four(where + 4), peeled.four(where + 8), peeled.one(where + 13), first, last)
    seq, ack, flags, start, until = (column.tolist() for column in columns)
    packets = Packets(records.first, data, keys, records.time_ns.tolist(), seq, ack, flags, start, until)
    packets.lost = {index: int(lost[index]) for index in np.flatnonzero(lost).tolist()}
    # Where packets were seen, if the capture tells; if all that the link type tells is whether this host sent them, then that.
    number, links = records.interface, records.link_type
    is_cooked, is_cooked2 = links == LINUX_SLL, links == LINUX_SLL2
    if is_cooked2.any():
        has_header = is_cooked2 & (records.kept >= 8)
        own = peeled.four(np.where(has_header, records.start + 4, 0))
        number = np.where(is_cooked2, number << 32 | np.where(has_header, own, 0), number)
    if is_cooked.any():
        way = np.where(peeled.two(records.start) == _SLL_OUTGOING, OUTGOING, INCOMING)
        number = np.where(is_cooked & (number == 0), way, number)
    packets.interface = number.tolist() if number.any() else None
    return packets


def read_capture(
    path: Path, stats: CaptureStats | None = None, vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS
) -> Iterator[Segment]:
    """Yield the TCP segments of a capture in file order; `packet_no` counts all packets of the file from 1.

    Formats, errors and options are those of `read_columns`.
    """
    for packets in read_columns(path, stats, vxlan_ports):
        yield from packets.segments()
