"""Nights over name servers' own logs: what a log shows agrees with what a capture shows, and silence tells nothing."""

from __future__ import annotations

import gzip
from collections import defaultdict
from pathlib import Path

import pytest

from jobs.ask.engine import Answers
from jobs.conf import PipelineConf
from jobs.errors import EXIT_INPUT, EXIT_USAGE
from namesrv_wire.logs.namesrv_log import LogConf
from schemas import bronze, gold
from schemas.table import Table
from tests.compare_gold import compare, tables_of
from tests.ingest.given import piece
from tests.night.nights import findings_of, night, nightly, rows
from tests.places import recorded
from tests.wire.test_namesrv_log import ADDR, FIVES, FOURS

CONF = PipelineConf(log=LogConf(ADDR, "UTC"))
OUT_OF_ORDER_US = 1_500_000
"""A log and a capture disagree by less about when something was."""
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ungated")]


def test_rotated_files_and_copies(tmp_path: Path) -> None:
    """Files in any order of names, one of them a copy of a part of another: each line counts once, its line is the source."""
    lines = FOURS.splitlines(keepends=True)
    for name, some in (("namesrv.log", lines[9:]), ("namesrv.2.log.gz", lines[:6]), ("namesrv.1.log.gz", lines[4:11])):
        text = "".join(some).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    first = night(tmp_path / "w", *sorted(tmp_path.glob("*.log*")), conf=CONF)
    assert (first.errors, first.quarantined) == ([], 0)
    queues = [(row["perm"], row["beginning_seen"]) for row in rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY)]
    assert sorted(queues) == [(4, True), (6, True), (6, True)]
    (live,) = rows(tmp_path / "w", gold.BROKER_LIVE_HISTORY)
    assert (live["heartbeat_timeout_ms"], live["last_update_time"], live["closed_by"] is None) == (None, None, False)
    (kv,) = [row for row in rows(tmp_path / "w", gold.KV_CONFIG_HISTORY) if row["config_key"] is not None]
    assert kv["config_value"] == "one\ntwo"
    expired = [row for row in rows(tmp_path / "w", bronze.NAMESRV_EVENTS) if row["event_id"] == live["closed_by"]]
    assert [(row["source_file"], row["source_offset"]) for row in expired] == [("namesrv.log", 3)]
    assert set(findings_of(tmp_path / "w")) == {"EXPIRED_BROKER"}
    (covered,) = Answers(str(tmp_path / "w")).coverage
    assert [span.known for span in covered.spans] == [False]

    def told(table: Table) -> list[str]:
        found = rows(tmp_path / "w", table)
        return sorted(str({key: row[key] for key in row if not key.endswith(("_at", "_by"))}) for row in found)

    before = [told(table) for table in gold.HISTORY_TABLES]
    (tmp_path / "whole.log").write_text(FOURS, encoding="utf-8")
    night(tmp_path / "w", tmp_path / "whole.log", conf=CONF)
    assert [told(table) for table in gold.HISTORY_TABLES] == before


def test_a_broker_that_lives_when_a_day_ends(tmp_path: Path) -> None:
    """It goes on the day after, in a night of its own or the same; a line that is cut at the end is all that is not read."""
    lines = FIVES.splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if " WARN " in line)
    (tmp_path / "a.log").write_text("".join(lines[:end]) + lines[end][:-10], encoding="utf-8")
    rest = [line.replace("2026-11-21", "2026-11-22") for line in lines[end:]]
    (tmp_path / "b.log").write_text("".join(rest), encoding="utf-8")
    first = night(tmp_path / "w", tmp_path / "a.log", conf=CONF)
    assert (first.status, first.errors, first.quarantined) == ("published", [], 1)
    assert [row["closed_by"] for row in rows(tmp_path / "w", gold.BROKER_LIVE_HISTORY)] == [None]
    night(tmp_path / "w", tmp_path / "b.log", conf=CONF)
    night(tmp_path / "once", tmp_path / "a.log", tmp_path / "b.log", conf=CONF)
    (live,) = rows(tmp_path / "w", gold.BROKER_LIVE_HISTORY)
    assert (live["last_update_time"], live["closed_by"] is None) == (None, False)
    different = compare(*(tables_of(tmp_path / name, layers=("gold",)) for name in ("w", "once")))
    assert [str(each) for each in different if not each.is_equal and each.table not in ("runs", "sources")] == []


