"""Runs on a store that die anywhere, in one process: a seed is a world, a few runs with what is told late, and where they die.

A run dies behind any of its store operations: a file written, a commit, a note, a file deleted. What readers see is held against a
model after each, and in the end against what runs that nobody disturbed would have left.
"""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import pyarrow.fs as pafs
import pytest
from pyarrow.fs import LocalFileSystem

from jobs.store import delta_log, warehouse
from jobs.store.check import check
from jobs.store.maintain import maintain
from jobs.store.warehouse import Warehouse
from schemas import gold
from tests.boundaries import CrashError
from tests.store.tiny import (
    DAY,
    EXPIRED,
    HEARTBEATS,
    NOW,
    ONE,
    beat,
    ingest,
    linked,
    opened,
    publish,
    put,
    removal,
    warehouse_at,
)

DAYS = [DAY + dt.timedelta(days=number) for number in range(4)]
_WORLDS, _OPERATIONS = 12, 17
"""How many worlds there are, before the runs of a seed; how many store operations a run has."""


class World(NamedTuple):
    """What a warehouse holds: by day the number of the run that wrote it last, and the beats of all that was read."""

    path: Path
    days: dict[dt.date, str]
    beats: list[int]
    runs: int


class _Store(LocalFileSystem):  # type: ignore[misc]  # Arrow has no types
    """Files of this machine; whoever waits is told of each that was written or deleted."""

    passed: Callable[[], None] = staticmethod(lambda: None)

    def open_output_stream(self, *given: Any, **named: Any) -> Any:
        """See `LocalFileSystem`."""
        found = super().open_output_stream(*given, **named)
        _Store.passed()  # it is there, and empty
        return found

    def delete_file(self, *given: Any) -> None:
        """See `LocalFileSystem`."""
        super().delete_file(*given)
        _Store.passed()


@contextmanager
def dying_behind(operations: int | None) -> Iterator[None]:
    """Have what runs within die behind so many store operations; None: never."""
    left = [-1 if operations is None else operations]

    def passed() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise CrashError

    def behind(function: Callable[..., Any]) -> Callable[..., Any]:
        def done(*given: Any, **named: Any) -> Any:
            found = function(*given, **named)
            passed()
            return found

        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_Store, "passed", staticmethod(passed))
        patched.setattr(pafs, "LocalFileSystem", _Store)
        for module, name in (
            (delta_log, "commit"),
            (delta_log, "create"),
            (warehouse, "write_file"),
            (warehouse, "write_text"),
        ):
            patched.setattr(module, name, behind(getattr(module, name)))
        yield


def run(opened: Warehouse, day: dt.date, number: int, again: Iterable[dt.date]) -> set[dt.date]:
    """Read a beat of a day, write the run's number into two tables on each day that no run covers, and publish these days.

    `again`: so it does days that were published before; who comes after a run that died does not know of them.
    """
    opened.start_from_published()
    ingest(opened, day, beat(number, run=opened.run_id))
    covered = opened.ledger().covered
    days = {*again, *(day for source in opened.recorded() if source.ingest_run not in covered for day in source.days)}
    for each in sorted(days):
        put(opened, EXPIRED, each, removal(f"{number}"))
        put(opened, gold.ROUTE_CHANGES, each, {"namesrv_id": ONE, "topic": f"{number}"})
    opened.commit()
    publish(opened, days)
    return days


def tried(world: World, dice: random.Random, *, dies: bool) -> World:
    """Let one more run try, on a day at random; return what there is, and see that readers see just that."""
    path, day, number = world.path, dice.choice(DAYS), world.runs
    again = dice.sample(sorted(world.days), min(len(world.days), dice.randrange(3)))
    name = f"run-{number:02}"
    try:
        with dying_behind(dice.randint(1, _OPERATIONS) if dies else None):
            run(warehouse_at(path, name, NOW + dt.timedelta(hours=number)), day, number, again)
    except CrashError:
        pass
    now = warehouse_at(path)
    last, days, beats = now.ledger().last, dict(world.days), list(world.beats)
    if last is not None and last.run_id == name:
        days |= dict.fromkeys(last.days, f"{number}")
    if any(source.ingest_run == name for source in now.recorded()):
        beats.append(number)
    assert dies or (days != world.days and beats != world.beats)
    for table, column in ((EXPIRED, "broker_name"), (gold.ROUTE_CHANGES, "topic")):
        rows = now.published_rows(table, columns=["day", column])
        found = sorted(zip(*(of.to_pylist() for of in rows.columns), strict=True))
        assert found == sorted(days.items()), (table.name, found, days)
    assert sorted(now.rows(HEARTBEATS, columns=["seq"])["seq"].to_pylist()) == beats
    return World(path, days, beats, number + 1)


@cache
def _world(number: int) -> World:
    """Return a world of some runs, of which some died, that somebody has optimized, or maintenance has gone over."""
    dice = random.Random(number)
    world = World(Path(mkdtemp(prefix="namesrv-worlds-")), {}, [], 0)
    for _ in range(dice.randrange(6)):
        world = tried(world, dice, dies=dice.random() < 0.4)
    if world.days and number % 3 == 1:
        opened(world.path, EXPIRED).optimize.compact()
    if world.days and number % 3 == 2:
        maintain(warehouse_at(world.path, "care", NOW + dt.timedelta(days=500)), retain_days=0)
    return world


def simulation(seed: int, folder: Path) -> tuple[str, str]:
    """Two runs of which each dies behind one of its store operations, then one that nobody disturbs, in a world at random."""
    dice, known = random.Random(seed), _world(seed % _WORLDS)
    world = known._replace(path=linked(known.path, folder / f"s{seed}"))
    for dies in (True, dice.random() < 0.5, False):
        world = tried(world, dice, dies=dies)
    wrong = check(warehouse_at(world.path)).wrong if seed % 10 == 0 else []
    shutil.rmtree(world.path)
    return ("silent" if wrong else "survived"), f"{world.runs} runs {' | '.join(wrong)}"
