"""What files leave for the gate says the same as all their rows together, however the rows are cut into files."""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from namesrv_day.arrow.rows import with_derived
from namesrv_day.arrow.sql import connection
from namesrv_day.gate import keys, runs
from namesrv_day.gate.rules import counted, measure, merged, row_rules
from namesrv_day.gate.runs import Stretch
from namesrv_day.gate.scan import RUNS, Scan, judged, scanned
from schemas import bronze
from tests.day.good_rows import MINUTE, NOON, SEQ, frames, row
from tests.day.planted_rows import planted_rows

TABLES = [table.name for table in bronze.RECORDED_TABLES]
Files = list[tuple[str, pa.Table]]


def files_of(tables: dict[str, pa.Table], count: int, seed: int) -> Files:
    """Return the rows of recorded tables in files, each row in one that is drawn."""
    draw = random.Random(seed)
    found = []
    for name in TABLES:
        place = [draw.randrange(count) for _ in range(tables[name].num_rows)]
        found += [(name, tables[name].filter(pa.array([p == number for p in place]))) for number in range(count)]
    return found


def gate(
    files: Files, parts: int, stored: pa.Table
) -> dict[tuple[str, str], tuple[int | None, int | None, tuple[str, ...]]]:
    """Return what is counted by rule when files are scanned one by one."""

    def again(table: str, prints: np.ndarray) -> list[str]:
        of_table = [connection().from_arrow(rows) for name, rows in files if name == table]
        return [event_id for rows in of_table for event_id in keys.ids_with(rows, table, prints)]

    scans: list[Scan] = [scanned(connection().from_arrow(rows), rows.select, name, parts) for name, rows in files]
    connections, deciding, topics, ids = (
        pa.concat_tables([getattr(scan, name) for scan in scans])
        for name in ("connections", "deciding", "topics", "ids")
    )
    held = [(rows, run) for (_, rows), scan in zip(files, scans, strict=True) for run in scan.runs]
    found_runs = [run for _, run in held]
    found_runs += [
        runs.compared(stretch, [keys_of(held[number][0], stretch) for number in stretch.runs])
        for stretch in runs.overlaps(found_runs)
    ]
    timed = [copies._replace(owner=table) for table in keys.TIMED for copies in runs.copies(table, found_runs)]
    found = [
        *(measurement for scan in scans for measurement in scan.measured),
        *judged(connections, deciding, topics, stored),
        *keys.judged(runs.copies("positions", found_runs), [*keys.copies_in(ids), *timed], again),
    ]
    return {(m.table, m.rule): (m.rows, m.broken, m.sample) for m in merged(found, TABLES)}


def keys_of(rows: pa.Table, stretch: Stretch) -> runs.Numbers:
    """Return the keys that rows have in a stretch."""
    owner, key = RUNS[stretch.kind]
    own = rows.filter(pc.equal(rows[owner], stretch.owner))
    if stretch.kind in keys.TIMED:
        own = own.filter(pc.is_null(own["stated_id"]))
    return runs.within(stretch, own[key].cast(pa.int64()).to_numpy())


@pytest.mark.slow
@pytest.mark.parametrize(("count", "parts", "seed"), [(1, 1, 0), (2, 3, 1), (3, 2, 2), (5, 300, 3)])
def test_files_say_what_all_rows_say(count, parts, seed):
    """Every rule of the recorded tables counts the same rows and the same broken ones, planted copies of keys included."""
    tables = frames(planted_rows())
    expected = {(m.table, m.rule): m for m in measure(tables, TABLES)}

    found = gate(files_of(tables, count, seed), parts, tables["topic_configs"])

    assert found.keys() == expected.keys()
    for name, measurement in expected.items():
        rows, broken, sample = found[name]
        assert (rows, broken) == (measurement.rows, measurement.broken), name
        assert bool(sample) == bool(broken)


