"""Files through their readers into the staging area, and what reading them counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import pyarrow.compute as pc

from jobs.conf import PipelineConf
from jobs.ingest.bearing import Bearing, bearing_of, beginnings, peek, until_ns
from jobs.ingest.captured import Ahead, Captured, in_order
from jobs.ingest.ingested import Ingested
from jobs.ingest.logs import Part, ReadBlock, ReadPart, again, parts_of_logs, read_part, rows_in
from jobs.ingest.progress import Progress
from jobs.ingest.sources import Source, instant, is_compressed
from jobs.ingest.staging import Staging
from jobs.ingest.tasks import done
from jobs.store.warehouse import Warehouse
from namesrv_core.history.snapshot import SnapshotError, snapshot_of
from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.arrow.rows import rows_of, with_microseconds
from namesrv_wire.errors import CaptureError, Reason, UnorderedError
from namesrv_wire.lateness import Lateness, ahead_of_clock
from namesrv_wire.packets.capture import Endpoints, Segment
from namesrv_wire.packets.columns import CaptureStats, Packets, read_columns, snapshot_length
from namesrv_wire.packets.links import told
from namesrv_wire.rows import AnyRow, Row
from namesrv_wire.servers.transcript import Transcript
from namesrv_wire.streams.tcp import Stream
from schemas import bronze

Values = dict[str, Any]
_NAMESRV_PORT = 9876
"""Source: both generations `NamesrvStartup`, `NettyServerConfig.listenPort`."""


class Reading:
    """Reads files of one run: their rows go past the judge of their times into the staging area.

    `namesrv_of`: the name servers whose addresses are other than their ids. Afterwards `open_streams` has the rows that say
    where reading stopped in each address's connections, `stated` whose addresses event logs say that some are, `numbers` those
    of the rows that each file gave, and `unused` the digests of the captures that show no name server, which may be given again.
    """

    def __init__(
        self,
        house: Warehouse,
        staging: Staging,
        lateness: Lateness,
        result: Ingested,
        namesrv_of: Mapping[str, str],
        progress: Progress,
        width: int = 1,
    ) -> None:
        self._staging = staging
        self._lateness = lateness
        self._result = result
        self._width = width
        streams = list(rows_of(house.rows(bronze.OPEN_STREAMS)))
        carry = {row["namesrv_addr"]: row["state"] for row in streams}
        self._known = _known(house.conf, namesrv_of)
        self._transcript = Transcript(*self._known, carry)
        # Captures that go back behind what was read: connections that are open now are not those of then.
        self._earlier = Transcript(*self._known)
        known_from = _known_from(house)
        self._rows = {
            transcript: Captured(staging, lateness, transcript.counted_before, of)
            for transcript, of in ((self._transcript, None), (self._earlier, known_from))
        }
        self._ranges = _ranges(house)
        self._vxlan_ports = house.conf.vxlan_ports
        self._stats: dict[str, CaptureStats] = {}
        """What was met in each capture."""
        self._begun: dict[tuple[str, str], Stream] = {}
        self._progress = progress
        self.open_streams: list[Values] = []
        self.stated: dict[str, str] = {}
        self.numbers: list[range] = []
        self._until_us = house.until_us
        self.unused: set[str] = set()

    def read(self, sources: Sequence[Source]) -> list[Values]:
        """Read the files, which are in order of time; return their rows for `sources`."""
        noted = []
        for is_log, some in groupby(sources, key=lambda source: source.kind == "event_log"):
            of_kind = list(some)
            for source, row in zip(
                of_kind, self._read_logs(of_kind) if is_log else map(self._read, of_kind), strict=True
            ):
                if row["error"]:
                    self._result.errors.append(row["error"])
                noted.append(row)
                given = self.numbers[-1].stop if self.numbers else 1
                self.numbers.append(range(given, self._staging.count + 1))
                self._result.sources.append(source.path.name)
        for transcript in (self._transcript, self._earlier):
            self._finish(transcript)
        for source, row in zip(sources, noted, strict=True):
            if source.kind == "capture":
                self._tell_left_out(source, row)
        self._result.refused.update({reason.value: count for reason, count in self._lateness.refused.items()})
        last_ns = self._transcript.last_time_ns()
        self.open_streams = [
            {
                "namesrv_addr": name,
                "state": state,
                "sha256": hashlib.sha256(state.encode()).hexdigest(),
                "last_time": instant(last_ns[name]),
            }
            for name, state in sorted(self._transcript.carry().items())
            if name in last_ns
        ]
        return noted

    def _begin(self, source: Source) -> None:
        self._lateness.begin_file()
        self._progress.begin(source)

    def _tell_left_out(self, source: Source, row: Values) -> None:
        """Tell what was left out of a capture; note as an error if it may be of a name server, or if nothing else is."""
        stats, name = self._stats[source.path.name], source.path.name
        has_namesrv = name in self._transcript.files() | self._earlier.files()
        if stats.left_out:
            self._result.left_out.append(f"{name}: of {stats.packets:,} packets {told(stats.left_out)}")
        ports = {_NAMESRV_PORT, *(int(end.rpartition(":")[2]) for end in self._transcript.last_time_ns())}
        hidden = {one for one in stats.left_out if one.may_hide and (not one.port or one.port in ports)}
        error = None
        if not has_namesrv and stats.packets:
            others = f": {told(stats.left_out)}" if stats.left_out else ""
            error = f"none of its {stats.packets:,} packets is of a name server{others}"
            self.unused.add(source.sha256)
        elif hidden:
            whole = {one: count for one, count in stats.left_out.items() if one.what in {each.what for each in hidden}}
            error = f"of its {stats.packets:,} packets some were not read: {told(whole)}"
        if error and not row["error"]:
            row["error"] = f"{name}: {error}"
            self._result.errors.append(row["error"])

    def _read(self, source: Source) -> Values:
        """Read a file that is no event log; return its row for `sources`, with the reason if reading stopped early."""
        self._begin(source)
        if source.kind == "snapshot":
            return source.row(error=self._read_snapshot(source))
        peeked = peek(source.path, self._vxlan_ports, self._until_us)
        bearing = bearing_of(peeked, self._transcript, self._ranges, source.path, self._begun, self._vxlan_ports)
        is_apart = bearing in (Bearing.EARLIER, Bearing.STEPPED)
        transcript = self._earlier if is_apart else self._transcript
        transcript.go_on_in(source.path.name, peeked)
        if bearing is Bearing.STEPPED:
            self._keep_apart(source, peeked)
        row = self._read_capture(
            source, transcript, self._transcript.last_time_ns() if bearing is Bearing.AGAIN else {}
        )
        if bearing is Bearing.STEPPED:
            self._note_step(source, peeked)
            self._transcript.taken_until(self._earlier.last_time_ns())
        self._begun |= beginnings(peeked)
        if row["last_time"] is not None:
            self._ranges.append((source.first_time_ns, round(row["last_time"].timestamp() * 1e9)))
        return row

    def _keep_apart(self, source: Source, peeked: Sequence[Segment]) -> None:
        """Have a capture say nothing of times in which another one was read, although it was recorded before or behind that."""
        later = [first for first, last in self._ranges if last >= source.first_time_ns]
        if later:
            endpoints, last_ns = _endpoints_of(peeked), self._transcript.last_time_ns()
            self._earlier.taken(endpoints & last_ns.keys(), min(later), max(last_ns.values()))

    def _note_step(self, source: Source, peeked: Sequence[Segment]) -> None:
        """Note that the clock went back between a capture and what was read: what has the earlier times came later."""
        first_ns = min(first for first, _ in self._ranges)
        is_later = source.first_time_ns < first_ns
        transcript, until = (self._earlier, first_ns) if is_later else (self._transcript, source.first_time_ns)
        self._rows[transcript].add_all(transcript.step_back(_endpoints_of(peeked), until))

    def _read_capture(self, source: Source, transcript: Transcript, read_until: Mapping[str, int]) -> Values:
        """Read a capture but for what its name servers have shown already, up to `read_until` of each."""
        counts = transcript.counts
        frames, packets, cut, behind = counts.frames, counts.packets, counts.cut_frames, counts.behind
        last_ns, stopped = None, cast("CaptureError | OSError | None", None)
        stats, ahead = CaptureStats(), Ahead(self._until_us)
        columns = read_columns(source.path, self._progress.position, stats, self._vxlan_ports)
        try:
            for some in in_order(columns, source.path, self._lateness.limit_days, ahead):
                self._progress.more("packets", len(some.keys))
                rows, of_last = self._fed(some, source.path.name, transcript, read_until)
                last_ns = of_last or last_ns
                self._rows[transcript].add_all(rows)
        except (CaptureError, OSError) as why:
            stopped = why
        self._result.pieces += len(ahead.rows)
        self._rows[transcript].add_all(ahead.rows)
        if stopped is not None:
            transcript.pass_hole(source.path.name)
        error = None if stopped is None else str(stopped)
        self._stats[source.path.name] = stats
        if isinstance(stopped, UnorderedError):
            self._result.unordered.append(source.path.name)
        counts = transcript.counts
        cut -= counts.cut_frames
        behind -= counts.behind
        if behind and error is None:
            error = (
                f"{source.path.name}: the clock went back, and {-behind:,} packets have times of which others were read: they have "
                "no place (CLOCK_JUMP). With times set right it can be read again"
            )
        if cut and error is None:
            kept, longest = snapshot_length(source.path)
            error = (
                f"{source.path.name}: {-cut:,} frames were cut, since the capture has kept {kept:,} bytes of a packet at most; "
                f"a snapshot length of {longest:,} would have been enough. What headers show was read: connections, how they "
                "ended, when name servers were up"
            )
        if ahead.packets and error is None:
            error = (
                f"{source.path.name}: {ahead.packets:,} packets have times later than this run, by more than "
                f"late.ahead_limit_minutes: see quarantine ({Reason.AHEAD_OF_CLOCK.value})"
            )
        row = source.row(counts.frames - frames, counts.packets - packets, last_ns, error)
        if 2 * -cut > counts.frames - frames - cut or self._is_little(source, stopped):
            row["verdict"] = bronze.UNREAD
        return row

    def _is_little(self, source: Source, stopped: CaptureError | OSError | None) -> bool:
        """Return whether reading stopped in the first half of a file."""
        if stopped is None:
            return False
        reached = self._progress.size
        if (
            isinstance(stopped, CaptureError)
            and not isinstance(stopped, UnorderedError)
            and not is_compressed(source.path)
        ):
            reached = stopped.offset
        return 2 * reached < source.bytes

    def _fed(
        self, packets: Packets, name: str, transcript: Transcript, read_until: Mapping[str, int]
    ) -> tuple[list[AnyRow], int | None]:
        """Return the rows that follow from packets, and the time of the last segment; count those that were read before."""
        if not read_until:
            return transcript.feed_all(packets, name)
        rows, last_ns, endpoints = list[AnyRow](), None, Endpoints()
        for segment in packets.segments(endpoints):
            last_ns = segment.time_ns
            if last_ns < until_ns(segment, read_until):
                self._result.packets += 1
                self._result.sightings += 1
            else:
                rows += transcript.feed(segment, name)
        return rows, last_ns

    def _finish(self, transcript: Transcript) -> None:
        """Stage what holds if nothing follows, and count what the transcript has met."""
        self._rows[transcript].add_all(transcript.finish())
        counts = transcript.counts
        self._result.frames += counts.frames
        self._result.pieces += counts.pieces
        self._result.packets += counts.packets
        self._result.sightings += counts.sightings
        self._result.ignored.update(counts.ignored)
        if counts.dropped_rows:
            self._result.ignored["before_known_as_namesrv"] += counts.dropped_rows

    def _read_logs(self, sources: Sequence[Source]) -> Iterator[Values]:
        """Read event logs, parts of them beside each other; yield their rows for `sources`."""
        staging = self._staging
        parts = list(parts_of_logs(sources, staging.folder, staging.run_id, staging.namesrv_of))
        read = done(read_part, parts, self._width)
        of_path = groupby(zip(parts, read, strict=True), key=lambda pair: pair[0].path)
        for source, (_, some) in zip(sources, of_path, strict=True):
            yield self._read_log(source, some)

    def _read_log(self, source: Source, parts: Iterable[tuple[Part, ReadPart]]) -> Values:
        """Take in the parts of one event log, which come in their order."""
        self._begin(source)
        refused, name = self._lateness.refused, source.path.name
        backwards, error, line, frames = refused[Reason.CLOCK_WENT_BACK], None, 1, 0
        for part, found in parts:
            for number, block in enumerate(found.blocks):
                self._progress.more("lines", block.frames)
                self._add_block(part, number, block, line)
                line, frames = line + block.count, frames + block.frames
            self._progress.reached(part.stop)
            error = error or found.error
        self._progress.more("lines", 0)
        for fact in self._lateness.steps_back():
            self._staging.add(fact, frame=None)
        backwards = refused[Reason.CLOCK_WENT_BACK] - backwards
        if backwards:
            self._result.unordered.append(name)
            error = error or (
                f"{name}: the clock goes back by more than {self._lateness.limit_days} days (late.limit_days); "
                f"{backwards} lines were refused, see quarantine: {Reason.CLOCK_WENT_BACK.value}"
            )
        self._result.frames += frames
        return source.row(frames, error=error)

    def _add_block(self, part: Part, number: int, block: ReadBlock, line: int) -> None:
        """Stage the rows of a block of lines, of which the first has the number `line` in its file."""
        first, is_in_order = self._staging.reserve(block.count), self._lateness.all_in_order(block.times)
        if is_in_order:
            self._staging.add_files(block.files, block.days, first, line)
        for at, row in rows_in(block) if is_in_order else again(part, number):
            if "source_offset" in row.values:
                row.values["source_offset"] = line + at
            # A line of any kind is a frame; a topic table is a part of its registration's line.
            frame = first + at if row.table != bronze.TOPIC_CONFIGS_TABLE.name else None
            self._staging.add(row if is_in_order else self._lateness.judged(row), frame=frame, number=frame)
        self.stated |= block.stated

    def _read_snapshot(self, source: Source) -> str | None:
        """Stage one snapshot; return what is wrong with it, if anything is."""
        try:
            text = source.path.read_text(encoding="utf-8")
            snapshot = snapshot_of(text)
        except (SnapshotError, OSError, UnicodeDecodeError) as error:
            return f"{source.path.name}: {error}"
        if snapshot.at_us > self._until_us:
            return f"{source.path.name}: {ahead_of_clock(snapshot.at_us, self._until_us)}"
        values = {
            "namesrv_id": snapshot.namesrv_id,
            "namesrv_addr": snapshot.namesrv_id,
            "seq": snapshot.at_us * NS_PER_US,
            "event_id": source.sha256[:32],
            "effect_time": snapshot.at_us,
            "snapshot": text,
            "source_file": source.path.name,
            "source_offset": 1,
        }
        self._staging.add(Row(bronze.SNAPSHOTS.name, values), frame=None)
        return None


def _endpoints_of(segments: Sequence[Segment]) -> set[str]:
    return {end for segment in segments for end in (segment.src, segment.dst)}


def _known(conf: PipelineConf, namesrv_of: Mapping[str, str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return what conf/ says for a `Transcript`, which knows addresses alone: idle limits, and the name servers that it names."""
    of_addresses = {addr: conf.namesrvs[name] for addr, name in namesrv_of.items() if name in conf.namesrvs}
    wanted = {**of_addresses, **conf.namesrvs}
    idle_ms = {
        addr: said.settings["channel_max_idle_ms"]
        for addr, said in wanted.items()
        if "channel_max_idle_ms" in said.settings
    }
    return idle_ms, tuple(wanted)


def _ranges(house: Warehouse) -> list[tuple[int, int]]:
    """Return when captures that were read begin and end, in nanoseconds."""
    columns, is_capture = ["first_time", "last_time"], pc.field("kind") == "capture"
    times = with_microseconds(house.rows(bronze.SOURCES, None, columns, is_capture)).drop_null()
    return [
        (first * NS_PER_US, last * NS_PER_US + NS_PER_US)
        for first, last in zip(*times.to_pydict().values(), strict=True)
    ]


def _known_from(house: Warehouse) -> dict[str, int]:
    """Return the position from which each address of a name server is known."""
    is_beginning = pc.field("kind").isin(["started", "observed_from", "address_started", "address_observed_from"])
    known = house.rows(bronze.NAMESRV_EVENTS, columns=["namesrv_addr", "seq"], filter=is_beginning)
    first = known.group_by("namesrv_addr").aggregate([("seq", "min")])
    return dict(zip(first["namesrv_addr"].to_pylist(), first["seq_min"].to_pylist(), strict=True))
