"""The kinds of rules, and the pieces that rules of several tables are made of."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas.table import Rule, Scope, Table


def warn(name: str, holds: str, says: str, over: str | None = None) -> Rule:
    """Return a rule that real input may break."""
    if over is None:
        return Rule(name, holds, says, "warning")
    return Rule(name, holds, says, "warning", "query", over, "namesrv")


def query(name: str, holds: str, says: str, over: str) -> Rule:
    """Return a critical rule about the rows of the query `over`, of one name server each."""
    return Rule(name, holds, says, kind="query", over=over, scope="namesrv")


def reference(name: str, says: str, over: str, scope: Scope = "namesrv") -> Rule:
    """Return the critical rule that each row of the query `over` has a `known` counterpart."""
    return Rule(name, "known IS NOT NULL", says, kind="reference", over=over, scope=scope)


def known_event(table: str, column: str, where: str = "TRUE", also: str = "") -> Rule:
    """Return the rule that the events in `column` are in event_outcomes, `where` they are of the day.

    `also` adds events (day, namesrv_id, event_id) that may have been plain refreshes, which event_outcomes leaves out.
    """
    events = "SELECT day, namesrv_id, event_id FROM event_outcomes" + also
    return reference(
        f"{column}_is_known",
        f"Every {column} of the slice's own day is a recorded event.",
        f"""
        SELECT judged.day, judged.namesrv_id, judged.{column}, outcomes.event_id AS known
        FROM {table} AS judged
        LEFT JOIN (SELECT DISTINCT day, namesrv_id, event_id FROM ({events})) AS outcomes
          ON outcomes.day = judged.day AND outcomes.namesrv_id = judged.namesrv_id
         AND outcomes.event_id = judged.{column}
        WHERE judged.{column} IS NOT NULL AND {where}""",
    )


def words(values: Iterable[str | int]) -> str:
    """Return SQL literals, separated by commas."""
    return ", ".join(repr(value) for value in values)


def present(table: Table) -> Rule:
    """Return the rule that the required columns of `table`, which are stored, are never NULL."""
    required = [column.name for column in table.columns if column.required and column.derived is None]
    return Rule(
        "required_columns_present",
        " AND ".join(f"{name} IS NOT NULL" for name in required),
        f"None of these is NULL: {', '.join(required)}.",
    )


def unique(table: str, key: Sequence[str], name: str = "key_is_unique") -> Rule:
    """Return the rule that no two rows of `table` have the same `key`."""
    return told_apart(name, key, [table], f"No two rows have the same {', '.join(key)}.")


def told_apart(name: str, key: Sequence[str], tables: Iterable[str], says: str) -> Rule:
    """Return the rule that no two rows of `tables` together have the same `key`."""
    columns = ", ".join(key)
    over = f"SELECT {columns}, count(*) AS copies FROM ({union(tables, columns)}) AS keys GROUP BY {columns}"
    scope: Scope = "namesrv" if "namesrv_id" in key else "table"
    return Rule(name, "copies = 1", says, kind="unique", over=over, scope=scope, key=tuple(key))


def is_hex(column: str, digits: int) -> str:
    """Return the SQL condition that `column` is so many lower-case hex digits."""
    return has_form(column, f"[0-9a-f]{{{digits}}}")


def has_form(column: str, pattern: str) -> str:
    """Return the SQL condition that all of `column` has the form of a regular expression, a line break at its end included."""
    return f"regexp_full_match({column}, '{pattern}')"


def is_one_of(column: str, values: Iterable[str | int]) -> str:
    """Return the SQL condition that `column` is one of `values`."""
    return f"{column} IN ({words(values)})"


def is_code(column: str, codes: Iterable[int]) -> str:
    """Return the SQL condition that `column` is one of `codes`."""
    # DuckDB's statistics prove ranges, and neither lists nor equations.
    return " OR ".join(f"{column} BETWEEN {code} AND {code}" for code in codes)


def is_day_of(column: str) -> str:
    """Return the SQL condition that `day` is the UTC date of the instant `column`."""
    # Of instants, a date is a matter of time zones, and takes ten times as long.
    return f"epoch_us({column}) - epoch_us(day) BETWEEN 0 AND 86399999999"


def each(array: str, condition: str) -> str:
    """Return the SQL condition that `condition` is true of every element `e` of `array`, which is not NULL."""
    return f"len(list_filter({array}, lambda e: NOT coalesce({condition}, FALSE))) = 0"


def queues(rows: str = "") -> tuple[Rule, ...]:
    """Return the rules of queue data: of the row's own columns, or of the structs in the array `rows`."""

    def all_of(condition: str) -> str:
        return f"{rows} IS NULL OR {each(rows, condition)}" if rows else condition

    e = "e." if rows else ""
    return (
        warn("perm_is_three_bits", all_of(f"{e}perm BETWEEN 0 AND 7"), "A permission is 0 to 7."),
        warn(
            "queue_numbers_are_plausible",
            all_of(f"{e}read_queue_nums BETWEEN 0 AND 65536 AND {e}write_queue_nums BETWEEN 0 AND 65536"),
            "Queue numbers are 0 to 65,536.",
        ),
        warn("sys_flag_is_two_bits", all_of(f"{e}topic_sys_flag BETWEEN 0 AND 3"), "A topic's system flag is 0 to 3."),
    )


def union(tables: Iterable[str], columns: str) -> str:
    """Return the query of `columns` (SQL) of all `tables`."""
    return " UNION ALL ".join(f"SELECT {columns} FROM {name}" for name in tables)


DAY_OF_EFFECT = Rule("day_is_day_of_effect", is_day_of("effect_time"), "day is the UTC date of effect_time.")
LIVES_IN_ITS_SLICE = Rule(
    "lives_in_its_slice",
    "CAST(valid_from AS DATE) <= day AND (valid_to IS NULL OR CAST(valid_to AS DATE) = day)",
    "A partition holds intervals that were alive during its day.",
)
INTERVAL_DOES_NOT_RUN_BACK = Rule(
    "time_does_not_run_back", "valid_to IS NULL OR valid_from <= valid_to", "valid_from is not after valid_to."
)
OF_AN_HOUR = (
    Rule("hour_lies_in_its_day", is_day_of("hour"), "day is the UTC date of the hour."),
    Rule(
        "times_lie_in_the_hour",
        "first_time <= last_time AND hour <= first_time AND last_time < hour + INTERVAL 1 HOUR",
        "first_time and last_time are in order and lie in the hour.",
    ),
)
