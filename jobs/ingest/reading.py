"""Reading of a run's files into the staging area, and its counts."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from jobs.ingest.series import Before, ReadSeries, Series, joined_by, read_series, series_in
from jobs.ingest.sources import Ingested, Quarantined, ReadSource, Source, UntilItStops, is_compressed
from jobs.ingest.staging import Collector, Run, Staging
from jobs.passes import InProcess, Passes
from jobs.session import is_meant_for_cluster
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.events import NS_PER_US
from namesrv_day.arrow import rows_of, with_microseconds
from namesrv_wire.errors import Reason
from namesrv_wire.lateness import Lateness, Times, times_of
from namesrv_wire.logs.event_log import BLOCK_BYTES, Block, read_blocks
from namesrv_wire.logs.namesrv_log import BROKER_LINES, NO_LOG_CONF, OTHER_LINES, LogConf, is_fact, read_log
from namesrv_wire.rows import QUARANTINE, AnyRow, FrameRow, Values
from schemas import bronze


class Part(NamedTuple):
    """Work of one task: the lines of a file that begin from `start` up to `stop`.

    The task writes its rows into files whose names begin with `name`. `log`: set for a name server's own log, which is one part.
    """

    source: Source
    start: int
    stop: int | None
    name: str
    run: Run
    log: LogConf | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the part."""
        if self.log is not None:
            return read_log(self.source.path, self.log, self.source.name)
        return read_blocks(self.source.path, self.start, self.stop, self.source.name)


@dataclass(slots=True)
class ReadBlock:
    """Result of reading a block of lines: files of rows by table.

    `first`, `count`: number of its first line within its part, and number of lines; `numbers`: count of row and line numbers, from
    1. `ignored`: as in its `Block`. `times`: effect times of its rows. `days`: days on which its rows were received or took effect.
    `stated`: name server by address, where lines state another address of one. `refused`: lines that are no events.
    """

    first: int
    count: int
    frames: int
    ignored: Counter[str] = field(default_factory=Counter)
    files: dict[str, str] = field(default_factory=dict)
    numbers: int = 0
    times: dict[str, Times] = field(default_factory=dict)
    days: set[dt.date] = field(default_factory=set)
    stated: dict[str, str] = field(default_factory=dict)
    refused: Quarantined = field(default_factory=Quarantined)


def read_part(part: Part) -> tuple[list[ReadBlock], str | None]:
    """Write the rows of a part's lines; return its blocks, in order, and why it was not read to its end."""
    blocks = UntilItStops(part.blocks())
    found = [_written(part, f"{part.name}-{number}", block) for number, block in enumerate(blocks)]
    return found, None if blocks.stopped is None else str(blocks.stopped)


def _written(part: Part, name: str, block: Block) -> ReadBlock:
    found, rows = ReadBlock(block.first, block.count, block.frames, block.ignored), Collector(part.run, f"{name}-")
    rows.reserve(block.count)
    placed = [*_placed(part, block, 1, block.first)]
    numbers = [number for _, number in placed]
    rows.add([row for row, _ in placed], numbers, numbers)
    met, stating = defaultdict[str, list[int]](list), dict[int, FrameRow]()
    for row, number in placed:
        if isinstance(row, FrameRow):
            met[row.namesrv_id].append(row.effect_us)
            stating[id(row.columns)] = row
        elif row.table == QUARANTINE and number is not None:
            found.refused.add(row.values["reason"], number - 1, row.values["detail"])
    found.times = {of: times_of(np.array(us)) for of, us in sorted(met.items())}
    for row in stating.values():
        if (address := row.columns.get("namesrv_addr")) not in (None, row.namesrv_id):
            found.stated[address] = row.namesrv_id
    found.files = {table: path for table in sorted(rows.tables) if (path := rows.end(table)) is not None}
    found.numbers, found.days = rows.count, rows.days
    return found


def _placed(part: Part, block: Block, first: int, line: int) -> Iterator[tuple[AnyRow, int | None]]:
    """Yield the rows of a block, which begins at `line` of its file, each with its line's number; these count from `first`.

    None: it has no line of its own: a topic table belongs to its registration's, a fact about a log to none.
    """
    for row in block.rows:
        offset = row.source_offset if isinstance(row, FrameRow) else row.values.get("source_offset", -1)
        at = max(offset - block.first, -1)  # -1: of an earlier block
        in_file = line + max(at, 0)
        if isinstance(row, FrameRow):
            row = row if offset == in_file else row._replace(source_offset=in_file)  # noqa: PLW2901
        elif offset >= 0:
            row = row._replace(values={**row.values, "source_offset": in_file})  # noqa: PLW2901
        is_part = row.table == bronze.TOPIC_CONFIGS_TABLE.name or (part.log is not None and is_fact(row))
        yield row, None if is_part else first + at


