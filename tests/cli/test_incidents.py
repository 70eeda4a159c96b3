"""Findings put together: what one cause did on several name servers is one incident, for people and for Prometheus."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.errors import EXIT_OK, EXIT_ONGOING
from schemas import bronze, gold
from schemas.findings import CATALOGUE
from tests.cli.rows import Row, house_at, publish

NS1, NS2 = "10.0.0.9:9876", "10.0.0.8:9876"
DAY = dt.date(2026, 3, 1)


def finding(ns: str, clock: str, until: str | None, severity: str = "warning", subject: str = "broker-a") -> Row:
    begin, end = (None if at is None else dt.datetime.fromisoformat(f"2026-03-01 {at}") for at in (clock, until))
    what = {"code": "NO_MASTER", "severity": severity, "subject": subject, "detail": f"on {ns}"}
    return {"namesrv_id": ns, **what, "from_time": begin, "to_time": end, "evidence": [f"e-{clock}", "e"], "day": DAY}


ROWS = [
    finding(NS1, "10:00:00", "10:05:00"),
    finding(NS2, "10:00:10", None, "critical"),
    finding(NS1, "11:00:00", "11:00:05"),
    finding(NS1, "10:00:00", "10:05:00", subject='broker-"b"'),
]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish the findings, and how far ns-1 is known."""
    path = tmp_path_factory.mktemp("incidents")
    known = {"namesrv_id": NS1, "latest_time": dt.datetime(2026, 3, 1, 12), "ingest_run": "r"}  # noqa: DTZ001  UTC
    publish(house_at(path, "1"), {gold.FINDINGS: ROWS, bronze.WATERMARKS: [known]})
    return path


def test_what_begins_together_is_one_incident(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two name servers ten seconds apart: one row, the worst severity, the first event, ongoing as long as one of them is.

    An hour later it is another one; so is another subject.
    """
    assert main(["ask", "incidents", "--warehouse", str(warehouse), "--format", "json"]) == EXIT_OK
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [(row["subject"], row["severity"], row["state"], row["namesrvs"], row["root_event"]) for row in found]
    assert told == [
        ('broker-"b"', "warning", "resolved", 1, "e-10:00:00"),
        ("broker-a", "critical", "ongoing", 2, "e-10:00:00"),
        ("broker-a", "warning", "resolved", 1, "e-11:00:00"),
    ]
    assert found[1]["detail"] == f"on {NS1}"
    assert found[1]["remedy"].startswith("Start the master")
    assert len({row["incident_id"] for row in found}) == 3


@pytest.mark.parametrize("severity", ["critical", "warning", "info"])
def test_an_ongoing_incident_is_an_exit_code(
    warehouse: Path, severity: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """12 where one as severe or worse is not over; what is answered is answered all the same."""
    words = ["ask", "incidents", "--warehouse", str(warehouse), "--fail-on", severity]
    assert main(words) == EXIT_ONGOING
    assert "broker-a" in capsys.readouterr().out


def test_resolved_incidents_are_no_exit_code(tmp_path: Path) -> None:
    """Nor is one that is less severe than was asked."""
    publish(house_at(tmp_path, "1"), {gold.FINDINGS: [finding(NS1, "10:00:00", None)]})
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
    assert sum(line.startswith("# TYPE") for line in lines) == 4


def test_every_code_says_what_to_do(warehouse: Path) -> None:
    """The codes of the view are those of the catalogue."""
    rows = dict(Answers(str(warehouse)).ask("SELECT code, remedy FROM finding_codes").rows)
    assert set(rows) == {finding.code for finding in CATALOGUE}
    assert all(rows.values())