def test_what_a_log_does_not_say_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without its zone, or whose it is, a log is not read: alone that is a wrong command, beside others a file that is left out."""
    log = tmp_path / "namesrv.log"
    log.write_text(FIVES, encoding="utf-8")
    assert nightly(tmp_path / "w", "--input", log, "--log-namesrv", ADDR) == EXIT_USAGE
    assert "--log-zone ZONE" in capsys.readouterr().err
    assert nightly(tmp_path / "w", "--input", log, "--log-zone", "Mars/Olympus", "--log-namesrv", ADDR) == EXIT_USAGE
    assert "is no time zone" in capsys.readouterr().err
    event = '{"schema":"namesrv-event/1","kind":"namesrv","namesrv_id":"1.2.3.4:1","time":"2026-11-21T08:00:00Z","event":"started"}'
    (tmp_path / "events.jsonl").write_text(event + "\n", encoding="utf-8")
    assert nightly(tmp_path / "w", "--input", tmp_path / "events.jsonl", "--input", log) == EXIT_INPUT
    assert [row["namesrv_id"] for row in rows(tmp_path / "w", bronze.NAMESRV_EVENTS)] == ["1.2.3.4:1"]


BROKER = """\
2026-11-28 12:33:19 INFO main - Set user specified name server address: 10.0.0.1:9876
2026-11-28 12:33:19 INFO brokerOutApi_thread_1 - register broker[0]to name server 10.0.0.1:9876 OK
2026-11-28 12:33:19 INFO main - The broker[broker-a, 10.0.0.2:10911] boot success. serializeType=JSON and name server is 10.0.0.1:9876
2026-11-28 12:33:46 INFO AdminBrokerThread_13 - create new topic [TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=4, perm=RW-]]
2026-11-28 12:33:50 INFO brokerOutApi_thread_1 - Registering current broker to name server completed. TargetHost=10.0.0.1:9876
2026-11-28 12:34:50 WARN brokerOutApi_thread_3 - registerBroker Exception, 10.0.0.1:9876
org.apache.rocketmq.remoting.exception.RemotingConnectException: connect to 10.0.0.1:9876 failed
2026-11-28 12:35:40 INFO ShutdownHook - unregisterBroker OK, NamesrvAddr: 10.0.0.1:9876
"""  # noqa: E501  lines of logs are as long as they are


def test_a_log_of_a_name_server_that_captures_show_is_left_out(tmp_path: Path) -> None:
    """In the same run, and in one behind it: else nothing would be told of what is not there, since logs do not show that.

    A broker's log is given beside it: that, too, tells no rows, whosever log it is said to be.
    """
    capture, log, broker = piece(tmp_path / "a.pcap", 0, 3_000), tmp_path / "namesrv.log", tmp_path / "broker.log"
    broker.write_text(BROKER, encoding="utf-8")
    conf = PipelineConf(log=LogConf("127.0.0.1:9876", "UTC"))
    night(tmp_path / "alone", capture, conf=conf)
    for lines, others in ((FOURS, [broker]), (FOURS + FOURS.splitlines()[0], [])):
        log.write_text(lines, encoding="utf-8")
        said = night(tmp_path / "w", capture, log, *others, conf=conf)
        told = [line.partition(" lines tell")[0] for line in sorted(said.left_out)]
        of_others = ["broker.log: 5 of 8"] * len(others)
        assert told == [*of_others, "namesrv.log: not read, since captures show more of 127.0.0.1:9876"]
        assert said.errors == []
    assert [row["event_id"] for row in rows(tmp_path / "w", bronze.NAMESRV_EVENTS)] == [
        row["event_id"] for row in rows(tmp_path / "alone", bronze.NAMESRV_EVENTS)
    ]


def test_a_log_of_a_broker(tmp_path: Path) -> None:
    """It tells no rows, and is not passed over in silence: its lines about name servers are counted, and what they lack is said."""
    (tmp_path / "broker.log").write_text(BROKER, encoding="utf-8")
    (tmp_path / "store.log").write_text("2026-11-21 08:00:00 INFO main - load over\n" * 3, encoding="utf-8")
    summary = night(tmp_path / "w", tmp_path / "broker.log", tmp_path / "store.log", conf=CONF)
    assert dict(summary.ignored) == {"broker_log_lines": 5, "other_log_lines": 6}
    assert (summary.events, summary.errors, summary.quarantined) == (0, [], 0)
    [said, foreign] = summary.left_out
    assert said.startswith("broker.log: 5 of 8 lines tell what a broker told name servers: no rows.")
    assert foreign == "store.log: none of its 3 lines shows what a name server knew"


def test_a_log_of_a_broker_is_asked_for_nothing(tmp_path: Path) -> None:
    """Neither whose it is nor its zone, alone or beside a capture; nor does what it lacks matter."""
    log = tmp_path / "broker.log"
    log.write_text(BROKER, encoding="utf-8")
    for number, inputs in enumerate(([log], [piece(tmp_path / "a.pcap", 0, 100), log])):
        summary = night(tmp_path / f"{number}", *inputs)
        assert summary.errors == []
        (said,) = summary.left_out
        assert said.startswith("broker.log: 5 of 8 lines tell what a broker told name servers: no rows.")
    (tmp_path / "both.log").write_text(BROKER + FOURS, encoding="utf-8")
    assert night(tmp_path / "both", tmp_path / "both.log", conf=CONF).events > 0


def test_a_log_of_another_program_alone_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each night says so again, until it is not given any more; a name server's own, on a day without change, is none."""
    quiet = "2026-11-21 08:00:00 INFO NSScheduledThread1 - configTable SIZE: 0\n" + "-" * 50 + "\n"
    (tmp_path / "namesrv.log").write_text(quiet, encoding="utf-8")
    assert night(tmp_path / "quiet", tmp_path / "namesrv.log", conf=CONF).errors == []
    (tmp_path / "store.log").write_text("2026-11-21 08:00:00 INFO main - load over\n" * 3, encoding="utf-8")
    asked = ("--input", tmp_path / "store.log", "--log-zone", "UTC", "--log-namesrv", ADDR)
    for _ in range(2):
        assert nightly(tmp_path / "w", *asked) == EXIT_INPUT
        assert "store.log: none of its 3 lines shows what a name server knew" in capsys.readouterr().out


