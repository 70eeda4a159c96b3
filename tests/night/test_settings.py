"""Settings end to end: forged days of a name server that is not configured as RocketMQ ships it."""

from __future__ import annotations

import shutil
from operator import itemgetter
from pathlib import Path

import pytest

from jobs.conf import PipelineConf
from jobs.night.nightly import Summary
from namesrv_core import V5_4_0, Namesrv, NamesrvConfig
from namesrv_core.machine import events
from schemas import gold
from schemas.findings import Thresholds
from schemas.times import day_of
from tests.ingest.given import DAY, DAY_MS, FIRST, SETTINGS, START_MS, Line, at, broker, write
from tests.night.nights import Capture, night, rows
from tests.night.server import Server

pytestmark = pytest.mark.slow

SECOND = FIRST + DAY
DELETES, ORDERS = "delete_topic_with_broker_registration", "order_message_enable"


@pytest.fixture
def server() -> Server:
    """Give a name server that puts order configurations into routes and deletes what registrations leave out.

    Its times are seconds from the second day's midnight.
    """
    config = NamesrvConfig(order_message_enable=True, delete_topic_with_broker_registration=True)
    server = Server(Namesrv(V5_4_0, config), START_MS + DAY_MS)
    server.starts(-50_400)
    return server


def run(folder: Path, lines: list[Line], name: str) -> Summary:
    said = night(folder / "w", write(folder / f"{name}.jsonl", lines))
    assert (said.status, said.quarantined, said.verify["mismatched"]) == ("published", 0, 0)
    return said


def decided(path: Path) -> list[tuple[object, ...]]:
    """Return (day, setting, value, source, answers for it) of two settings."""
    found = (row for row in rows(path, gold.NAMESRV_SETTINGS) if row["setting"] in (DELETES, ORDERS))
    columns = ("day", "setting", "value", "source", "answers_for")
    return sorted((tuple(row[column] for column in columns) for row in found), key=str)


def test_settings_are_found_and_days_before_the_evidence_are_replayed_again(tmp_path: Path, server: Server) -> None:
    """The first day tells nothing, the second everything: both end up replayed as the name server really was.

    A change of the second day holds from its event on. Read at once, the two days give the same tables.
    """
    server.joins(-60, "broker-a", *"TUV")
    server.joins(-40, "broker-a", *"TV", counter=2)
    fields = {"namespace": "ORDER_TOPIC_CONFIG", "config_key": "T", "config_value": "broker-a:4"}
    server.take(-30, events.PutKvConfig(*fields.values()), "admin", code=100, response_code=0, **fields)
    assert run(tmp_path, server.lines, "first").days == [FIRST.isoformat()]
    assert decided(tmp_path / "w") == [(FIRST, name, "false", "default", 0) for name in (DELETES, ORDERS)]

    seen = len(server.lines)
    server.joins(10, "broker-a", *"TVW", counter=3)
    server.joins(20, "broker-a", *"TV", counter=4)
    for at_s in (21, 22):
        server.asks(at_s, 105, "T")
        server.asks(at_s + 0.5, 105, "W")
    server.namesrv = Namesrv(V5_4_0, NamesrvConfig(delete_topic_with_broker_registration=True))
    server.line(30, "admin", code=318, response_code=0, config_value="orderMessageEnable=false")
    server.asks(40, 105, "T")
    second = run(tmp_path, server.lines[seen:], "second")
    assert second.days == [FIRST.isoformat(), SECOND.isoformat()]
    assert decided(tmp_path / "w") == [
        (FIRST, DELETES, "true", "inferred", 0),
        (FIRST, ORDERS, "true", "inferred", 0),
        (SECOND, DELETES, "true", "inferred", 2),
        (SECOND, ORDERS, "false", "changed", 1),
        (SECOND, ORDERS, "true", "inferred", 2),
    ]
    gone = [
        day_of(row["valid_to"])
        for row in rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY)
        if row["topic"] == "U" and row["valid_to"] is not None
    ]
    assert gone == [FIRST], "the first day's history was made again with the option"

    at_once = tmp_path / "at-once"
    at_once.mkdir()
    assert run(at_once, server.lines, "both").digests == second.digests


BEGAN: list[Line] = [
    {"kind": "namesrv", "event": "started"},
    {"kind": "namesrv", "event": "identified", "version": 493},
]
Said = dict[float, Line]
"""What a name server hears of a night, by hours from the first midnight."""


