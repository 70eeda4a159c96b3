"""Rules about several rows of recorded tables, asked of their data files: keys, connections, clocks, topics that are stored."""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from jobs.night.opened import Files
from jobs.store.places import local_path
from namesrv_day.arrow.digest import Rows, Slice
from namesrv_day.arrow.rows import empty
from namesrv_day.arrow.sql import apart
from namesrv_day.gate.rules import Measurement, measure
from schemas import bronze
from schemas.rules import RULES, TABLES
from schemas.table import Rule, Scope

# What is more is spilled: so many keys take a gigabyte of a disk.
_MEMORY, _KEYS_AT_A_TIME = "256MB", 20_000_000
# A database of its own takes as long as a hundred thousand rows.
_MOST_IN_MEMORY = 100_000
_RECORDED = tuple(table.name for table in bronze.RECORDED_TABLES)


@dataclass(frozen=True)
class TogetherWork:
    """The rules of one `scope` of some recorded `tables`, over `rows` rows in `files`.

    Of keys a `part`, as `measure` has it; the first has all other rules, too. What does not fit into memory is spilled below
    `staging`.
    """

    files: Files
    scope: Scope
    tables: tuple[str, ...]
    rows: int
    part: tuple[int, int]
    staging: str


def to_count(files: Files, rows: Mapping[Slice, int], staging: str) -> Iterator[TogetherWork]:
    """Yield what is to be counted of the recorded tables in `files`, with topic_configs; `rows` of each slice."""
    of_table, of_namesrv = Counter[str](), Counter[str]()
    for cut, count in rows.items():
        if cut.table in _RECORDED and cut.namesrv_id is not None:
            of_table[cut.table] += count
            of_namesrv[cut.namesrv_id] += count
    for table, count in of_table.items():
        needed = {name: files.named.get(name, ()) for name in _needed([table], "table")}
        for part in _parts(count):
            yield TogetherWork(Files(files.root, needed), "table", (table,), count, part, staging)
    for name, count in of_namesrv.items():
        recorded = Files(files.root, {table: files.named.get(table, ()) for table in _RECORDED})
        for part in _parts(count):
            yield TogetherWork(recorded.of(name), "namesrv", _RECORDED, count, part, staging)


def _parts(keys: int) -> list[tuple[int, int]]:
    count = 1 + keys // _KEYS_AT_A_TIME
    return [(number, count) for number in range(count)]


def count_together(work: Iterable[TogetherWork]) -> list[Measurement]:
    """Count some of this work: a task, of bounded memory. Raises TamperedError if a file cannot be read."""
    found = []
    for one in work:
        folder = local_path(one.staging) or Path(tempfile.gettempdir())
        spilled = str(folder / f"spilled-{uuid.uuid4().hex}")
        is_small = one.rows < _MOST_IN_MEMORY
        with nullcontext() if is_small else apart(memory_limit=_MEMORY, temp_directory=spilled):
            found += _counted(one)
    return found


def _is_asked(rule: Rule, scope: Scope) -> bool:
    return rule.kind != "row" and rule.scope == scope


def _needed(tables: Sequence[str], scope: Scope) -> list[str]:
    """Return the tables, and those that their rules of a scope read."""
    needs = {name for table in tables for rule in RULES[table] if _is_asked(rule, scope) for name in rule.needs}
    return sorted({*tables, *needs})


def _counted(work: TogetherWork) -> list[Measurement]:
    """Count a piece of work. Raises TamperedError if a file cannot be read."""
    with ExitStack() as opened:
        rows: dict[str, Rows] = {}
        for name in _needed(work.tables, work.scope):
            is_there = work.files.named.get(name)
            rows[name] = opened.enter_context(work.files.reading(TABLES[name])) if is_there else empty(TABLES[name])
        is_first = work.part[0] == 0
        return measure(
            rows,
            work.tables,
            which=lambda rule: _is_asked(rule, work.scope) and (is_first or rule.kind == "unique"),
            part=work.part,
        )