def intervals(
    warehouse: Path, table: Table, key: tuple[str, ...], said: tuple[str, ...]
) -> dict[object, list[list[int]]]:
    """Return by key and value from when to when it was so (µs); intervals that touch, and say the same, are one."""
    found: dict[object, list[list[int]]] = defaultdict(list)
    for row in sorted(rows(warehouse, table), key=lambda row: row["opened_at"]["seq"]):
        of = found[tuple(row[name] for name in (*key, *said))]
        if of and of[-1][1] == row["valid_from"]:
            of[-1][1] = row["valid_to"] or 1 << 60
        else:
            of.append([row["valid_from"], row["valid_to"] or 1 << 60])
    return found


QUEUES = ("read_queue_nums", "write_queue_nums", "topic_sys_flag", "perm")
SHOWN = (
    (gold.TOPIC_QUEUE_HISTORY, ("topic", "broker_name"), QUEUES),
    (gold.BROKER_ADDR_HISTORY, ("broker_name", "broker_id"), ("broker_addr",)),
    (gold.CLUSTER_ADDR_HISTORY, ("cluster_name", "broker_name"), ()),
    (gold.BROKER_LIVE_HISTORY, ("cluster_name", "broker_addr"), ("ha_server_addr",)),
    (gold.KV_CONFIG_HISTORY, ("namespace", "config_key"), ("config_value",)),
)


@pytest.mark.parametrize(
    ("name", "addr", "known", "begun_and_ended"),
    [
        ("v4-lifecycle", "127.0.0.1:9876", "whole", [(76, 76), (9, 9), (7, 7), (9, 9), (5, 3)]),
        ("v5-lifecycle", "127.0.0.1:9886", "v5_lifecycle", [(94, 94), (0, 0), (0, 0), (9, 9), (5, 3)]),
    ],
)
def test_a_log_agrees_with_the_capture(
    name: str,
    addr: str,
    known: str,
    begun_and_ended: list[tuple[int, int]],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """Whatever the log's night has, the capture's has at the same time: begun, held and ended. How much that is, docs tell."""
    night(tmp_path / "log", recorded(f"{name}/namesrv.log.gz"), conf=PipelineConf(log=LogConf(addr, "UTC")))
    captured: Path = request.getfixturevalue(known).path
    end_us = max(row["valid_from"] for row in rows(captured, gold.TOPIC_QUEUE_HISTORY))
    shown = []
    for table, key, said in SHOWN:
        log, capture = (intervals(path, table, key, said) for path in (tmp_path / "log", captured))
        wrong, begun, ended = [], 0, 0
        for of, spans in log.items():
            for first, last in spans:
                same = [c for c in capture.get(of, []) if c[0] - OUT_OF_ORDER_US <= first < c[1]]
                same = [c for c in same if abs(c[1] - last) <= OUT_OF_ORDER_US or (c[1] == 1 << 60 and last > end_us)]
                wrong += [(of, first, last)] if not same else []
                begun += any(abs(c[0] - first) <= OUT_OF_ORDER_US for c in same)
                ended += any(abs(c[1] - last) <= OUT_OF_ORDER_US and last < 1 << 60 for c in same)
        assert wrong == []
        shown.append((begun, ended))
    assert shown == begun_and_ended
    told, found = findings_of(tmp_path / "log"), findings_of(captured)
    assert set(told) <= {*found, "EXPIRED_BROKER"}
