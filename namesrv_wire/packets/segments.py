"""TCP segments of a capture, out of whatever they lie in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, gt
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


def read_segments(
    path: Path, stats: CaptureStats | None = None, vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS
) -> Iterator[list[Segment]]:
    """Yield the TCP segments of a capture in order, many at a time; memory does not grow with the file.

    `packet_no` counts all packets of the file from 1; what lies out of order by a little is put into that of its times.

    pcap and pcapng, compressed or not; link types and tunnels are those of `links`. `stats` counts. Raises
    `CaptureError` at once for a foreign file, and after the last packet that can be read for one that ends early.
    """
    yield from _in_order(_as_they_lie(path, CaptureStats() if stats is None else stats, vxlan_ports))


def _as_they_lie(path: Path, stats: CaptureStats, vxlan_ports: Collection[int]) -> Iterator[list[Segment]]:
    fragments, waited = Fragments(), LeftOut("IP fragments", 0)
    try:
        for records in read_records(path):
            peeled = Peeled(records, fragments, vxlan_ports)
            is_tcp = peeled.peel()
            stats.note_cut(records.kept, np.where(is_tcp, peeled.stop - peeled.end, 0))
            segments = _segments(records, peeled, is_tcp)
            stats.add(records, len(segments), peeled.left_out())
            yield segments
    finally:
        if (lost := fragments.lost + fragments.waiting) > 0:
            stats.left_out[waited] += lost


_TIME: Final = attrgetter("time_ns")


def _in_order(some: Iterable[list[Segment]]) -> Iterator[list[Segment]]:
    """Yield segments in the order of their times.

    Several queues of a network card, or interfaces, bring them out of order by a little. Where time goes back by more, the clock
    was set (NTP steps one by 128 ms at least), and they stay where they are. From where the first one lies out of order on, the
    last ones wait for those that follow.
    """
    held, is_disordered = list[Segment](), False
    try:
        for found in some:
            times = [*map(_TIME, found)]
            is_disordered |= any(map(gt, times, times[1:]))
            if not is_disordered:
                yield found
                continue
            segments = _in_time([*held, *found])
            count = len(segments)
            while count and 0 <= segments[-1].time_ns - segments[count - 1].time_ns < DISORDER_NS:
                count -= 1
            held = segments[count:]
            yield segments[:count]
    except CaptureError:
        if held:
            yield held
        raise
    if held:
        yield held


def _in_time(segments: list[Segment]) -> list[Segment]:
    """Return segments in the order of their times, between steps of the clock."""
    runs, latest_ns = [list[Segment]()], 0
    for segment in segments:
        if segment.time_ns < latest_ns - DISORDER_NS:
            runs.append([])
            latest_ns = segment.time_ns
        latest_ns = max(latest_ns, segment.time_ns)
        runs[-1].append(segment)
    return [segment for run in runs for segment in sorted(run, key=_TIME)]


def _segments(records: Records, peeled: Peeled, is_tcp: Truths) -> list[Segment]:
    """Return the segments of packets, whose end is what their IP headers say: padding of a link is no payload."""
    which = np.flatnonzero(is_tcp)
    at, end, stop = (column[which] for column in (peeled.at, peeled.end, peeled.stop))
    size = (peeled.one(at + 12) >> 4) * 4
    is_right = (at + 20 <= end) & (size >= 20) & (at + size <= stop)
    peeled.kind[which[~is_right]] = Kind.MALFORMED
    is_right &= peeled.suspect[which] == 0
    which, at, end, stop, size = (column[is_right] for column in (which, at, end, stop, size))
    last = np.minimum(end, stop)
    first = np.minimum(at + size, last)
    # Addresses and ports stand together; where something lies between them, they are put together after the data.
    key, width = peeled.addr[which], peeled.width[which]
    apart = np.flatnonzero(key + 2 * width != at)
    if len(apart):
        places = zip(*(each[apart].tolist() for each in (key, width, at)), strict=True)
        made = [peeled.data[a : a + 2 * size] + peeled.data[port : port + 4] for a, size, port in places]
        key[apart] = peeled.append(b"".join(made)) + np.cumsum([0, *map(len, made[:-1])])
    # Where packets were seen, if the capture tells; if all that the link type tells is whether this host sent them, then that.
    interface, link, start = (column[which] for column in (records.interface, records.link_type, records.start))
    own = peeled.four(np.where(link == LINUX_SLL2, start + 4, 0))
    interface = np.where(link == LINUX_SLL2, interface << 32 | own, interface)
    way = np.where(peeled.two(start) == _SLL_OUTGOING, OUTGOING, INCOMING)
    interface = np.where((link == LINUX_SLL) & (interface == 0), way, interface)
    data = peeled.data
    pairs = [ends_of(data[low:high]) for low, high in _lists(key, key + 2 * width + 4)]
    payloads = [data[begin:until] for begin, until in _lists(first, last)]
    lost = stop - at - size - (last - first)
    found = zip(
        *(column.tolist() for column in (records.first + which, records.time_ns[which])),
        *([pair[way] for pair in pairs] for way in (0, 1)),
        *(column.tolist() for column in (peeled.four(at + 4), peeled.four(at + 8), peeled.one(at + 13))),
        payloads,
        *(column.tolist() for column in (lost, interface)),
        strict=True,
    )
    return list(map(Segment._make, found))


def _lists(*columns: Ints) -> zip[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def read_capture(
    path: Path, stats: CaptureStats | None = None, vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS
) -> Iterator[Segment]:
    """Yield the segments of a capture one by one, as `read_segments` does many."""
    return chain.from_iterable(read_segments(path, stats, vxlan_ports))
