"""The sweep over one topic's rows: what clients saw change, and what could not be served."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_core import V5_4_0, Namesrv, NamesrvConfig, Registry
from namesrv_core.asking.answers import pickup_topic_route_data, route_json
from namesrv_core.history.intervals import TABLE_OF, By, Interval, Member, Position, group_of
from namesrv_core.history.route_history import NAMESRV, REPORTED, Orphan, Size, stale_order_conf, sweep_route
from namesrv_core.machine.profile import profile_named
from namesrv_core.machine.registry import Change
from namesrv_core.machine.tables import KvValue, QueueData, TopicQueueMappingInfo
from schemas.times import day_start_us, instant_us
from tests.situations import Language, Situation

DAY = dt.date(2026, 3, 1)
Event = tuple[str, dt.datetime]


def at(us: int, event_id: str, no: int = 0) -> By:
    return By(Position(us * 1_000, no), event_id, us)


def positioned(event: Event | None, no: int = 0) -> By:
    """Return what an event does, and when on its day; without one, what the rows of days before have."""
    name, when = event or ("old", dt.datetime.combine(DAY, dt.time(), dt.timezone.utc))
    return at((instant_us(when) - day_start_us(DAY)), name, no)


def interval(table: str, key: tuple[object, ...], value: object, opened: By, closed: By | None = None) -> Interval:
    ended = (
        {} if closed is None else {"valid_to_us": closed.at_us, "closed_by": closed.event_id, "closed_at": closed.at}
    )
    return Interval(table, key, value, opened.at_us, opened.event_id, opened.at, opened.at, None, **ended)  # type: ignore[arg-type]


def row(
    table: str, key: tuple[object, ...], value: object, opened: Event | None = None, closed: Event | None = None
) -> Interval:
    return interval(table, key, value, positioned(opened), None if closed is None else positioned(closed))


def route_text(parts: Mapping[tuple[str, str | None], str]) -> str | None:
    """Return a route as JSON, by its parts as `route_changes` has them; None: there is no route."""
    of: dict[str, list[str]] = {"brokerDatas": [], "filterServerTable": [], "queueDatas": []}
    for (part, _), text in sorted(parts.items(), key=lambda entry: (entry[0][0], entry[0][1] or "")):
        of.setdefault(part, []).append(text)
    shapes = {"brokerDatas": "[{}]", "queueDatas": "[{}]", "orderTopicConf": "{}"}
    fields = [f'"{part}":' + shapes.get(part, "{{{}}}").format(",".join(texts)) for part, texts in sorted(of.items())]
    return "{" + ",".join(fields) + "}" if parts else None


LANGUAGE = Language(
    {
        "queues": (
            "rows",
            lambda name, *when, perm=6, write=4: row("topic_queue", ("T", name), QueueData(4, write, perm, 0), *when),
        ),
        "member": (
            "rows",
            lambda name, broker_id, addr, *when, acting=False: row(
                "broker_addr", (name, broker_id), Member(addr, "C", acting, None), *when
            ),
        ),
        "live": ("rows", lambda addr, *when, cluster=None: row("broker_live", (cluster, addr), None, *when)),
        "conf": ("rows", lambda text, *when: row("kv_config", ("ORDER_TOPIC_CONFIG", "T"), KvValue(text), *when)),
        "reported": ("rows", lambda name, listed, when: interval(REPORTED, ("T", name), listed, positioned(when, 9))),
        "namesrv": (
            "namesrvs",
            lambda version, when=None, **config: (Namesrv(profile_named(version), NamesrvConfig(**config)), when),
        ),
        "carried": ("carried", lambda reason, name, when: Orphan(reason, name, positioned(when).at_us, when[0])),
    },
    {},
    DAY,
)


@pytest.mark.parametrize(
    "situation",
    [*LANGUAGE.read(Path(__file__).with_name("route_history.txt"))],
    ids=lambda of: f"{of.name}: {of.shows}",
)
def test_what_clients_saw_change_and_what_could_not_be_served(situation: Situation) -> None:
    """Changes of the route with the events that did them, and intervals with the events that began and ended them."""
    rows, carried = (list[Any](situation.rows.get(name, [])) for name in ("rows", "carried"))
    namesrv = Namesrv()
    namesrvs: list[Any] = situation.rows.get("namesrvs", [])
    for each, when in namesrvs:
        namesrv = each if when is None else namesrv
        rows += [] if when is None else [interval(NAMESRV, (), each, positioned(when, -1))]
    found = sweep_route("T", rows, namesrv, start_us=60 * 1_000_000, open_orphans=carried)
    lines = [f"{change.change} {change.caused_by}" for change in found.changes]
    lines += [
        f"{o.reason} {o.broker_name or '-'} {o.opened_by}@{clock(o.from_us)} "
        + ("-" if o.to_us is None else f"{o.closed_by}@{clock(o.to_us)}")
        for o in found.orphans
    ]
    wanted = [line.split(" | ") for line in situation.found]
    assert lines == [line for line, *_ in wanted]
    for change, (_, *texts) in zip(found.changes, wanted, strict=False):
        route = route_text({(part, name): text for part, name, text in change.parts if text}) or ""
        assert [text for text in texts if text not in route] == []
        if change.change == "appeared":
            assert (change.before, change.after) == (Size(0, 0), Size(len(found_brokers(route)), len(route)))
        if change.change == "vanished":
            assert (change.after, {part.text for part in change.parts}) == (Size(0, 0), {None})


def found_brokers(route: str) -> list[object]:
    return list(json.loads(route)["brokerDatas"])


def clock(us: int) -> str:
    """Return a time of the day, without seconds that are 0."""
    return (
        (dt.datetime.combine(DAY, dt.time()) + dt.timedelta(microseconds=us)).strftime("%H:%M:%S").removesuffix(":00")
    )


def test_stale_order_conf_judges_names_and_queue_counts() -> None:
    """Fewer queues than there are is a choice, more is an error; an empty text says nothing."""
    held: dict[str | None, QueueData] = {"broker-a": QueueData(8, 4, 6, 0)}

    assert not stale_order_conf("broker-a:4", held)
    assert not stale_order_conf("broker-a:2;", held)
    assert not stale_order_conf(None, held)
    assert stale_order_conf("broker-a:5", held)
    assert stale_order_conf("broker-b:1", held)
    assert stale_order_conf("broker-a", held)
    assert stale_order_conf("broker-a:x", held)
    assert stale_order_conf(";broker-b:1", held)
    assert not stale_order_conf("a:b:4", {"a:b": QueueData(8, 4, 6, 0)})


@st.composite
def histories(draw: st.DrawFn) -> list[Interval]:
    """Return rows of a topic of 5.4.0 on two names: intervals, one after another or with gaps, many in one event."""
    rows = []
    for table, key, values in _kinds():
        ends = sorted(draw(st.sets(st.integers(1, 9), max_size=5)))
        for number, (opened, closed) in enumerate(zip(ends, [*ends, None][1:], strict=True)):
            if draw(st.booleans()):
                value = values[(number + draw(st.integers(0, 1))) % len(values)]
                rows.append(interval(table, key, value, at(opened, "e"), at(closed, "e") if closed else None))
    return rows


def _kinds() -> Iterator[tuple[str, tuple[object, ...], list[object]]]:
    for name in ("a", "b"):
        yield "topic_queue", ("T", name), [QueueData(4, 4, perm, 0) for perm in (6, 4)]
        for broker_id in (0, 1):
            addr = f"{name}{broker_id}:1"
            yield "broker_addr", (name, broker_id), [Member(addr, "C", True, zone) for zone in (None, "z")]
            yield "filter_server", ("C", addr), [("f:1",), ("f:1", "f:2")]
        yield "topic_queue_mapping", ("T", name), [TopicQueueMappingInfo("T", name, 4, epoch) for epoch in (1, 2)]
    yield "kv_config", ("ORDER_TOPIC_CONFIG", "T"), [KvValue("a:4"), KvValue("b:8;a:2")]


def whole_route(rows: list[Interval], us: int, namesrv: Namesrv) -> str | None:
    """Return the route at an instant: the answer of a registry filled with the rows that are open then."""
    groups: dict[Any, dict[object, Member]] = {}
    changes = []
    for row in rows:
        if row.valid_from_us > us or (row.valid_to_us is not None and us >= row.valid_to_us):
            continue
        if isinstance(row.value, Member):
            groups.setdefault(row.key[0], {})[row.key[1]] = row.value
        else:
            changes.append(Change(TABLE_OF[row.table], row.key, row.value))  # type: ignore[arg-type]  # names and addresses
    for name, members in groups.items():
        changes.append(Change("broker_addr_table", (name,), group_of(dict(sorted(members.items(), key=str)))))
    registry = Registry(namesrv.profile)
    registry.apply(changes, 0)
    route = pickup_topic_route_data(registry, "T", namesrv)
    if route is None:
        return None
    queue_datas = tuple(sorted(route.queue_datas, key=lambda entry: entry[0] or ""))
    broker_datas = tuple(sorted(route.broker_datas, key=lambda entry: entry[0] or ""))
    return route_json(route._replace(queue_datas=queue_datas, broker_datas=broker_datas), namesrv, standard=True)


@given(histories(), st.booleans(), st.booleans())
def test_parts_put_together_are_the_route_of_a_registry(rows: list[Interval], acting: bool, order: bool) -> None:  # noqa: FBT001
    """After each event, the folded parts and the sizes are those of the answer; events without a change leave it equal."""
    namesrv = Namesrv(V5_4_0, NamesrvConfig(support_acting_master=acting, order_message_enable=order))
    changes = {change.effect_us: change for change in sweep_route("T", rows, namesrv, start_us=0).changes}
    parts: dict[tuple[str, str | None], str] = {}
    before: str | None = None
    for us in range(1, 11):
        if change := changes.pop(us, None):
            for part, name, text in change.parts:
                assert parts.pop((part, name), None) != text
                parts |= {} if text is None else {(part, name): text}
            assert change.before.length == len(before or "")
            assert change.after.length == len(route_text(parts) or "")
        before = whole_route(rows, us, namesrv)
        assert route_text(parts) == before
    assert not changes
