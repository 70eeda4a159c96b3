"""Captures by recording point: one task reads the files of a point in order, and carries open connections to the next file."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import socket
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from itertools import chain, groupby, islice, pairwise
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jobs.conf import PipelineConf
from jobs.errors import UsageError
from jobs.ingest.sources import Source, UntilItStops, instant, is_compressed
from jobs.ingest.staging import STAGED, Collector, Run
from jobs.passes import tell
from jobs.store.files import DataFile, read_files
from namesrv_core.machine.events import NS_PER_MS, NS_PER_US
from namesrv_day.arrow import rows_of
from namesrv_wire.errors import BEAT_NS, END_NS, FIRST_NS, CaptureError, DecodeError, Reason, UnorderedError
from namesrv_wire.lateness import Lateness, misdated
from namesrv_wire.packets.segments import (
    DEFAULT_VXLAN_PORTS,
    DISORDER_NS,
    SYN,
    CaptureStats,
    Segment,
    described,
    read_segments,
)
from namesrv_wire.rows import FRAME_TABLES, REVOKED, AnyRow, Counts, FrameRow, Row, Values, gap_until, quarantine_row
from namesrv_wire.servers.transcript import Transcript
from namesrv_wire.streams.cutting import Stream
from schemas import bronze

_PEEKED_PACKETS = 2_000
"""Packets in which a capture's name servers show up; brokers and clients send requests at least every 30 seconds."""
_PEEKED_FILES = 8
OVERLAP_NS = 1_000_000_000
"""Overlap that consecutive captures may have; sequence numbers identify packets that are in both."""
_ADJACENT = 1 << 16
"""A connection at most this many bytes before the beginning of a file belongs to the file recorded before it."""
_NEAR = 64 << 20
"""Within this many bytes of its known place a connection counts as the same; the port's next connection begins anywhere."""


class Order(Enum):
    """Order of a capture and what was read. OVERLAPS: it begins with packets that were read, and goes on. EARLIER: it comes before.

    BETWEEN: earlier, too, with connections read before or after it: packets at times that were read are repeats.
    STEPPED: its connections show that it was recorded after (or before) what was read, but its times show the opposite.
    """

    AFTER = "after"
    OVERLAPS = "overlaps"
    EARLIER = "earlier"
    BETWEEN = "between"
    STEPPED = "stepped"


def peek(path: Path, vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS, until_us: int | None = None) -> list[Segment]:
    """Return the first segments of a capture; none if it cannot be read (its reader reports why).

    `until_us`: leave out segments after this time, the reader's own clock; those before 2000 are left out, too.
    """
    last_ns = END_NS if until_us is None else until_us * NS_PER_US
    recorded = UntilItStops(chain.from_iterable(read_segments(path, None, vxlan_ports)))
    return list(islice((of for of in recorded if FIRST_NS <= of.time_ns <= last_ns), _PEEKED_PACKETS))


def beginnings(peeked: Sequence[Segment]) -> dict[tuple[str, str], Stream]:
    """Return the streams of connections that were open before a file began, at its beginning, by source and destination."""
    found, opened = dict[tuple[str, str], Stream](), set[tuple[str, str]]()
    for segment in peeked:
        flow = (segment.src, segment.dst)
        if segment.flags & SYN:
            opened.update((flow, flow[::-1]))
        elif segment.payload and flow not in opened and flow not in found:
            found[flow] = Stream()
            found[flow].begin(segment.seq)
    return found


