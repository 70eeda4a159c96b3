"""Findings put together: what one cause did on several name servers is one incident, for people and for Prometheus."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.errors import EXIT_OK, EXIT_ONGOING
from schemas import bronze, gold
from schemas.findings import CATALOGUE
from tests.cli.rows import publish, warehouse_at
from tests.rows import Row

NS1, NS2 = "10.0.0.9:9876", "10.0.0.8:9876"
DAY = dt.date(2026, 3, 1)


def finding(ns: str, clock: str, until: str | None, severity: str = "warning", **values: Any) -> Row:
    begin, end = (None if at is None else dt.datetime.fromisoformat(f"2026-03-01 {at}") for at in (clock, until))
    what = {"code": "NO_MASTER", "severity": severity, "subject": "broker-a", "detail": f"on {ns}", "begun_with": 2}
    days = {"told_on": DAY, "ended_on": DAY if until else None, "day": DAY}
    touched = {"brokers": 1, "broker_names": ["broker-a"], "topics": 0, "topic_names": []}
    times = {"from_time": begin, "to_time": end, "evidence": [f"e-{clock}", "e"]}
    return {"namesrv_id": ns, **times, **what, **days, **touched, **values}


ROWS = [
    finding(NS1, "10:00:00", "10:05:00"),
    finding(NS2, "10:00:10", None, "critical"),
    finding(NS1, "11:00:00", "11:00:05"),
    finding(NS1, "10:00:00", "10:05:00", subject='broker-"b"', evidence=["other"]),
]
"""One cause on two name servers; the same an hour later; another one."""
LOSS = finding(NS1, "10:00:01", "10:06:00", "critical", code="MASS_TOPIC_LOSS", subject="C", evidence=["e-10:00:00"])
LOSS |= {
    "brokers": 2,
    "broker_names": ["broker-a", "broker-c"],
    "topics": 12,
    "topic_names": [f"t{n}" for n in range(10)],
}
PRIVATE = {"code": "PRIVATE_ADDR", "subject": "C", "evidence": ["e-10:00:00"]}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish the findings, and how far ns-1 is known."""
    path = tmp_path_factory.mktemp("incidents")
    known = {"namesrv_id": NS1, "latest_time": dt.datetime(2026, 3, 1, 12), "ingest_run": "r"}  # noqa: DTZ001  UTC
    publish(warehouse_at(path, "1"), {gold.FINDINGS: ROWS, bronze.WATERMARKS: [known]})
    return path


