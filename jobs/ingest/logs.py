"""Event logs into staged rows: parts of files by tasks, which know nothing of each other."""

from __future__ import annotations

import datetime as dt
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from jobs.ingest.collecting import WRITTEN, Run, as_staged, columns_of_lines
from jobs.ingest.ingested import Quarantined
from jobs.ingest.sources import Source, UntilItStops, is_compressed
from namesrv_wire.lateness import Times, times_of
from namesrv_wire.logs.log_file import BLOCK_BYTES, Block, read_blocks
from namesrv_wire.logs.namesrv_log import Told, read_log
from namesrv_wire.rows import QUARANTINE, Row
from schemas.times import US_PER_DAY, day_of


class Part(NamedTuple):
    """What a task is to read: a part of a file, of which the lines begin from `start` up to `stop`.

    It writes what it finds into files that begin with `name`. `told`: of a name server's own log, which is one part.
    """

    path: Path
    start: int
    stop: int | None
    name: str
    run: Run
    told: Told | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield what is in it."""
        if self.told is not None:
            return read_log(self.path, self.told)
        return read_blocks(self.path, self.start, self.stop)


@dataclass(slots=True)
class ReadBlock:
    """What a block of lines holds: `files` of rows by table, of which numbers count from 0, as do those of lines (`count`).

    `ignored`: as of its `Block`. `times`: of the effects of known lines. `days`: on which something was received or took
    effect. `stated`: addresses that are said to be another one of a name server. `refused`: lines that are no events.
    """

    count: int
    frames: int
    ignored: Counter[str] = field(default_factory=Counter)
    files: dict[str, Path] = field(default_factory=dict)
    rows: Path | None = None
    times: dict[str, Times] = field(default_factory=dict)
    days: set[dt.date] = field(default_factory=set)
    stated: dict[str, str] = field(default_factory=dict)
    refused: Quarantined = field(default_factory=Quarantined)


@dataclass(slots=True)
class ReadPart:
    """The blocks of a part, in their order, and why it was not read to its end."""

    blocks: list[ReadBlock] = field(default_factory=list)
    error: str | None = None


def parts_of_logs(sources: Sequence[Source], run: Run, told: Told | None) -> Iterator[Part]:
    """Yield the parts of logs, file after file: of an event log that is not compressed each block is one."""
    for number, source in enumerate(sources):
        if source.kind == "namesrv_log":
            yield Part(source.path, 0, None, f"log-{number}", run, told)
            continue
        size = 0 if is_compressed(source.path) else source.bytes
        starts = range(0, max(1, size), BLOCK_BYTES)
        for start in starts:
            stop = start + BLOCK_BYTES if start != starts[-1] else None
            yield Part(source.path, start, stop, f"log-{number}-{start}", run)


def read_part(part: Part) -> ReadPart:
    """Read a part of an event log and write what its lines say."""
    found, blocks = ReadPart(), UntilItStops(part.blocks())
    for number, block in enumerate(blocks):
        found.blocks.append(_written(part, f"{part.name}-{number}", block))
    found.error = None if blocks.stopped is None else str(blocks.stopped)
    return found


def _written(part: Part, name: str, block: Block) -> ReadBlock:
    found, run = ReadBlock(block.count, block.frames, block.ignored), part.run
    writers: dict[str, pa.ipc.RecordBatchStreamWriter] = {}
    for lines in block.lines:
        columns = columns_of_lines(lines, WRITTEN[lines.table], part.path.name, block.first, run.run_id)
        batch = as_staged(columns, run.namesrv_of)
        if lines.table not in writers:
            found.files[lines.table] = run.folder / f"{name}-{lines.table}.arrow"
            writers[lines.table] = pa.ipc.new_stream(str(found.files[lines.table]), batch.schema)
        writers[lines.table].write_batch(batch)
        for times in (lines.event_us, lines.effect_us):
            found.days.update(day_of(day * US_PER_DAY) for day in np.unique(times // US_PER_DAY).tolist())
    for writer in writers.values():
        writer.close()
    found.times = _times(block)
    for values in (*(of for lines in block.lines for of in lines.said), *(row.values for _, row in block.rows)):
        address, of = values.get("namesrv_addr"), values.get("namesrv_id")
        if address is not None and of is not None and address != of:
            found.stated[address] = of
    for number, row in block.rows:
        if row.table == QUARANTINE:
            found.refused.add(row.values["reason"], number - block.first, row.values["detail"] or "")
    if block.rows:
        found.rows = run.folder / f"{name}.rows"
        found.rows.write_bytes(pickle.dumps([(number - block.first, row) for number, row in block.rows]))
    return found


def _times(block: Block) -> dict[str, Times]:
    """Return by name server the times at which lines took effect, in their order."""
    rows = [(number, row.values) for number, row in block.rows if row.values.get("effect_time") is not None]
    names = [of["namesrv_id"] for lines in block.lines for of in lines.said] + [of["namesrv_id"] for _, of in rows]
    number_of = {name: number for number, name in enumerate(dict.fromkeys(names))}
    numbers = [*(lines.numbers for lines in block.lines), np.array([number for number, _ in rows], np.int64)]
    effects = [*(lines.effect_us for lines in block.lines), np.array([of["effect_time"] for _, of in rows], np.int64)]
    whose = [
        *(np.array([number_of[of["namesrv_id"]] for of in lines.said])[lines.which] for lines in block.lines),
        np.array([number_of[of["namesrv_id"]] for _, of in rows], np.int64),
    ]
    order = np.argsort(np.concatenate(numbers), kind="stable")
    in_order, of_name = np.concatenate(effects)[order], np.concatenate(whose)[order]
    if len(number_of) == 1:
        return dict.fromkeys(number_of, times_of(in_order))
    return {name: times_of(in_order[of_name == number]) for name, number in sorted(number_of.items())}


def rows_in(block: ReadBlock) -> list[tuple[int, Row]]:
    """Return the rows of a block that are no columns, with the numbers of their lines from 0."""
    if block.rows is None:
        return []
    # Written by a task of this run: nothing from outside is ever unpickled.
    rows: list[tuple[int, Row]] = pickle.loads(block.rows.read_bytes())  # noqa: S301
    block.rows.unlink()
    return rows


def again(part: Part, number: int) -> Iterator[tuple[int, Row]]:
    """Yield all rows of a block, read once more, with the numbers of their lines from 0."""
    for at, block in enumerate(part.blocks()):
        if at == number:
            for line, row in block.in_order(part.path.name):
                yield line - block.first, row
            return
