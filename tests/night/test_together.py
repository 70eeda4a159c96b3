"""Rules of recorded tables, counted over data files, say the same as over all rows together, however these are cut into files."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.night import condensing
from jobs.night.condensing import count_together, to_count
from jobs.night.replaying import Files
from jobs.store.files import DataFile, digests_of, reading, write_file
from namesrv_day.arrow import Digest, Slice, ask, with_derived
from namesrv_day.rules import Measurement, measure, merged
from schemas import bronze
from schemas.rules import TABLES
from tests.day.good_rows import frames, row
from tests.day.planted_rows import planted_rows
from tests.day.row_values import MINUTE, NOON, SEQ

pytestmark = pytest.mark.slow

RECORDED = [table.name for table in bronze.RECORDED_TABLES]
Written = Mapping[str, list[DataFile]]


def written(root: Path, parts: Iterable[tuple[str, pa.Table]]) -> dict[str, list[DataFile]]:
    """Write rows of tables as data files, one for each part and day."""
    found: dict[str, list[DataFile]] = {}
    for name, rows in parts:
        for day in pc.unique(rows["day"]).to_pylist() if "day" in rows.column_names else [None]:
            own = rows if day is None else rows.filter(pc.equal(rows["day"], pa.scalar(day)))
            found.setdefault(name, []).append(write_file(own, str(root), TABLES[name], day, "part"))
    return found


def gate(root: Path, files: Written) -> dict[tuple[str, str], Measurement]:
    """Return what is counted of each rule of the recorded tables, single rows file by file, the others of all files."""
    digests: dict[Slice, Digest] = {}
    found: list[Measurement] = []
    for name, file in ((table, file) for table in RECORDED for file in files.get(table, ())):
        with reading(str(root), TABLES[name], [file]) as of:
            found += measure({name: of}, which=lambda rule: rule.kind == "row")
        for cut, digest in digests_of(str(root), TABLES[name], [file]).items():
            digests[cut] = digests.get(cut, Digest()) + digest
    given = Files(str(root), {name: tuple(of) for name, of in files.items()})
    found += count_together(to_count(given, digests, str(root / "staging")))
    return {(m.table, m.rule): m for m in merged(found, RECORDED, {cut.table: 1 for cut in digests})}


def stored(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return tables whose positions are what follows from their stored columns."""
    rest = "* REPLACE (seq - epoch_us(effect_time) * 1000 AS seq_rest, request_seq - epoch_us(event_time) * 1000 AS request_rest)"
    answers = ask(f"SELECT {rest} FROM answers", {"answers": tables["route_observations"]})
    found = {**tables, "route_observations": answers.cast(tables["route_observations"].schema)}
    return {name: with_derived(rows, TABLES[name]) for name, rows in found.items()}