@pytest.mark.slow
def test_what_begins_together_is_one_incident(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two name servers ten seconds apart: one row, the worst severity, the first event, ongoing as long as one of them is.

    An hour later it is another one; so is another subject.
    """
    assert main(["ask", "incidents", "--warehouse", str(warehouse), "--format", "json"]) == EXIT_OK
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [(row["subject"], row["severity"], row["state"], row["namesrvs"], row["root_event"]) for row in found]
    assert told == [
        ('broker-"b"', "warning", "resolved", 1, "other"),
        ("broker-a", "critical", "ongoing", 2, "e-10:00:00"),
        ("broker-a", "warning", "resolved", 1, "e-11:00:00"),
    ]
    assert found[1]["detail"] == f"on {NS2}", "the most severe one's"
    assert found[1]["remedy"].startswith("Start the master")
    assert len({row["incident_id"] for row in found}) == 3


@pytest.mark.slow
def test_what_one_event_brought_about_is_one_incident(tmp_path: Path) -> None:
    """Findings of several codes, on several name servers: the most severe is shown, with all that is touched."""
    publish(warehouse_at(tmp_path, "1"), {gold.FINDINGS: [*ROWS[:2], LOSS]})
    (found,) = Answers(str(tmp_path)).ask("SELECT * FROM incidents").dicts()
    expected = {"code": "MASS_TOPIC_LOSS", "codes": ["MASS_TOPIC_LOSS", "NO_MASTER"], "namesrvs": 2, "findings": 3}
    expected |= {"state": "ongoing", "brokers": 2, "broker_names": ["broker-a", "broker-c"], "topics": 12}
    expected |= {"topic_names": LOSS["topic_names"]}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.slow
def test_an_incident_begins_when_what_its_code_tells_of_began(tmp_path: Path) -> None:
    """A broker had been silent two minutes before the scan that took the master: the group had one until then."""
    silent = finding(NS1, "09:58:00", None, code="EXPIRED_BROKER", subject="broker-a a:1", evidence=["scan"])
    lone = finding(NS1, "10:00:05", None, "critical", evidence=["scan"])
    late = finding(NS2, "10:00:20", None, "critical", evidence=["scan-2"])
    early = finding(NS2, "10:00:02", None, evidence=["scan-2"])
    publish(warehouse_at(tmp_path, "1"), {gold.FINDINGS: [silent, lone, late]})
    asked = "SELECT code, first_time, detail, codes FROM incidents"
    assert [(code, f"{at:%T}", codes) for code, at, _, codes in Answers(str(tmp_path)).ask(asked).rows] == [
        ("NO_MASTER", "10:00:05", ["EXPIRED_BROKER", "NO_MASTER"])
    ]
    publish(warehouse_at(tmp_path, "2"), {gold.FINDINGS: [silent, lone, early]})
    ((_, begun, detail, _),) = Answers(str(tmp_path)).ask(asked).rows
    assert (f"{begun:%T}", detail) == ("10:00:02", f"on {NS1}"), "with that code first seen elsewhere"


@pytest.mark.slow
def test_an_incident_is_the_same_however_its_rows_lie(tmp_path: Path) -> None:
    """Of equally severe findings at one time the first by subject is shown: the incident keeps its id."""
    rows = [finding(NS1, "10:00:00", None, subject=subject) for subject in ("broker-b", "broker-a", "broker-c")]
    for number, of in enumerate((rows, rows[::-1])):
        publish(warehouse_at(tmp_path, str(number)), {gold.FINDINGS: of})
        assert [*Answers(str(tmp_path)).ask("SELECT subject FROM incidents").rows] == [("broker-a",)]


@pytest.mark.slow
def test_a_condition_of_a_cluster_is_one_row(tmp_path: Path) -> None:
    """However often it was told, and apart from what the same event brought about."""
    rows = [finding(ns, clock, None, "info", **PRIVATE) for ns in (NS1, NS2) for clock in ("09:00:00", "11:00:00")]
    publish(warehouse_at(tmp_path, "1"), {gold.FINDINGS: [*rows, finding(NS1, "10:00:00", "10:05:00")]})
    found = list(Answers(str(tmp_path)).ask("SELECT code, namesrvs, findings FROM incidents ORDER BY code").rows)
    assert found == [("NO_MASTER", 1, 1), ("PRIVATE_ADDR", 2, 4)]


@pytest.mark.parametrize("severity", ["critical", "warning", "info"])
def test_an_ongoing_incident_is_an_exit_code(
    warehouse: Path, severity: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """12 where one as severe or worse is not over; what is answered is answered all the same."""
    words = ["ask", "incidents", "--warehouse", str(warehouse), "--fail-on", severity]
    assert main(words) == EXIT_ONGOING
    assert "broker-a" in capsys.readouterr().out


@pytest.mark.slow
def test_resolved_incidents_are_no_exit_code(tmp_path: Path) -> None:
    """Nor is one that is less severe than was asked."""
    publish(warehouse_at(tmp_path, "1"), {gold.FINDINGS: [finding(NS1, "10:00:00", None)]})
    assert main(["ask", "incidents", "--warehouse", str(tmp_path), "--fail-on", "critical"]) == EXIT_OK
    assert main(["ask", "incidents", "--warehouse", str(tmp_path), "--fail-on", "warning"]) == EXIT_ONGOING


def test_prometheus_gets_a_line_for_each_code(warehouse: Path, tmp_path: Path) -> None:
    """Zero where nothing is ongoing, so that an alert ends; the file is there whole."""
    out = tmp_path / "namesrv.prom"
    assert main(["ask", "prometheus", "--warehouse", str(warehouse), "--output", str(out)]) == EXIT_OK
    lines = out.read_text(encoding="utf-8").splitlines()
    ongoing = [line for line in lines if line.startswith("namesrv_history_incidents_ongoing{")]
    assert len(ongoing) == 3 * len(CATALOGUE)
    assert 'namesrv_history_incidents_ongoing{code="NO_MASTER",severity="critical"} 1' in ongoing
    assert 'namesrv_history_incidents_ongoing{code="GHOST_BROKER",severity="critical"} 0' in ongoing
    assert f'namesrv_history_known_timestamp_seconds{{namesrv="{NS1}"}} 1772366400.0' in lines
    assert sum(line.startswith("# TYPE") for line in lines) == 5


def test_every_code_says_what_to_do(warehouse: Path) -> None:
    """The codes of the view are those of the catalogue."""
    rows = {row[0]: row[1:] for row in Answers(str(warehouse)).ask("SELECT * FROM finding_codes").rows}
    assert set(rows) == {finding.code for finding in CATALOGUE}
    assert all(meaning and severity and remedy for meaning, severity, _, remedy, *_ in rows.values())
    assert {threshold for _, _, threshold, *_ in rows.values()} >= {None, "many_topics = 5", "flapping_within_s = 3600"}
    assert {code for code, row in rows.items() if row[-2]} == {"PRIVATE_ADDR", "READ_LT_WRITE", "SINGLE_BROKER_TOPIC"}
