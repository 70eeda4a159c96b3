"""Rules counted on literal rows: every rule is broken by one planted case, and by no other."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from namesrv_day.arrow import ask, empty
from namesrv_day.rules import Measurement, measure, merged, reasons
from schemas.rules import RULES, TABLES
from schemas.table import has_form, is_hex
from tests.day.good_rows import frames, good_rows, row
from tests.day.planted_rows import ALL_RULES, ALSO_BROKEN, ELSEWHERE, IDS, planted, planted_rows
from tests.day.row_values import DAY, DAY_BEFORE, NAMESRV, digest


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Measurement]:
    """Give what is measured of one set of tables that holds every good and every planted row."""
    return {(m.table, m.rule): m for m in measure(frames(planted_rows()))}


@pytest.mark.parametrize(("table", "rule"), ALL_RULES, ids=IDS)
def test_a_planted_row_breaks_its_rule_and_no_other(table, rule, found):
    """Each rule is broken as often as planted: a case that broke a second rule would be counted there."""
    assert planted(table, rule) or (table, rule.name) in ELSEWHERE, "no row is planted for this rule"

    measurement = found[table, rule.name]

    assert measurement.broken == 1 + ALSO_BROKEN.get((table, rule.name), 0), measurement.sample
    assert len(measurement.sample) == measurement.broken


@pytest.mark.slow
def test_good_rows_break_no_rule():
    """Every rule of every table is counted, and rows that are as they should be break none."""
    measurements = measure(frames(good_rows()))
    assert [(m.table, m.rule) for m in measurements] == [(table, rule.name) for table, rule in ALL_RULES]
    assert [m for m in measurements if m.broken or m.missing] == []


def test_tables_without_rows_break_no_rule():
    """Where there is nothing to judge, every rule has judged 0 rows."""
    measurements = measure({name: empty(table) for name, table in TABLES.items()})
    assert {(m.rows, m.broken) for m in measurements} == {(0, 0)}
    assert len(measurements) == len(ALL_RULES)


def test_a_rule_without_its_tables_is_named():
    """A rule that reads a table which was not given is neither kept nor broken: what it needs is named."""
    measurements = measure({"quarantine": frames(good_rows())["quarantine"]})

    skipped = next(m for m in measurements if m.rule == "quarantine_is_small")
    assert (skipped.rows, skipped.broken, skipped.missing) == (None, None, ("sources",))


def test_only_rows_of_the_days_are_judged():
    """A history is read with the days around, and of these only the day that is asked for is judged."""
    rows = good_rows()
    rows["broker_addr_history"] = [row("broker_addr_history", day=day, perm=8) for day in (DAY_BEFORE, DAY, DAY)]

    judged = {m.rule: m.rows for m in measure(frames(rows), ["broker_addr_history"], [DAY])}

    assert judged["required_columns_present"] == judged["does_not_overlap"] == 2


def test_queue_data_that_an_answer_shows_need_no_group():
    """A route does not show which id an acting master has: nothing is known of its group until something else shows it.

    Nor do those that have no name: in 4.x their group may go without them. Before 4.9.4 they keep others from going.
    """
    rows = good_rows()
    shown = row("topic_queue_history", topic="shown", broker_name="nobody", beginning_seen=False)
    rows["topic_queue_history"] = [shown, row("topic_queue_history", topic="seen", broker_name="nobody")]
    nameless = row("topic_queue_history", topic="seen", broker_name=None)

    for broken, more in ((1, []), (0, [nameless])):
        rows["topic_queue_history"] += more
        judged = {m.rule: m.broken for m in measure(frames(rows), ["topic_queue_history"])}
        assert judged["broker_has_a_group"] == broken


@pytest.mark.slow
def test_name_servers_judged_apart_add_up():
    """All rules but those of scope `table` give the same when the rows of some name servers are judged by themselves."""
    rows = planted_rows()
    for table, of in good_rows().items():
        # An answer would be recorded once, and be another name server's for half of what names it.
        if table != "route_mismatches":
            rows[table] += [one | {"namesrv_id": "10.0.0.8:9876"} for one in of if one.get("namesrv_id") == NAMESRV]
    together = frames(rows)
    tables = [name for name, frame in together.items() if "namesrv_id" in frame.column_names]

    parts = [
        measurement
        for is_one in ("IS NOT DISTINCT FROM", "IS DISTINCT FROM")
        for measurement in measure(
            {
                name: ask(f"SELECT * FROM frame WHERE namesrv_id {is_one} $name", {"frame": frame}, name=NAMESRV)
                if name in tables
                else frame
                for name, frame in together.items()
            },
            tables,
            which=lambda rule: rule.scope != "table",
        )
    ]

    apart = {(m.table, m.rule): m for m in merged(parts, tables, {})}
    for measurement in measure(together, tables, which=lambda rule: rule.scope != "table"):
        assert apart[measurement.table, measurement.rule] == measurement


def test_parts_add_up_to_every_rule_of_the_tables():
    """Rows and broken ones are added, samples stay few, and what one part could not count nobody has."""

    def part(rows: int | None, broken: int | None, sample: tuple[str, ...] = (), missing: tuple[str, ...] = ()):
        rule = RULES["quarantine"][0]
        return Measurement("quarantine", rule.name, rule.severity, rule.kind, rule.says, rows, broken, sample, missing)

    first, *others = merged([part(5, 2, ("c", "a")), part(1, 1, ("b",)), part(4, 1, ("d",))], ["quarantine"], {})
    (unknown, *_) = merged([part(5, 2), part(None, None, missing=("sources",))], ["quarantine"], {})

    assert (first.rows, first.broken, first.sample) == (10, 4, ("a", "b", "c"))
    assert [(m.rule, m.rows, m.broken) for m in others] == [(rule.name, 0, 0) for rule in RULES["quarantine"][1:]]
    assert (unknown.rows, unknown.broken, unknown.missing) == (None, None, ("sources",))


def test_a_rule_that_nobody_counted_is_not_passed_over():
    """A rule of a table with rows that no part has counted is told as not judged; without rows there is nothing to judge."""
    counted = measure(frames(good_rows()), ["watermarks"])

    one_left_out = merged(counted[1:], ["watermarks", "sources"], {"watermarks": 1, "sources": 0})

    assert [(m.table, m.rule) for m in one_left_out if m.missing] == [("watermarks", "required_columns_present")]
    assert {m.rows for m in one_left_out if m.table == "sources"} == {0}


def test_a_form_ends_where_the_value_ends():
    """A digest, an address or a name with a line break behind it has not their form."""
    values = pa.table({"v": ["ab", "ab\n", "\nab", "a", "xy", "AB", ""]})
    judged = ask(f"SELECT v, {has_form('v', '[a-z]+')} AS form, {is_hex('v', 2)} AS hex FROM vs", {"vs": values})

    assert [tuple(one.values()) for one in judged.to_pylist()] == [
        ("ab", True, True),
        ("ab\n", False, False),
        ("\nab", False, False),
        ("a", True, False),
        ("xy", True, False),
        ("AB", False, False),
        ("", False, False),
    ]


def test_reasons_name_the_critical_rules_that_a_row_breaks():
    """A row that breaks a warning has no reason; one that breaks critical rules has their names in order."""
    rows = [
        row("heartbeats"),
        row("heartbeats", broker_id=-1),
        row("heartbeats", code=905, data_version=None, one_way=True),
        row("heartbeats", event_id=digest("x").upper()),
    ]

    judged = reasons(frames({"heartbeats": rows})["heartbeats"], "heartbeats")

    assert judged.to_pylist() == [[], [], ["one_way_has_no_response", "code_belongs_here"], ["event_id_is_a_digest"]]


def test_samples_are_keys_as_json_on_one_line(found):
    """A sample shows which row it was, not what strangers put into it; line breaks in a key are no line breaks there."""
    (sample,) = found["heartbeats", "broker_id_is_not_negative"].sample
    assert list(json.loads(sample)) == ["event_id"]

    rows = {"heartbeats": [row("heartbeats", event_id="two\nlines")]}
    (strange,) = [m.sample for m in measure(frames(rows)) if m.rule == "event_id_is_a_digest"]
    assert strange == ('{"event_id":"two\\nlines"}',)


def test_a_light_heartbeat_needs_no_broker_id():
    """5.x brokers leave it out of 904; a registration must have one."""
    rows = {
        "heartbeats": [row("heartbeats", code=904, broker_id=None)],
        "registrations": [row("registrations", broker_id=None)],
    }
    broken = {m.table: m.broken for m in measure(frames(rows)) if m.rule == "broker_id_is_not_negative"}
    assert (broken["heartbeats"], broken["registrations"]) == (0, 1)
