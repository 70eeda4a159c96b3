"""How a capture lies to what was read before: behind it, over its end, or somewhere earlier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path

from namesrv_wire.capture import SYN, Segment, read_capture
from namesrv_wire.errors import CaptureError
from namesrv_wire.transcript import Transcript

_PEEKED_PACKETS = 2_000
"""Packets of a capture in which its name servers show up; brokers and clients ask at least every 30 seconds."""
OVERLAP_NS = 1_000_000_000
"""Captures that follow each other may overlap by this much: what is there twice is known by its numbers."""
_JUST_BEFORE = 64 << 20
"""So many bytes before what is known of it a connection is the same one; what a port's next connection has is anywhere."""


class Bearing(Enum):
    """Where a capture lies. AGAIN: it begins with what was read and goes on; EARLIER: its connections are those of then.

    STEPPED: its connections say that it was recorded behind what was read, or before, and its times the opposite.
    """

    BEHIND = "behind"
    AGAIN = "again"
    EARLIER = "earlier"
    STEPPED = "stepped"


def peek(path: Path) -> list[Segment]:
    """Return the first segments of a capture; none if it cannot be read, since its reader says what is wrong with it."""
    try:
        return list(islice(read_capture(path), _PEEKED_PACKETS))
    except (CaptureError, OSError):
        return []


def bearing_of(peeked: Sequence[Segment], transcript: Transcript, read: Sequence[tuple[int, int]]) -> Bearing:
    """Return how a capture lies to what `transcript` was fed, by its first segments.

    `read`: when captures that were read begin and end.

    One that begins before the end of what is known of a name server goes on all the same if its connections do: their
    clock went back. If they are where they were before, in the time of a capture that was read, they come again. One whose
    connections are just before what is known of them came earlier, whatever its clock says. A clock that went back behind
    all that was read has no order with it.
    """
    last_ns = transcript.last_time_ns()
    early = [segment for segment in peeked if segment.time_ns < until_ns(segment, last_ns)]
    if not early:
        late = [segment for segment in peeked if segment.time_ns > until_ns(segment, last_ns) + OVERLAP_NS]
        return Bearing.STEPPED if _is_just_before(late, transcript) else Bearing.BEHIND
    ahead = [at for segment in early if segment.payload and (at := transcript.ahead(segment)) is not None]
    if ahead and 2 * sum(at >= 0 for at in ahead) > len(ahead):
        is_behind_all = early[0].time_ns < min((first for first, _ in read), default=0)
        return Bearing.STEPPED if is_behind_all else Bearing.BEHIND
    is_read = any(first <= early[0].time_ns <= last for first, last in read)
    return Bearing.AGAIN if ahead and is_read else Bearing.EARLIER


def _is_just_before(segments: Iterable[Segment], transcript: Transcript) -> bool:
    """Return whether most connections are a little behind where they are known to have been, to the last of their segments."""
    reached: dict[tuple[str, str], int] = {}
    opened: set[tuple[str, str]] = set()
    for segment in segments:
        flow = (segment.src, segment.dst)
        if segment.flags & SYN:
            opened.update((flow, flow[::-1]))
            if transcript.has_joined(segment):  # of which the beginning was not seen
                reached[flow] = transcript.ahead(segment) or 0
        elif segment.payload and flow not in opened and (at := transcript.ahead(segment)) is not None:
            reached[flow] = max(reached.get(flow, -_JUST_BEFORE), at + len(segment.payload))
    before = sum(-_JUST_BEFORE < at < 0 for at in reached.values())
    return before > sum(at > 0 for at in reached.values())


def until_ns(segment: Segment, last_ns: Mapping[str, int]) -> int:
    """Return the time before which a segment of its name server was read, with `last_ns` as the end; 0 if of none."""
    last = last_ns.get(segment.dst) or last_ns.get(segment.src) or 0
    return last - OVERLAP_NS
