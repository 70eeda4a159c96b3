"""The rules as data: complete, named once, readable, and SQL that reads what it says it reads."""

from __future__ import annotations

import pytest

from namesrv_day.arrow import ask, empty
from namesrv_day.context import on_a_day
from namesrv_day.rules import breaks
from namesrv_wire.errors import Reason
from schemas import bronze, gold
from schemas.bronze import BROKEN_RULE, QUARANTINE_REASONS
from schemas.rules import RULES, TABLES


def test_every_table_has_rules():
    """Every bronze and gold table is judged, and nothing else is."""
    assert list(RULES) == [table.name for table in (*bronze.TABLES, *gold.TABLES)]


@pytest.mark.parametrize("table", RULES)
def test_rules_are_named_once_and_say_a_sentence(table):
    """A report names a rule by table and name, and explains it by its sentence."""
    rules = RULES[table]
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(rule.says.endswith(".") for rule in rules)
    assert all((rule.kind == "row") == (rule.over is None) == (rule.scope == "row") for rule in rules)
    assert all((rule.kind == "unique") == bool(rule.key) for rule in rules)


@pytest.mark.parametrize("table", RULES)
def test_rules_read_the_tables_that_they_need_and_no_others(table):
    """Every rule is SQL that runs where just the tables are that it says it needs: by a wrong name it would never be judged."""
    for rule in RULES[table]:
        tables = [TABLES[name] for name in rule.needs or (table,)]
        frames = {of.name: on_a_day(of).empty_table() if of.has_intervals else empty(of) for of in tables}
        judged = f"({rule.over})" if rule.over else table
        assert ask(f"SELECT count(*) FROM {judged} WHERE {breaks(rule)}", frames)[0].to_pylist() == [0], rule.name


def test_every_reason_of_the_decoder_is_known():
    """Whatever the decoder refuses can be put into quarantine without shutting the gate."""
    assert {reason.value for reason in Reason} | {BROKEN_RULE} == set(QUARANTINE_REASONS)
