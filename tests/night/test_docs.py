"""The judgement of Great Expectations on counted rules, and the pages that show it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from jobs.night import gate
from namesrv_day.rules import Measurement, measure, merged
from schemas.rules import RULES
from tests.day.good_rows import frames, good_rows
from tests.day.planted_rows import ALL_RULES, planted_rows
from tests.html_page import Page

pytestmark = pytest.mark.slow

_LOADED = {"src", "srcset", "data", "poster", "background", "action", "formaction", "manifest", "cite"}


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Measurement]:
    """Give what is measured of all good and planted rows: every rule is broken."""
    return {(m.table, m.rule): m for m in measure(frames(planted_rows()))}


@pytest.fixture(scope="module")
def unspoilt() -> list[Measurement]:
    return measure(frames(good_rows()))


def test_the_gate_stops_on_critical_rules_only(found, unspoilt, tmp_path):
    """Broken warnings are told, and the gate stays open; one broken critical rule shuts it."""
    warned = [found[m.table, m.rule] if m.severity == "warning" else m for m in unspoilt]
    broken = [found[m.table, m.rule] if (m.table, m.rule) == ("runs", "gate_agrees") else m for m in unspoilt]

    open_gate, shut_gate = (gate.validate(of, tmp_path / name) for name, of in [("a", warned), ("b", broken)])

    assert open_gate.critical == []
    assert open_gate.warnings == [f"{m.table}.{m.rule}" for m in unspoilt if m.severity == "warning"]
    assert (shut_gate.critical, shut_gate.warnings) == (["runs.gate_agrees"], [])
    (path,) = (tmp_path / "b" / "results").glob("*.json")
    judged = [of_table["results"] for of_table in json.loads(path.read_text()).values()]
    assert (len(judged), sum(map(len, judged))) == (len(RULES), len(ALL_RULES))


def test_every_broken_rule_is_found(found, tmp_path):
    """Where all rules are broken, Great Expectations says so of each, by its severity."""
    verdict = gate.validate(found.values(), tmp_path)

    named = {s: [f"{m.table}.{m.rule}" for m in found.values() if m.severity == s] for s in ("critical", "warning")}
    assert verdict.critical == named["critical"]
    assert verdict.warnings == named["warning"]
    assert verdict.skipped == []


def test_a_rule_that_could_not_be_counted_is_skipped(tmp_path):
    """What needs a table that was not given is neither passed nor broken: it is named, and the gate stays open."""
    measurements = measure({"quarantine": frames(good_rows())["quarantine"]})

    verdict = gate.validate(measurements, tmp_path)

    assert verdict.skipped == ["quarantine.quarantine_is_small"]
    assert verdict.critical == []
    assert "not judged, needs sources" in _texts(tmp_path)


def test_data_docs_name_the_rules_and_are_pruned(found, tmp_path, monkeypatch):
    """A page of each judgement shows rule, sentence and count, never the rows; old judgements go."""
    monkeypatch.setattr(gate, "KEPT_RESULTS", 2)
    of_runs = [m for m in found.values() if m.table == "runs"]

    for _ in range(4):
        verdict = gate.validate(of_runs, tmp_path)

    pages, results = (sorted((tmp_path / "results").glob(f"*.{kind}")) for kind in ("html", "json"))
    index = Page(verdict.docs_path.read_text(encoding="utf-8"))
    assert [path.stem for path in pages] == [path.stem for path in results]
    assert len(pages) == 2
    for page in (index, Page(pages[-1].read_text(encoding="utf-8"))):
        shown = "".join(page.texts)
        for m in of_runs:
            assert m.rule in shown
            assert f"{m.says} ({m.severity}; {m.rows} judged)" in shown
            assert not any(sample in shown for sample in m.sample)
    assert index.links == [f"results/{pages[0].name}"]


def test_pages_need_nothing_but_themselves(found, tmp_path):
    """No page loads a style sheet, a script, a font or a picture, or names a host: they read the same without a network."""
    gate.validate(found.values(), tmp_path)

    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) == 2
    for path in pages:
        text = path.read_text(encoding="utf-8")
        page = Page(text)
        assert not [of for tag, of in page.elements if of.keys() & (_LOADED | ({"href"} if tag == "link" else set()))]
        assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "base"}
        assert not re.search(r"https?:|//|url\(|@import", text)
        assert all(not link.startswith("/") for link in page.links)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".html", ".json"}


def test_what_a_rule_says_is_text(tmp_path):
    """Whatever stands in a sentence is shown, and is no markup."""
    (rule, *_) = merged([], ["watermarks"], {})
    gate.validate([replace(rule, says="<script>a & b</script>.")], tmp_path)

    assert "<script>a & b</script>." in _texts(tmp_path)


def test_what_the_judge_goes_without_is_there_for_others(tmp_path):
    """A process that has judged has not loaded statistics, charts, Spark nor a client of a cloud, and gets each when it asks."""
    script = tmp_path / "asked.py"
    script.write_text("""
import sys
from jobs.night import expectations
from namesrv_day.rules import measured
from schemas.rules import RULES
[(_, result)] = expectations.validated({"runs": [measured("runs", rule, 5, 1) for rule in RULES["runs"]]})
print(result.success, [name in sys.modules for name in ("boto3", "pyspark", "scipy.stats", "altair")])
import altair, boto3, jsonschema
from pyspark.ml.feature import Bucketizer
from scipy import stats
print(round(stats.norm.cdf(0), 3), Bucketizer.__name__, boto3.__name__)
print(altair.Chart.__name__, jsonschema.Draft7Validator.__name__)
""")
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "False [False, False, False, False]",
        "0.5 Bucketizer boto3",
        "Chart Draft7Validator",
    ]


def test_results_are_kept_as_great_expectations_has_them(found, tmp_path):
    """Beside the pages lies each result as JSON: the rule, what it says and how many rows break it."""
    gate.validate([m for m in found.values() if m.table == "watermarks"], tmp_path)

    (path,) = (tmp_path / "results").glob("*.json")
    result = json.loads(path.read_text(encoding="utf-8"))["watermarks"]
    shown = {
        of["expectation_config"]["kwargs"]["column"]: (of["success"], of["result"]["observed_value"])
        for of in result["results"]
    }
    assert (result["suite_name"], result["success"]) == ("watermarks", False)
    assert shown == {m.rule: (m.broken == 0, m.broken) for m in found.values() if m.table == "watermarks"}


def _texts(folder) -> str:
    return "".join("".join(Page(path.read_text(encoding="utf-8")).texts) for path in folder.rglob("*.html"))
