"""Every ratio that is promised, one function each: what stands on either side, and the bar."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from pyspark.sql import functions as F

from benchmarks import engines
from benchmarks.engines import Duck
from benchmarks.fleets import FleetDay, Fleets, one_road
from benchmarks.harness import NotMeasured, Ratio, Side, measured, timed
from benchmarks.java_side import JavaFleet
from benchmarks.memory import peak_mib
from jobs import night, nightly
from jobs.console import Console
from jobs.gate import validate_gold
from schemas import gold
from schemas.codec import day_start_us
from tests.oracle.jvm import JvmUnavailableError

Measured = Ratio | NotMeasured


def quiet_night(fleets: Fleets, rounds: int) -> Measured:
    """A quiet night by a scan of the same columns; the whole night with its gate, reports and ledger stands beside it."""
    day = fleets.day("quiet")
    sides = [
        Side("replay and flag", day.replayed),
        Side("noop scan", lambda: engines.scan(day.heartbeats())),
        Side("whole night", day.whole_night),
    ]
    return measured("quiet night ÷ scan", sides, rounds, 3.0, heartbeats=day.heartbeats().count())


def stormy_night(fleets: Fleets, rounds: int) -> Measured:
    """The same with 5 % registrations and 1 % of the broker-hours with holes."""
    day = fleets.day("stormy")
    sides = [Side("replay and flag", day.replayed), Side("noop scan", lambda: engines.scan(day.heartbeats()))]
    return measured("stormy night ÷ scan", sides, rounds, 6.0, heartbeats=day.heartbeats().count())


def pandas_per_broker(fleets: Fleets, rounds: int) -> Measured:
    """A Python function for each broker that only counts gaps, by ours."""
    day = fleets.day("quiet")
    naive = Side("applyInPandas", lambda: engines.pandas_per_broker(day.events(), day.silence_ms))
    return measured("applyInPandas per broker ÷ ours", [naive, _ours(day)], rounds, 3.0, at_least=True)


def every_event_through_the_core(fleets: Fleets, rounds: int) -> Measured:
    """Ours with the quiet road switched off, by ours; a tenth of the brokers, for it takes its time."""
    name, conf = "every event through the core ÷ ours", one_road()
    if conf is None:
        return NotMeasured(name, "this version has one road only, and all events take it")
    day = fleets.day("tenth")
    core = Side("every event through the core", lambda: day.replayed(conf))
    return measured(name, [core, _ours(day)], rounds, 6.0, at_least=True)


def window_sort(fleets: Fleets, rounds: int) -> Measured:
    """Spark SQL with a window that only finds gaps, by ours."""
    day = fleets.day("quiet")
    window = Side("window in Spark SQL", lambda: engines.window_sort(day.events(), day.silence_ms))
    return measured("window sort in Spark SQL ÷ ours", [window, _ours(day)], rounds, 1.3, at_least=True)


def duckdb(fleets: Fleets, rounds: int) -> Measured:
    """Ours by DuckDB's window over the same files, for the expiries alone; beside it DuckDB with our own bitmap."""
    day = fleets.day("quiet")
    try:
        duck = Duck(day.files())
    except ImportError:
        return NotMeasured("ours ÷ DuckDB", "duckdb is not installed")
    sides = [
        _ours(day),
        Side("DuckDB, window", lambda: duck.window(day.silence_ms)),
        Side("DuckDB, our bitmap", lambda: duck.bitmap(day.silence_ms, day.fleet.lease_ms)),
        Side("DuckDB, scan", duck.scan),
    ]
    return measured("ours ÷ DuckDB", sides, rounds, 1.5)


def java(fleets: Fleets, rounds: int) -> Measured:
    """The real RouteInfoManager 5.4.0, fed every beat as a full registration, by ours."""
    name, day = "Java RouteInfoManager 5.4.0 ÷ ours", fleets.day("five")
    # Its process has run since the evening before, when nobody was registered: who beats first at midnight comes back.
    started_ms = day_start_us(day.date) // 1_000 - 500
    try:
        fleet = JavaFleet(day.events(), day.fleet.topics, started_ms, day.fleet.profile.scan_period_ms)
    except JvmUnavailableError as error:
        return NotMeasured(name, str(error).splitlines()[0])
    with closing(fleet):
        return measured(name, [Side("Java", fleet.run), _ours(day)], rounds, 5.0, at_least=True)


