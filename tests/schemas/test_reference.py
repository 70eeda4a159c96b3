"""The reference of tables is made of their definitions."""

from __future__ import annotations

import pytest

from schemas import bronze, gold
from schemas.queries import queries
from schemas.reference import text
from schemas.sql_files import with_shared
from schemas.table import type_name
from schemas.views import functions, views


def test_nothing_is_left_out() -> None:
    """Every table with each of its columns, every view, function and saved query; each has a sentence."""
    page = text()
    sections = {part.partition("\n")[0]: part for part in page.split("\n### ")}
    for table in (*bronze.TABLES, *gold.TABLES):
        for column in table.columns:
            assert f"| `{column.name}`" in sections[table.name]
            assert column.comment.replace("|", "\\|") in sections[table.name]
    for made in (*views(), *functions()):
        head = sections[made.name].splitlines()[2]
        assert len(head) > len(made.name) + 6, made.name
    assert "`t TIMESTAMP`" not in page
    assert "route_at(topic STRING, t TIMESTAMP)" in sections["route_at"]
    assert "| `perm` |" in sections["route_at"] or "perm" in sections["route_at"]
    assert all(f"| `{name}` | {query.question}" in page for name, query in queries().items())


@pytest.mark.parametrize("table", [*bronze.TABLES, *gold.TABLES], ids=lambda table: table.name)
def test_types_are_spelled_as_spark_spells_them(table) -> None:
    """Nested ones too, but for blanks and capitals."""
    for field in table.spark_schema:
        ours = type_name(table.schema.field(field.name).type).replace(" ", "").lower()
        assert ours == field.dataType.simpleString().lower()


def test_usual_parameters_and_columns_stand_in_their_order_with_what_they_are() -> None:
    """A saved query names those that many have, and says what its own are; the conditions on a time range are put in."""
    query = queries()["no_writable_queue"]
    assert [(each.name, each.default) for each in query.parameters] == [
        (name, "NULL") for name in ("since", "until", "topic")
    ]
    assert list(query.columns)[4:8] == ["operation", "broker_name", "broker_addr", "event_id"]
    assert query.columns["broker_addr"].startswith("broker address; for a close")
    assert query.columns["event_id"] == "event that caused it"
    assert "(:since IS NULL OR i.valid_to IS NULL OR i.valid_to > :since)" in query.sql


@pytest.mark.parametrize("given", ["{within()}", "{within(a.b, c)}", "{overlaps(a)}"])
def test_what_statements_share_is_told_all_that_it_needs(given: str) -> None:
    """One name too few, or one too many, is an error where the statement is read, not in the SQL."""
    with pytest.raises(ValueError, match="zip"):
        with_shared(f"SELECT {given}")
