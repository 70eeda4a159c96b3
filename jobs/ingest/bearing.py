"""Where a capture falls relative to what was already ingested: after it, overlapping its end, or before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path

from namesrv_core.machine.instants import NS_PER_US
from namesrv_wire.errors import CaptureError
from namesrv_wire.packets.capture import SYN, Segment
from namesrv_wire.packets.columns import read_capture
from namesrv_wire.packets.links import DEFAULT_VXLAN_PORTS
from namesrv_wire.servers.transcript import Transcript
from namesrv_wire.streams.tcp import Stream

_PEEKED_PACKETS = 2_000
"""Packets of a capture in which its name servers show up; brokers and clients ask at least every 30 seconds."""
OVERLAP_NS = 1_000_000_000
"""Captures that follow each other may overlap by this much: what is there twice is known by its numbers."""
_ADJACENT = 1 << 16
"""So many bytes before where a file begins a connection is in the file that was recorded before it."""
_NEAR = 64 << 20
"""So many bytes from what is known of it a connection is the same one; what a port's next connection has is anywhere."""


class Bearing(Enum):
    """Where a capture lies. AGAIN: it begins with what was read and goes on; EARLIER: its connections are those of then.

    STEPPED: its connections say that it was recorded behind what was read, or before, and its times the opposite.
    """

    BEHIND = "behind"
    AGAIN = "again"
    EARLIER = "earlier"
    STEPPED = "stepped"


def peek(
    path: Path,
    vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS,
    until_us: int | None = None,
    most: int = _PEEKED_PACKETS,
) -> list[Segment]:
    """Return the first segments of a capture; none if it cannot be read, since its reader says what is wrong with it.

    `until_us`: of those that do not lie after the clock of who reads.
    """
    last_ns = None if until_us is None else until_us * NS_PER_US
    try:
        recorded = (of for of in read_capture(path, None, vxlan_ports) if last_ns is None or of.time_ns <= last_ns)
        return list(islice(recorded, most))
    except (CaptureError, OSError):
        return []


def beginnings(peeked: Sequence[Segment]) -> dict[tuple[str, str], Stream]:
    """Return the directions of connections that were open before a file began, as it began, by source and destination."""
    found, opened = dict[tuple[str, str], Stream](), set[tuple[str, str]]()
    for segment in peeked:
        flow = (segment.src, segment.dst)
        if segment.flags & SYN:
            opened.update((flow, flow[::-1]))
        elif segment.payload and flow not in opened and flow not in found:
            found[flow] = Stream()
            found[flow].begin(segment.seq)
    return found


def bearing_of(
    peeked: Sequence[Segment],
    transcript: Transcript,
    read: Sequence[tuple[int, int]],
    path: Path | None = None,
    begun: Mapping[tuple[str, str], Stream] | None = None,
    vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS,
) -> Bearing:
    """Return how a capture lies to what `transcript` was fed, by its first segments, or by all of it (`path`) if need be.

    `read`: when captures that were read begin and end; `begun`: where connections were as these began.

    A connection that both have seen says which was recorded first. One that begins before the end of what is known of a name
    server goes on all the same if its connections do: their clock went back. If they are where they were before, in the time
    of a capture that was read, they come again. A clock that went back behind all that was read has no order with it.
    """
    last_ns = transcript.last_time_ns()
    if not any(end in last_ns for segment in peeked for end in (segment.src, segment.dst)):
        return Bearing.BEHIND
    early = next((segment for segment in peeked if segment.time_ns < until_ns(segment, last_ns)), None)
    found = _places(peeked, transcript, begun or {}, is_early=early is not None)
    is_plain = early is None and found[Bearing.BEHIND] > 0 == found[Bearing.EARLIER]
    if not is_plain and path is not None and len(peeked) == _PEEKED_PACKETS:
        found = _places(_all(path, vxlan_ports), transcript, begun or {}, is_early=early is not None)
    behind, again, before = (found[kind] for kind in (Bearing.BEHIND, Bearing.AGAIN, Bearing.EARLIER))
    if early is None:
        return Bearing.STEPPED if before > behind + again else Bearing.BEHIND
    first_ns = peeked[0].time_ns
    is_read = any(first <= first_ns <= last for first, last in read)
    if behind and behind >= again + before:
        return Bearing.STEPPED if first_ns < min((first for first, _ in read), default=0) else Bearing.BEHIND
    if before > again:
        return Bearing.STEPPED if is_read else Bearing.EARLIER
    return Bearing.AGAIN if again and is_read else Bearing.EARLIER


def _all(path: Path, vxlan_ports: Collection[int]) -> Iterator[Segment]:
    try:
        yield from read_capture(path, None, vxlan_ports)
    except (CaptureError, OSError):
        return


def _places(
    segments: Iterable[Segment],
    transcript: Transcript,
    begun: Mapping[tuple[str, str], Stream],
    *,
    is_early: bool,
) -> Counter[Bearing]:
    """Return how many directions of known connections are behind what is known of them, in it, or before.

    If a capture `is_early`, one that goes on at a later time than its last says nothing: it may have ended in between.
    """
    first, reached = dict[tuple[str, str], tuple[int, int]](), dict[tuple[str, str], tuple[int, int]]()
    for segment in segments:
        flow, size = (segment.src, segment.dst), len(segment.payload)
        place = transcript.place_of(segment) if size else None
        if size and place is None and flow in begun:  # it may have ended, and be forgotten
            ahead = begun[flow].ahead(segment.seq)
            place = (ahead, ahead - 1, 0) if -_ADJACENT < ahead < 0 else None
        if place is not None and is_early and flow not in first and place[1] >= 0 and segment.time_ns >= place[2]:
            continue
        if place is not None and place[0] > -_NEAR and place[1] < _NEAR:
            first.setdefault(flow, place[:2])
            reached[flow] = max(reached.get(flow, place[:2]), (place[0] + size, place[1] + size))
    return Counter(
        Bearing.BEHIND if begin[1] >= 0 else Bearing.EARLIER if begin[0] < 0 and reached[flow][1] < 0 else Bearing.AGAIN
        for flow, begin in first.items()
    )


def until_ns(segment: Segment, last_ns: Mapping[str, int]) -> int:
    """Return the time before which a segment of its name server was read, with `last_ns` as the end; 0 if of none."""
    last = last_ns.get(segment.dst) or last_ns.get(segment.src) or 0
    return last - OVERLAP_NS
