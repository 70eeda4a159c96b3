"""Wherever a log of events is cut into days, the state, the histories and the outcomes are those of one run.

At a cut the open intervals become rows, the rows become intervals again, and a new registry is built from them; how many
buckets a map has that once held more keys is told beside. That a 4.x scan has ended for good is no row: it is read from
the outcomes before the cut, as the jobs read it. Not carried, and therefore kept out of the way of a cut, are
unregistrations that were only queued (5.x): the jobs never defer one; where a log does, it is not cut while some wait.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from namesrv_core import Namesrv, Outcome, Registry, Step, take
from namesrv_core.history.intervals import Histories, Interval, MapCapacity, restored
from namesrv_core.machine import events
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Profile
from namesrv_core.machine.registry import TABLES
from namesrv_core.machine.tables import DataVersion, NestedTable, TopicConfig, TopicTable
from schemas.codec import columns_of, intervals_of
from tests.core.adversary import NAMESRVS_4_9_7, NAMESRVS_5_4_0, START_MS, Timed, adversarial_logs
from tests.examples import examples, first_quick
from tools.trace.state import state_of
from tools.trace.trace import Trace
from tools.trace.trace_events import _EVENTS, event_of

TRACES = sorted((Path(__file__).parent / "traces").glob("*/*.jsonl.gz"))
GENERATIONS = [pytest.param(NAMESRVS_4_9_7, id="4.9.7"), pytest.param(NAMESRVS_5_4_0, id="5.4.0")]


class Run(NamedTuple):
    """A run that stands at some position.

    The registry, its open intervals, and the intervals and steps until here.
    """

    registry: Registry
    histories: Histories
    closed: tuple[Interval, ...] = ()
    steps: tuple[Step, ...] = ()


def fresh(namesrv: Namesrv) -> Run:
    return Run(Registry(namesrv.profile), Histories())


def proceed(run: Run, timed: Timed, number: int, namesrv: Namesrv) -> Run:
    """Take one event as the jobs do: the transition, the version it reports, its intervals, its refresh."""
    step = take(run.registry, timed.event, timed.at_ms, namesrv)
    at_us = timed.at_ms * 1_000
    closed = []
    event = timed.event
    if isinstance(event, events.RegisterBroker):
        key = (event.cluster_name, event.broker_name, event.broker_addr)
        version = run.histories.report_version(key, event.data_version, seq=number, event_id=f"e{number}", at_us=at_us)
        closed += [] if version is None else [version]
    closed += run.histories.record(step.changes, seq=number, event_id=f"e{number}", at_us=at_us)
    if step.refreshed is not None:
        run.histories.refreshed(step.refreshed, timed.at_ms)
    return Run(run.registry, run.histories, (*run.closed, *closed), (*run.steps, step))


def through_rows(intervals: Iterable[Interval]) -> list[Interval]:
    """Write intervals as rows and read them again, last row first: a table has no order."""
    by_table: dict[str, list[Interval]] = {}
    for interval in intervals:
        by_table.setdefault(interval.table, []).insert(0, interval)
    return [row for table, rows in by_table.items() for row in intervals_of(table, columns_of(table, rows))]


def scan_halted(steps: Iterable[Step]) -> bool:
    """Whether the last of these outcomes to say so says that the periodic scan has ended."""
    told = [step.outcome for step in steps if step.outcome in (Outcome.SCAN_FAILED, Outcome.STARTED, Outcome.STOPPED)]
    return told[-1:] == [Outcome.SCAN_FAILED]


def cut(run: Run, namesrv: Namesrv) -> Run:
    """Return the run as the next day starts with it."""
    rows = through_rows(run.histories.open_intervals())
    assert {(row.table, row.key): row for row in rows} == {
        (interval.table, interval.key): interval for interval in run.histories.open_intervals()
    }, "a row says something else than its interval"
    registry = Registry(namesrv.profile)
    registry.scan_halted = scan_halted(run.steps)
    restored(registry, rows, capacities_of(run.registry, rows))
    carried = Histories(rows)
    return Run(registry, carried, (*run.closed, *run.histories.open_intervals()), run.steps)


def capacities_of(registry: Registry, rows: Iterable[Interval]) -> list[MapCapacity]:
    """Return the maps of the registry that have more buckets than those that are made of the rows."""
    fresh, found = Registry(registry.profile), list[MapCapacity]()
    restored(fresh, rows)
    for table in sorted(TABLES):
        own, other = getattr(registry, table), getattr(fresh, table)
        maps: list[tuple[bool, str | None, Any, Any]] = [(False, None, own, other)]
        if isinstance(own, NestedTable):
            maps += [(True, outer, inner, other[outer]) for outer, inner in own.items()]
        found += [
            MapCapacity(table, is_inner, outer, one.capacity)  # type: ignore[arg-type]  # a name of TABLES
            for is_inner, outer, one, afresh in maps
            if one.capacity > afresh.capacity
        ]
    return found


def merged(run: Run) -> dict[tuple[object, ...], Interval]:
    """Return the whole intervals: what was carried over a cut is one row a day, all with one beginning."""
    whole: dict[tuple[object, ...], Interval] = {}
    for interval in (*run.closed, *run.histories.open_intervals()):
        identity = (interval.table, interval.key, interval.opened_at)
        earlier = whole.get(identity)
        assert earlier is None or earlier.closed_at is None, "an interval that had ended goes on"
        assert earlier is None or earlier.first_update_ms == interval.first_update_ms, "it began otherwise"
        whole[identity] = interval
    return whole


def orders(registry: Registry) -> list[object]:
    """Return every order that shows in anything (that of namespaces does not), and what beside the tables outlasts an event."""
    nested = (
        registry.topic_queue_table, registry.cluster_addr_table, registry.topic_queue_mapping_info_table,
    )  # fmt: skip
    return [
        {namespace: inner.java_keys() for namespace, inner in registry.kv_config_table.items()},
        *([(key, inner.java_keys()) for key, inner in table.java_items()] for table in nested),
        list(registry.broker_addr_table.java_items()),
        list(registry.broker_live_table.java_items()),
        list(registry.filter_server_table.java_items()),
        registry.last_update_ms,
        registry.pending_unregister,
        registry.scan_halted,
    ]


def require_equal(run: Run, whole: Run) -> None:
    assert state_of(run.registry) == state_of(whole.registry)
    assert orders(run.registry) == orders(whole.registry)
    assert run.steps == whole.steps
    assert merged(run) == merged(whole)


def require_cut_invariance(log: Sequence[Timed], namesrv: Namesrv) -> None:
    """Cut before every event in turn, and then before all of them."""
    whole = fresh(namesrv)
    cuts = []
    for number, timed in enumerate(log):
        if not whole.registry.pending_unregister:
            cuts.append((number, cut(whole, namesrv)))
        whole = proceed(whole, timed, number, namesrv)
    for start, run in cuts:
        for number in range(start, len(log)):
            run = proceed(run, log[number], number, namesrv)  # noqa: PLW2901  the run goes on
        require_equal(run, whole)
    run = fresh(namesrv)
    for number, timed in enumerate(log):
        run = proceed(run if run.registry.pending_unregister else cut(run, namesrv), timed, number, namesrv)
    require_equal(run, whole)


def recorded(path: Path) -> tuple[list[Timed], Namesrv]:
    """Return the events of a trace that change anything, and its name server."""
    trace = Trace()
    log = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for ev in (json.loads(line)["ev"] for line in lines):
            if ev["op"] == "init":
                trace.take(ev)
            elif ev["op"] in _EVENTS:
                log.append(Timed(event_of(ev["op"], ev, trace.remotes), ev["t_ms"]))
    return log, trace.namesrv


def require_no_cut_seen(log: Sequence[Timed], namesrv: Namesrv) -> None:
    """Cut before all events, and compare after each: what is equal now is decided equally from now on."""
    whole, run = fresh(namesrv), fresh(namesrv)
    for number, timed in enumerate(log):
        whole = proceed(whole, timed, number, namesrv)
        run = proceed(run if run.registry.pending_unregister else cut(run, namesrv), timed, number, namesrv)
        assert run.steps[-1] == whole.steps[-1]
        assert state_of(run.registry) == state_of(whole.registry)
        assert orders(run.registry) == orders(whole.registry)
    require_equal(run, whole)


@pytest.mark.parametrize("path", first_quick(*TRACES), ids=lambda path: f"{path.parent.name}-{path.name[:3]}")
def test_recorded_trace_may_be_cut_before_any_event(path: Path) -> None:
    """What really happened, cut at every position: nothing is lost, nothing is new, no order changes."""
    log, namesrv = recorded(path)
    require_cut_invariance(log, namesrv)


@pytest.mark.parametrize("namesrvs", GENERATIONS)
@pytest.mark.parametrize(
    ("size", "require"), [(12, require_cut_invariance), pytest.param(50, require_no_cut_seen, marks=pytest.mark.slow)]
)
def test_adversarial_log_may_be_cut_anywhere(
    namesrvs: st.SearchStrategy[Namesrv], size: int, require: Callable[[Sequence[Timed], Namesrv], None]
) -> None:
    """Shared addresses, names and channels, scans at deadlines, restarts: a cut before any event is never seen afterwards.

    In a long log after each event nothing tells a registry that was rebuilt from rows each time from one that never was.
    """

    @given(adversarial_logs(namesrvs, size))
    def may_be_cut(made: tuple[list[Timed], Namesrv]) -> None:
        require(*made)

    may_be_cut()


# Only a recording that begins mid-life, or has a gap, has them.
MID_LIFE = {Outcome.UNKNOWN_PAST, Outcome.UNRECORDED}
ONLY_4_9_7 = {Outcome.VERSION_DIFFERS, Outcome.SCAN_FAILED, Outcome.SCAN_HALTED}
ONLY_5_4_0 = {Outcome.QUEUED, Outcome.REFUSED_LONE_TOPIC, Outcome.REJECTED_STATE_VERSION}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("namesrvs", "beyond"), [(NAMESRVS_4_9_7, ONLY_5_4_0), (NAMESRVS_5_4_0, ONLY_4_9_7)], ids=["4.9.7", "5.4.0"]
)
def test_adversary_reaches_every_outcome(namesrvs: st.SearchStrategy[Namesrv], beyond: set[Outcome]) -> None:
    """The tests above mean something: there is a log for each outcome, and none for those of the other generation."""
    missing = set(Outcome) - beyond - MID_LIFE

    def reaches_the_rest(made: tuple[list[Timed], Namesrv]) -> bool:
        log, namesrv = made
        registry = Registry(namesrv.profile)
        outcomes = {take(registry, timed.event, timed.at_ms, namesrv).outcome for timed in log}
        assert not outcomes & beyond
        missing.difference_update(outcomes)
        return not missing

    search = settings(database=None, max_examples=3_000, phases=[Phase.generate])
    assert find(adversarial_logs(namesrvs, size=50), reaches_the_rest, settings=search, random=Random(4))


def test_ended_scan_is_carried_over_a_cut() -> None:
    """4.9.7: after the exception no tick runs, on the next day neither; a restart brings the timer back."""
    namesrv = Namesrv(V4_9_7)
    run = fresh(namesrv)
    for number, (addr, name) in enumerate([("10.0.0.3:10911", "b"), ("10.0.0.2:10911", "c"), ("10.0.0.1:10911", "d")]):
        joined = events.RegisterBroker("C", addr, name, 0, None, None, TopicTable([]), None, "shared")
        run = proceed(run, Timed(joined, START_MS), number, namesrv)
    scan = Timed(events.ScanNotActiveBroker(), START_MS + 120_001)
    run = cut(proceed(cut(run, namesrv), scan, 3, namesrv), namesrv)
    assert run.steps[-1].outcome == Outcome.SCAN_FAILED
    run = cut(proceed(run, scan, 4, namesrv), namesrv)
    assert (run.steps[-1].outcome, run.registry.scan_halted) == (Outcome.SCAN_HALTED, True)
    run = cut(proceed(run, Timed(events.NamesrvStarted(), START_MS + 120_002), 5, namesrv), namesrv)
    assert not run.registry.scan_halted


# -- maps that grew
# -----------------------------------------------------------------------------------------

NAMES = [f"broker-{number}" for number in range(56)]
TOPICS = [f"topic-{number}" for number in range(20)]


def joined(name: str, *topics: str) -> events.RegisterBroker:
    table = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in topics])
    return events.RegisterBroker("C", f"{name}:1", name, 0, None, DataVersion(0, 1, 1), table, ("f",), name)


def left(name: str) -> events.UnregisterBroker:
    return events.UnregisterBroker("C", f"{name}:1", name, 0)


@st.composite
def growing_logs(draw: st.DrawFn) -> tuple[list[Timed], Namesrv]:
    """Brokers come in crowds and go in crowds: maps of broker names grow, and lose most of them."""
    namesrv = Namesrv(draw(st.sampled_from([V4_9_7, V5_4_0])))
    log: list[events.Event] = []
    # A broker that registers one topic alone is refused by 5.x.
    topics = st.lists(st.sampled_from(TOPICS), min_size=2, max_size=12, unique=True)
    for joins, names, of in draw(
        st.lists(
            st.tuples(st.booleans(), st.lists(st.sampled_from(NAMES), min_size=12, max_size=30), topics), max_size=5
        )
    ):
        log += [joined(name, *of) if joins else left(name) for name in names]
        log += [] if joins else [events.DeleteTopic(topic, None) for topic in of]
    return [Timed(event, START_MS + number) for number, event in enumerate(log)], namesrv


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(growing_logs())
def test_no_cut_is_seen_where_maps_grow(made: tuple[list[Timed], Namesrv]) -> None:
    """Maps that grew and shrank: after each event all iterate as if uncut, since a HashMap's order is its capacity and its ages."""
    require_no_cut_seen(*made)


