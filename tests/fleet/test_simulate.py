"""Days of a fleet in a warehouse: delivered once, also by a run that comes after one that died, and in good files."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.store.files import read_files, write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow import rows_of, table_of
from schemas import bronze
from schemas.table import Table
from tests.fleet.fleets import DAY, NEXT, TROUBLED, fleet_like
from tests.ingest.given import warehouse_at
from tools.fleet.fleet import Fleet, FleetError
from tools.fleet.simulate import LATE, ON_TIME, Simulated, deliver, simulate

BEATS = (bronze.HEARTBEATS, bronze.REGISTRATIONS)
WRITTEN = (*BEATS, bronze.NAMESRV_EVENTS, bronze.TOPIC_CONFIGS_TABLE, bronze.SOURCES)


def run(path: Path, fleet: Fleet, *days: dt.date, name: str = "run") -> Simulated:
    """Simulate days with a run of its own."""
    return simulate(warehouse_at(path, name), fleet, days)


def contents(path: Path, tables: Iterable[Table] = WRITTEN) -> dict[str, list[str]]:
    """Return all that the tables say, but for the run that wrote it, in an order of its own."""
    warehouse = warehouse_at(path, "reader")
    found = {table.name: rows_of(warehouse.rows(table)) for table in tables}
    return {
        name: sorted(str({column: value for column, value in row.items() if column != "ingest_run"}) for row in rows)
        for name, rows in found.items()
    }


def test_a_day_is_delivered_once(tmp_path: Path) -> None:
    """A repeated call writes nothing; another fleet is refused; brokers change when the plan says so."""
    fleet = fleet_like(TROUBLED, churn=1.0, brokers=2, namesrvs=1)
    assert list(run(tmp_path, fleet, DAY, NEXT).events) == ["2026-01-01 on time", "2026-01-02 on time"]
    before = warehouse_at(tmp_path, "reader").versions()
    again = run(tmp_path, fleet, NEXT, DAY, name="again")
    assert again == Simulated({}, ["2026-01-01 on time", "2026-01-02 on time"])
    assert warehouse_at(tmp_path, "reader").versions() == before
    with pytest.raises(FleetError, match=r": 2026-01-01 was simulated with other options$"):
        run(tmp_path, fleet_like(fleet, seed=2), DAY, name="other")
    rows = warehouse_at(tmp_path, "reader").rows(bronze.REGISTRATIONS)
    told = {(row["broker_name"], row["data_version"]["counter"]) for row in rows_of(rows)}
    assert told == {("broker-00000", 0), ("broker-00000", 1), ("broker-00000", 2)} | {
        ("broker-00001", version) for version in range(3)
    }


@pytest.mark.slow
def test_counts_are_of_what_was_written(tmp_path: Path) -> None:
    """Events by day, the rows by which a night finds them, and rows of the tables are as many; days add up."""
    done = run(tmp_path, TROUBLED, DAY, NEXT)
    warehouse = warehouse_at(tmp_path, "reader")
    events = (*BEATS, bronze.NAMESRV_EVENTS)
    assert sum(done.events.values()) == sum(len(warehouse.rows(table)) for table in events)
    sources = sorted(rows_of(warehouse.rows(bronze.SOURCES)), key=lambda source: source["source_file"])
    assert [source["source_file"] for source in sources] == [
        f"fleet-{day}-{n}" for day in ("20260101", "20260102") for n in (0, 1)
    ]
    of_files = pc.value_counts(pa.concat_tables(warehouse.rows(table, columns=["source_file"]) for table in events)[0])
    counts = {row["values"]: row["counts"] for row in of_files.to_pylist()}
    assert {source["source_file"]: source["frames"] for source in sources} == counts
    assert [(source["kind"], source["bytes"], source["days"]) for source in sources] == [
        ("event_log", 0, [day]) for day in (DAY, DAY, NEXT, NEXT)
    ]
    assert {source["ingest_run"] for source in sources} == {"run"}


@pytest.mark.slow
def test_rows_are_the_same_in_however_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece a name server or five give the same rows, in files that are in order."""
    fleet = fleet_like(TROUBLED, churn=0.5, outages=0.3, late=0.02, duplicates=0.02, namesrvs=3)
    whole = run(tmp_path / "whole", fleet, DAY, NEXT)
    monkeypatch.setattr("tools.fleet.simulate._ROWS_PER_FILE", fleet.beats_per_day * fleet.brokers // 5)
    assert run(tmp_path / "cut", fleet, DAY, NEXT) == whole
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    warehouse = warehouse_at(tmp_path / "cut", "reader")
    files = warehouse.files(bronze.HEARTBEATS, [NEXT])
    assert len(files) == 3 * 5
    for file in files:
        low, high = file.namesrvs
        seq = read_files(warehouse.path, bronze.HEARTBEATS, [file], ["seq"])["seq"].to_numpy()
        assert low == high
        assert (np.diff(seq) > 0).all()


@pytest.mark.slow
def test_late_and_repeated_events_come_with_the_next_day(tmp_path: Path) -> None:
    """After that the tables say what they would if all had come on time: what was lacking is there, and nothing twice."""
    fleet = fleet_like(TROUBLED, late=0.03, duplicates=0.03, churn=0.5, registrations=0.1)
    warehouse = warehouse_at(tmp_path / "late", "on-time")
    on_time = deliver(warehouse, fleet, DAY, ON_TIME)
    before = sum(len(warehouse.rows(table)) for table in BEATS)
    late = deliver(warehouse_at(tmp_path / "late", "late"), fleet, DAY, LATE)
    punctual = fleet_like(fleet, late=0.0, duplicates=0.0)
    everything = deliver(warehouse_at(tmp_path / "all", "all"), punctual, DAY, ON_TIME)
    tables = (*BEATS, bronze.NAMESRV_EVENTS, bronze.TOPIC_CONFIGS_TABLE)
    assert contents(tmp_path / "late", tables) == contents(tmp_path / "all", tables)
    came_late = everything - on_time
    assert 0.02 < came_late / everything < 0.04 < late / everything < 0.08
    reader = warehouse_at(tmp_path / "late", "reader")
    of_runs = {
        row["ingest_run"]
        for table in BEATS
        for row in rows_of(reader.rows(table, columns=["ingest_run"]).group_by("ingest_run").aggregate([]))
    }
    assert of_runs == {"on-time", "late"}
    assert sum(len(reader.rows(table)) for table in BEATS) - before == came_late
    assert sum(source.frames for source in reader.recorded()) == on_time + late
    assert not len(reader.rows(bronze.QUARANTINE))
    assert not Path(reader.path, "_staging").exists()


@pytest.mark.slow
def test_late_events_wait_for_the_next_day(tmp_path: Path) -> None:
    """The deliveries and their order: a day, and after the next day what is late of it; nothing where nothing comes late."""
    fleet = fleet_like(TROUBLED, brokers=2, namesrvs=1, late=0.1)
    names = ["2026-01-01 on time", "2026-01-02 on time", "2026-01-01 late"]
    assert list(run(tmp_path, fleet, DAY, NEXT).events) == names
    again = run(tmp_path, fleet, DAY, NEXT, NEXT + dt.timedelta(days=1), name="again")
    assert again.known == names
    assert list(again.events) == ["2026-01-03 on time", "2026-01-02 late"]


def test_the_slices_of_its_days_belong_to_the_fleet(tmp_path: Path) -> None:
    """What somebody else has put there goes, on its days alone; a topic table that is stored is not stored again."""
    warehouse = warehouse_at(tmp_path, "somebody")
    topics = TROUBLED.topic_table(0, 0)
    told = {"topic_config_digest": topics.digest, "topics": topics.topics, "mappings": [], "topic_count": 3}
    for table, day, row in (
        (bronze.HEARTBEATS, DAY, {"namesrv_id": "10.0.0.1:9876", "seq": 1, "stated_id": "a"}),
        (bronze.HEARTBEATS, NEXT, {"namesrv_id": "10.0.0.1:9876", "seq": 2, "stated_id": "b"}),
        (bronze.TOPIC_CONFIGS_TABLE, None, told),
        (bronze.SOURCES, None, {"content_sha256": "c", "source_file": "c.pcap", "ingest_run": "somebody", "days": []}),
    ):
        rows = table_of([row], table, **({"day": day} if day else {}))
        warehouse.change(table, [write_file(rows, warehouse.path, table, day, "somebody")])
    warehouse.commit()
    run(tmp_path, TROUBLED, DAY)
    reader = warehouse_at(tmp_path, "reader")
    other = reader.rows(bronze.HEARTBEATS, filter=pc.field("namesrv_id") == "10.0.0.1:9876")
    assert other["event_id"].to_pylist() == ["b"]
    assert sorted(reader.rows(bronze.TOPIC_CONFIGS_TABLE)["topic_config_digest"].to_pylist()) == sorted(
        TROUBLED.topic_table(b, 0).digest for b in range(TROUBLED.brokers)
    )


def test_a_day_without_heartbeats_is_a_day(tmp_path: Path) -> None:
    """If every beat is a registration there is a table of heartbeats without rows, and one broker is a fleet, too."""
    fleet = fleet_like(TROUBLED, form="register", brokers=1, namesrvs=1, topics=0, beats_per_minute=2)
    done = run(tmp_path, fleet, DAY)
    warehouse = warehouse_at(tmp_path, "reader")
    assert {table.name: len(warehouse.rows(table)) for table in BEATS} == {
        "heartbeats": 0,
        "registrations": done.events["2026-01-01 on time"] - len(warehouse.rows(bronze.NAMESRV_EVENTS)),
    }
    assert len(warehouse.rows(bronze.TOPIC_CONFIGS_TABLE)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("delivery", [ON_TIME, LATE])
def test_what_a_dead_run_has_left_does_no_harm(tmp_path: Path, monkeypatch, delivery: str) -> None:
    """It died between two commits: readers see nothing of it, and the next run delivers the day, no event twice."""
    fleet = fleet_like(TROUBLED, late=0.1, duplicates=0.1)
    if delivery == LATE:
        deliver(warehouse_at(tmp_path / "died", "before"), fleet, DAY, ON_TIME)
    deliver(warehouse_at(tmp_path / "lived", "one"), fleet, DAY, ON_TIME)
    if delivery == LATE:
        deliver(warehouse_at(tmp_path / "lived", "two"), fleet, DAY, LATE)
    before = contents(tmp_path / "died")

    def dies(warehouse: Warehouse, tables: Iterable[Table]) -> None:
        commit(warehouse, itertools.islice(tables, 1))
        raise KeyboardInterrupt

    commit = Warehouse.commit
    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            deliver(warehouse_at(tmp_path / "died", "dies"), fleet, DAY, delivery)
    assert contents(tmp_path / "died") == before
    deliver(warehouse_at(tmp_path / "died", "after"), fleet, DAY, delivery)
    assert contents(tmp_path / "died") == contents(tmp_path / "lived")
