"""Columns and rules as texts say them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from schemas.table import INT, LONG, STRING, USUAL, Column, Rule, columns, list_of, map_of, rules, struct_of, type_of


def test_a_text_says_columns_a_line_each() -> None:
    """A star: never NULL; deeper lines go on; a name alone is a column that many tables have; a colon may be in a comment."""
    said = columns("""
        namesrv_id
        kind* STRING: close, idle, or late_close: the packet
            came later
        parts ARRAY<STRUCT<name: STRING, numbers: MAP<STRING, BIGINT>>>: What differs
    """)
    parts = list_of(struct_of(name=STRING, numbers=map_of(LONG)))
    kind = Column("kind", STRING, "close, idle, or late_close: the packet came later", required=True)
    assert said == (USUAL["namesrv_id"], kind, Column("parts", parts, "What differs"))


def test_a_text_says_rules_with_their_conditions_below() -> None:
    """A question mark: real input may break it; a condition may take several lines."""
    said = rules("""
        is_known: kind is a or b: nothing else.
            kind IN ('a', 'b')
        is_plausible?: What is counted is there.
            count >= 0
            AND count < 10
    """)
    warning = Rule("is_plausible", "count >= 0\nAND count < 10", "What is counted is there.", "warning")
    assert said == (Rule("is_known", "kind IN ('a', 'b')", "kind is a or b: nothing else."), warning)


@pytest.mark.parametrize("text", ["kind TEXT: unknown type", "kind: no type", "kind STRING"])
def test_what_is_no_column_is_refused(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        columns(text)


def test_types_have_the_names_that_spark_gives_them() -> None:
    assert type_of("STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>") == pa.struct(
        [("a", INT), ("b", list_of(struct_of(c=STRING)))]
    )
