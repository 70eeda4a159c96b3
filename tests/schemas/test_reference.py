"""The reference of tables is made of their definitions."""

from __future__ import annotations

import pytest

from schemas import bronze, gold
from schemas.queries import queries
from schemas.reference import text
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