def require_what_one_night_gives(tmp_path: Path, lives: list[tuple[list[Said], str]]) -> None:
    """Require the tables of one night over all lines, and what the first day then knows: may topics be listed?

    `lives`: of some name servers, what each night reads of them. They share the nights.
    """
    names = [f"10.0.0.{number}:9876" for number in range(len(lives))]
    nights = [
        [
            {**at(hour, line), "namesrv_id": name}
            for name, (nights, _) in zip(names, lives, strict=True)
            for hour, line in (nights[number].items() if number < len(nights) else ())
        ]
        for number in range(max(len(nights) for nights, _ in lives))
    ]
    for number, lines in enumerate(nights):
        said = night(tmp_path / "w", write(tmp_path / f"{number}.jsonl", lines))
    held = {
        row["namesrv_id"]: row["value"]
        for row in rows(tmp_path / "w", gold.NAMESRV_SETTINGS)
        if row["day"] == FIRST and row["setting"] == "enable_all_topic_list"
    }
    assert held == {name: known for name, (_, known) in zip(names, lives, strict=True)}
    together = sorted((line for lines in nights for line in lines), key=itemgetter("time"))
    at_once = night(tmp_path / "at-once", write(tmp_path / "all.jsonl", together))
    assert said.digests == at_once.digests


def says(*nights: dict[int, str]) -> list[Said]:
    words = {**SETTINGS, "start": BEGAN[0], "beat": broker("a", "TU", 3)}
    return [{hour: words[word] for hour, word in some.items()} for some in nights]


def test_what_a_day_shows_of_earlier_ones_is_what_the_whole_day_shows(tmp_path: Path) -> None:
    """More of a day comes an hour later, or late: whatever it says, the tables are those of one night."""
    first: Said = {1: BEGAN[0], 1.01: BEGAN[1], 2: broker("a", "TU", 1)}
    told = [
        (says({28: "refused"}, {29: "refused", 30: "refused"}), "false"),
        (says({28: "refused"}, {29: "listed", 30: "listed"}), "true"),
        (says({28: "listed"}, {29: "refused", 30: "refused"}), "false"),
        (says({28: "off"}, {29: "on"}), "false"),
        (says({28: "off"}, {27: "on"}), "true"),
        (says({28: "on"}, {27: "off"}), "false"),
    ]
    require_what_one_night_gives(tmp_path, [([first, *nights], known) for nights, known in told])


def test_late_lines_of_a_day_show_what_a_later_one_has_shown_before(tmp_path: Path) -> None:
    """A day between them hears of a setting late, or of a start: whatever it says, the tables are those of one night."""
    first: Said = {1: BEGAN[0], 1.01: BEGAN[1], 1.5: broker("a", "TU", 1)}
    told = [
        (says({50: "refused"}, {26: "listed", 27: "listed"}), "true"),
        (says({50: "refused"}, {26: "refused"}), "false"),
        (says({50: "refused", 51: "refused"}, {26: "refused"}, {27: "listed"}), "false"),
        (says({50: "refused"}, {27: "refused"}, {26: "refused"}, {28: "listed", 29: "listed", 30: "listed"}), "true"),
        (says({50: "off"}, {26: "listed", 27: "listed"}), "false"),
        (says({50: "off"}, {26: "on"}), "true"),
        (says({50: "refused"}, {26: "off"}), "false"),
        (says({50: "refused"}, {26: "start"}), "true"),
        (says({50: "refused"}, {26: "beat"}, {51: "listed"}, {2: "listed"}), "true"),
    ]
    second: Said = {25: broker("a", "TU", 2)}
    require_what_one_night_gives(tmp_path, [([first, second, *nights], known) for nights, known in told])


def test_late_lines_that_show_no_setting_leave_the_days_before_alone(tmp_path: Path) -> None:
    """What a later day has shown of the process's start stands: its life is not replayed for a heartbeat."""
    nights = [
        [at(1, {"kind": "namesrv", "event": "started"}), at(1.01, broker("a", "TU", 1)), at(25, broker("a", "TU", 2))],
        [at(50, SETTINGS["refused"])],
        [at(26, broker("a", "TU", 3))],
    ]
    for number, lines in enumerate(nights):
        said = night(tmp_path / "w", write(tmp_path / f"{number}.jsonl", lines))
    assert said.days == [SECOND.isoformat(), (SECOND + DAY).isoformat()]