def order_of(
    peeked: Sequence[Segment],
    transcript: Transcript,
    read: Sequence[tuple[int, int]],
    path: Path | None = None,
    begun: Mapping[tuple[str, str], Stream] | None = None,
    vxlan_ports: Collection[int] = DEFAULT_VXLAN_PORTS,
) -> Order:
    """Return the position of a capture relative to what `transcript` was fed, by its first segments, or by the whole file `path`.

    `read`: begin and end of each capture that was read; `begun`: streams at the beginning of these captures.

    A connection that is in both shows which was recorded first. A capture that begins before the known end of a name server, but
    continues its connections, comes after it: the clock went back. If the connections are at earlier bytes, at a time that another
    capture covers, the capture is a repeat. If the clock went back behind everything that was read, times give no order.
    """
    last_ns = transcript.last_time_ns()
    if not any(end in last_ns for segment in peeked for end in (segment.src, segment.dst)):
        return Order.AFTER
    early = next((segment for segment in peeked if segment.time_ns < until_ns(segment, last_ns)), None)
    found = _places(peeked, transcript, begun or {}, is_early=early is not None)
    is_plain = early is None and found[Order.AFTER] > 0 == found[Order.EARLIER]
    if not is_plain and path is not None and len(peeked) == _PEEKED_PACKETS:
        recorded = UntilItStops(chain.from_iterable(read_segments(path, None, vxlan_ports)))
        found = _places(recorded, transcript, begun or {}, is_early=early is not None)
    behind, again, before = (found[kind] for kind in (Order.AFTER, Order.OVERLAPS, Order.EARLIER))
    if early is None:
        return Order.STEPPED if before > behind + again else Order.AFTER
    first_ns = peeked[0].time_ns
    is_read = any(first <= first_ns <= last for first, last in read)
    if behind and behind >= again + before:
        return Order.STEPPED if first_ns < min((first for first, _ in read), default=0) else Order.AFTER
    if before > again and is_read:
        return Order.STEPPED
    until = first_ns  # up to here everything was read from its begin on; a late capture may fill a hole after it
    for first, last in sorted(read):
        until = max(until, last) if first <= until + BEAT_NS else until
    if again and is_read and until >= max(last for _, last in read):
        return Order.OVERLAPS
    return Order.BETWEEN if read and again + before else Order.EARLIER


def _places(
    segments: Iterable[Segment], transcript: Transcript, begun: Mapping[tuple[str, str], Stream], *, is_early: bool
) -> Counter[Order]:
    """Return how many directions of known connections are after, within, or before their known bytes.

    If a capture `is_early`, a direction that goes on at a later time than its last does not count: it may have ended between.
    """
    first, reached = dict[tuple[str, str], tuple[int, int]](), dict[tuple[str, str], tuple[int, int]]()
    for segment in segments:
        flow, size = (segment.src, segment.dst), len(segment.payload)
        place = transcript.place_of(segment) if size else None
        if size and place is None and flow in begun:  # it may have ended, and the transcript no longer has it
            ahead = begun[flow].ahead(segment.seq)
            place = (ahead, ahead - 1, 0) if -_ADJACENT < ahead < 0 else None
        if place is not None and is_early and flow not in first and place[1] >= 0 and segment.time_ns >= place[2]:
            continue
        if place is not None and place[0] > -_NEAR and place[1] < _NEAR:
            first.setdefault(flow, place[:2])
            reached[flow] = max(reached.get(flow, place[:2]), (place[0] + size, place[1] + size))
    return Counter(
        Order.AFTER if begin[1] >= 0 else Order.EARLIER if begin[0] < 0 and reached[flow][1] < 0 else Order.OVERLAPS
        for flow, begin in first.items()
    )


def _goes_on(transcript: Transcript, peeked: Iterable[Segment]) -> bool:
    """Return whether a capture shows more of a connection that `transcript` knows."""
    places = (transcript.place_of(segment) for segment in peeked if segment.payload)
    return any(place is not None and abs(place[1]) < _NEAR for place in places)


def until_ns(segment: Segment, last_ns: Mapping[str, int]) -> int:
    """Return the time up to which a segment's name server was read, by `last_ns`; below 0 if it belongs to none."""
    last = last_ns.get(segment.dst) or last_ns.get(segment.src) or 0
    return last - OVERLAP_NS


_TIME = attrgetter("time_ns")
_NS_PER_DAY = 86_400_000_000_000
_LONE_NS = 60_000_000_000
_MISDATED = (Reason.AHEAD_OF_CLOCK, Reason.TOO_LATE, Reason.CLOCK_WENT_BACK)
_NAMESRV_PORT = 9876
"""Source: both generations `NamesrvStartup`, `NettyServerConfig.listenPort`."""


