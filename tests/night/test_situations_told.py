"""Nights over situations that operators reported: each is told, once, with what it touches, since when and until when.

Situations are blocks of `situations_told.txt`. A line is a second after eight o'clock, or `FIRST-LAST/STEP`, then what a name
server hears then (`ns`: which one, by default 1; other fields of the event log by their names); behind `----` are all findings:

    start VERSION, stop
    beats NAME TOPICS   registrations of a master; topics are letters; counter [1]: of its data version; addr [of its name]
    leave NAME          effect [0]: so many seconds later
    refused TOPIC       a client asks for its route, and there is none
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from schemas import gold
from tests.ingest.given import START_MS, Line, at, registration, write
from tests.night.nights import Row, findings_of, night, rows
from tests.places import CASES

pytestmark = pytest.mark.slow

EIGHT_MS = START_MS + 8 * 3_600_000
BLOCKS = Path(__file__).with_name("situations_told.txt").read_text(encoding="utf-8").strip().split("\n\n")
LASTING = ("BROKER_FLAPPING", "DUAL_MASTER_CLAIM", "GHOST_BROKER", "NS_ABANDONED", "NS_COLD_START", "NS_SPLIT")
MIDNIGHT = (*LASTING, "EXPIRED_BROKER", "PARTIAL_FIRST_REGISTRATION", "REGISTRATION_REFUSED")


def seconds_of(when: str) -> Iterator[float]:
    """Yield the seconds that a line names."""
    first, _, rest = when.partition("-")
    last, _, step = rest.partition("/")
    second = float(first)
    yield second
    while rest and (second := second + float(step)) < float(last):
        yield second


def value_of(text: str) -> Any:
    """Return what stands behind the name of a field: JSON, or a text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def lines_of(block: str) -> list[Line]:
    """Return the event log of a situation."""
    found, versions = list[Line](), dict[int, int]()
    for line in block.partition("\n----")[0].splitlines():
        if line.startswith("#"):
            continue
        when, command, *words = line.split()
        fields = {name: value_of(value) for name, _, value in (word.partition("=") for word in words if "=" in word)}
        told = [word for word in words if "=" not in word]
        ns, effect_ms = fields.pop("ns", 1), fields.pop("effect", 0) * 1_000
        if command == "start":
            versions[ns] = int(told[0])
        for second in seconds_of(when):
            for number, one in enumerate(heard(command, told, versions[ns], fields)):
                said = at(8 + (second + number / 100) / 3_600, {**one, "namesrv_id": f"10.0.0.{ns}:9876"})
                found.append(said | ({"effect_time": said["time"] + round(effect_ms)} if effect_ms else {}))
    return sorted(found, key=lambda line: line["time"])


def heard(command: str, told: list[str], version: int, fields: dict[str, Any]) -> list[Line]:
    """Return what a name server of some version hears at once."""
    if command in ("start", "stop"):
        events: list[Line] = [{"event": "started"}, {"event": "identified", "version": version}]
        return [{"kind": "namesrv", **one} for one in (events if command == "start" else [{"event": "stopped"}])]
    if command == "refused":
        asked = {"code": 105, "subject": told[0], "response_code": 17, "response_version": version}
        return [{"kind": "observation", **asked, "channel_id": "10.2.0.1:5#1"}]
    more = {name: value for name, value in fields.items() if name not in ("addr", "counter")}
    addr = fields.get("addr", f"10.0.0.{sum(map(ord, told[0])) % 200 + 20}:1")
    if command == "leave":
        broker = {"cluster_name": "C", "broker_name": told[0], "broker_addr": addr, "broker_id": 0, "response_code": 0}
        return [{"kind": "unregistration", **broker, **more}]
    said = {"request_version": version, "response_code": 0, "channel_id": f"{addr}#1", "enable_acting_master": False}
    return [registration(told[0], addr, told[1], fields.get("counter", 1), **{**said, **more})]