def wide_brokers(fleets: Fleets, rounds: int) -> Measured:
    """A quiet night of brokers with very many topics by a plain write of the slice of their queues."""
    day = fleets.day("wide")
    day.replayed()  # the slice to be written
    target = str(fleets.folder / "plain")

    def write() -> None:
        rows = day.house().table(gold.TOPIC_QUEUE_HISTORY).where(F.col("day") == F.lit(day.date))
        rows.write.format("delta").mode("overwrite").save(target)

    rows = day.house().table(gold.TOPIC_QUEUE_HISTORY).where(F.col("day") == F.lit(day.date)).count()
    sides = [_ours(day), Side("plain write of the slice", write)]
    return measured("night of many topics ÷ plain write", sides, rounds, 1.5, rows=rows)


def tenfold_events(fleets: Fleets, rounds: int) -> Measured:
    """Ten times the events by the events."""
    large, small = fleets.day("10x"), fleets.day("1x")
    sides = [replace(_ours(large), name="10x"), replace(_ours(small), name="1x")]
    events = [day.events().count() for day in (large, small)]
    return measured("10 times the events ÷ the events", sides, rounds, 10.5, events=events)


def tenfold_memory(fleets: Fleets, rounds: int) -> Measured:
    """The peak memory of a night at ten times the events by that at the events."""
    for name in ("10x", "1x"):
        fleets.day(name)
    peaks = {name: [peak_mib(fleets.folder, fleets.scale, name) for _ in range(rounds)] for name in ("10x", "1x")}
    return Ratio("peak memory at 10 times the events", "10x", "1x", peaks, 1.2, unit="MiB")


def long_history(fleets: Fleets, rounds: int) -> Measured:
    """The last of many nights by its share of a rebuild of all of them; both give the same tables."""
    nights = 30 if fleets.scale == "full" else 4
    name, last = f"night {nights} ÷ its share of a rebuild", fleets.day("long", nights)
    days = [last.fleet.start + dt.timedelta(days=n) for n in range(nights)]

    def rebuild() -> dict[str, str]:
        house = last.house()
        for step in (night.replay, night.flag_days, night.verify_days):
            step(house, days)
        return last.digests()

    def last_night() -> dict[str, str]:
        house = last.house()
        for step in (night.replay, night.flag_days, night.verify_days):
            step(house, days[-1:])
        return last.digests()

    seconds, _ = timed([Side("rebuild", rebuild), Side("last", last_night)], rounds)
    share = [took / nights for took in seconds["rebuild"]]
    return Ratio(name, "last night", "share", {"last night": seconds["last"], "share": share}, 1.3)


def gate(fleets: Fleets, rounds: int) -> Measured:
    """The quality gate on all gold tables by the whole night."""
    day = fleets.day("quiet")
    sides = [Side("gate", lambda: _none(validate_gold(day.house(), [day.date]))), Side("whole night", day.whole_night)]
    day.whole_night()  # the tables to be judged
    return measured("Great Expectations gate ÷ night", sides, rounds, 0.25)


def nothing_to_do(fleets: Fleets, rounds: int) -> Measured:
    """What a night takes to see that its inputs are published already, by the night."""
    day = fleets.day("quiet")

    def look() -> None:
        nightly.run(day.house(), [], Console(io.StringIO(), io.StringIO()))

    return measured("nothing to do ÷ night", [Side("look", look), Side("whole night", day.whole_night)], rounds, 0.05)


def _ours(day: FleetDay) -> Side:
    return Side("ours", day.replayed)


def _none(_: object) -> None:
    """Have no answer."""


RATIOS: dict[str, Callable[[Fleets, int], Measured]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        quiet_night,
        stormy_night,
        pandas_per_broker,
        every_event_through_the_core,
        window_sort,
        duckdb,
        java,
        wide_brokers,
        tenfold_events,
        tenfold_memory,
        long_history,
        gate,
        nothing_to_do,
    )
}
"""The ratios by the name for `--only`."""
