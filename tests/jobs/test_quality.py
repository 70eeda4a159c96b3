"""The gate, on literal rows: every rule is broken by one planted case, and by no other."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import types as T

from jobs import quality, repeated_keys, tables
from jobs.quality import Measurement
from jobs.repeated_keys import repeated_hashes
from schemas.rules import RULES, TABLES
from schemas.rules.rule import has_form, is_hex
from tests.jobs.good_rows import digest, good_rows, row
from tests.jobs.planted_rows import ALL_RULES, ALSO_BROKEN, ELSEWHERE, IDS, planted


def frames(spark, rows: dict[str, list[dict]]) -> dict:
    """Return the tables of `rows`, whose columns may all be NULL: stored tables would refuse some rows."""
    answers = [row("route_observations", event_id=r["event_id"]) for r in rows["route_mismatches"]]
    known = {r["event_id"]: r for r in answers if r["event_id"] != digest("nobody")}
    rows = rows | {"route_observations": rows["route_observations"] + list(known.values())}
    return {
        name: spark.createDataFrame(
            [tuple(r.get(column) for column in table.column_names) for r in rows[name]],
            T.StructType([T.StructField(c.name, c.type) for c in table.columns]),
        ).coalesce(1)
        for name, table in TABLES.items()
        if name in rows
    }


@pytest.fixture(scope="module")
def measured(spark) -> dict[tuple[str, str], Measurement]:
    """Give what is measured of one set of tables that holds every good and every planted row."""
    rows = good_rows()
    for table, rule in ALL_RULES:
        rows[table] += planted(table, rule)
    for where, cases in ELSEWHERE.values():
        base = row(where)
        rows[where] += [base | case for case in cases]
    return {(m.table, m.rule): m for m in quality.measure(spark, frames(spark, rows))}


@pytest.fixture(scope="module")
def unspoilt(spark) -> list[Measurement]:
    """Give what is measured of good rows only."""
    return quality.measure(spark, frames(spark, good_rows()))


@pytest.mark.parametrize(("table", "rule"), ALL_RULES, ids=IDS)
def test_a_planted_row_breaks_its_rule_and_no_other(table, rule, measured):
    """Each rule is broken as often as planted: a case that broke a second rule would be counted there."""
    assert planted(table, rule) or (table, rule.name) in ELSEWHERE, "no row is planted for this rule"

    measurement = measured[table, rule.name]

    assert measurement.broken == 1 + ALSO_BROKEN.get((table, rule.name), 0), measurement.sample
    assert len(measurement.sample) == measurement.broken


def test_good_rows_break_no_rule(unspoilt):
    """Every rule of every table is counted, and rows that are as they should be break none."""
    assert [(m.table, m.rule) for m in unspoilt] == [(table, rule.name) for table, rule in ALL_RULES]
    assert [m for m in unspoilt if m.broken or m.missing] == []


@pytest.mark.parametrize("which", ["unspoilt", "measured"])
def test_keys_are_counted_alike_in_either_way(spark, request, monkeypatch, which):
    """Of many rows the hashes of the keys are compared first, and copies counted only where two are equal: the same counts."""
    grouped = request.getfixturevalue(which)
    grouped = {(m.table, m.rule): m for m in grouped} if which == "unspoilt" else grouped
    rows, searched = good_rows(), []
    if which == "measured":
        for table, rule in ALL_RULES:
            rows[table] += planted(table, rule) if rule.kind == "unique" else []
    wanted = {(m.table, m.rule) for m in grouped.values() if m.kind == "unique"}

    def noted(keys):
        searched.append(repeated_hashes(keys))
        return searched[-1]

    monkeypatch.setattr(quality, "_MANY_BYTES", 0)
    monkeypatch.setattr(quality, "repeated_hashes", noted)
    monkeypatch.setattr(repeated_keys, "_PARTS", 2)

    hashed = {(m.table, m.rule): m for m in quality.measure(spark, frames(spark, rows))}

    assert len(searched) == len(wanted)
    assert any(repeated for _, repeated in searched) == (which == "measured")
    assert {key: hashed[key].broken for key in wanted} == {key: grouped[key].broken for key in wanted}
    if which == "unspoilt":
        assert [m for m in hashed.values() if m != grouped[m.table, m.rule]] == []


def test_the_gate_stops_on_critical_rules_only(measured, unspoilt, tmp_path):
    """Broken warnings are told, and the gate stays open; one broken critical rule shuts it."""
    warned = [measured[m.table, m.rule] if m.severity == "warning" else m for m in unspoilt]
    broken = [measured[m.table, m.rule] if (m.table, m.rule) == ("runs", "gate_agrees") else m for m in unspoilt]

    open_gate, shut_gate = (quality.judge(of, tmp_path / name) for name, of in [("a", warned), ("b", broken)])

    assert (open_gate.passed, open_gate.critical) == (True, [])
    assert open_gate.warnings == [f"{m.table}.{m.rule}" for m in unspoilt if m.severity == "warning"]
    assert (shut_gate.passed, shut_gate.critical, shut_gate.warnings) == (False, ["runs.gate_agrees"], [])
    assert (shut_gate.tables, shut_gate.rules) == (len(RULES), len(ALL_RULES))


def test_data_docs_name_the_rules_and_are_pruned(measured, tmp_path, monkeypatch):
    """A page of each judgement shows rule, sentence and count, never the rows; old judgements go."""
    monkeypatch.setattr(quality, "KEPT_RESULTS", 2)
    of_runs = [m for m in measured.values() if m.table == "runs"]

    for _ in range(4):
        verdict = quality.judge(of_runs, tmp_path)

    pages = sorted((tmp_path / "validations" / "runs").rglob("*.html"))
    page = pages[-1].read_text(encoding="utf-8")
    assert verdict.docs_path.is_file()
    assert "runs" in verdict.docs_path.read_text(encoding="utf-8")
    assert len(pages) == len(list((tmp_path / quality.RESULTS / "runs").rglob("*.json"))) == 2
    for m in of_runs:
        assert m.rule in page
        assert m.says in page
        assert not any(sample in page for sample in m.sample)


def test_no_rule_judges_what_is_not_there(spark, monkeypatch):
    """Tables of which Spark knows that they are empty are measured without a query, and give what the query would give."""
    known = {name: tables.empty(spark, table.schema) for name, table in TABLES.items()}
    unknown = {name: frame.unionAll(frame.limit(1)) for name, frame in known.items()}
    unasked = quality.measure(spark, known)
    monkeypatch.setattr(quality, "_has_no_rows", lambda _: False)
    assert quality.measure(spark, unknown) == unasked
    assert {m.rows for m in unasked} == {0}


def test_a_rule_without_its_tables_is_reported(spark, tmp_path):
    """A rule that reads a table which was not given is neither passed nor broken, but named as skipped."""
    only = {"quarantine": frames(spark, good_rows())["quarantine"]}

    measurements = quality.measure(spark, only)
    verdict = quality.judge(measurements, tmp_path)

    skipped = next(m for m in measurements if m.rule == "quarantine_is_small")
    assert (skipped.rows, skipped.broken, skipped.missing) == (None, None, ("sources",))
    assert verdict.skipped == ["quarantine.quarantine_is_small"]
    assert verdict.passed


def test_a_form_ends_where_the_value_ends(spark):
    """A digest, an address or a name with a line break behind it has not their form."""
    rows = [("ab",), ("ab\n",), ("\nab",), ("a",), ("xy",), ("AB",), ("",)]
    found = spark.createDataFrame(rows, "v STRING").selectExpr("v", has_form("v", "[a-z]+"), is_hex("v", 2))

    assert [tuple(row) for row in found.collect()] == [
        ("ab", True, True),
        ("ab\n", False, False),
        ("\nab", False, False),
        ("a", True, False),
        ("xy", True, False),
        ("AB", False, False),
        ("", False, False),
    ]


def test_reasons_name_the_critical_rules_that_a_row_breaks(spark):
    """A row that breaks a warning has no reason; one that breaks critical rules has their names in order."""
    rows = {
        **{table: [] for table in TABLES},
        "heartbeats": [
            row("heartbeats", source_offset=1),
            row("heartbeats", source_offset=2, broker_id=-1),
            row("heartbeats", source_offset=3, code=905, data_version=None, one_way=True),
        ],
    }

    judged = quality.with_reasons(frames(spark, rows)["heartbeats"], "heartbeats")

    assert sorted((r.source_offset, r[quality.REASONS]) for r in judged.collect()) == [
        (1, []),
        (2, []),
        (3, ["one_way_has_no_response", "code_belongs_here"]),
    ]
    assert judged.columns == [*TABLES["heartbeats"].column_names, quality.REASONS]


def test_samples_are_keys_as_json(measured):
    """A sample shows which row it was, not what strangers put into it."""
    (sample,) = measured["heartbeats", "broker_id_is_not_negative"].sample
    assert list(json.loads(sample)) == ["event_id"]
