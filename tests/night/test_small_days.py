"""Days of small name servers are one task: what is counted of them together is what is counted of each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.night import night as night_of_days
from jobs.night import replaying
from jobs.night.gate import Verdict
from jobs.night.nightly import Summary
from jobs.passes import InProcess
from jobs.processes import cores
from namesrv_day import rules
from namesrv_day.rules import Measurement
from schemas import gold
from tests.day.lives import MIDNIGHT_MS, Line
from tests.ingest.given import registration, write
from tests.night.nights import counted, night, rows

pytestmark = pytest.mark.slow

NAMES = [f"10.0.{number}.1:9876" for number in range(2)]


def lines(day: int) -> Iterator[Line]:
    """Yield what some name servers hear on a day: each starts once, and loses a broker; every other one deletes a topic."""
    for number, name in enumerate(NAMES):
        for at_s, said in _of_one(number, day):
            time_ms = MIDNIGHT_MS + (day * 86_400 + at_s) * 1_000
            yield {"schema": "namesrv-event/1", "namesrv_id": name, "time": time_ms, **said}


def _of_one(number: int, day: int) -> Iterator[tuple[int, Line]]:
    if not day:
        yield 3_600, {"kind": "namesrv", "event": "started"}
        yield 3_600, {"kind": "namesrv", "event": "identified", "version": 407}
    for beat in range(4):
        for broker in ("a", "b"):
            if not (broker == "b" and day and beat > 1):
                yield 3_610 + 30 * beat, _registration(number, broker, beat)
    if number % 2:
        yield 3_720, {"kind": "admin", "code": 216, "response_code": 0, "topic": "Mail"}


def _registration(number: int, broker: str, beat: int) -> Line:
    said = registration(broker, f"10.0.{number}.{ord(broker)}:10911", ("Mail", f"T{number}"))
    # an unusual answer breaks a rule that warns
    return {**said, "request_version": 407, "response_code": 0 if beat else 99}


def nights(path: Path, logs: Sequence[Path], width: int) -> tuple[list[Summary], list[set[Measurement]]]:
    """Run a night for each log where so many tasks run at once; return what each said, and what it counted."""
    measured: list[set[Measurement]] = []

    def judge(measurements: list[Measurement], docs_dir: Path) -> Verdict:
        measured.append({*measurements})
        return counted(measurements, docs_dir)

    return [night(path, log, passes=InProcess(width), judge=judge) for log in logs], measured


def test_what_is_counted_together_is_what_is_counted_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two name servers over two nights, all in one task or each in one: the same tables, digests and counts of every rule.

    In one task the rules are asked for as often as for one name server. Where they are too much for one task, a process alone has
    others work on them.
    """
    asked: list[dt.date] = []
    measure = rules.measure

    def noting(*given: Any, **more: Any) -> list[Measurement]:
        asked.append(given[2])
        return measure(*given, **more)

    monkeypatch.setattr(replaying, "measure", noting)
    logs = [write(tmp_path / f"{day}.jsonl", [*lines(day)]) for day in (0, 1)]
    said, times = {}, {}
    for width in (1, len(NAMES)):
        asked.clear()
        said[width] = nights(tmp_path / f"{width}", logs, width)
        times[width] = len(asked)
    assert times[len(NAMES)] == len(NAMES) * times[1]
    monkeypatch.setattr(night_of_days, "_ROWS_PER_TASK", 1)
    asked.clear()
    (by_processes,), (counted_there,) = nights(tmp_path / "processes", logs[:1], 1)
    assert bool(asked) == (cores() == 1)
    (one, counts), (other, apart) = said.values()
    assert (by_processes.digests, counted_there) == (one[0].digests, counts[0])
    assert [(of.status, of.digests) for of in one] == [(of.status, of.digests) for of in other]
    assert counts == apart
    assert any(of.rule == "response_code_is_usual" and of.broken for of in counts[0])
    expired = [rows(tmp_path / f"{width}", gold.EXPIRED_BROKERS) for width in said]
    assert expired[0] == expired[1]
    assert {row["namesrv_id"] for row in expired[0]} <= {*NAMES}