@pytest.mark.parametrize("first_at", [27, 50])
def test_a_phase_that_one_late_close_has_shown_is_that_of_the_whole_day(tmp_path: Path, first_at: int) -> None:
    """Two other closes, of an hour later or of the day before, show better when scans run: as those of one night, on each day."""
    began = {"kind": "namesrv", "event": "started"}, {"kind": "namesrv", "event": "identified", "version": 493}
    nights = [[at(20, began[0]), at(20.01, began[1]), at(21, broker("z", "TU", 1))]]
    for some, since, late_ms in (("a", first_at, 120), ("bc", 29, 0)):
        nights.append([])
        for hour, name in enumerate(some, since):
            channel = {"channel_id": f"10.0.0.{ord(name)}:40000#1"}
            close = {"kind": "channel", "event": "close", "closed_by": "namesrv", "silent_ms": 121_000 + late_ms}
            ended = at(hour, {**close, **channel})
            ended["time"] += 121_000 + late_ms  # scans run a second after each multiple of five
            nights[-1] += [at(hour, {**broker(name, "TU", 1), "response_code": 0, **channel}), ended]
    for number, lines in enumerate(nights):
        said = night(tmp_path / "w", write(tmp_path / f"{number}.jsonl", lines))
    phases = {
        row["day"]: (row["value"], row["answers_for"])
        for row in rows(tmp_path / "w", gold.NAMESRV_SETTINGS)
        if row["setting"] == "scan_phase_us"
    }
    carried = {SECOND + DAY: ("1000000", 2)} if first_at == 50 else {}
    assert phases == {FIRST: ("1000000", 0), SECOND: ("1000000", 2), **carried}
    together = sorted((line for lines in nights for line in lines), key=itemgetter("time"))
    assert night(tmp_path / "at-once", write(tmp_path / "all.jsonl", together)).digests == said.digests


@pytest.mark.parametrize("period_ms", [10**18 - 1, (1 << 63) - 1])
def test_a_name_server_that_hardly_ever_scans_keeps_its_brokers(tmp_path: Path, server: Server, period_ms: int) -> None:
    """Whatever span it states: a broker that fell silent stays, and the night is none that fails."""
    server.line(-50_000, "namesrv", event="configured", properties=f"scanNotActiveBrokerInterval={period_ms}")
    server.joins(-40_000, "broker-a", *"TV")
    server.line(-10, "admin", code=205, broker_name="none", response_code=0)
    run(tmp_path, server.lines, "first")
    assert not rows(tmp_path / "w", gold.EXPIRED_BROKERS)


def test_thresholds_that_are_given_decide_what_is_told(whole: Capture, read_in: Path, tmp_path: Path) -> None:
    """With one topic as many there are more mass losses than with five, and what lasts less than an hour is no lack of queues."""
    told = {row["code"] for row in rows(whole.path, gold.FINDINGS)}
    conf = PipelineConf(thresholds=Thresholds(unwritable_us=3_600_000_000, mass=1))
    night(Path(shutil.copytree(read_in, tmp_path / "w")), conf=conf)
    found = rows(tmp_path / "w", gold.FINDINGS)
    losses = [sum(row["code"] == "MASS_TOPIC_LOSS" for row in of) for of in (rows(whole.path, gold.FINDINGS), found)]
    assert 0 < losses[0] < losses[1]
    assert "NO_WRITABLE_QUEUE" in told
    assert "NO_WRITABLE_QUEUE" not in {row["code"] for row in found}


def test_what_an_earlier_run_told_a_later_day_is_no_evidence_for_the_day_it_came_from(tmp_path: Path) -> None:
    """A release is stated for the process that seems to run; later a start is read that makes it another process's.

    The next day, which took the release over, says nothing of its own: read at once, the days give the same tables.
    """
    start: Line = {"kind": "namesrv", "event": "started"}
    said: Line = {"kind": "namesrv", "event": "identified", "version": 493}
    told: list[tuple[int, Line]] = [
        (10_000, said),
        (20_000, start),
        (DAY_MS, {"kind": "admin", "code": 216, "topic": "T", "response_code": 0}),
    ]
    late = [(0, start)]
    days = [told[:2], told[2:], late]
    lines: list[list[Line]] = [
        [{"schema": "namesrv-event/1", "namesrv_id": "n", "time": START_MS + ms, **line} for ms, line in some]
        for some in (*days, sorted(told + late, key=itemgetter(0)))
    ]
    for folder in ("nights", "once"):
        (tmp_path / folder).mkdir()
    for number, some in enumerate(lines[:3]):
        said_of_nights = run(tmp_path / "nights", some, str(number))
    at_once = run(tmp_path / "once", lines[3], "once")
    versions = [(row["day"], row["source"]) for row in rows(tmp_path / "once" / "w", gold.NAMESRV_SETTINGS)]
    assert (SECOND, "inherited") in versions
    assert said_of_nights.digests == at_once.digests