@pytest.mark.parametrize(("count", "seed", "keys", "few"), [(2, 1, 100, 0), (2, 2, 100, 100_000)])
def test_files_say_what_all_rows_say(
    tmp_path: Path, count: int, seed: int, keys: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rule of the recorded tables counts the same rows and the same broken ones, planted copies of keys included.

    However few keys are compared at a time, and whether all rows are read at once, as `few` are, or asked where they lie.
    """
    monkeypatch.setattr(condensing, "_KEYS_AT_A_TIME", keys)
    monkeypatch.setattr(condensing, "_MOST_IN_MEMORY", few)
    tables, draw = stored(frames(planted_rows())), random.Random(seed)
    expected = {(m.table, m.rule): m for m in measure(tables, RECORDED)}
    parts = [("topic_configs", tables["topic_configs"])]
    for name in RECORDED:
        place = [draw.randrange(count) for _ in range(tables[name].num_rows)]
        parts += [(name, tables[name].filter(pa.array([p == number for p in place]))) for number in range(count)]

    found = gate(tmp_path, written(tmp_path, parts))

    assert found.keys() == expected.keys()
    for rule, measurement in expected.items():
        assert (found[rule].rows, found[rule].broken) == (measurement.rows, measurement.broken), rule
        assert bool(found[rule].sample) == bool(measurement.broken)


@pytest.mark.parametrize("few", [0, 100_000])
def test_clocks_are_compared_across_files(tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was recorded earlier and stands later in the source is found, though another file holds it."""
    monkeypatch.setattr(condensing, "_MOST_IN_MEMORY", few)
    times = {number: NOON + number * MINUTE for number in (1, 2, 3, 4, 2500, 2501)}
    rows = [row("heartbeats", source_file="a.pcap", source_offset=n, event_time=at) for n, at in times.items()]
    late = row("registrations", source_file="a.pcap", source_offset=2600, event_time=NOON)
    tables = frames({"heartbeats": rows, "registrations": [late]})
    parts = [("heartbeats", tables["heartbeats"].take([number])) for number in (5, 0, 3, 1, 4, 2)]
    rule = "namesrv_events", "clock_does_not_go_back"

    in_order = gate(tmp_path, written(tmp_path, parts))[rule]
    back = gate(tmp_path, written(tmp_path, [*parts, ("registrations", tables["registrations"])]))[rule]

    assert (in_order.rows, in_order.broken) == (2, 0)
    assert (back.rows, back.broken) == (2, 1)


@pytest.mark.parametrize("few", [0, 100_000])
def test_a_position_may_be_taken_once_by_all_tables_and_files(
    tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same position in two tables, or twice in a table, is one that is there more than once; other servers have their own."""
    monkeypatch.setattr(condensing, "_MOST_IN_MEMORY", few)
    positions = {"heartbeats": [1, 5, 5, 5], "registrations": [2, 1], "admin_events": [3], "route_observations": [2, 2]}
    rows = {table: [row(table, seq=SEQ + n) for n in numbers] for table, numbers in positions.items()}
    rows["channel_events"] = [row("channel_events", seq=SEQ + 1, namesrv_id="10.0.0.8:9876")]

    found = gate(tmp_path, written(tmp_path, frames(rows).items()))["namesrv_events", "seq_is_unique_in_all_events"]

    assert (found.rows, found.broken) == (5, 2)
    assert [json.loads(sample) for sample in found.sample] == [
        {"namesrv_id": "10.0.0.9:9876", "seq": SEQ + n, "copies": copies} for n, copies in ((1, 2), (5, 3))
    ]


@pytest.mark.parametrize("few", [0, 100_000])
def test_copies_of_beats_are_found_without_their_ids(tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same beat in two files, or twice in one, is found and named by its id; others in its microsecond are none."""
    monkeypatch.setattr(condensing, "_MOST_IN_MEMORY", few)
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

    def ids(*files: list[int]) -> tuple[int | None, int | None, tuple[str, ...]]:
        parts = written(tmp_path, [("heartbeats", table.take(numbers)) for numbers in files])
        found = gate(tmp_path, parts)["heartbeats", "key_is_unique"]
        return found.rows, found.broken, found.sample

    copied = (json.dumps({"event_id": table["event_id"][2].as_py(), "copies": 2}, separators=(",", ":")),)
    assert ids([0, 1, 2], [3, 4]) == ids([4, 2, 0, 3, 1]) == (4, 1, copied)
    assert ids([0, 1], [2, 3]) == (4, 0, ())
    assert ids([0, 1, 3]) == (3, 0, ())


def test_keys_that_do_not_fit_into_memory_are_spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400,000 ids, a thousand of them twice, exactly the copies are counted with room for a part of them alone."""
    monkeypatch.setattr(condensing, "_MEMORY", "24MB")
    first = frames({"registrations": [row("registrations")]})["registrations"]
    made = ask(
        "SELECT md5(CAST(n % 399000 AS VARCHAR)) AS event_id, 1772452800000000000 + n AS seq FROM range(400000) AS of(n)"
    )
    many = first.take(pa.array([0] * made.num_rows))
    for name in made.column_names:
        many = many.set_column(many.schema.get_field_index(name), many.schema.field(name), made[name])

    found = gate(tmp_path, written(tmp_path, [("registrations", many)]))

    assert (found["registrations", "key_is_unique"].rows, found["registrations", "key_is_unique"].broken) == (
        399_000,
        1_000,
    )
    assert found["namesrv_events", "seq_is_unique_in_all_events"].broken == 0
    assert not list(tmp_path.glob("staging/spilled-*"))