def lasts(row: Row) -> tuple[float, float | None]:
    """Return from when to when a finding lasts, in seconds after eight o'clock."""
    begin, end = (None if us is None else us / 1e6 - EIGHT_MS / 1e3 for us in (row["from_time"], row["to_time"]))
    assert begin is not None
    return begin, end


def shown(row: Row, outcomes: dict[str, str]) -> str:
    """Return a finding as a line; its evidence as what became of its events."""
    begin, end = lasts(row)
    evidence = [
        (of, len([*same])) for of, same in groupby(outcomes.get(event, "refreshed") for event in row["evidence"])
    ]
    told = ", ".join(of if count == 1 else f"{count} {of}" for of, count in evidence)
    names = f"{row['topic_names']} {row['broker_names']}".replace("'", "")
    span = f"{round(begin, 2):g} to {'...' if end is None else f'{round(end, 2):g}'}"
    return f"{row['code']} {row['namesrv_id']} {row['severity']} {row['subject']}: {span} {names} by {told}; {row['detail']}"


@pytest.fixture(scope="module")
def night_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what gives the warehouse that has read a situation."""

    @cache
    def told(block: str) -> Path:
        folder = tmp_path_factory.mktemp("situation")
        night(folder / "w", write(folder / "all.jsonl", lines_of(block)))
        return folder / "w"

    return told


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0].removeprefix("# ")[:60])
def test_a_situation_is_told(block: str, night_of: Callable[[str], Path]) -> None:
    """Findings are those below the situation, no more and no fewer."""
    path = night_of(block)
    outcomes = {row["event_id"]: f"{row['operation']} {row['outcome']}" for row in rows(path, gold.EVENT_OUTCOMES)}
    found = [shown(row, outcomes) for of_code in findings_of(path).values() for row in of_code]
    assert sorted(found) == block.partition("----\n")[2].splitlines()


@pytest.mark.parametrize(
    ("block", "second"),
    [(BLOCKS[0], 200), (BLOCKS[1], 175), (BLOCKS[4], 440), (BLOCKS[5], 110), (BLOCKS[7], 200)],
    ids=["seven", "split", "cluster", "refused", "single"],
)
def test_midnight_parts_no_situation(block: str, second: int, night_of: Callable[[str], Path], tmp_path: Path) -> None:
    """Two masters, a ghost, a restart, less than before, flapping, none, refusals, a split, an expiry: in two days as in one."""
    later_ms, found = (16 * 3_600 - second) * 1_000, []
    lines = [{**line, "time": line["time"] + later_ms} for line in lines_of(block)]
    night(tmp_path / "w", write(tmp_path / "all.jsonl", lines))
    for moved_ms, path in ((0, night_of(block)), (later_ms, tmp_path / "w")):
        by_code = findings_of(path)
        told = [
            (code, row["namesrv_id"], row["subject"], lasts(row)) for code in MIDNIGHT for row in by_code.get(code, [])
        ]
        moved = [[None if at_s is None else round(at_s - moved_ms / 1e3) for at_s in span] for *_, span in told]
        found.append(sorted((str(names), str(span)) for (*names, _), span in zip(told, moved, strict=True)))
    assert found[0] == found[1]


def test_frames_that_are_too_long_name_the_broker(tmp_path: Path) -> None:
    """A capture in which a registration outgrows 16 MiB, and the server closes the connection each time."""
    night(tmp_path / "w", CASES / "c2_too_long.pcap.gz")
    (row,) = findings_of(tmp_path / "w")["FRAME_TOO_LONG"]
    when = dt.datetime.fromtimestamp(row["from_time"] / 1e6, dt.timezone.utc)
    assert (row["subject"], row["severity"], row["to_time"]) == ("broker-a 10.1.0.11:10911", "critical", None)
    assert when.strftime("%H:%M:%S") == "08:01:33"
    assert "17 registrations of up to 16,777,397 bytes" in row["detail"]
    outcomes = {one["event_id"]: one["operation"] for one in rows(tmp_path / "w", gold.EVENT_OUTCOMES)}
    assert {outcomes[event] for event in row["evidence"]} == {"channel_close"}
