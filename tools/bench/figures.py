"""Every figure that is promised, one function for those with the same sides: what stands on either side, and the bar."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from jobs.night import condensing, judging, night, publish, work
from jobs.night.passes import InProcess
from jobs.night.together import Comparison
from namesrv_day.hours.fold import Folded, folded, periods_of
from namesrv_day.replay import replay as replaying
from namesrv_day.replay.replay import Replayed, ReplayInput
from schemas import bronze, gold
from schemas.times import day_start_us
from tests.oracle.jvm import JvmUnavailableError
from tools.bench import engines
from tools.bench.answers import answers, mid_life
from tools.bench.fleets import FleetDay, Fleets
from tools.bench.harness import Measured, NotMeasured, Ratio, Side, clocked, timed
from tools.bench.java_side import JavaFleet
from tools.bench.processes import HEAP, peak_mib, seconds_of
from tools.bench.questions import questions
from tools.bench.reading import captured_day, reading

_OURS, _WHOLE, _COLD, _SCAN = "replay and flags", "whole night", "nightly, cold", "noop scan"
_FIRST_EVENTS_A_SECOND = 14_000.0
_GATE: tuple[tuple[ModuleType | type, str], ...] = (
    *((condensing, name) for name in ("scanned", "what_is_left", "to_compare")),
    *((night, "compare_keys"), (Comparison, "judged")),
    *((judging, name) for name in ("measure", "_recorded")),
    *((publish, name) for name in ("measured_small", "require_sound")),
)
"""The functions that are the gate, by the modules that call them; none calls another."""


def quiet(fleets: Fleets, rounds: int) -> list[Measured]:
    """A quiet night beside a scan of the same columns, and beside other ways to find who expired."""
    day = fleets.day("quiet")
    beats, events = day.as_first_stored, day.events()
    files = [*day.files(bronze.HEARTBEATS), *day.files(bronze.REGISTRATIONS)]
    sides = [
        _ours(day),
        Side(_WHOLE, day.whole_night, day.renew),
        Side(_COLD, partial(_cold, day), day.renew),
        Side(_SCAN, lambda: engines.scan(beats)),
        Side("window in Spark SQL", lambda: engines.window_sort(events, day.silence_ms)),
        Side("applyInPandas", lambda: engines.pandas_per_broker(events, day.silence_ms)),
        Side("DuckDB, window", lambda: engines.duck_window(files, day.silence_ms)),
    ]
    seconds, answer = timed(sides, rounds)

    def by(name: str, over: str, under: str, bar: float, first: float, *, at_least: bool = False) -> Ratio:
        values = {side: seconds[side] for side in (over, under)}
        notes = {"heartbeats": day.heartbeats}
        return Ratio(name, over, under, values, bar, at_least, first, answers=len(answer), notes=notes)

    return [
        by("quiet night, replay and flags ÷ scan", _OURS, _SCAN, 1.5, 11.9),
        by("quiet night, every step ÷ scan", _WHOLE, _SCAN, 2.5, 27),
        by("quiet night, cold process ÷ scan", _COLD, _SCAN, 6, 47),
        by("applyInPandas ÷ ours", "applyInPandas", _OURS, 4, 0.49, at_least=True),
        by("Spark window ÷ ours", "window in Spark SQL", _OURS, 2, 0.23, at_least=True),
        by("ours ÷ DuckDB window", _OURS, "DuckDB, window", 1.5, 14.3),
    ]


def stormy(fleets: Fleets, rounds: int) -> list[Measured]:
    """A night with 5 % registrations and 1 % of the broker-hours with holes, by a scan."""
    day = fleets.day("stormy")
    beats = day.as_first_stored
    sides = [_ours(day), Side(_SCAN, lambda: engines.scan(beats))]
    return [_measured("stormy night ÷ scan", sides, rounds, 4, 24.6, heartbeats=day.heartbeats)]


def java(fleets: Fleets, rounds: int) -> list[Measured]:
    """The real RouteInfoManager 5.4.0, fed every beat as a full registration, by ours."""
    name, day = "Java RouteInfoManager 5.4.0 ÷ ours", fleets.day("five")
    # Its process has run since the evening before, when nobody was registered: who beats first at midnight comes back.
    started_ms = day_start_us(day.date) // 1_000 - 500
    beats = {namesrv_id: day.beats(namesrv_id) for namesrv_id in sorted(day.house().namesrvs_on(day.date))}
    try:
        fleet = JavaFleet(beats, day.fleet.topics, started_ms, day.fleet.profile.scan_period_ms)
    except JvmUnavailableError as error:
        return [NotMeasured(name, str(error).splitlines()[0])]
    with closing(fleet):
        return [_measured(name, [Side("Java", fleet.run), _ours(day)], rounds, 4, 0.44, at_least=True)]


def wide(fleets: Fleets, rounds: int) -> list[Measured]:
    """A quiet night of brokers with very many topics by a plain write of the slice of their queues."""
    day = fleets.day("wide")
    day.renew()
    day.replayed()
    slices = fleets.spark.read.parquet(*day.files(gold.TOPIC_QUEUE_HISTORY, day.copy)).persist()
    rows, target = slices.count(), str(day.path.with_name(f"{day.path.name}-plain"))

    def write() -> None:
        slices.write.format("delta").mode("overwrite").save(target)

    try:
        return [
            _measured("queue rows, night ÷ plain write", [_ours(day), Side("Spark", write)], rounds, 1, 5.6, rows=rows)
        ]
    finally:
        slices.unpersist()


def gate(fleets: Fleets, rounds: int) -> list[Measured]:
    """What of a whole night is the gate, and what it takes to see that there is nothing to do."""
    day, passes = fleets.day("quiet"), InProcess(fleets.passes.width)
    values: dict[str, list[float]] = {"gate": [], "night in one process": [], "nothing to do": []}
    for _ in range(rounds + 1):
        day.renew()
        with clocked(*_GATE) as spent:
            values["night in one process"] += timed([Side("", partial(day.summary, passes))], 1, warm_up=False)[0][""]
        values["gate"].append(sum(spent))
        values["nothing to do"] += timed([Side("", partial(day.summary, passes))], 1, warm_up=False)[0][""]
    counted = {name: took[1:] for name, took in values.items()}
    return [
        Ratio("gate ÷ night", "gate", "night in one process", counted, 0.15, first=0.44),
        Ratio("nothing to do ÷ night", "nothing to do", "night in one process", counted, 0.05, first=0.003),
    ]


def core(fleets: Fleets, rounds: int) -> list[Measured]:
    """Events through the core, Arrow to rows and back included, on one core by those of the first version."""
    day, answers, rates = fleets.day("tenth"), [], []
    for _ in range(rounds + 1):
        for fold in (folded, _one_by_one):
            watched = _Watched()
            day.renew()
            with patch.object(replaying, "folded", fold), patch.object(work, "replay", watched):
                answers.append(day.replayed(InProcess()))
        rates.append(watched.events / watched.seconds)
    name = "events a second through a replay ÷ the first version's"
    if len(set(answers)) != 1:
        return [NotMeasured(name, "runs and single beats differ")]
    notes = {"events": watched.events}
    return [
        Ratio(name, "ours", _FIRST_EVENTS_A_SECOND, {"ours": rates[1:]}, 5, True, 1, "a second", len(answers[0]), notes)
    ]


def tenfold(fleets: Fleets, rounds: int) -> list[Measured]:
    """Ten times the events by the events: the time of a night, and its memory in a process of its own."""
    days = {name: fleets.day(name) for name in ("10x", "1x")}
    # Other fleets, other answers.
    seconds, _ = timed([_silent(name, day.replayed, day.renew) for name, day in days.items()], rounds)
    peaks: dict[str, list[float]] = {}
    notes: dict[str, Any] = {"heartbeats": [day.heartbeats for day in days.values()], "heap": HEAP}
    for name, day in days.items():
        day.renew()
        peak = peak_mib(_nightly(day), fleets.folder)
        peaks[name], notes[name] = [peak["all"]], {part: round(held) for part, held in peak.items()}
    return [
        Ratio("10^8 ÷ 10^7 beats", "10x", "1x", seconds, 10.5, first=2.94, notes=notes),
        Ratio("peak memory, 10^8 ÷ 10^7 beats", "10x", "1x", peaks, 1.2, first=1.12, unit="MiB", notes=notes),
    ]


def long_history(fleets: Fleets, rounds: int) -> list[Measured]:
    """The last of many nights by its share of a rebuild of all of them; both give the same tables."""
    nights = 30 if fleets.scale == "full" else 4
    last, whole = (fleets.day("long", nights, published=published) for published in (True, False))
    sides = [Side(name, partial(_digests, day), day.renew) for name, day in (("last", last), ("all", whole))]
    seconds, _ = timed(sides, rounds, warm_up=False)
    share = {"share": [took / nights for took in seconds.pop("all")]}
    return [Ratio(f"night {nights} ÷ its share of a rebuild", "last", "share", {**seconds, **share}, 1.2, first=1.14)]


def captures(fleets: Fleets, rounds: int) -> list[Measured]:
    """Captures as a user takes them in: whole processes, in seconds."""
    house = str(fleets.folder / "captured")
    asked = [("bundled capture, demo", ["demo", "--warehouse", house], 20.0, 73.0)]
    network = "network capture, nightly"
    if fleets.capture is not None:
        asked.append((network, ["nightly", "--input", str(fleets.capture), "--warehouse", house], 30.0, 157.0))
    found: list[Measured] = [] if fleets.capture is not None else [NotMeasured(network, "no --capture given")]
    for name, arguments, bar, first in asked:
        run = partial(seconds_of, arguments, fleets.folder)
        took, _ = timed([_silent("process", run, partial(shutil.rmtree, house, ignore_errors=True))], rounds)
        found.append(Ratio(name, "process", 1.0, took, bar, first=first))
    return found


def _digests(day: FleetDay) -> dict[str, str]:
    return day.summary().digests


def _silent(name: str, run: Callable[[], object], before: Callable[[], object]) -> Side:
    """Return a side whose answer cannot be compared with the other's."""

    def work() -> None:
        run()

    return Side(name, work, before)


