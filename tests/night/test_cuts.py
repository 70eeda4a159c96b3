"""Days of name servers at random, told in nights at random: the tables are those of everything at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.store.check import check
from tests.examples import more
from tests.ingest.given import DAY_MS, HOUR_MS, SETTINGS, START_MS, Line, registration, warehouse_at, write
from tests.night.nights import night

pytestmark = pytest.mark.slow

DAYS = 3
NAMESRVS = {"10.0.0.1:9876": 407, "10.0.0.2:9876": 493}
SEEDS = range(2, 2 + more(1))


def told_at_random(dice: random.Random) -> list[Line]:
    """Return what two name servers are told in three days, in the order of its times, which all differ.

    They start, or are seen from somewhere on; a few brokers register, beat and end in all ways there are, or stay silent for
    hours or a day; scans die, or tell when they tick; settings are stated, or shown by answers.
    """
    told: dict[int, Line] = {}

    def say(namesrv_id: str, hours: float, line: Line) -> None:
        time_ms = START_MS + round(hours * HOUR_MS)
        while time_ms in told:
            time_ms += 1
        if time_ms < START_MS + DAYS * DAY_MS:
            if line.get("event") == "recording_gap":
                line = {**line, "properties": f"until_ms={time_ms + dice.randrange(20 * HOUR_MS)}"}
            told[time_ms] = {"schema": "namesrv-event/1", "namesrv_id": namesrv_id, "time": time_ms, **line}

    for namesrv_id, version in NAMESRVS.items():
        for hours, line in _life(dice, version):
            say(namesrv_id, hours, line)
    return [told[time_ms] for time_ms in sorted(told)]


def _life(dice: random.Random, version: int) -> Iterator[tuple[float, Line]]:
    begin = dice.uniform(0, 30)
    yield begin, {"kind": "namesrv", "event": dice.choice(("started", "started", "observed_from"))}
    if dice.random() < 0.8:
        yield begin + 0.001, {"kind": "namesrv", "event": "identified", "version": version}
    for _ in range(dice.randrange(3)):
        yield dice.uniform(begin, 24 * DAYS), {"kind": "namesrv", "event": dice.choice(("started", "stopped"))}
    for number in range(dice.randrange(1, 4)):
        yield from _broker(dice, number, begin)
    for _ in range(dice.randrange(5)):
        yield dice.uniform(begin, 24 * DAYS), dice.choice(_ADMIN)
    for _ in range(dice.choice((0, 0, 3))):
        yield dice.uniform(begin, 24 * DAYS), dice.choice([*SETTINGS.values()])


_ADMIN: list[Line] = [
    {"kind": "admin", "code": 205, "broker_name": "a", "response_code": 0},
    {"kind": "admin", "code": 216, "topic": "T", "response_code": 0},
    {"kind": "admin", "code": 216, "topic": "U", "cluster_name": "C", "response_code": 0},
    {"kind": "admin", "code": 100, "namespace": "N", "config_key": "k", "config_value": "v"},
    {"kind": "channel", "event": "close", "closed_by": "namesrv", "channel_id": "9:9#1"},
    {"kind": "namesrv", "event": "recording_gap"},
]


def _broker(dice: random.Random, number: int, begin: float) -> list[tuple[float, Line]]:
    addr, name = f"{number}:1", dice.choice(("a", "b", f"n{number}"))
    channel_id = dice.choice((None, f"{addr}#1", f"{addr}#1", f"{addr}#1"))
    lease_ms = dice.choice((None, None, 12 * HOUR_MS, 20 * DAY_MS))
    found: list[tuple[float, Line]] = []
    topics, counter, hours = "TU", 1, begin + dice.uniform(0, 24)
    while hours < 24 * DAYS:
        happens = dice.random()
        broker = {"cluster_name": "C", "broker_name": name, "broker_addr": addr, "broker_id": 0}
        known = {**broker, "channel_id": channel_id, "data_version": {"timestamp": START_MS, "counter": counter}}
        if happens < 0.1:
            found.append((hours, {"kind": "channel", "event": "close", "channel_id": channel_id or "8:8#1"}))
        elif happens < 0.2:
            found.append((hours, {"kind": "unregistration", **broker}))
        elif happens < 0.5 and found:
            found.append((hours, {"kind": "heartbeat", "code": 322, "response_code": 0, **known}))
        else:
            more = {"channel_id": channel_id, "heartbeat_timeout_ms": lease_ms, "response_code": 0}
            found.append((hours, registration(name, addr, topics, counter, **more)))
            topics, counter = dice.choice(((topics, counter), ("TUV", counter + 1), ("UV", counter + 1)))
        hours += dice.choice((0.02, 0.02, 0.05, 3, 11, 26)) * dice.uniform(0.7, 1.3)
    return found


def in_nights(dice: random.Random, lines: list[Line]) -> list[list[Line]]:
    """Return the lines in the nights in which they are read: mostly after their day, some later, and some twice."""
    nights: list[list[Line]] = [[] for _ in range(DAYS + 1)]
    late = dice.choice((0.0, 0.05, 0.3))
    for line in lines:
        first = (line["time"] - START_MS) // DAY_MS
        night_of = min(first + dice.choice((1, 2, 3)), DAYS) if dice.random() < late else first
        nights[night_of].append(line)
        if dice.random() < 0.05:
            nights[dice.randrange(night_of, DAYS + 1)].append(line)
    return [some for some in nights if some]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_table_tells_in_which_nights_days_were_told(tmp_path: Path, seed: int) -> None:
    """Late and repeated lines, silent days, and what only later days tell of earlier ones."""
    dice = random.Random(seed)
    lines = told_at_random(dice)
    logs = [write(tmp_path / f"{number}.jsonl", some) for number, some in enumerate(in_nights(dice, lines))]
    said = [night(tmp_path / "nights", log) for log in logs]
    at_once = night(tmp_path / "once", write(tmp_path / "once.jsonl", lines))
    assert at_once.quarantined == 0
    assert said[-1].digests == at_once.digests
    assert check(warehouse_at(tmp_path / "nights")).wrong == []
