"""The night end to end: real traffic in, published tables out, and the same tables however the work is cut."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs import nightly, quiet, tables, units
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.export import export
from jobs.gate import GateError
from jobs.lease import WarehouseBusyError, lease
from jobs.nightly import Summary
from jobs.views import register_views
from jobs.warehouse import Warehouse
from namesrv_core import V4_9_7
from namesrv_core.asking.queries import RouteBroker, TopicRouteData
from namesrv_core.machine.rows import QueueData
from namesrv_core.sides.client import topic_publish_info, topic_subscribe_info

PARTITIONS = "spark.sql.shuffle.partitions"
CAPTURE = Path(__file__).parents[2] / "examples" / "v4-lifecycle" / "capture.pcap.gz"
FRAMES, ANSWERS = 28_021, 13_877
Run = Callable[..., Summary]


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a night on `inputs`, in a new warehouse unless one is given."""
    numbers = iter(range(1_000))

    def run_night(*inputs: Path, warehouse: Path | None = None, conf: PipelineConf | None = None) -> Summary:
        house = house_at(spark, warehouse or tmp_path_factory.mktemp("warehouse"), conf, next(numbers))
        return nightly.run(house, [str(path) for path in inputs], Console(io.StringIO(), io.StringIO()))

    return run_night


def house_at(spark: SparkSession, path: Path, conf: PipelineConf | None = None, number: int = 0) -> Warehouse:
    """Return a warehouse for one run."""
    return Warehouse(spark, str(path), conf or PipelineConf(), f"run-{number}", dt.datetime.now(dt.timezone.utc))


@pytest.fixture(scope="module")
def warehouse_of_the_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the warehouse of `whole`."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def whole(run: Run, warehouse_of_the_capture: Path) -> Summary:
    """Return the summary of a night on the bundled capture."""
    return run(CAPTURE, warehouse=warehouse_of_the_capture)


