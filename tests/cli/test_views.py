"""What readers see: published versions only, whole intervals, functions at the edges of intervals.

What happened is in `two_days`. What a statement gives is asked of DuckDB; that Spark says the same, the last test shows of every
view and function, at an edge.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import SparkRuntimeException

from jobs.ask.engine import Answers
from jobs.cli.sql import register_views
from jobs.errors import NothingPublishedError, NotRecordedError
from jobs.session import for_questions
from jobs.store.places import table_path
from schemas import gold
from schemas.dialect import duckdb_queries
from schemas.views import functions
from tests.cli.both import asked, everything, in_memory, lines, on_spark
from tests.cli.rows import publish, warehouse_at, write
from tests.cli.two_days import (
    ADDR,
    ADDR5,
    DOWN,
    FULL,
    GROWN,
    NOT_RECORDED,
    NS4,
    NS5,
    ROWS,
    UP,
    UP5,
    WITHOUT_MASTER,
    of_t,
    route,
)
from tests.rows import NEXT_DAY, clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Publish version 0 of every table, and write a version 1 that no run has published."""
    warehouse = str(tmp_path_factory.mktemp("published"))
    publish(warehouse_at(warehouse, "1"), ROWS)
    refused = warehouse_at(warehouse, "2")
    write(refused, {gold.TOPIC_QUEUE_HISTORY: [of_t(99, DOWN)]})
    refused.note_run([NEXT_DAY], {"status": "refused", "gate": "no", "counts": {}, "seconds": {}})
    return warehouse


@pytest.fixture(scope="module")
def published(spark: SparkSession, warehouse: str) -> SparkSession:
    """Give a session in which all names are registered."""
    return in_memory(register_views(for_questions(spark.newSession()), warehouse_at(warehouse, "reader")))


@pytest.fixture(scope="module")
def answers(warehouse: str) -> Answers:
    return Answers(warehouse)


def assert_answers(answers: Answers, sql: str, rows: list[tuple[Any, ...]]) -> None:
    (query,) = duckdb_queries(sql)
    names, found = answers.ask(query)
    assert lines(names, found) == lines(names, rows)


