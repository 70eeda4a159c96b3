"""One large capture, read by several tasks: a stretch each, from a guess of what is open where it begins.

A stretch is read as if it were a file of its own that follows on others. What is open where it begins is guessed from a look
through the capture (`servers.outline`); reading the stretch before shows whether that was right, and if not, it is read
again. So the rows are those of one reading, whatever the guess was.
"""

from __future__ import annotations

import gzip
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, NamedTuple

from jobs.ingest.captured import Captured, in_order
from jobs.ingest.collecting import STAGED, Collector, Run
from jobs.ingest.sources import is_packed
from jobs.ingest.tasks import done
from jobs.processes import rarely_collected
from namesrv_wire.errors import CaptureError, Reason
from namesrv_wire.lateness import Lateness
from namesrv_wire.packets.columns import Headers, read_columns, read_headers
from namesrv_wire.packets.container import Position
from namesrv_wire.protocol.body_cache import BodyCache
from namesrv_wire.protocol.known import KnownFrames
from namesrv_wire.servers.carry import are_alike
from namesrv_wire.servers.outline import Outline
from namesrv_wire.servers.transcript import Transcript
from namesrv_wire.tally import Tally

STRETCH_BYTES = 32 << 20
"""Of a capture, unpacked, that one task reads."""
_HEADER = 24
_PACKED = 4
"""So many times as large as what is packed it is at least, about."""
_MISSES = 3
_DECODERS = BodyCache(), KnownFrames()
"""What this process has decoded: the next stretch says much of it again."""


class Readers(NamedTuple):
    """What all who read a capture have in common.

    `name`: how names of their files begin. `counted`: events that an earlier run has counted; `provisional`: rows by name
    server that it made on the strength of what was known then.
    """

    source_file: str
    name: str
    run: Run
    idle_ms: Mapping[str, int]
    namesrv: Collection[str]
    watermarks: Mapping[str, int]
    limit_days: int
    counted: Collection[str]
    provisional: Mapping[str, Mapping[str, str]]


class Stretch(NamedTuple):
    """What a task is to read: from the packet and offset of `start` to `stop` in `path`, `packets` in all; None: to its end.

    `carry`: what is open before. `latest_ns`: the latest time before. `begins`: its first packet and offset in the
    whole capture, unpacked; `reached`: how much of that, as it is on disk, is read with it; None: all.
    """

    readers: Readers
    number: int
    path: Path
    start: tuple[int, int]
    stop: int | None
    packets: int | None
    carry: Mapping[str, str]
    latest_ns: int
    begins: tuple[int, int]
    reached: int | None


@dataclass(slots=True)
class ReadStretch:
    """What a stretch holds: files of `count` rows by table, what is open at its end, and what was counted.

    `settled`: provisional rows that hold. `last_ns`: of the last segment; `earliest_ns`: of all packets. `files_met`: with
    packets of name servers. `stopped`: why it was not read to its end.
    """

    files: dict[str, Path]
    days: set[date]
    count: int
    carry: dict[str, str]
    settled: set[str]
    tally: Tally
    packets: int
    last_ns: int | None
    earliest_ns: int
    latest_us: dict[str, int]
    refused: Counter[Reason]
    files_met: set[str]
    stopped: CaptureError | OSError | None


def can_be_cut(path: Path, size: int) -> bool:
    """Return whether a capture is so large that tasks may share it, and shows each packet once."""
    try:
        first = next(read_headers(path), None)
        unpacked = size * (_PACKED if is_packed(path) else 1)
    except OSError:
        return False
    return first is not None and first.interface is None and unpacked >= 2 * STRETCH_BYTES


def stretches(readers: Readers, path: Path, outline: Outline, position: Position) -> Iterator[Stretch]:
    """Yield the stretches of a capture, each when its end is reached; `outline` knows what is open where it begins.

    What is packed is unpacked into a file for each. If there is damage, the last one begins before it and goes to the end.
    """
    must_unpack, records = is_packed(path), _Records(path, position)
    begin, begin_at, latest_ns, carry = 1, _HEADER, 0, outline.carry()
    number, reached, unpacked, before_ns = 0, 0, None, 0
    for headers in records:
        if must_unpack:
            unpacked = unpacked or _Unpacked(readers.run.folder / f"{readers.name}-{number}.pcap", records.head)
            unpacked.write(headers)
        is_end = headers.end - begin_at >= STRETCH_BYTES
        outline.look_through(headers, readers.source_file, is_end=is_end)
        before_ns = max(before_ns, int(headers.time_ns.max()))
        packets, reached = headers.first + len(headers.time_ns) - begin, headers.end
        if is_end:
            place = unpacked.closed(begin) if unpacked else (path, (begin, begin_at), reached)
            yield Stretch(readers, number, *place, packets, carry, latest_ns, (begin, begin_at), position.bytes)
            number, begin, begin_at, unpacked = number + 1, begin + packets, reached, None
            latest_ns, carry = before_ns, outline.carry()
    if records.is_whole and unpacked:
        yield Stretch(readers, number, *unpacked.closed(begin), packets, carry, latest_ns, (begin, begin_at), None)
    elif not (records.is_whole and begin_at == reached):
        yield Stretch(readers, number, path, (begin, begin_at), None, None, carry, latest_ns, (begin, begin_at), None)