@pytest.mark.slow
@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def test_of_a_table_that_grew_the_buckets_are_carried(profile: Profile) -> None:
    """Tables of 800 brokers of which 30 are left: each key is in its bucket, and in 4.x at its place in it, too.

    A ConcurrentHashMap (5.x) turns parts of its buckets round when it grows; what had left by the cut, had a share in that.
    """
    namesrv = Namesrv(profile)
    run = fresh(namesrv)
    names = [f"broker-{number}" for number in range(800)]
    for number, name in enumerate(names):
        run = proceed(run, Timed(joined(name, "T", "U"), START_MS), number, namesrv)
    for number, name in enumerate(names[30:]):
        run = proceed(run, Timed(left(name), START_MS), 1_000 + number, namesrv)
    again = cut(run, namesrv).registry
    assert state_of(again) == state_of(run.registry)
    for table in ("broker_addr_table", "broker_live_table", "filter_server_table"):
        own, other = getattr(run.registry, table), getattr(again, table)
        assert own.capacity == other.capacity > getattr(Registry(profile), table).capacity_of(30)
        assert [*map(own.bucket_of, own.java_keys())] == [*map(other.bucket_of, other.java_keys())]
        if not profile.concurrent_maps:
            assert own.java_keys() == other.java_keys()
    assert again.topic_queue_table["T"].java_keys() == run.registry.topic_queue_table["T"].java_keys()


def test_a_grown_map_is_told_and_one_that_is_full_is_not() -> None:
    """Thirteen broker names once, two now: the map of the names stays large, and only that is told."""
    namesrv = Namesrv(V4_9_7)
    run = fresh(namesrv)
    names = [f"broker-{number}" for number in range(13)]
    for number, name in enumerate(names):
        run = proceed(run, Timed(joined(name, "T"), START_MS), number, namesrv)
    assert capacities_of(run.registry, run.histories.open_intervals()) == []
    for number, name in enumerate(names[2:], start=2):
        run = proceed(run, Timed(left(name), START_MS), 100 + number, namesrv)
    told = capacities_of(run.registry, run.histories.open_intervals())
    assert told == [MapCapacity("cluster_addr_table", True, "C", 32), MapCapacity("topic_queue_table", True, "T", 32)]
    again = cut(run, namesrv).registry
    assert again.topic_queue_table["T"].capacity == 32
    assert state_of(again) == state_of(run.registry)
