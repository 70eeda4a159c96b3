"""`record --poll` against a stand-in: what changes is told, what is no name server is said, and nobody is asked too much."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.errors import NotRecordedError
from jobs.record import poll as polls
from jobs.record.poll import Polling, poll
from jobs.record.segments import Segment, finish_left_over
from namesrv_core.machine import events
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from schemas import gold
from schemas.times import instant_us
from tests.night.nights import night, rows
from tests.places import CHECKOUT
from tests.record.standin import (
    BROKER,
    CUT,
    GARBAGE,
    HTTP,
    LONG_HEADER,
    NO_CLUSTER,
    TOO_LONG,
    Handler,
    StandIn,
    closes,
    is_silent,
    sends,
)

Script = Callable[[], Coroutine[Any, Any, None]]
_FAST: dict[str, Any] = {"every_s": 0.1, "rate": 500.0, "first_wait_s": 0.05, "last_wait_s": 0.1}


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the finished files, which are all that there are."""
    files = sorted(folder.iterdir())
    assert [path.name for path in files if not path.name.endswith(".jsonl.gz") or path.name.startswith(".")] == []
    return [json.loads(line) for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]


def polled(folder: Path, targets: list[StandIn], script: Script, **more: Any) -> int:
    """Poll targets while a script is played, then as SIGTERM ends it; return the exit code."""

    async def both() -> int:
        for target in targets:
            await target.start()
        polling = Polling(folder, **{**_FAST, **more})
        asking = asyncio.ensure_future(poll([target.address for target in targets], polling))
        playing = asyncio.ensure_future(script())
        await asyncio.wait([asking, playing], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            await asyncio.wait_for(playing, 0.1)
            os.kill(os.getpid(), signal.SIGTERM)
        try:
            return await asking
        finally:
            for target in targets:
                target.stop()

    folder.mkdir()
    return asyncio.run(both())


@pytest.mark.slow
@pytest.mark.parametrize("version", [407, 493])
def test_changes_are_in_the_tables(version: int, tmp_path: Path) -> None:
    """Each that lasts longer than a period, in order, between itself and the second round behind it; none that was not."""
    target, at = StandIn(version=version), list[tuple[str, str, int, int]]()

    async def script() -> None:
        target.register("broker-a", "TA", "TB")
        await target.rounds(2)
        for topic, name, what in (
            ("TC", "broker-c", lambda: target.register("broker-c", "TC")),
            ("TA", "broker-a", lambda: target.unregister("broker-a")),
            ("TA", "broker-a", lambda: target.register("broker-a", "TA", "TB")),
            ("TC", "broker-c", lambda: target.do(events.DeleteTopic("TC", None))),
        ):
            begin_us = time.time_ns() // 1_000
            what()
            await target.rounds(2)
            at.append((topic, name, begin_us, time.time_ns() // 1_000))
        target.do(events.PutKvConfig("ORDER_TOPIC_CONFIG", "TA", "broker-a:4"))
        await target.rounds(2)

    assert polled(tmp_path / "out", [target], script) == 0
    lines = recorded(tmp_path / "out")
    said = night(tmp_path / "w", tmp_path / "out")
    assert (said.status, said.verify["mismatched"], said.errors, said.quarantined) == ("published", 0, [], 0)
    found = [row for row in rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY) if not row["topic"].startswith("own-")]
    told = sorted(
        edge
        for row in found
        for edge in (
            (row["valid_from"], row["topic"], row["broker_name"]),
            *([(row["valid_to"], row["topic"], row["broker_name"])] if row["valid_to"] is not None else []),
        )
    )
    first_us = at[0][2]
    later = [edge for edge in told if edge[0] > first_us and edge[1] != "TB"]
    assert [edge[1:] for edge in later] == [one[:2] for one in at]
    assert all(begin < edge[0] <= end for edge, (_, _, begin, end) in zip(later, at, strict=True))
    assert all(row["known_from"] == row["valid_from"] and not row["beginning_seen"] for row in found)
    assert {row["change"] for row in rows(tmp_path / "w", gold.ROUTE_CHANGES)} == {"learned"}
    asked = "SELECT row_key, not_before, shown_time FROM between_answers WHERE table_name = 'topicQueueTable'"
    between = [row for row in Answers(str(tmp_path / "w")).ask(asked).rows if row[0].startswith(("TA ", "TC "))]
    between = [(key, *map(instant_us, times)) for key, *times in between if instant_us(times[1]) > first_us]
    changed = zip(sorted(between, key=lambda row: row[2]), at, target.changed_us[1:], strict=False)
    assert [(key, last < when <= shown) for (key, last, shown), _, when in changed] == [
        (f"{topic} {name}", True) for topic, name, _, _ in at
    ]
    assert rows(tmp_path / "w", gold.EXPIRED_BROKERS) == []
    [entry] = [row for row in rows(tmp_path / "w", gold.KV_CONFIG_HISTORY) if row["config_key"] is not None]
    assert (entry["config_key"], entry["config_value"], entry["valid_to"]) == ("TA", "broker-a:4", None)
    codes = {row["code"] for row in rows(tmp_path / "w", gold.FINDINGS)}
    assert not codes & {"GHOST_BROKER", "NS_ABANDONED", "ORPHAN_TOPIC", "EXPIRED_BROKER"}
    assert [line["version"] for line in lines if line.get("event") == "identified"] == [version]


@pytest.mark.slow
def test_a_slave_that_acts_as_master_stays_a_slave(tmp_path: Path) -> None:
    """Its routes call it a master; the list of the cluster does not, and how it is configured tells why."""
    target, table = StandIn(is_acting=True), TopicTable([TopicConfig("TA", 8, 8, 6, 0), TopicConfig("TB", 8, 8, 6, 0)])

    def register(number: int) -> None:
        said = (
            "C",
            f"10.0.0.{number}:1",
            "broker-a",
            number,
            None,
            DataVersion(0, 1, 1),
            table,
            (),
            f"c{number}#1",
            True,
        )
        target.do(events.RegisterBroker(*said))

    async def script() -> None:
        register(0)
        register(1)
        await target.rounds(2)
        target.do(events.UnregisterBroker("C", "10.0.0.0:1", "broker-a", 0))
        await target.rounds(3)
        register(0)
        await target.rounds(2)

    assert polled(tmp_path / "out", [target], script) == 0
    said = night(tmp_path / "w", tmp_path / "out")
    assert (said.status, said.verify["mismatched"], said.errors) == ("published", 0, [])
    told = {
        table: sorted(
            (row["valid_from"], row["valid_to"] is None, *map(row.get, names)) for row in rows(tmp_path / "w", table)
        )
        for table, names in (
            (gold.BROKER_ADDR_HISTORY, ("broker_id", "broker_addr")),
            (gold.CLUSTER_ADDR_HISTORY, ("broker_name",)),
            (gold.TOPIC_QUEUE_HISTORY, ("topic", "perm")),
        )
    }
    members, clusters, queues = ([row[1:] for row in found] for found in told.values())
    assert sorted(members[:2]) + members[2:] == [
        (False, 0, "10.0.0.0:1"),
        (True, 1, "10.0.0.1:1"),
        (True, 0, "10.0.0.0:1"),
    ]
    assert clusters == [(True, "broker-a")]
    assert [perm for _, topic, perm in queues if topic == "TA"] == [6, 4, 6]


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (closes, "closes the connection"),
        (is_silent, "no answer within 0.2 s"),
        (sends(GARBAGE), "begins no answer"),
        (sends(HTTP), "begins no answer"),
        (sends(TOO_LONG), "begins no answer"),
        (sends(LONG_HEADER), "begins no answer"),
        (sends(CUT), "no answer within 0.2 s"),
        (sends(BROKER), "no name server"),
        (sends(NO_CLUSTER), "no cluster"),
    ],
)
def test_what_is_no_name_server_is_said_once(
    handler: Handler, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It costs no other target anything; nothing of it is written; alone it is an error."""
    bad, good = StandIn(handler), StandIn()
    assert polled(tmp_path / "out", [bad, good], lambda: good.rounds(8), wait_s=0.2) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if f":{bad.address[1]}:" in line]
    assert len(said) == 1
    assert why in said[0]
    assert {line["namesrv_id"] for line in recorded(tmp_path / "out")} == {f"127.0.0.1:{good.address[1]}"}
    with pytest.raises(NotRecordedError, match=why):
        polled(tmp_path / "none", [StandIn(handler)], lambda: asyncio.sleep(0.5), wait_s=0.2)


def test_a_release_that_is_not_replayed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once; what it answers is written all the same."""
    target = StandIn()
    target.version = 37
    assert polled(tmp_path / "out", [target], lambda: target.rounds(3)) == 0
    assert capsys.readouterr().err.count("its release is 3.0.11, none of those that are replayed, 4.3 to 5.9") == 1
    assert [line["version"] for line in recorded(tmp_path / "out") if line.get("event") == "identified"] == [37]


def test_one_that_was_down_is_a_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence when it goes, one when it is back; what was recorded of it before stands in a file of its own."""
    monkeypatch.setattr(polls, "RECORDING_GAP_NS", 1)
    target = StandIn()

    async def script() -> None:
        await target.rounds(2)
        target.stop()
        await asyncio.sleep(0.4)
        await target.start()
        await target.rounds(2)

    assert polled(tmp_path / "out", [target], script) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "answer" in line or "asked again" in line]
    assert ["it answers again" in line for line in said] == [False, True]
    lines = recorded(tmp_path / "out")
    at = [number for number, line in enumerate(lines) if line.get("event") == "recording_gap"]
    assert len(at) == 1
    assert lines[at[0] - 1]["effect_time"] == lines[at[0]]["time"] < lines[at[0] + 1]["time"]
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_nobody_is_asked_more_than_was_said(tmp_path: Path) -> None:
    """So many questions a second at most; topics that do not fit are asked in later rounds, all before any again."""
    target = StandIn()
    target.register("broker-a", *(f"T{number:02}" for number in range(30)))
    begin = time.monotonic()
    assert polled(tmp_path / "out", [target], lambda: target.rounds(8), every_s=0.25, rate=40.0) == 0
    assert len(target.asked) <= 1 + 40 * (time.monotonic() - begin)
    routes = [topic for code, topic in target.asked if code == 105]
    assert len(set(routes[:31])) == min(31, len(routes))


def test_what_changed_is_asked_for_first(tmp_path: Path) -> None:
    """The topics of a broker that the cluster information shows otherwise, and new ones, in front of all others."""
    target, at = StandIn(), []
    target.register("broker-a", *(f"T{number:02}" for number in range(20)))
    target.register("broker-b", "T07")

    async def script() -> None:
        await target.rounds(6)
        at.append(len(target.asked))
        target.unregister("broker-b")
        target.register("broker-c", "TX")
        await target.rounds(2)

    assert polled(tmp_path / "out", [target], script, every_s=0.25, rate=100.0) == 0
    behind = target.asked[at[0] :]
    begin = behind.index((106, None))
    routes = [topic for code, topic in behind[begin:] if code == 105]
    # The round in which it happened went on, and may have asked for some of them already.
    asked = {*routes[:4], *(topic for _, topic in behind[:begin])}
    assert asked >= {"T07", "TX", "own-broker-b", "own-broker-c"}


@pytest.mark.slow
def test_files_are_finished_one_after_the_other(tmp_path: Path) -> None:
    """Each says who is meant; together they are one history, whatever was read before."""
    target = StandIn()
    target.register("broker-a", "TA")
    assert polled(tmp_path / "out", [target], lambda: target.rounds(12), rotate_s=0.2) == 0
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) > 2
    for path in files:
        first = json.loads(gzip.decompress(path.read_bytes()).splitlines()[0])
        assert (first["event"], first["namesrv_id"]) == ("observed_from", f"127.0.0.1:{target.address[1]}")
    for number, some in enumerate((files[:1], files[1:])):
        said = night(tmp_path / "w", *some)
        assert (number, said.status, said.verify["mismatched"]) == (number, "published", 0)


def test_a_file_that_was_left_over_is_finished(tmp_path: Path) -> None:
    """Up to its last whole line; one that somebody writes is not touched, and an empty one goes."""
    (tmp_path / ".n_1-20260101T000000Z.jsonl").write_text('{"a":1}\n{"b', encoding="utf-8")
    (tmp_path / ".n_1-20260101T000001Z.jsonl").write_text('{"b', encoding="utf-8")
    live = Segment(tmp_path, "n:1")
    live.write("{}")
    finish_left_over(tmp_path, "n:1")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[1:] == ["n_1-20260101T000000Z.jsonl.gz"]
    assert gzip.decompress((tmp_path / names[1]).read_bytes()) == b'{"a":1}\n'
    live.finish()
    assert len(list(tmp_path.glob("[!.]*"))) == 2


def test_secrets_are_not_kept() -> None:
    """Of KV entries that sound like them; all others stand byte for byte."""
    plain = '{"table":{ "T":"broker-a:4"}}'
    assert polls._without_secrets(plain) == plain
    hidden = json.loads(polls._without_secrets('{"table":{"secretKey":"hush","b":"my.password=1234"}}') or "")
    assert hidden == {"table": {"secretKey": "xxxx", "b": "my.password=xxxx"}}


@pytest.mark.slow
def test_sigterm_through_the_wrapper(tmp_path: Path) -> None:
    """It ends the file and the exit code is 0."""
    target = StandIn()
    target.register("broker-a", "TA")

    async def play() -> int:
        await target.start()
        words = (str(CHECKOUT / "spark-submit.sh"), "record", "--every", "100ms", "--output", str(tmp_path / "out"))
        process = await asyncio.create_subprocess_exec(*words, "--poll", f"127.0.0.1:{target.address[1]}")
        await asyncio.wait_for(target.rounds(3), 60)
        process.terminate()
        return await process.wait()

    assert asyncio.run(play()) == 0
    assert sum(line["kind"] == "observation" for line in recorded(tmp_path / "out")) > 9


@pytest.mark.parametrize(
    "words", [("--poll", "10.0.0.1"), ("--poll", "a:9876", "--every", "soon"), ("--poll", "a:9876", "--rate", "0"), ()]
)
def test_usage(words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be meant is said before anything is asked."""
    with pytest.raises(SystemExit) as ended:
        main(["record", "--output", str(tmp_path), *words])
    assert ended.value.code == 2
    assert capsys.readouterr().err


def test_other_commands_do_not_wait_for_it() -> None:
    """Only `record` imports what it needs."""
    code = "import sys, jobs.cli.arguments as a; a.parser(); sys.exit('asyncio' in sys.modules)"
    assert os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", code) == 0