@pytest.fixture(scope="module")
def log_of_the_capture(
    spark: SparkSession, whole: Summary, warehouse_of_the_capture: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the bundled capture as an event log."""
    assert whole.status == "published"
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    assert export(house_at(spark, warehouse_of_the_capture).bronze(), path) > ANSWERS
    return path


def cut_at(packet: int, folder: Path) -> tuple[Path, Path]:
    """Cut the bundled capture into two files before `packet` (from 0)."""
    data = gzip.decompress(CAPTURE.read_bytes())
    offset = 24
    for _ in range(packet):
        offset += 16 + struct.unpack_from("<I", data, offset + 8)[0]
    first, second = folder / "1.pcap", folder / "2.pcap"
    first.write_bytes(data[:offset])
    second.write_bytes(data[:24] + data[offset:])
    return first, second


def test_every_answer_of_a_real_name_server_is_reproduced(whole: Summary) -> None:
    """All recorded answers equal the replayed tables in value, list order and bytes; no frame is lost on the way."""
    assert whole.frames == FRAMES
    classes = whole.events + whole.observations + whole.duplicates + whole.quarantined
    assert classes + sum(whole.ignored.values()) == FRAMES
    assert (whole.quarantined, whole.errors) == (0, [])
    expected = {"answers": ANSWERS, "matched": ANSWERS, "same_order": ANSWERS, "same_bytes": ANSWERS, "mismatched": 0}
    assert {key: whole.verify[key] for key in expected} == expected
    assert whole.verify["explained"] == {}
    assert whole.namesrvs == {"127.0.0.1:9876": "4.9.7"}


def test_a_race_on_the_wire_is_a_decision_with_its_evidence(
    spark: SparkSession, whole: Summary, warehouse_of_the_capture: Path
) -> None:
    """The registration that arrives with its connection's end is a row that names the answers depending on it."""
    assert whole.verify["order_decisions"] == 1
    rows = house_at(spark, warehouse_of_the_capture).data()["order_decisions"].collect()
    assert [(row["chosen"], row["answers_for"], row["answers_against"]) for row in rows] == [(0, 35, 0)]


def test_the_cause_of_a_silent_brokers_removal_is_the_real_one(
    spark: SparkSession, whole: Summary, warehouse_of_the_capture: Path
) -> None:
    """The frozen broker was removed when the server closed its idle connection, not by the scan that came later."""
    assert whole.tables["expired_brokers"] == 1
    row = house_at(spark, warehouse_of_the_capture).data()["expired_brokers"].collect()[0]
    assert (row["broker_name"], row["cause"]) == ("broker-c", "idle_channel")
    assert 120_000 <= row["detection_lag_ms"] <= 120_100


def test_published_functions_answer_for_an_instant(
    spark: SparkSession, whole: Summary, warehouse_of_the_capture: Path
) -> None:
    """TopicA as it was at 08:58:00, and why TopicD is gone at 09:00:00, are one query each."""
    assert whole.status == "published"
    register_views(spark, str(warehouse_of_the_capture))
    at = (
        "SELECT broker_name, read_queue_nums, perm FROM topic_queue_table_at(TIMESTAMP'2026-11-21 08:58:00') "
        "WHERE topic = 'TopicA'"
    )
    assert sorted(tuple(row) for row in spark.sql(at).collect()) == [
        ("broker-a", 16, 4),
        ("broker-b", 16, 6),
        ("broker-c", 3, 6),
    ]
    why = spark.sql("SELECT state, operation FROM why('TopicD', TIMESTAMP'2026-11-21 09:00:00')").collect()
    assert [tuple(row) for row in why] == [("vanished", "delete_topic")]


@pytest.mark.parametrize("clock", ["08:56:00", "08:57:41", "08:58:00", "09:00:30", "09:03:00", "09:06:30"])
def test_what_clients_made_of_the_routes_is_in_sql(
    spark: SparkSession, whole: Summary, warehouse_of_the_capture: Path, clock: str
) -> None:
    """Of every topic, publish and subscribe information equal what the pure functions make of the tables then."""
    assert whole.status == "published"
    register_views(spark, str(warehouse_of_the_capture))
    at = f"TIMESTAMP'2026-11-21 {clock}'"
    routes: dict[str, TopicRouteData] = {}
    for row in spark.sql(f"SELECT * FROM routes_at({at})").collect():
        group = RouteBroker(row["broker_name"], row["cluster_name"], tuple(row["broker_addrs"].items()), False, None)
        queue_data = QueueData(row["read_queue_nums"], row["write_queue_nums"], row["perm_bits"], row["topic_sys_flag"])
        route = routes.get(row["topic"], TopicRouteData((), (), (), None, None))
        routes[row["topic"]] = route._replace(
            queue_datas=(*route.queue_datas, (row["broker_name"], queue_data)),
            broker_datas=(*route.broker_datas, group),
        )
    spark.createDataFrame([(topic,) for topic in routes], "topic STRING").createOrReplaceTempView("asked")
    publish, subscribe = (
        [tuple(row) for row in spark.sql(f"SELECT asked.topic, q.broker_name, q.queue_id {rows}").collect()]
        for function in ("publish_info_at", "subscribe_info_at")
        for rows in [f"FROM asked, LATERAL {function}(asked.topic, {at}) AS q ORDER BY asked.topic, q.position"]
    )

    assert publish == [
        queue for topic in sorted(routes) for queue in topic_publish_info(topic, routes[topic], V4_9_7).message_queues
    ]
    assert subscribe == [
        queue for topic in sorted(routes) for queue in topic_subscribe_info(topic, routes[topic], V4_9_7)
    ]
    assert subscribe


def test_a_second_night_on_the_same_capture_changes_nothing(
    run: Run, whole: Summary, warehouse_of_the_capture: Path
) -> None:
    """A file that was read before is all duplicates, and every table stays as it is."""
    again = run(CAPTURE, warehouse=warehouse_of_the_capture)
    assert (again.status, again.frames, again.duplicates) == ("nothing_to_do", FRAMES, FRAMES)
    assert again.digests == whole.digests


@pytest.mark.parametrize("packet", [21_111])
def test_two_halves_give_the_tables_of_the_whole(run: Run, whole: Summary, tmp_path: Path, packet: int) -> None:
    """A capture cut in two, read in two nights, gives the same gold tables as in one piece."""
    first, second = cut_at(packet, tmp_path)
    before = run(first, warehouse=tmp_path / "w")
    after = run(second, warehouse=tmp_path / "w")
    assert before.frames + after.frames == FRAMES
    assert before.verify["mismatched"] == 0
    assert after.digests == whole.digests


@pytest.mark.parametrize(("partitions", "road"), [(1, "plain"), (7, "quiet")])
def test_neither_partitions_nor_the_quiet_road_matter(
    run: Run, spark: SparkSession, whole: Summary, partitions: int, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every gold table has the same digest with 1 or 7 shuffle partitions as with the 2 of the first run.

    With the quiet road on and periods of two minutes, most of the recording is replayed as runs of heartbeats.
    """
    monkeypatch.setattr(quiet, "SLOTS", 2)
    monkeypatch.setattr(quiet, "PERIOD_US", 120_000_000)
    usual = str(spark.conf.get(PARTITIONS))
    spark.conf.set(PARTITIONS, str(partitions))
    try:
        assert run(CAPTURE, conf=PipelineConf(quiet_road=road == "quiet")).digests == whole.digests
    finally:
        spark.conf.set(PARTITIONS, usual)


def test_units_replayed_apart_give_what_the_whole_name_server_gives(
    run: Run,
    spark: SparkSession,
    whole: Summary,
    warehouse_of_the_capture: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Splitting a name server into units changes only the numbers of changes in one event and the age of outer keys."""
    monkeypatch.setattr(units, "must_stay_whole", lambda _, namesrvs, __: dict.fromkeys(namesrvs, True))
    unsplit = run(CAPTURE, warehouse=tmp_path)
    assert unsplit.verify == whole.verify
    apart, together = (house_at(spark, path).data() for path in (warehouse_of_the_capture, tmp_path))
    assert tables.digests(unnumbered(apart)) == tables.digests(unnumbered(together))


def unnumbered(frames: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the tables with positions that name the event only, and without those that are known per unit."""
    positions = ("opened_at", "closed_at", "entered_at")
    return {
        name: frame.withColumns({c: frame[c]["seq"] for c in positions if c in frame.columns}).drop("outer_entered_at")
        for name, frame in frames.items()
    }


def test_an_exported_event_log_gives_the_tables_of_its_capture(
    run: Run, whole: Summary, log_of_the_capture: Path
) -> None:
    """Exporting to the event log and reading it back loses nothing that any gold table shows."""
    from_log = run(log_of_the_capture)
    assert from_log.frames == from_log.events + from_log.observations + from_log.duplicates + from_log.quarantined
    assert from_log.digests == whole.digests


def test_midnight_in_between_changes_no_answer(run: Run, log_of_the_capture: Path, tmp_path: Path) -> None:
    """With midnight in mid-recording the second day starts from the first day's open rows, and all answers match."""
    midnight = dt.datetime(2026, 11, 22, tzinfo=dt.timezone.utc)
    middle = dt.datetime(2026, 11, 21, 9, 3, 10, tzinfo=dt.timezone.utc)
    log = tmp_path / "shifted.jsonl"
    with log_of_the_capture.open(encoding="utf-8") as lines, log.open("w", encoding="utf-8") as out:
        out.writelines(shifted(line, midnight - middle) for line in lines)
    summary = run(log)
    assert summary.days == ["2026-11-21", "2026-11-22"]
    assert (summary.verify["answers"], summary.verify["mismatched"]) == (ANSWERS, 0)
    assert summary.verify["same_bytes"] == ANSWERS


def shifted(line: str, by: dt.timedelta) -> str:
    """Return a line of an event log with all its times moved."""
    event = json.loads(line)
    for key in ("time", "effect_time"):
        moved = dt.datetime.fromisoformat(event[key].replace("Z", "+00:00")) + by
        event[key] = moved.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    nanoseconds = by // dt.timedelta(microseconds=1) * 1_000
    for key in ("seq", "request_seq"):
        if key in event:
            event[key] += nanoseconds
    return json.dumps(event) + "\n"


def test_bad_files_are_named_and_the_rest_of_the_night_is_unharmed(run: Run, whole: Summary, tmp_path: Path) -> None:
    """A truncated capture and a foreign file are errors with name and offset; the good capture is published anyway."""
    shutil.copy(CAPTURE, tmp_path / "good.pcap.gz")
    (tmp_path / "cut.pcap").write_bytes(gzip.decompress(CAPTURE.read_bytes())[:30])
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(100))
    summary = run(tmp_path)
    assert summary.status == "published"
    assert sorted(name for name in ("cut.pcap", "photo.jpg") if any(name in e for e in summary.errors)) == [
        "cut.pcap",
        "photo.jpg",
    ]
    assert summary.digests == whole.digests


def test_a_refused_night_publishes_nothing(
    spark: SparkSession, run: Run, warehouse_of_the_capture: Path, whole: Summary, tmp_path: Path
) -> None:
    """When too much of the input is undecodable the gate refuses and readers go on seeing the last published run."""
    log = tmp_path / "broken.jsonl"
    log.write_text("".join(f'{{"broken": {number}}}\n' for number in range(500)), encoding="utf-8")
    warehouse = tmp_path / "w"
    shutil.copytree(warehouse_of_the_capture, warehouse)
    for _ in range(2):  # that its file is known by then makes the next run no better
        with pytest.raises(GateError, match="500 of 500 frames are quarantined"):
            run(log, warehouse=warehouse)
    register_views(spark, str(warehouse))
    assert spark.table("quarantine").count() == 0
    assert spark.table("topic_queue_history").count() == whole.tables["topic_queue_history"]


def test_two_runs_do_not_write_at_once(tmp_path: Path) -> None:
    """The second run on a warehouse is refused while the first holds the lease, and not afterwards."""
    with lease(str(tmp_path)), pytest.raises(WarehouseBusyError), lease(str(tmp_path)):
        pass
    with lease(str(tmp_path)):
        assert (tmp_path / ".lease").exists()