@dataclass(frozen=True)
class Before:
    """State of name servers before a run, as far as reading needs it.

    `root`, `open_streams`: files with the place where reading stopped in their connections. `ranges`: begin and end of captures
    that were read, in nanoseconds. `known_from`: the position from which each address is known; `observed_from`: the first event of
    each address, if it says that recording began while it was running. `watermarks_us`: the latest time of each. `until_us`:
    nothing recorded by now is later. `host`: the machine that found the files.
    """

    conf: PipelineConf
    root: str
    open_streams: Sequence[DataFile]
    ranges: Sequence[tuple[int, int]]
    known_from: Mapping[str, int]
    observed_from: Mapping[str, str]
    watermarks_us: Mapping[str, int]
    until_us: int | None
    host: str = field(default_factory=socket.gethostname)


class Series(NamedTuple):
    """Captures of one recording point, in the order of their first packets; `number` distinguishes its staged files."""

    number: int
    sources: Sequence[Source]
    run: Run
    before: Before


@dataclass(slots=True)
class ReadSeries:
    """Result of reading a series: files of staged rows by table, and facts.

    `rows`: rows for `sources`, each with the number of staged rows up to the end of that file. `namesrvs`: addresses of the name
    servers in it; `beside`: those of which captures show other connections of the same time. `open_streams`: rows with the place
    where reading stopped. `unused`: digests of captures without a name server.
    """

    count: int = 0
    files: dict[str, str] = field(default_factory=dict)
    days: set[dt.date] = field(default_factory=set)
    rows: list[tuple[Values, int]] = field(default_factory=list)
    namesrvs: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)
    counts: Counts = field(default_factory=Counts)
    unordered: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unused: set[str] = field(default_factory=set)
    latest_us: dict[str, int] = field(default_factory=dict)
    refused: Counter[Reason] = field(default_factory=Counter)
    open_streams: list[Values] = field(default_factory=list)


def series_in(sources: Sequence[Source], run: Run, before: Before) -> list[Series]:
    """Return the series of captures, which are in order of time.

    Files of one folder with equal headers, and equal matches of the configured pattern in their names, are a series. Series whose
    first packets show the same name server are joined, because only packets can show what both have recorded.
    """

    def point(source: Source) -> tuple[str, str, str]:
        matched = re.search(before.conf.series, source.path.name)
        return str(source.path.parent), source.header, matched[0] if matched else ""

    points = [list(some) for _, some in groupby(sorted(sources, key=point), key=point)]
    if len(points) > 1:
        peeked = [peek(files[0].path, before.conf.vxlan_ports, before.until_us) for files in points]
        points = joined_by(points, [set(_clients_in(segments, run, before)) for segments in peeked])
    return [Series(number, files, run, before) for number, files in enumerate(points)]


def joined_by(points: Sequence[Sequence[Source]], namesrvs: Sequence[set[str]]) -> list[list[Source]]:
    """Return series, joined where they have a name server in common, each in order of time."""
    found: list[tuple[list[Source], set[str]]] = []
    for files, own in zip(points, namesrvs, strict=True):
        with_own = [of for of in found if not of[1].isdisjoint(own)]
        found = [of for of in found if of[1].isdisjoint(own)]
        every = [*files, *(source for others, _ in with_own for source in others)]
        every.sort(key=lambda source: (source.first_time_ns, source.name))
        found.append((every, own.union(*(names for _, names in with_own))))
    return [files for files, _ in found]


def _clients_in(peeked: Iterable[Segment], run: Run, before: Before) -> dict[str, set[str]]:
    """Return the name servers' addresses in the first packets of a capture, with the hosts of their clients."""
    transcript = Transcript(*_known(before.conf, run.namesrv_of))
    transcript.feed(peeked, "its first packets")
    return transcript.clients()


def read_series(series: Series) -> ReadSeries:
    """Read a series, file after file. Raises UsageError if this machine does not see its files."""
    unseen = [source.path for source in series.sources if not source.path.exists()]
    if unseen and socket.gethostname() != series.before.host:
        raise UsageError(
            f"{unseen[0]}: an executor on {socket.gethostname()} does not see it. Inputs need one path on a file system that "
            "driver and executors mount (docs/cluster.md). Nothing was published"
        )
    return _Reader(series).read()


