"""Every ratio that is promised, one function each: what stands on either side, and the bar."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from contextlib import closing
from functools import partial

from pyspark.sql import functions as F

from benchmarks import engines
from benchmarks.engines import Duck
from benchmarks.fleets import SKEWED, FleetDay, Fleets
from benchmarks.harness import NotMeasured, Ratio, Side, by_once, measured, timed
from benchmarks.java_side import JavaFleet
from benchmarks.memory import HEAP, peak_mib
from jobs import night, nightly
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.gate import validate, validate_gold
from schemas import gold
from schemas.times import day_start_us
from tests.oracle.jvm import JvmUnavailableError

Measured = Ratio | NotMeasured
_OURS, _SCAN, _NIGHT = "replay and flag", "noop scan", "whole night"
_EVERY, _ONE_ROAD = "every event through the core", PipelineConf(quiet_road=False)


def quiet(fleets: Fleets, rounds: int) -> list[Measured]:
    """A quiet night beside a scan of the same columns, and beside other ways to find who expired.

    These are a Python function for each broker that only counts gaps; Spark SQL with a window; and DuckDB with the same window
    over the same files, beside which stands DuckDB with our own bitmap.
    """
    day = fleets.day("quiet")
    sides = [
        _ours(day),
        Side(_SCAN, lambda: engines.scan(day.heartbeats())),
        Side("window in Spark SQL", lambda: engines.window_sort(day.events(), day.silence_ms)),
        Side("applyInPandas", lambda: engines.pandas_per_broker(day.events(), day.silence_ms)),
    ]
    try:
        duck = Duck(day.files())
    except ImportError:
        duck = None
    if duck is not None:
        sides += [
            Side("DuckDB, window", lambda: duck.window(day.silence_ms)),
            Side("DuckDB, our bitmap", lambda: duck.bitmap(day.silence_ms, day.fleet.lease_ms)),
            Side("DuckDB, scan", duck.scan),
        ]
    seconds, answer = timed(sides, rounds)
    heartbeats = day.heartbeats().count()

    def by(name: str, over: str, under: str, bar: float, *beside: str, at_least: bool = False) -> Ratio:
        values = {side: seconds[side] for side in (over, under, *beside)}
        return Ratio(name, over, under, values, bar, at_least, answers=len(answer), notes={"heartbeats": heartbeats})

    return [
        by("quiet night ÷ scan", _OURS, _SCAN, 3.0),
        by("applyInPandas per broker ÷ ours", "applyInPandas", _OURS, 3.0, at_least=True),
        by("window sort in Spark SQL ÷ ours", "window in Spark SQL", _OURS, 1.3, at_least=True),
        by("ours ÷ DuckDB", _OURS, "DuckDB, window", 1.5, "DuckDB, our bitmap", "DuckDB, scan")
        if duck is not None
        else NotMeasured("ours ÷ DuckDB", "duckdb is not installed"),
    ]


def stormy(fleets: Fleets, rounds: int) -> list[Measured]:
    """A night with 5 % registrations and 1 % of the broker-hours with holes, by a scan."""
    day = fleets.day("stormy")
    sides = [_ours(day), Side(_SCAN, lambda: engines.scan(day.heartbeats()))]
    return [measured("stormy night ÷ scan", sides, rounds, 6.0, heartbeats=day.heartbeats().count())]


def core(fleets: Fleets, rounds: int) -> list[Measured]:
    """Ours with the quiet road switched off, by ours."""
    day = fleets.day("quiet")
    every = Side(_EVERY, lambda: day.replayed(_ONE_ROAD))
    seconds, answer = by_once(every, _ours(day), rounds)
    return [Ratio(f"{_EVERY} ÷ ours", _EVERY, _OURS, seconds, 6.0, at_least=True, answers=len(answer))]


def java(fleets: Fleets, rounds: int) -> list[Measured]:
    """The real RouteInfoManager 5.4.0, fed every beat as a full registration, by ours."""
    name, day = "Java RouteInfoManager 5.4.0 ÷ ours", fleets.day("five")
    # Its process has run since the evening before, when nobody was registered: who beats first at midnight comes back.
    started_ms = day_start_us(day.date) // 1_000 - 500
    try:
        fleet = JavaFleet(day.events(), day.fleet.topics, started_ms, day.fleet.profile.scan_period_ms)
    except JvmUnavailableError as error:
        return [NotMeasured(name, str(error).splitlines()[0])]
    with closing(fleet):
        return [measured(name, [Side("Java", fleet.run), _ours(day)], rounds, 5.0, at_least=True)]


def wide(fleets: Fleets, rounds: int) -> list[Measured]:
    """A quiet night of brokers with very many topics by a plain write of the slice of their queues."""
    day = fleets.day("wide")
    day.replayed()  # the slice to be written
    target = str(fleets.folder / "plain")

    def write() -> None:
        rows = day.house().table(gold.TOPIC_QUEUE_HISTORY).where(F.col("day") == F.lit(day.date))
        rows.write.format("delta").mode("overwrite").save(target)

    rows = day.house().table(gold.TOPIC_QUEUE_HISTORY).where(F.col("day") == F.lit(day.date)).count()
    sides = [_ours(day), Side("plain write of the slice", write)]
    return [measured("night of many topics ÷ plain write", sides, rounds, 1.5, rows=rows)]


def tenfold(fleets: Fleets, rounds: int) -> list[Measured]:
    """Ten times the events by the events: the time of a night."""
    large, small = fleets.day("10x"), fleets.day("1x")
    # Other fleets, other answers.
    sides = [Side("10x", partial(_unanswered, large)), Side("1x", partial(_unanswered, small))]
    events = [day.events().count() for day in (large, small)]
    return [measured("10 times the events ÷ the events", sides, rounds, 10.5, events=events)]


def memory(fleets: Fleets, rounds: int) -> list[Measured]:
    """Ten times the events by the events: the peak memory of a night, each in a process of its own."""
    events = [fleets.day(name).events().count() for name in ("10x", "1x")]
    found = {name: [peak_mib(fleets.folder, fleets.scale, name) for _ in range(rounds)] for name in ("10x", "1x")}
    peaks = {name: [peak for peak, _ in taken] for name, taken in found.items()}
    notes = {"events": events, "heap": HEAP, **{f"of which, {name}": taken[-1][1] for name, taken in found.items()}}
    return [Ratio("peak memory at 10 times the events", "10x", "1x", peaks, 1.2, unit="MiB", notes=notes)]


def skew(fleets: Fleets, rounds: int) -> list[Measured]:
    """A day of which one broker has half of all heartbeats, by an even day with as many; on both roads."""
    skewed, even = fleets.day(SKEWED), fleets.day("tenth")
    events = [day.events().count() for day in (skewed, even)]
    roads = {"quiet road": None, _EVERY: _ONE_ROAD}
    found: list[Measured] = []
    for road, conf in roads.items():
        # Other fleets, other answers.
        sides = [
            Side(name, partial(_unanswered, day, conf)) for name, day in (("one with half", skewed), ("even", even))
        ]
        found.append(measured(f"one broker with half ÷ even, {road}", sides, rounds, 1.1, events=events))
    return found


def long_history(fleets: Fleets, rounds: int) -> list[Measured]:
    """The last of many nights by its share of a rebuild of all of them; both give the same tables."""
    nights = 30 if fleets.scale == "full" else 4
    name, last = f"night {nights} ÷ its share of a rebuild", fleets.day("long", nights)
    days = [last.fleet.start + dt.timedelta(days=n) for n in range(nights)]

    def steps(of: list[dt.date]) -> dict[str, str]:
        house = last.house()
        for step in (night.replay, night.flag_days, night.verify_days):
            step(house, of)
        return last.digests()

    seconds, _ = by_once(Side("rebuild", lambda: steps(days)), Side("last night", lambda: steps(days[-1:])), rounds)
    share = [took / nights for took in seconds.pop("rebuild")]
    return [Ratio(name, "last night", "share", {**seconds, "share": share}, 1.3)]


def whole_night(fleets: Fleets, rounds: int) -> list[Measured]:
    """The quality gate on all bronze and gold tables, and what it takes to see that there is nothing to do, by the whole night."""
    day = fleets.day("quiet")
    day.whole_night()  # the tables to be judged

    def look() -> None:
        nightly.run(day.house(), [], Console(io.StringIO(), io.StringIO()))

    def gate() -> None:
        for judge in (validate, validate_gold):
            judge(day.house(), [day.date])

    sides = [
        Side(_NIGHT, day.whole_night),
        Side("gate", gate),
        Side("nothing to do", look),
        Side(_SCAN, lambda: engines.scan(day.heartbeats())),
    ]
    seconds, _ = timed(sides, rounds)
    of_gate = {side: seconds[side] for side in ("gate", _NIGHT, _SCAN)}
    of_look = {side: seconds[side] for side in ("nothing to do", _NIGHT)}
    return [
        Ratio("Great Expectations gate ÷ night", "gate", _NIGHT, of_gate, 0.25),
        Ratio("nothing to do ÷ night", "nothing to do", _NIGHT, of_look, 0.05),
    ]


def _ours(day: FleetDay) -> Side:
    return Side(_OURS, day.replayed)


def _unanswered(day: FleetDay, conf: PipelineConf | None = None) -> None:
    """Replay and flag a day, and have no answer."""
    day.replayed(conf)


RATIOS: dict[str, Callable[[Fleets, int], list[Measured]]] = {
    function.__name__.replace("_", "-"): function
    for function in (quiet, whole_night, stormy, core, java, wide, tenfold, memory, skew, long_history)
}
"""What can be measured, by the name for `--only`: ratios with the same sides are taken together."""
