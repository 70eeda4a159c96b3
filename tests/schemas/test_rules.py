"""The rules as data: complete, named once, and readable."""

from __future__ import annotations

import pytest

from namesrv_wire.errors import Reason
from schemas import bronze, gold
from schemas.rules import BROKEN_RULE, QUARANTINE_REASONS, RULES


def test_every_table_has_rules():
    """Every bronze and gold table is judged, and nothing else is."""
    assert list(RULES) == [table.name for table in (*bronze.TABLES, *gold.TABLES)]


@pytest.mark.parametrize("table", RULES)
def test_rules_are_named_once_and_say_a_sentence(table):
    """A report names a rule by table and name, and explains it by its sentence."""
    rules = RULES[table]
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(rule.says.endswith(".") for rule in rules)
    assert all((rule.kind == "row") == (rule.over is None) for rule in rules)


@pytest.mark.parametrize("table", RULES)
def test_rules_read_only_tables_that_exist(table):
    """A rule that needs a table by a wrong name would be skipped for ever."""
    assert {name for rule in RULES[table] for name in rule.needs} <= set(RULES)


def test_every_reason_of_the_decoder_is_known():
    """Whatever the decoder refuses can be put into quarantine without shutting the gate."""
    assert {reason.value for reason in Reason} | {BROKEN_RULE} == set(QUARANTINE_REASONS)