class _Reader:
    """Reads the files of a series into staged files of its own; each row's time is checked on the way."""

    def __init__(self, series: Series) -> None:
        before, run = series.before, series.run
        self._series, self._conf, self._before = series, before.conf, before
        self._rows = Collector(run, f"series-{series.number}-")
        self._lateness = Lateness(before.watermarks_us, before.conf.late_limit_days, before.until_us)
        streams = rows_of(read_files(before.root, bronze.OPEN_STREAMS, before.open_streams))
        known = _known(before.conf, run.namesrv_of)
        self._transcript = Transcript(*known, {row["namesrv_addr"]: row["state"] for row in streams})
        self._carried_ns = self._transcript.last_time_ns()
        # For captures from before what was read: the connections that are open now are not those of that time.
        self._earlier = Transcript(*known)
        self._ranges = list(before.ranges)
        self._held_of, self._held = self._transcript, list[tuple[Segment, str]]()
        """End of the previous capture, among which the next one's first segments may belong; and the transcript of both."""
        self._ends: dict[Path, int] = {}
        """End time of each capture that was read."""
        self._stats: dict[str, CaptureStats] = {}
        """Statistics of each capture."""
        self._again: dict[str, int] = {}
        """Number of packets of each capture that were read from another one."""
        self._begun: dict[tuple[str, str], Stream] = {}
        # Neighbouring captures are compared with the first segments of a capture, so these are cached.
        self._peek = lru_cache(_PEEKED_FILES)(
            lambda source: peek(source.path, before.conf.vxlan_ports, before.until_us)
        )
        self._misdated, self._misdated_rows = Counter[Reason](), list[Row]()
        """Number of packets of a capture at times that cannot be, by reason, and quarantine rows for them."""
        self._all, self._behind = max(1, sum(source.bytes for source in series.sources)), 0
        """Bytes of all files, and of those that are done."""
        self._found = ReadSeries()

    def read(self) -> ReadSeries:
        """Return the result of all files."""
        found, transcripts = self._found, (self._transcript, self._earlier)
        for source, following in pairwise([*self._series.sources, None]):
            assert source is not None
            behind = [] if following is None else self._peek(following)
            row = self._read(source, self._peek(source), min((segment.time_ns for segment in behind), default=0))
            found.rows.append((row, self._rows.count))
            self._behind += source.bytes
        for transcript in transcripts:
            self._add(transcript, transcript.finish())
            found.counts.add(transcript.counts)
            found.namesrvs |= transcript.shown()
        # Where earlier times are known now, the recording no longer begins.
        known_from = {addr: seq for addr, seq in self._before.known_from.items() if addr not in found.beside}
        gaps = self._earlier.end_beside(known_from)
        ended = {(gap.values["namesrv_id"], gap.values["seq"]) for gap in gaps}
        begun = sorted(of for of, seq in ended if seq < known_from[of] and of in self._before.observed_from)
        revoked = [
            Row(REVOKED, {"table": "namesrv_events", "event_id": self._before.observed_from[of]}) for of in begun
        ]
        self._add(self._earlier, [*gaps, *revoked])
        for source, (row, _) in zip(self._series.sources, found.rows, strict=True):
            self._report_left_out(source, row)
        last_ns = self._transcript.last_time_ns()
        states = self._transcript.carry(
            {name for name, ns in last_ns.items() if name in found.namesrvs or self._carried_ns.get(name) != ns}
        )
        found.open_streams = [
            {
                "namesrv_addr": name,
                "state": state,
                "sha256": hashlib.sha256(state.encode()).hexdigest(),
                "last_time": instant(last_ns[name]),
            }
            for name, state in sorted(states.items())
        ]
        found.latest_us, found.refused = self._lateness.latest_us, self._lateness.refused
        found.files = {name: path for name in STAGED if (path := self._rows.end(name)) is not None}
        found.count, found.days = self._rows.count, self._rows.days
        return found

    def _read(self, source: Source, peeked: Sequence[Segment], following_ns: int) -> Values:
        """Read a capture; return its row for `sources`, with the reason if reading stopped early.

        `peeked`: its first segments; `following_ns`: the begin of the next capture.
        """
        self._lateness.begin_file()
        name, vxlan_ports = source.name, self._conf.vxlan_ports
        covered = self._covered(source, peeked)
        peeked = [segment for segment in peeked if covered.isdisjoint((segment.src, segment.dst))]
        endpoints = {end for segment in peeked for end in (segment.src, segment.dst)}
        if is_beside := self._is_beside(source, peeked):
            order = Order.EARLIER
        else:
            order = order_of(peeked, self._transcript, self._ranges, source.path, self._begun, vxlan_ports)
        is_earlier = order in (Order.EARLIER, Order.BETWEEN, Order.STEPPED)
        transcript = self._earlier if is_earlier else self._transcript
        last_ns = self._transcript.last_time_ns()
        if order is Order.STEPPED:
            # It was recorded before or after the other one, so it shows nothing about the times that the other one covers.
            later = [first for first, last in self._ranges if last >= source.first_time_ns]
            if later:
                self._earlier.taken(endpoints & last_ns.keys(), min(later), max(last_ns.values()))
        if self._held and (transcript is not self._held_of or order is Order.OVERLAPS):
            self._feed_held()
        self._held_of = transcript
        row = self._read_capture(source, self._known(order, last_ns, covered), following_ns)
        if order is Order.STEPPED:
            # The clock went back between this capture and what was read: the one with the earlier times was recorded later.
            first_ns = min(first for first, _ in self._ranges)
            is_later = source.first_time_ns < first_ns
            of, until = (self._earlier, first_ns) if is_later else (self._transcript, source.first_time_ns)
            self._add(of, of.step_back(endpoints, until))
            self._transcript.taken_until(self._earlier.last_time_ns())
        self._begun |= beginnings(peeked)
        if row["last_time"] is not None:
            end_ns = self._ends[source.path] = round(row["last_time"].timestamp() * 1e9)
            overlaps = any(first <= end_ns and source.first_time_ns <= last for first, last in self._ranges)
            if is_beside or (order is Order.EARLIER and overlaps):
                self._found.beside |= self._earlier.last_time_ns().keys() & last_ns.keys()
            if not covered:
                self._ranges.append((source.first_time_ns, end_ns))
        if covered:
            count, namesrvs = self._again.get(name, 0), " and ".join(sorted(covered))
            self._found.left_out.append(
                f"{name}: {count:,} packets of {namesrvs}: another capture of that time shows more of its clients"
            )
        return row

    def _is_beside(self, source: Source, peeked: Sequence[Segment]) -> bool:
        """Return whether a capture goes on with connections of `_earlier`, or with none while another one does with those read."""
        if _goes_on(self._transcript, peeked):
            return False
        others = (other for other in self._series.sources if other is not source and other.path not in self._ends)
        last_ns = peeked[-1].time_ns if peeked else 0
        return _goes_on(self._earlier, peeked) or any(
            other.first_time_ns <= last_ns and _goes_on(self._transcript, self._peek(other)) for other in others
        )

    def _covered(self, source: Source, peeked: Sequence[Segment]) -> frozenset[str]:
        """Return the name servers that another capture of that time covers: the same connections, and at least twice as many hosts.

        This capture was recorded near some of those hosts, maybe before an address translation; the other one at the name server.
        """
        # With rotated files the next one may begin a little before the end of the previous one.
        middle_ns, last_ns = (peeked[at].time_ns if peeked else 0 for at in (len(peeked) // 2, -1))
        beside = [
            other
            for other in self._series.sources
            if other is not source
            and (
                source.first_time_ns <= other.first_time_ns <= last_ns
                or other.first_time_ns <= source.first_time_ns <= middle_ns <= self._ends.get(other.path, 0)
            )
        ]
        if not beside:
            return frozenset()
        run, before = self._series.run, self._before
        # Connections, and what an address translation does not change of segments.
        own, flows = _clients_in(peeked, run, before), {(one.src, one.dst) for one in peeked}
        mine = {(one.seq, one.payload) for one in peeked if one.payload}
        found = set()
        for other in beside:
            meanwhile = [one for one in self._peek(other) if one.time_ns <= last_ns]
            clients = _clients_in(meanwhile, run, before)
            # Captures of several interfaces, or split by connection, have none in common.
            same = [one for one in meanwhile if (one.src, one.dst) in flows or (one.seq, one.payload) in mine]
            for of, hosts in own.items():
                is_copy = any(of in (one.src, one.dst) for one in same)
                if is_copy and len(clients.get(of, ())) >= 2 * max(1, len(hosts)):
                    found.add(of)
        return frozenset(found)

    def _feed_held(self, until_ns: int = 0) -> None:
        """Feed held segments in order of time: all, or those up to `until_ns` if later ones may still be disordered."""
        held = sorted(self._held, key=lambda of: of[0].time_ns)
        is_disordered = bool(held) and held[-1][0].time_ns - DISORDER_NS <= until_ns
        self._held = [of for of in held if is_disordered and of[0].time_ns > until_ns]
        fed = held[: len(held) - len(self._held)]
        for name, some in groupby(fed, key=lambda of: of[1]):
            self._add(self._held_of, self._held_of.feed([segment for segment, _ in some], name))

    def _known(
        self, order: Order, read_until: Mapping[str, int], covered: frozenset[str]
    ) -> Callable[[Segment], bool] | None:
        """Return a test for segments that were read before, or that another capture covers; None if there are none."""
        if covered:
            return lambda segment: not covered.isdisjoint((segment.src, segment.dst))
        if order is Order.OVERLAPS:
            return lambda segment: segment.time_ns < until_ns(segment, read_until)
        if order is Order.BETWEEN:
            ranges = list(self._ranges)  # their ends are rounded to microseconds
            return lambda segment: any(first <= segment.time_ns < last + NS_PER_US for first, last in ranges)
        return None

    def _read_capture(self, source: Source, is_known: Callable[[Segment], bool] | None, following_ns: int) -> Values:
        """Read a capture except for the segments that `is_known` recognizes.

        The end of the capture is held back, since segments of the next one, which begins at `following_ns`, may belong in between.
        """
        transcript = self._held_of
        name, before, limit_days = source.name, replace(transcript.counts), self._lateness.limit_days
        last_ns = None
        stats = self._stats[name] = CaptureStats()
        self._misdated, self._misdated_rows = Counter(), []
        segments = read_segments(source.path, stats, self._conf.vxlan_ports)
        read, end = UntilItStops(self._in_order(segments, source, limit_days)), list[list[Segment]]()
        for some in _without_end(read, 0 if is_known else following_ns, end):
            if self._held:
                first = bisect_right(some, max(segment.time_ns for segment, _ in self._held), key=_TIME)
                self._held += ((segment, name) for segment in some[:first])
                if first == len(some):
                    continue
                self._feed_held()
                some = some[first:]  # noqa: PLW2901
            tell((self._behind + min(stats.read_bytes, source.bytes)) / self._all)
            last_ns = some[-1].time_ns if some else last_ns
            if is_known:
                fresh = [segment for segment in some if not is_known(segment)]
                known = len(some) - len(fresh)
                self._found.counts.packets += known
                self._found.counts.sightings += known
                if known:
                    self._again[name] = self._again.get(name, 0) + known
                some = fresh  # noqa: PLW2901
            self._add(transcript, transcript.feed(some, name))
        self._held += ((segment, name) for some in end for segment in some)
        last_ns = max([last_ns or 0, *(segment.time_ns for segment, of in self._held if of == name)]) or None
        self._feed_held(following_ns)
        self._found.counts.pieces += len(self._misdated_rows)
        self._add(transcript, self._misdated_rows)
        if read.stopped is not None:
            transcript.pass_hole(name, stats.last_time_ns or 0)
        if isinstance(read.stopped, UnorderedError):
            self._found.unordered.append(name)
        counts = transcript.counts
        cut, behind = counts.cut_frames - before.cut_frames, counts.behind - before.behind
        frames, packets = counts.frames - before.frames, counts.packets - before.packets
        error = None
        if read.stopped is not None:
            error = str(read.stopped)
        elif behind:
            error = (
                f"{name}: {behind:,} packet(s) with times at which others were read have no place. The clock went back "
                "(CLOCK_JUMP), and with corrected times the file can be read again; or another file has the other direction of "
                "their connections, and both can be read merged (mergecap)"
            )
        elif cut:
            error = (
                f"{name}: {cut:,} frame(s) were cut, since the capture kept at most {stats.kept_bytes:,} bytes of a packet; "
                f"a snapshot length of {stats.longest_bytes:,} would have been enough. Only what headers show was read: "
                "connections, how they ended, when name servers were up"
            )
        elif self._misdated:
            what = {
                Reason.AHEAD_OF_CLOCK: "later than this run, by more than late.ahead_limit_minutes",
                Reason.TOO_LATE: "before 2000: was the recorder's clock not set?",
                Reason.CLOCK_WENT_BACK: "more than a minute from those before and after it",
            }
            parts = (f"{count:,} packet(s) with times {what[of]} ({of.value})" for of, count in self._misdated.items())
            error = f"{name}: {'; '.join(parts)}: see quarantine"
        row = source.row(frames, packets, last_ns, error)
        # A file counts as unread if most of its frames were cut, or reading stopped in its first half.
        if 2 * cut > frames + cut or 2 * _reached(source, stats, read.stopped) < source.bytes:
            row["verdict"] = bronze.UNREAD
        return row

    def _in_order(self, found: Iterable[list[Segment]], source: Source, limit_days: int) -> Iterator[list[Segment]]:
        """Yield segments up to the first before which the clock goes back too far. Raises UnorderedError there.

        Segments at times that cannot be are left out.
        """
        latest_ns = 0
        for some in found:
            segments, own = self._without_misdated(some, source.name)
            times = np.concatenate(([latest_ns], own))
            latest = np.maximum.accumulate(times)
            behind = np.flatnonzero(latest - times > limit_days * _NS_PER_DAY)
            if len(behind):
                at = int(behind[0])
                yield segments[: at - 1]
                back = f"from {instant(int(latest[at]))} to {instant(int(times[at]))}"
                raise UnorderedError(
                    source.path, segments[at - 1].packet_no, f"the clock goes back {back}, beyond late.limit_days"
                )
            latest_ns = int(latest[-1])
            yield segments

    def _without_misdated(self, segments: list[Segment], name: str) -> tuple[list[Segment], NDArray[np.int64]]:
        """Return the segments at times at which something can have been recorded: since 2000, up to the reader's own clock.

        And these times (ns). A single segment far from those around it is left out, too. A run of others becomes one quarantine
        row: a capture with a wrong clock may have millions.
        """
        until_us = self._before.until_us
        last_ns = END_NS if until_us is None else until_us * NS_PER_US
        times = np.array([*map(_TIME, segments)], np.int64)
        wrong = np.where(times > last_ns, 1, np.where(times < FIRST_NS, 2, 0))
        before, own, after = times[:-2], times[1:-1], times[2:]
        is_lone = np.minimum(abs(own - before), abs(own - after)) > _LONE_NS
        wrong[1:-1][is_lone & (abs(after - before) <= _LONE_NS) & (wrong[1:-1] == 0)] = 3
        if not wrong.any():
            return segments, times
        kept = list[Segment]()
        for number, some in groupby(zip(wrong.tolist(), segments, strict=True), key=itemgetter(0)):
            group = [segment for _, segment in some]
            if not number:
                kept += group
                continue
            first, size, reason = group[0], len(group), _MISDATED[number - 1]
            self._misdated[reason] += size
            us = first.time_ns // NS_PER_US
            why = misdated(reason, us, last_ns // NS_PER_US)
            why += f"; so are the next {size - 1} packets" if size > 1 else ""
            place, piece = (name, first.packet_no, first.time_ns), first.payload
            error, identity = DecodeError(reason, why), f"{us} {size}"
            self._misdated_rows.append(quarantine_row((None, None), place, error, piece, len(piece), identity))
        return kept, times[wrong == 0]

    def _add(self, transcript: Transcript, rows: Sequence[AnyRow]) -> None:
        """Add rows of captures; each row's time is checked first."""
        # Identifies the frames of a transcript, of which equal ones count once. Below 0, so that it is not a line number.
        number = -1 - 2 * self._series.number - (transcript is self._earlier)
        counted = transcript.counted_before  # events that an earlier run has counted
        effects: defaultdict[str, list[int]] = defaultdict(list)
        for row in rows:
            if isinstance(row, FrameRow):
                effects[row.namesrv_id].append(row.effect_us)
        passed = {of for of, us in effects.items() if self._lateness.lets_through(of, min(us), max(us))}
        checked, frames = list[AnyRow](), list[int | None]()
        for row in rows:
            is_frame = row.table in FRAME_TABLES
            if isinstance(row, FrameRow):
                is_frame = is_frame and not (counted and row.event_id in counted)
                # A capture from before what was read begins somewhere, but not in the middle of known time.
                is_beginning = transcript is self._earlier and row.columns.get("kind") == "observed_from"
                if is_beginning and self._before.known_from.get(row.namesrv_id, row.seq) < row.seq:
                    # Traffic across this edge was read in two parts.
                    until = gap_until(row.seq, row.seq + NS_PER_MS)
                    gap = {"kind": "recording_gap", "properties": until, "evidence": "what came before was read before"}
                    row = row._replace(columns={**row.columns, **gap})  # noqa: PLW2901
                if row.namesrv_id not in passed:
                    row = self._lateness.checked(row, in_order=False)  # noqa: PLW2901
            checked.append(row)
            frames.append(number if is_frame else None)
        self._rows.add(checked, frames)

    def _report_left_out(self, source: Source, row: Values) -> None:
        """Report what was left out of a capture; make it an error if it may concern a name server, or if nothing else is left."""
        stats, name = self._stats[source.name], source.name
        has_namesrv = name in self._transcript.files() | self._earlier.files() | self._again.keys()
        if stats.left_out:
            self._found.left_out.append(f"{name}: of {stats.packets:,} packets {described(stats.left_out)}")
        ports = {_NAMESRV_PORT, *(int(end.rpartition(":")[2]) for end in self._transcript.last_time_ns())}
        hidden = {one for one in stats.left_out if one.may_hide and (not one.port or one.port in ports)}
        error = None
        if not has_namesrv and stats.packets:
            others = f": {described(stats.left_out)}" if stats.left_out else ""
            error = f"none of its {stats.packets:,} packets is of a name server{others}"
            if stats.segments:
                error += f"; of its {stats.segments:,} TCP segments none show a request and its answer: "
                error += "is a direction missing, or in another file?"
            self._found.unused.add(source.sha256)
        elif hidden:
            whole = {one: count for one, count in stats.left_out.items() if one.what in {each.what for each in hidden}}
            error = f"of its {stats.packets:,} packets some were not read: {described(whole)}"
            if any(one.port for one in hidden):  # a setting in conf/ can help: report it until the file is read
                row["verdict"] = bronze.UNREAD
                error += f". Add the port there, forget the file (`refused --forget {name}`), and give it again"
        if error and not row["error"]:
            row["error"] = f"{name}: {error}"


def _reached(source: Source, stats: CaptureStats, stopped: Exception | None) -> int:
    """Return the byte up to which a capture was read."""
    if stopped is None:
        return source.bytes
    is_disorder = isinstance(stopped, UnorderedError)
    if isinstance(stopped, CaptureError) and not is_disorder and not is_compressed(source.path):
        return stopped.offset
    return min(stats.read_bytes, source.bytes)


def _without_end(
    found: UntilItStops[list[Segment]], following_ns: int, end: list[list[Segment]]
) -> Iterator[list[Segment]]:
    """Yield segments, and leave in `end` those that lie a little after the beginning of the next capture.

    A larger overlap is not disorder; the reader of the next capture handles it.
    """
    last_ns = 0
    for segments in found:
        end.append(segments)
        last_ns = segments[-1].time_ns if segments else last_ns
        while len(end) > 1 and (not end[0] or end[0][-1].time_ns < last_ns - DISORDER_NS):
            yield end.pop(0)
    is_disordered = found.stopped is None and last_ns - DISORDER_NS <= following_ns < last_ns
    behind, end[:] = list(end), []
    for segments in behind:
        first = bisect_right(segments, following_ns, key=_TIME) if is_disordered else len(segments)
        yield segments[:first]
        end.append(segments[first:])


def _known(conf: PipelineConf, namesrv_of: Mapping[str, str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return idle limits and configured name servers for a `Transcript`, by address: it does not know other ids."""
    of_addresses = {addr: conf.namesrvs[name] for addr, name in namesrv_of.items() if name in conf.namesrvs}
    wanted = {**of_addresses, **conf.namesrvs}
    idle_ms = {
        addr: namesrv.settings["channel_max_idle_ms"]
        for addr, namesrv in wanted.items()
        if "channel_max_idle_ms" in namesrv.settings
    }
    return idle_ms, tuple(wanted)