_WORTH_ASKING = 4 << 20
"""Below this many bytes this process reads the files itself: tasks would take longer to start."""
_OF_A_BROKER = (
    "{}: {:,} of {:,} lines tell what a broker told name servers: no rows. A broker does not log when a name server "
    "forgets it, so its log cannot show what held; namesrv.log does (docs/recording.md)"
)


class Reading:
    """Reads files of one run into the staging area; tasks read series of captures and parts of event logs.

    Afterwards `open_streams` has rows with the place where reading stopped in each address's connections, `stated` the name servers
    of addresses as event logs state them, `beside` addresses of which captures show different connections of the same time,
    `unused` the digests of files without a name server, which may be given again.
    `foreign` has the digests of logs that are of no use here, with the reason. `refused` has those of event logs with too many
    lines that are no events, with the reason; none of their rows is staged.
    """

    def __init__(
        self, warehouse: Warehouse, staging: Staging, lateness: Lateness, result: Ingested, passes: Passes
    ) -> None:
        self._warehouse, self._staging, self._lateness = warehouse, staging, lateness
        self._result, self._passes = result, passes
        self.open_streams: list[Values] = []
        self.stated: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.unused: set[str] = set()
        self.beside: set[str] = set()
        self.foreign: dict[str, str] = {}

    def read(self, sources: Sequence[Source]) -> list[ReadSource]:
        """Read the files, which are in order of time; return the accepted ones in the order in which they were read."""
        noted = [*self._read_logs([source for source in sources if source.kind in ("event_log", "broker_log")])]
        noted += self._read_captures([source for source in sources if source.kind == "capture"])
        noted += self._beside_captures([source for source in sources if source.kind == "namesrv_log"])
        self._result.errors += [read.row["error"] for read in noted if read.row["error"]]
        self._result.sources += [read.source.name for read in noted]
        self._result.refused.update({reason.value: count for reason, count in self._lateness.refused.items()})
        return noted

    def _runner(self, sources: Sequence[Source]) -> Passes:
        """Return the passes that read the files: this process for small files, since tasks would take longer to start."""
        return self._passes if sum(source.bytes for source in sources) >= _WORTH_ASKING else InProcess()

    def _beside_captures(self, logs: Sequence[Source]) -> Iterator[ReadSource]:
        """Read a name server's own logs, unless captures show it: they show more, and for a log silence does not end a lease."""
        log, namesrv_of = self._warehouse.conf.log, self._staging.run.namesrv_of
        streams = [*self.open_streams, *rows_of(self._warehouse.rows(bronze.OPEN_STREAMS, columns=["namesrv_addr"]))]
        captured = {namesrv_of.get(row["namesrv_addr"], row["namesrv_addr"]) for row in streams} if logs else set()
        if log is None or namesrv_of.get(log.namesrv_id, log.namesrv_id) not in captured:
            yield from self._read_logs(logs)
            return
        for source in logs:
            self.foreign[source.sha256] = f"{source.name}: not read, since captures show more of {log.namesrv_id}"
            yield ReadSource(source, source.row(), range(self._staging.count + 1, self._staging.count + 1))

    # -- captures ------------------------------------------------------------------------------------------------------

    def _read_captures(self, sources: Sequence[Source]) -> list[ReadSource]:
        """Read captures, a task for each series; return them in order of time.

        Series that turn out to show the same name server are read again as one, since only that tells what both have recorded.
        """
        runner, before = self._runner(sources), self._before()
        work = series_in(sources, self._staging.run, before)
        if len(work) == 1 and not isinstance(runner, InProcess) and not is_meant_for_cluster():
            runner = InProcess()  # for one series another process of this machine would not be faster
            runner.share = self._passes.share
        done: list[tuple[Series, ReadSeries]] = []
        while work:
            done += zip(work, runner.each(read_series, work), strict=True)
            number = 1 + max(series.number for series, _ in done)
            points = joined_by([series.sources for series, _ in done], [found.namesrvs for _, found in done])
            alone = [(series, found) for series, found in done if list(series.sources) in points]
            known = [list(series.sources) for series, _ in alone]
            fresh = [files for files in points if files not in known]
            work = [Series(number + n, files, self._staging.run, before) for n, files in enumerate(fresh)]
            done = alone
        order = {source: at for at, source in enumerate(sources)}
        noted = [each for series, found in done for each in self._taken(series, found)]
        return sorted(noted, key=lambda read: order[read.source])

    def _before(self) -> Before:
        warehouse, columns = self._warehouse, ["first_time", "last_time"]
        times = warehouse.rows(bronze.SOURCES, None, columns, pc.field("kind") == "capture")
        recorded = zip(*with_microseconds(times).drop_null().to_pydict().values(), strict=True)
        is_beginning = pc.field("kind").isin(["started", "observed_from", "address_started", "address_observed_from"])
        known = warehouse.rows(bronze.NAMESRV_EVENTS, None, ["namesrv_addr", "seq", "event_id", "kind"], is_beginning)
        last_first = sorted(rows_of(known), key=itemgetter("seq"), reverse=True)
        first = {row["namesrv_addr"]: row for row in last_first}
        return Before(
            warehouse.conf,
            warehouse.path,
            warehouse.files(bronze.OPEN_STREAMS),
            [(first * NS_PER_US, last * NS_PER_US + NS_PER_US) for first, last in recorded],
            {addr: row["seq"] for addr, row in first.items()},
            {addr: row["event_id"] for addr, row in first.items() if "observed" in row["kind"]},
            self._lateness.watermarks_us,
            warehouse.until_us,
        )

    def _taken(self, series: Series, found: ReadSeries) -> Iterator[ReadSource]:
        """Add the result of a series to that of the run; yield its files."""
        result, counts, first = self._result, found.counts, self._staging.reserve(found.count)
        self._staging.add_files(found.files, found.days, first - 1, 0)
        self._lateness.add(found.latest_us, found.refused)
        result.frames += counts.frames
        result.pieces += counts.pieces
        result.packets += counts.packets
        result.sightings += counts.sightings
        result.ignored.update(counts.ignored)
        if counts.dropped_rows:
            result.ignored["before_known_as_namesrv"] += counts.dropped_rows
        result.unordered += found.unordered
        result.left_out += found.left_out
        self.unused |= found.unused
        self.beside |= found.beside
        self.open_streams += found.open_streams
        behind = 0
        for source, (row, count) in zip(series.sources, found.rows, strict=True):
            yield ReadSource(source, row, range(first + behind, first + count))
            behind = count

    # -- event logs ----------------------------------------------------------------------------------------

    def _read_logs(self, sources: Sequence[Source]) -> Iterator[ReadSource]:
        """Read event logs in parts, by tasks; yield the accepted ones."""
        parts, run, log = list[Part](), self._staging.run, self._warehouse.conf.log or NO_LOG_CONF
        for number, source in enumerate(sources):
            if source.kind != "event_log":
                parts.append(Part(source, 0, None, f"log-{number}", run, log))
                continue
            # Each block of an uncompressed event log is a part.
            size = 0 if is_compressed(source.path) else source.bytes
            starts = range(0, max(1, size), BLOCK_BYTES)
            for start in starts:
                stop = start + BLOCK_BYTES if start != starts[-1] else None
                parts.append(Part(source, start, stop, f"log-{number}-{start}", run))
        read = self._runner(sources).each(read_part, parts)
        of_path = groupby(zip(parts, read, strict=True), key=lambda pair: pair[0].source)
        for source, (_, some) in zip(sources, of_path, strict=True):
            first = self._staging.count + 1
            row = self._read_log(source, [(part, *of_part) for part, of_part in some])
            if row is not None:
                yield ReadSource(source, row, range(first, self._staging.count + 1))

    def _read_log(self, source: Source, parts: Sequence[tuple[Part, list[ReadBlock], str | None]]) -> Values | None:
        """Add the parts of one event log, which are in order, to the result of the run, unless the log is refused."""
        lateness, staging, name = self._lateness, self._staging, source.name
        lateness.begin_file()
        found, line, frames = Quarantined(), 1, 0
        for block in (block for _, blocks, _ in parts for block in blocks):
            found.add_behind(block.refused, line)
            line, frames = line + block.count, frames + block.frames
        error = next((why for *_, why in parts if why), None)
        if (why := found.refusal(self._warehouse.conf, name, frames)) is not None:
            self.refused[source.sha256] = why
            return None
        refused_before, line, ignored = lateness.refused[Reason.CLOCK_WENT_BACK], 1, Counter[str]()
        for part, blocks, _ in parts:
            once_more = enumerate(part.blocks())  # read again as far as blocks are out of order
            for number, block in enumerate(blocks):
                # `line`: the number of the block's first line within its file.
                first = staging.reserve(block.numbers)
                if lateness.all_in_order(block.times):
                    staging.add_files(block.files, block.days, first - 1, line - block.first)
                else:
                    lines = next(lines for at, lines in once_more if at == number)
                    for row, of in _placed(part, lines, first, line):
                        staging.add([lateness.checked(row)], [of], [of])
                self.stated |= block.stated
                line += block.count
                ignored += block.ignored
        staging.add(lateness.steps_back, repeat(None))
        if backwards := lateness.refused[Reason.CLOCK_WENT_BACK] - refused_before:
            self._result.unordered.append(name)
            error = error or (
                f"{name}: the clock goes back by more than {lateness.limit_days} days (late.limit_days); "
                f"{backwards} lines were refused, see quarantine: {Reason.CLOCK_WENT_BACK.value}"
            )
        self._result.ignored += ignored
        if of_broker := ignored[BROKER_LINES]:
            self._result.left_out.append(_OF_A_BROKER.format(name, of_broker, frames))
        elif 0 < ignored[OTHER_LINES] == frames:
            self.foreign[source.sha256] = f"{name}: none of its {frames:,} lines shows what a name server knew"
        self._result.frames += frames
        return source.row(frames, error=error)