@pytest.mark.slow
@pytest.mark.parametrize("rows_per_file", [1, 1000])
def test_what_footers_prove_is_true(rows_per_file, tmp_path):
    """Of Parquet files, too, the same is counted: their statistics spare DuckDB to look, and hide no broken row."""
    for table, frame in frames(planted_rows()).items():
        rules = row_rules(table)
        expected = [(m.rule, m.broken) for m in counted(connection().from_arrow(frame), table, rules)]
        paths = []
        for start in range(0, frame.num_rows, rows_per_file):
            paths.append(tmp_path / f"{table}-{start}.parquet")
            pq.write_table(frame.slice(start, rows_per_file), paths[-1])

        found = [counted(connection().read_parquet(str(path)), table, rules) for path in paths]

        by_rule = {
            rule.name: sum(m.broken or 0 for file in found for m in file if m.rule == rule.name) for rule in rules
        }
        assert list(by_rule.items()) == expected


def test_clocks_are_compared_across_files():
    """A request that was recorded earlier and stands later in the source is found, though another file holds it."""
    times = {number: NOON + number * MINUTE for number in (1, 2, 3, 4, 2500, 2501)}
    rows = [row("heartbeats", source_file="a.pcap", source_offset=n, event_time=at) for n, at in times.items()]
    late = row("registrations", source_file="a.pcap", source_offset=2600, event_time=NOON)
    tables = frames({"heartbeats": rows, "registrations": [late]})
    files = [("heartbeats", tables["heartbeats"].take([number])) for number in (5, 0, 3, 1, 4, 2)]
    stored = pa.table({"topic_config_digest": pa.array([], pa.string())})

    in_order = gate(files, 1, stored)
    back = gate([*files, ("registrations", tables["registrations"])], 1, stored)

    assert in_order["namesrv_events", "clock_does_not_go_back"][:2] == (2, 0)
    assert back["namesrv_events", "clock_does_not_go_back"][:2] == (2, 1)


def test_a_position_may_be_taken_once_by_all_tables_and_files():
    """The same position in two tables, or twice in a table, is one that is there more than once; other servers have their own."""
    positions = {"heartbeats": [1, 5, 5, 5], "registrations": [2, 1], "admin_events": [3], "route_observations": [2, 2]}
    rows = {table: [row(table, seq=SEQ + n) for n in numbers] for table, numbers in positions.items()}
    rows["channel_events"] = [row("channel_events", seq=SEQ + 1, namesrv_id="10.0.0.8:9876")]
    stored = pa.table({"topic_config_digest": pa.array([], pa.string())})

    found = gate([(name, table) for name, table in frames(rows).items()], 7, stored)

    rows_, broken, sample = found["namesrv_events", "seq_is_unique_in_all_events"]
    assert (rows_, broken) == (5, 2)
    assert sample == tuple(f'{{"namesrv_id":"10.0.0.9:9876","seq":{SEQ + n}}}' for n in (1, 5))


def test_copies_of_beats_are_found_without_their_ids():
    """The same beat in two files, or twice in one, is found and named by its id; others in its microsecond are none."""
    rows = [
        row("heartbeats", channel_id=channel, seq=SEQ + n, nth=nth, event_time=at)
        for n, (channel, nth, at) in enumerate(
            [("a#1", 0, NOON), ("b#1", 0, NOON), ("c#1", 0, NOON + MINUTE), ("a#1", 1, NOON), ("c#1", 0, NOON + MINUTE)]
        )
    ]
    stated = frames({"heartbeats": rows})["heartbeats"]
    nothing = pa.nulls(stated.num_rows, pa.string())
    followed = stated.set_column(stated.schema.get_field_index("stated_id"), "stated_id", nothing)
    table = with_derived(followed, bronze.HEARTBEATS)
    stored = pa.table({"topic_config_digest": pa.array([], pa.string())})
    apart = [[0, 1, 2], [3, 4]]

    def ids(*files: list[int]) -> tuple[int | None, int | None, tuple[str, ...]]:
        return gate([("heartbeats", table.take(numbers)) for numbers in files], 3, stored)[
            "heartbeats", "key_is_unique"
        ]

    copied = (json.dumps({"event_id": table["event_id"][2].as_py(), "copies": 2}, separators=(",", ":")),)
    assert ids(*apart) == ids([4, 2, 0, 3, 1]) == (4, 1, copied)
    assert ids([0, 1], [2, 3]) == (4, 0, ())
    assert ids([0, 1, 3]) == (3, 0, ())