class _Records:
    """The packets of a capture; afterwards, whether they were all of it."""

    def __init__(self, path: Path, position: Position) -> None:
        self._path, self._position = path, position
        with gzip.open(path) if is_packed(path) else path.open("rb") as file:
            self.head = file.read(_HEADER)
        self.is_whole = False

    def __iter__(self) -> Iterator[Headers]:
        number, _ = yield from read_headers(self._path, self._position)
        self.is_whole = not number


class _Unpacked:
    """A stretch of a packed capture, unpacked."""

    def __init__(self, path: Path, head: bytes) -> None:
        self._path = path
        self._file: IO[bytes] = path.open("wb")
        self._file.write(head)

    def write(self, headers: Headers) -> None:
        self._file.write(memoryview(headers.data)[: headers.end - headers.offset])

    def closed(self, number: int) -> tuple[Path, tuple[int, int], int]:
        """Return where the stretch is, of which the first packet has this number."""
        stop = self._file.tell()
        self._file.close()
        return self._path, (number, _HEADER), stop


def read_together(
    readers: Readers, path: Path, carry: Mapping[str, str], width: int
) -> Iterator[tuple[Stretch, ReadStretch]]:
    """Yield the stretches of a capture and what is in them, in their order, read by so many processes.

    `carry`: what is open before the first. After some in a row of which the beginning was guessed wrong, one reads on alone.
    """
    given, misses = deque[Stretch](), 0

    def noted() -> Iterator[Stretch]:
        for stretch in stretches(readers, path, Outline(readers.idle_ms, readers.namesrv, carry), Position()):
            given.append(stretch)
            yield stretch

    with closing(done(read_stretch, noted(), width)) as read:
        for guessed in read:
            stretch, found = given.popleft(), guessed
            if stretch.number and not are_alike(stretch.carry, carry, found.earliest_ns // 1_000):
                misses += 1
                again = stretch._replace(carry=carry)
                if misses >= _MISSES:
                    again = again._replace(path=path, start=stretch.begins, stop=None, packets=None)
                found = read_stretch(again)
            else:
                misses = 0
            if stretch.path != path:
                stretch.path.unlink()
            yield stretch, found
            if misses >= _MISSES or found.stopped:
                return
            carry = found.carry


def read_stretch(stretch: Stretch) -> ReadStretch:
    """Read a stretch, and write its rows into files."""
    with rarely_collected():
        return _read(stretch)


def _read(stretch: Stretch) -> ReadStretch:
    readers = stretch.readers
    transcript = Transcript(readers.idle_ms, readers.namesrv, stretch.carry, _DECODERS)
    transcript.provisional = readers.provisional
    rows = Collector(readers.run, f"{readers.name}-{stretch.number}-")
    lateness = Lateness(readers.watermarks, readers.limit_days)
    captured = Captured(rows, lateness, readers.counted)
    last_ns, earliest_ns, packets, stopped = None, stretch.latest_ns or 1 << 63, 0, None
    columns = read_columns(stretch.path, None, stretch.start, stretch.stop)
    try:
        for some in in_order(columns, stretch.path, readers.limit_days, stretch.latest_ns):
            packets, earliest_ns = packets + len(some.keys), min(some.time_ns, default=earliest_ns)
            found, of_last = transcript.feed_all(some, readers.source_file)
            last_ns = of_last or last_ns
            captured.add_all(found)
    except (CaptureError, OSError) as why:
        stopped = why
    files = {name: path for name in sorted(rows.tables & STAGED.keys()) if (path := rows.end(name)) is not None}
    before = {event_id for of in readers.provisional.values() for event_id in of}
    settled = before - {event_id for of in transcript.provisional.values() for event_id in of}
    return ReadStretch(
        files,
        rows.days,
        rows.count,
        transcript.carry(),
        settled,
        transcript.passed_on(),
        packets,
        last_ns,
        earliest_ns,
        lateness.latest_us,
        lateness.refused,
        transcript.files(),
        stopped,
    )
