"""Which topics are swept, and what brokers' registrations say of theirs: literal rows of one day."""

from __future__ import annotations

import pyarrow as pa

from namesrv_core import V4_9_7, Namesrv
from namesrv_day.arrow import empty
from namesrv_day.flags import alike, news_of, swept_routes
from schemas import gold
from schemas.table import Table
from tests.day.flag_rows import hours_of, reading, recorded, tables, topic_configs
from tests.rows import DAY, Row, alive, event, live, member, outcome, queues, registration

LONG_AGO = event("long-ago", "00:00", DAY.replace(month=1))
CONFIGS = topic_configs(both=["T", "T2"], first=["T"], other=["T", "U"], apart=["U", "V"])


def held(*names: str) -> dict[Table, list[Row]]:
    """Return broker names that have stood in peace with T and T2 for long, each with a master."""
    return {
        gold.TOPIC_QUEUE_HISTORY: [queues(topic, name, LONG_AGO) for name in names for topic in ("T", "T2")],
        gold.BROKER_ADDR_HISTORY: [member(name, 0, f"{name}:1", LONG_AGO) for name in names],
        gold.BROKER_LIVE_HISTORY: [live(f"{name}:1", LONG_AGO) for name in names],
    }


def swept(
    rows: dict[Table, list[Row]],
    registrations: list[Row],
    asked: list[set[str]] | None = None,
    refused: tuple[str, ...] = (),
) -> tuple[pa.Table, pa.Table]:
    """Return what the day's sweep finds, without anything that was orphaned before."""
    outcomes = [outcome(event(name, "23:00"), "register_broker", outcome="rejected_state_version") for name in refused]
    today = {**tables({**rows, gold.EVENT_OUTCOMES: outcomes}), "hours": hours_of(registrations)}
    news = {table.name: news_of(today[table.name], DAY) for table in gold.HISTORY_TABLES}
    of_day = recorded(registrations, CONFIGS)._replace(raw_beats=reading(registrations, asked))
    return swept_routes(today, news, of_day, empty(gold.ORPHANED_TOPICS), Namesrv(V4_9_7), DAY)


def residual(found: tuple[pa.Table, pa.Table]) -> list[tuple[str, str, str, str | None]]:
    """Return the residual topics: topic, broker name, and the events that began and ended it."""
    columns = ("topic", "broker_name", "opened_by", "closed_by")
    return sorted(tuple(row[name] for name in columns) for row in found[1].to_pylist() if row["reason"] == "residual")


def test_a_topic_that_its_broker_leaves_out_is_residual_until_it_is_back() -> None:
    """From the registration without it to the one with it again; the same table once more says nothing new."""
    clocks = {"without": ("01:00", "other"), "again": ("02:00", "other"), "back": ("03:00", "both")}
    registrations = [registration(event(i, at), "a", digest, 2) for i, (at, digest) in clocks.items()]
    assert residual(swept(held("a"), registrations)) == [("T2", "a", "without", "back")]


def test_a_topic_that_comes_behind_a_registration_is_judged_by_the_next() -> None:
    """Even if that one lists what the one before did; it is residual since then, wherever days begin."""
    registrations = [registration(event(i, at), "a", "both", 2) for i, at in (("first", "01:00"), ("next", "03:00"))]
    rows = held("a")
    rows[gold.TOPIC_QUEUE_HISTORY] += [queues("U", "a", event("meanwhile", "02:00"))]
    assert residual(swept(rows, registrations)) == [("U", "a", "next", None)]


def test_a_registration_that_says_nothing_of_other_topics_makes_none_residual() -> None:
    """One with a single topic; several of one data version, into which a broker splits its topics; refused ones; slaves'."""
    version = {"data_version": {"state_version": 0, "timestamp": 1, "counter": 1}}
    single = registration(event("single", "01:00"), "a", "first", 1)
    split = [registration(event(f"part-{d}", "02:00"), "a", d, 2, **version) for d in ("other", "apart")]
    refused = registration(event("refused", "03:00"), "a", "other", 2)
    slave = registration(event("slave", "04:00"), "a", "other", 2, broker_id=1)
    found = swept(held("a"), [single, *split, refused, slave], refused=("refused",))
    assert residual(found) == []
    assert found[0].num_rows == 0
    assert [topic for topic, *_ in residual(swept(held("a"), split[:1]))] == ["T2"]


