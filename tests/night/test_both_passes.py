"""Spark and one process call the same functions: on random fleets they give the same tables, day after day."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from jobs.passes import InProcess, OnSpark, Passes, Processes, tell
from tests.examples import more
from tests.ingest.given import warehouse_at, write
from tests.night.nights import night
from tests.night.test_small_days import lines
from tools.fleet.fleet import Fleet
from tools.fleet.simulate import simulate

FIRST = dt.date(2026, 1, 1)


def fleet_of(seed: int) -> Fleet:
    """Return a small fleet with every kind of trouble, as much of each as the seed says."""
    draw = np.random.default_rng(seed)
    return Fleet(
        FIRST,
        brokers=int(draw.integers(2, 12)),
        namesrvs=int(draw.integers(1, 4)),
        topics=int(draw.integers(2, 6)),
        beats_per_minute=1,
        version=str(draw.choice(["4.9.7", "5.4.0"])),
        shared_topics=bool(draw.integers(2)),
        registrations=float(draw.choice([0, 0.05])),
        outages=float(draw.choice([0, 0.05, 0.2])),
        outage_s=(30, 900),
        partitions=int(draw.integers(0, 4)),
        restarts=int(draw.integers(0, 3)),
        churn=float(draw.choice([0, 0.5])),
        late=float(draw.choice([0, 0.02])),
        duplicates=float(draw.choice([0, 0.02])),
        seed=seed,
    )


class Watched(InProcess):
    """In this process; notes of each pass which tasks had how many pieces."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.seen = list[Counter[str]]()

    def each(self, task: Any, work: Any) -> list[Any]:
        """See `Passes`."""
        self.seen.append(Counter(task.__name__ for _ in work))
        return super().each(task, work)


@pytest.mark.slow
def test_a_day_is_one_pass(tmp_path: Path) -> None:
    """A task carries a name server's day to its end; rules about several rows are counted before, of all days once."""
    watched = Watched(2)
    log = write(tmp_path / "log.jsonl", [*lines(0), *lines(1)])
    assert night(tmp_path / "w", log, passes=watched).status == "published"
    condensing, *others = (pass_ for pass_ in watched.seen if pass_)
    assert condensing.keys() == {"condense_files"}
    assert others == [{"count_together": 1}, {"replay_namesrvs": 2}, {"replay_namesrvs": 2}]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 6 + more(1)))
def test_random_fleets_are_the_same_to_both(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    """The second night of a random fleet, from the state that one process left: every digest and every count is equal."""
    fleet, path = fleet_of(seed), tmp_path / "w"
    for day in (FIRST, FIRST + dt.timedelta(days=1)):
        simulate(warehouse_at(path, f"fleet-{day}"), fleet, [day])
        copy = Path(shutil.copytree(path, tmp_path / f"{day}"))
        one = night(path)
    other = night(copy, passes=OnSpark(lambda: spark))
    assert one.status == "published"
    assert (other.digests, other.verify, other.findings) == (one.digests, one.verify, one.findings)


def test_a_pass_is_one_stage_of_a_task_for_each_piece(spark: SparkSession) -> None:
    """Pieces of work, however different in size, are each called once, in a job of Spark's without a shuffle."""
    context, passes = spark.sparkContext, OnSpark(lambda: spark)
    context.setJobGroup("a pass", "of seven pieces")
    try:
        done = passes.each(len, [b"x" * 10**number for number in range(7)])
    finally:
        context.setLocalProperty("spark.jobGroup.id", "")
    status = context.statusTracker()
    *_, job = map(status.getJobInfo, sorted(status.getJobIdsForGroup("a pass"), reverse=True))
    assert job is not None
    stages = [status.getStageInfo(stage) for stage in job.stageIds]
    assert [(stage.numTasks, stage.numCompletedTasks) for stage in stages if stage] == [(7, 7)]
    assert done == [10**number for number in range(7)]


def half(seconds: float) -> None:
    """Say that half of it is done, and wait."""
    tell(0.5)
    time.sleep(seconds)


@pytest.mark.parametrize("runner", ["in this process", "processes", "Spark"])
def test_who_waits_is_told_of_pieces_under_way(
    runner: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Whoever runs a pass: a piece that says what share of it is done counts as that, and then as one."""
    passes: Passes = {"in this process": InProcess(), "processes": Processes(2)}.get(runner) or OnSpark(
        lambda: request.getfixturevalue("spark")
    )
    told = list[tuple[float, int]]()
    monkeypatch.setattr("jobs.passes._EVERY_S", 0.05)
    passes.share = lambda count, of: told.append((count, of))
    passes.each(half, [0.5] * 4)
    assert {of for _, of in told} == {4}
    assert any(count % 1 == 0.5 or count == 1 for count, _ in told), told
    assert [count for count, _ in told] == sorted(count for count, _ in told)