def _ours(day: FleetDay) -> Side:
    return Side(_OURS, day.replayed, day.renew)


def _nightly(day: FleetDay) -> list[str]:
    return ["nightly", "--from", str(day.date), "--warehouse", str(day.copy)]


def _cold(day: FleetDay) -> engines.Expiries:
    seconds_of(_nightly(day), day.fleets.folder)
    return day.expired()


def _measured(
    name: str, sides: Sequence[Side], rounds: int, bar: float, first: float, *, at_least: bool = False, **notes: Any
) -> Ratio:
    """Measure the first side by the second."""
    seconds, answer = timed(sides, rounds)
    count = len(answer) if isinstance(answer, frozenset) else None
    return Ratio(name, sides[0].name, sides[1].name, seconds, bar, at_least, first, answers=count, notes=notes)


class _Watched:
    """Replays days, and counts the events that the core takes and the seconds of CPU that they take."""

    def __init__(self) -> None:
        self.events, self.seconds = 0, 0.0

    def __call__(self, given: ReplayInput) -> Replayed:
        """Replay one day."""
        began = time.process_time()
        done = replaying.replay(given)
        self.seconds += time.process_time() - began
        self.events += done.events
        return done


def _one_by_one(hours: pa.Table, others: pa.Table, *_: object) -> Folded:
    """Return a day's beats as none of them is part of a run."""
    return Folded(periods_of(hours), hours.slice(0, 0), others.slice(0, 0))


FIGURES: dict[str, Callable[[Fleets, int], list[Measured]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(quiet, stormy, java, wide, gate, core, tenfold, long_history, captures),
        *(answers, mid_life, reading, captured_day, questions),
    )
}
"""What can be measured, by the name for `--only`: figures with the same sides are taken together."""