def test_single_registrations_are_read_of_brokers_whose_topics_may_have_changed_only() -> None:
    """A broker that lists all it has is not read; one that leaves a topic out is, and whoever else offers that topic."""
    asked: list[set[str]] = []
    quiet = [registration(event(f"quiet-{name}", "01:00"), name, "both", 2) for name in ("a", "b")]
    assert swept(held("a", "b"), quiet, asked)[1].num_rows == 0
    assert asked == []
    rows = held("a", "b")
    rows[gold.TOPIC_QUEUE_HISTORY] += [queues("U", "c", LONG_AGO), queues("V", "c", LONG_AGO)]
    short = registration(event("short", "02:00"), "b", "other", 2)
    silent = registration(event("silent", "01:00"), "c", "apart", 2)
    assert residual(swept(rows, [quiet[0], short, silent], asked)) == [("T2", "b", "short", None)]
    assert asked == [{"a", "b"}]


def test_what_stirs_a_broker_stirs_its_topics() -> None:
    """A live entry that ends leaves its broker's topics without anybody alive; the topics of others are not looked at."""
    rows = held("a")
    rows[gold.BROKER_LIVE_HISTORY] = [live("a:1", LONG_AGO, event("gone", "05:00"))]
    rows[gold.TOPIC_QUEUE_HISTORY].append(queues("U", "nobody", LONG_AGO))
    found = swept(rows, [])
    opened = {(row["topic"], row["reason"], row["opened_by"]) for row in found[1].to_pylist()}
    assert opened == {("T", "no_live_broker", "gone"), ("T2", "no_live_broker", "gone")}


def test_rows_opened_or_closed_on_the_day_are_its_news() -> None:
    """One from before that stays is none; one that begins with the day's first instant is."""
    rows = [
        alive(LONG_AGO, cluster_name="stays"),
        alive(LONG_AGO, event("end", "12:00"), cluster_name="ends"),
        alive(event("new", "00:00"), cluster_name="begins"),
    ]
    slices = tables({gold.CLUSTER_ADDR_HISTORY: rows})
    assert news_of(slices["cluster_addr_history"], DAY)["cluster_name"].to_pylist() == ["ends", "begins"]


def test_topics_alike_change_as_if_each_were_swept() -> None:
    """T and T2 come and go together and get the same rows; V, with other queues, and U, that goes earlier, get their own."""
    up, down, early = event("up", "01:00"), event("down", "04:00"), event("early", "03:00")
    rows = held("a")
    topics = {"T": (down, {}), "T2": (down, {}), "U": (early, {}), "V": (down, {"write_queue_nums": 3})}
    rows[gold.TOPIC_QUEUE_HISTORY] = [queues(t, "a", up, end, **more) for t, (end, more) in topics.items()]
    together = swept(rows, [])[0].drop_columns(["topic"]).to_pylist()
    alone: list[Row] = []
    for row in rows[gold.TOPIC_QUEUE_HISTORY]:
        alone += swept({**rows, gold.TOPIC_QUEUE_HISTORY: [row]}, [])[0].drop_columns(["topic"]).to_pylist()
    assert len(together) == 8
    assert sorted(map(repr, together)) == sorted(map(repr, alone))
    for single, like in (set[str | None](), "T"), ({"T2"}, "T2"):
        classes = alike(tables(rows)[gold.TOPIC_QUEUE_HISTORY.name], single).to_pylist()
        assert {row["topic"]: row["alike"] for row in classes} == {"T": "T", "T2": like, "U": "U", "V": "V"}