def test_a_warehouse_without_published_run_says_so(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """There is nothing to show before the first publication, and the error says what to do."""
    with pytest.raises(NothingPublishedError, match="run the nightly job first"):
        register_views(spark, warehouse_at(tmp_path_factory.mktemp("empty"), "reader"))


def test_a_history_has_one_row_for_each_interval(answers: Answers) -> None:
    """However many days it lasted, closed or open; a refused run is unseen."""
    rows = [(NS4, 4, *UP, *GROWN), (NS4, 8, *GROWN, *DOWN), (NS5, 2, *UP5, None, None)]
    columns = "namesrv_id, read_queue_nums, opened_by, valid_from, closed_by, valid_to"
    assert_answers(answers, f"SELECT {columns} FROM topic_queue_history WHERE topic = 'T'", rows)


def test_topic_queue_table_at_is_half_open(answers: Answers) -> None:
    """At 12:00 exactly the new queues are there; on the next day the other server is not recorded, and says so."""
    instants = {"before": "2026-03-01 11:59:59.999999", "at": "2026-03-01 12:00:00", "later": "2026-03-02 12:00:00"}
    sql = " UNION ALL ".join(
        f"SELECT '{name}' AS asked, namesrv_id, read_queue_nums, known FROM topic_queue_table_at(TIMESTAMP'{t}')"
        " WHERE coalesce(topic, 'T') = 'T'"
        for name, t in instants.items()
    )
    rows: list[tuple[Any, ...]] = [
        ("before", NS4, 4, True),
        ("before", NS5, 2, True),
        ("at", NS4, 8, True),
        ("at", NS5, 2, True),
    ]
    rows += [("later", NS5, None, False)]
    assert_answers(answers, sql, rows)


def test_broker_live_table_at_has_the_exact_last_update(answers: Answers) -> None:
    """Whole milliseconds; a query that did not renew the lease does not count; nor does a later one."""
    sql = """
        SELECT 'noon', namesrv_id, cluster_name, broker_addr, last_update_timestamp
        FROM broker_live_table_at(TIMESTAMP'2026-03-01 12:00:30') UNION ALL
        SELECT 'minute', namesrv_id, cluster_name, broker_addr, last_update_timestamp
        FROM broker_live_table_at(TIMESTAMP'2026-03-01 12:01:00') WHERE namesrv_id = '10.0.0.9:9876'
    """
    rows = [
        ("noon", NS4, None, ADDR, GROWN[1]),
        ("noon", NS5, "C", ADDR5, UP[1]),
        ("minute", NS4, None, ADDR, clock("12:00:30.123")),
    ]
    assert_answers(answers, sql, rows)


def test_route_at_reads_like_mqadmin(answers: Answers) -> None:
    """Addresses by id, permission in letters; a group without members is a route; an order conf is shown if it is served."""
    sql = """
        SELECT namesrv_id, cluster_name, broker_name, broker_addrs, read_queue_nums, perm, perm_bits,
        order_topic_conf, order_topic_conf_stored FROM route_at('T', TIMESTAMP'2026-03-01 12:00:00')
    """
    rows = [
        (NS4, "C", "broker-a", {0: ADDR}, 8, "RW-", 6, "broker-a:4", "broker-a:4"),
        (NS5, "C", "broker-a", {}, 2, "R--", 4, None, "broker-a:2"),
    ]
    assert_answers(answers, sql, rows)


def test_a_route_without_master_and_write_bit_shows_who_acts(answers: Answers) -> None:
    """As clients were given it: the smallest id is 0; not of the topic by which brokers ask for their group."""
    acting, own = {0: "10.0.0.1:1", 2: "10.0.0.2:1"}, {1: "10.0.0.1:1", 2: "10.0.0.2:1"}
    sql = "SELECT topic, broker_addrs FROM routes_at(TIMESTAMP'2026-03-01 12:00:00') WHERE topic <> 'T'"
    assert_answers(answers, sql, [*zip((*WITHOUT_MASTER, "opened"), (acting, own, own, acting), strict=True)])


def test_route_diff_names_what_changed_and_the_last_cause(answers: Answers) -> None:
    """Equal routes make no row, and what went takes its addresses with it; with a permission goes who acts as master."""
    acting = "10.0.0.1:1, 2=10.0.0.2:1"
    sql = """
        SELECT 'day' AS span, * FROM route_diff(TIMESTAMP'2026-03-01 11:00:00', TIMESTAMP'2026-03-01 13:00:00')
        UNION ALL
        SELECT 'night', * FROM route_diff(TIMESTAMP'2026-03-01 13:00:00', TIMESTAMP'2026-03-02 09:00:00')
    """
    rows = [
        ("day", NS4, "T", "broker-a", "queues", "RW- read 4 write 4", "RW- read 8 write 8", "grown", True, FULL),
        ("day", NS4, "T", "broker-a", "order_topic_conf", "", "broker-a:4", "grown", True, FULL),
        ("day", NS5, "opened", "broker-s", "queues", "R-- read 4 write 4", "RW- read 4 write 4", "opened5", True, FULL),
        ("day", NS5, "opened", "broker-s", "addresses", f"0={acting}", f"1={acting}", "opened5", True, FULL),
        ("night", NS4, "T", "broker-a", "vanished", "RW- read 8 write 8", None, "down", True, FULL),
        ("night", NS5, None, None, "not known", None, None, None, False, f"at the second instant {NOT_RECORDED}"),
    ]
    assert_answers(answers, sql, rows)


def test_why_tells_the_last_change_its_source_and_the_next(answers: Answers) -> None:
    """Also for a topic that is gone, and for name servers that never saw it."""
    sql = """
        SELECT 'at' AS asked, namesrv_id, state, caused_by, operation, source_file, source_offset, route,
        next_caused_by FROM why('T', TIMESTAMP'2026-03-01 12:00:00') UNION ALL SELECT 'gone', namesrv_id,
        state, caused_by, operation, source_file, source_offset, route, next_caused_by FROM why('T',
        TIMESTAMP'2026-03-02 12:00:00') WHERE namesrv_id = '10.0.0.9:9876' UNION ALL SELECT 'early',
        namesrv_id, state, caused_by, operation, source_file, source_offset, route, next_caused_by FROM
        why('T', TIMESTAMP'2026-03-01 09:00:00') WHERE namesrv_id = '10.0.0.9:9876'
    """
    rows = [
        ("at", NS4, "routed", "grown", "register_broker", "f.pcap", 7, route(8), "down"),
        ("at", NS5, "never seen", None, None, None, None, None, None),
        ("gone", NS4, "vanished", "down", "channel_close", None, None, None, None),
        ("early", NS4, "not yet seen", None, None, None, None, None, "up"),
    ]
    assert_answers(answers, sql, rows)


def test_a_cause_is_told_with_where_it_is_recorded(answers: Answers) -> None:
    """A registration, a beat that was no plain refresh, and a close of which only its outcome is there."""
    rows = [("up", None), ("grown", 7), ("unchanged", 9), ("down", None)]
    assert_answers(answers, "SELECT event_id, source_offset FROM causes", rows)


def test_whole_routes_puts_the_parts_together(answers: Answers) -> None:
    """A part stays as it was said last, until it is no more, whatever the day."""
    sql = "SELECT change, caused_by, route_before, route_after FROM whole_routes ORDER BY seq"
    rows = [
        ("appeared", "up", None, route(4)),
        ("changed", "grown", route(4), route(8)),
        ("vanished", "down", route(8), None),
    ]
    assert_answers(answers, sql, rows)


def test_a_warehouse_may_be_called_anything(published: SparkSession, warehouse: str, tmp_path: Path) -> None:
    """Rows, types and comments are the same in a folder whose name looks like a pattern or a variable."""
    odd = tmp_path / "a [b] {c} $d * 'e'"
    shutil.copytree(warehouse, odd)
    session = published.newSession()
    register_views(session, warehouse_at(odd, "reader"), texts=["topic_queue_history heartbeats_stored"])
    for name in ("topic_queue_history", "heartbeats_stored"):
        assert_df_equality(session.table(name), published.table(name), ignore_row_order=True)


def test_registering_again_restores_what_was_replaced(published: SparkSession, warehouse: str) -> None:
    """A view and a function of the user's own under our names go, one that was dropped comes back."""
    session, texts = published.newSession(), ["coverage coverage_at live_refreshes"]
    register_views(session, warehouse_at(warehouse, "reader"), texts=texts)
    wanted = {
        sql: on_spark(session, sql)
        for sql in ("SELECT * FROM coverage", "SELECT * FROM coverage_at(TIMESTAMP'2026-03-02')")
    }
    session.sql("CREATE OR REPLACE TEMPORARY VIEW coverage AS SELECT 1 AS mine")
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION coverage_at(t TIMESTAMP) RETURNS TABLE(mine INT) RETURN SELECT 1")
    session.sql("DROP VIEW live_refreshes")
    register_views(session, warehouse_at(warehouse, "reader"), texts=texts)
    assert {sql: on_spark(session, sql) for sql in wanted} == wanted
    assert session.sql("SELECT * FROM live_refreshes").columns


def test_a_file_outside_of_its_partition_is_read_by_what_the_log_says(
    spark: SparkSession, warehouse: str, tmp_path: Path
) -> None:
    """Its month stands in the log alone, which Delta reads."""
    moved = tmp_path / "moved"
    shutil.copytree(warehouse, moved)
    folder = Path(table_path(str(moved), gold.TOPIC_QUEUE_HISTORY))
    log = folder / "_delta_log" / f"{0:020d}.json"
    for file in (folder / "closed_month=2026-03").glob("1-*.parquet"):
        file.rename(folder / file.name)
    log.write_text(log.read_text("utf-8").replace('"closed_month=2026-03/', '"'), "utf-8")
    session = spark.newSession()
    register_views(session, warehouse_at(moved, "reader"), texts=["topic_queue_history"])
    given = session.table("topic_queue_history").collect()
    assert [str(row.closed_month) for row in given].count("2026-03") == 3


def test_every_function_and_view_is_described(published: SparkSession) -> None:
    """DESCRIBE shows what it is for, its arguments and its columns, each with a comment."""
    for name in (function.name for function in functions()):
        words = "\n".join(row[0] for row in published.sql(f"DESCRIBE FUNCTION EXTENDED {name}").collect())
        assert "Comment:" in words
    for name in ("topic_queue_history", "events", "whole_routes", "route_changes", "heartbeats"):
        assert all(row["comment"] for row in published.sql(f"DESCRIBE {name}").collect())


def test_both_engines_refuse_with_the_same_sentence(published: SparkSession, answers: Answers) -> None:
    """Each function, for an instant before all, or one behind all, of what is recorded; users of JDBC see it too."""
    said = "nothing is recorded at {} 00:00:00 UTC; recorded: 10.0.0.8:9876 from 2026-03-01T00:00:00Z to "
    days = ("2026-02-28", "2026-03-03")
    asked_at = zip(*(everything(f"{day} 00:00:00", "2026-03-02 09:00:00", "T") for day in days), strict=True)
    for number, statements in enumerate(asked_at):
        sql, day = statements[number % 2], days[number % 2]
        # *_rows_* are what the others are made of, and return what there is
        if "TIMESTAMP'" in sql and "_rows_" not in sql:
            with pytest.raises(SparkRuntimeException) as raised:
                published.sql(sql).collect()
            with pytest.raises(NotRecordedError) as refused:
                asked(answers, sql)
            assert str(refused.value).startswith(said.format(day))
            assert raised.value.getCondition() == "USER_RAISED_EXCEPTION"
            assert f"[USER_RAISED_EXCEPTION] {refused.value}" in str(raised.value)


@pytest.mark.parametrize("sql", everything("2026-03-01 12:00:00", "2026-03-02 09:00:00", "T"))
def test_duckdb_says_what_spark_says(published: SparkSession, answers: Answers, sql: str) -> None:
    """Every view, and every function, has the same rows with the same values in both engines."""
    assert asked(answers, sql) == on_spark(published, sql)
