"""What watches a warehouse from outside: the Grafana dashboard, the Prometheus rules, and a paragraph for each finding."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest
from ruamel.yaml import YAML

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.errors import EXIT_OK
from jobs.store.published import HISTORY
from schemas import asked
from schemas.findings import CATALOGUE
from schemas.queries import queries
from tests.night.nights import Capture
from tests.places import CHECKOUT

DASHBOARD: dict[str, Any] = json.loads((CHECKOUT / "examples/grafana/namesrv-history.json").read_text())
RULES = YAML(typ="safe").load(CHECKOUT / "examples/prometheus/namesrv-history.rules.yml")["groups"][0]["rules"]
PAGE = (CHECKOUT / "docs/findings.md").read_text()
SEVERITIES = ("critical", "warning", "info")
PROMTOOL = shutil.which("promtool")
_SAMPLE = re.compile(
    r'([a-z_]+)(?:\{(\w+="(?:[^"\\\n]|\\["\\n])*"(?:,\w+="(?:[^"\\\n]|\\["\\n])*")*)\})? (-?\d+(?:\.\d+)?)'
)


def filled(sql: str, codes: list[str]) -> str:
    """Return a statement of the dashboard as Grafana sends it, of all times."""
    listed = ", ".join(f"'{code}'" for code in codes)
    return sql.replace("${code:singlequote}", listed).replace("${__from}", "0").replace("${__to}", "4102444800000")


def test_every_panel_is_answered_by_the_file_of_a_run(whole: Capture) -> None:
    """By a plain DuckDB, in any zone; incidents and findings are all there, time series have times and numbers."""
    connection = duckdb.connect(str(whole.path / HISTORY), read_only=True, config={"python_enable_replacements": False})
    connection.execute(f"SET file_search_path = '{whole.path}'")
    connection.execute("SET TimeZone = 'Asia/Shanghai'")
    codes = [code for (code,) in connection.execute(DASHBOARD["templating"]["list"][1]["query"]).fetchall()]
    assert codes == sorted(finding.code for finding in CATALOGUE)
    assert codes == sorted(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)), "no paragraph too many"
    found = {}
    for panel in DASHBOARD["panels"]:
        answer = connection.execute(filled(panel["targets"][0]["rawSql"], codes))
        names = [column[0] for column in answer.description or ()]
        found[panel["title"]] = rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
        if panel["type"] == "timeseries":
            assert rows
            assert set(names) == {"time", "metric", "value"}
            assert all(row["time"].tzinfo is None and row["value"] >= 0 for row in rows), "Grafana takes them for UTC"
    assert min(row["time"] for row in found["Route changes"]).isoformat().startswith("2026-11-21T08:5")
    incidents = Answers(str(whole.path)).ask("SELECT incident_id FROM incidents ORDER BY 1").rows
    assert sorted((row["incident_id"],) for row in found["Incidents"]) == list(incidents)
    marked = connection.execute(filled(DASHBOARD["annotations"]["list"][0]["target"]["rawSql"], codes)).fetchall()
    ((findings,),) = connection.execute("SELECT count(*) FROM findings").fetchall()
    assert len(marked) == findings > 3


def alerts_of(code: str) -> set[str]:
    """Return the alerts whose conditions a finding of a code can meet."""
    said = next(finding.texts["severity"] for finding in CATALOGUE if finding.code == code)
    found = set()
    for rule in RULES:
        for conditions in re.findall(r"\{([^}]*)\}", rule["expr"]):
            tests = re.findall(r'(\w+)(=~|!~|=)"([^"]*)"', conditions)
            for severity in (one for one in SEVERITIES if one in said):
                labels = {"code": code, "severity": severity}
                fits = (
                    (re.fullmatch(wanted, labels[label]) is not None) != (how == "!~") for label, how, wanted in tests
                )
                found |= {rule["alert"]} if all(fits) else set()
    return found


@pytest.mark.parametrize("finding", CATALOGUE, ids=lambda finding: finding.code)
def test_every_code_has_an_alert_or_a_reason_a_mark_and_a_paragraph(finding: Any) -> None:
    """The paragraph says how severe it is, where to look, by questions that there are, what to do, and which alerts it has."""
    _, heading, rest = PAGE.partition(f"\n## {finding.code}\n")
    assert heading
    means, look, remedy = rest.partition("\n## ")[0].strip().split("\n\n")
    assert means.startswith(f"**{finding.texts['severity']}.** ")
    assert look.startswith("Look at `")
    for command in re.findall(r"`([^`]+)`", look):
        name = re.match(r"ask query (\w+)|ask sql \"SELECT \S+ FROM (\w+)|ask (table-at|history) |(\w+)$", command)
        assert name, command
        assert not name[1] or name[1] in queries()
        assert not name[2] or name[2] in asked.names()
    assert remedy.startswith(f"{finding.texts['remedy']}. ")
    named = set(re.findall(r"`(Namesrv\w+)`", remedy))
    assert named == (set() if "No alert: " in remedy else alerts_of(finding.code))
    assert named or finding.is_static


def test_metrics_are_as_prometheus_wants_them(whole: Capture, tmp_path: Path) -> None:
    """Each family has one HELP and one TYPE before its samples; a sample once; names with a unit; all that rules read is there."""
    out = tmp_path / "namesrv.prom"
    assert main(["ask", "prometheus", "--warehouse", str(whole.path), "--output", str(out)]) == EXIT_OK
    text, families, seen, name = out.read_text(encoding="utf-8"), list[str](), set[str](), ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, told = line[len("# HELP ") :].partition(" ")
            assert re.fullmatch(r"namesrv_history_[a-z_]+", name)
            assert told.endswith(".")
            families.append(name)
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {name} gauge"
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == name
            key = line.rpartition(" ")[0]
            assert key not in seen
            seen.add(key)
    assert len(families) == len(set(families)) == 5
    assert not [family for family in families if "time" in family and not family.endswith("_timestamp_seconds")]
    read = set(re.findall(r"namesrv_history_[a-z_]+", " ".join(rule["expr"] for rule in RULES)))
    assert read <= set(families)
    assert all("runbook" in rule["annotations"] for rule in RULES)


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool on this machine")
def test_prometheus_own_tool_finds_nothing_wrong(whole: Capture, tmp_path: Path) -> None:
    """It takes the metrics and the rules, and an incident that is ongoing fires the alert that leads to its paragraph."""
    out, folder = tmp_path / "namesrv.prom", CHECKOUT / "examples" / "prometheus"
    assert main(["ask", "prometheus", "--warehouse", str(whole.path), "--output", str(out)]) == EXIT_OK
    for words in (["check", "metrics"], ["check", "rules", str(folder / "namesrv-history.rules.yml")]):
        with out.open() as metrics:
            said = subprocess.run([str(PROMTOOL), *words], stdin=metrics, capture_output=True, text=True, check=False)
        assert (said.returncode, said.stderr) == (0, "")
    said = subprocess.run(
        [str(PROMTOOL), "test", "rules", folder / "alerts.test.yml"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said
