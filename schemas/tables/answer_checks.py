"""The table answer_checks: how recorded answers compare with the replayed registry, by day, name server and request code."""

from __future__ import annotations

from schemas.table import Table, columns, query, rules

ANSWER_CHECKS = Table(
    "answer_checks",
    "gold",
    "one request code of one name server on one day, with how its recorded answers compare with the replayed registry",
    columns("""
        namesrv_id
        code* INT: Request code: questions (105, 106, 206 ..., 101, 219, 901) and responses to events (103, 205, 322, 327)
        answers* BIGINT: Answers compared
        matched* BIGINT: Equal to the registry at an instant between request and answer
        same_order* BIGINT: Matched answers whose lists are in the same order, too
        same_bytes* BIGINT: Matched answers that are equal byte for byte
        in_flight* BIGINT: Matched answers that equal an earlier state in their window, not the state at the answer
        explained* BIGINT: Answers that are equal only under another order of events than the chosen one, or if a removal or a
            one-way request took effect later, or with each part at another instant
        unknown_past* BIGINT: Answers that differ only in rows that are not known: before the recording began, of brokers that
            registered over an unreadable connection, or at an address that shows part of one name server, or several name
            servers (see findings)
        mismatched* BIGINT: Answers that equal no state
        day
    """),
    key=("day", "namesrv_id", "code"),
    made_by="verify",
    rules=(
        *rules("""
            every_answer_is_counted: An answer is matched, explained, about an unknown past, or mismatched.
                answers = matched + explained + unknown_past + mismatched
            counts_are_plausible: Counts are 0 or more; same_order, same_bytes and in_flight count among the matched.
                least(matched, same_order, same_bytes, in_flight, explained, unknown_past, mismatched) >= 0 AND
                greatest(same_order, same_bytes, in_flight) <= matched
            nothing_is_mismatched?: The replayed registry gives every answer that was given.
                mismatched = 0
        """),
        query(
            "mismatches_are_listed",
            "listed = mismatched",
            "Every mismatched answer is in route_mismatches.",
            """
            SELECT checked.day, checked.namesrv_id, checked.code, checked.mismatched, coalesce(found.listed, 0) AS listed
            FROM answer_checks AS checked
            LEFT JOIN (
              SELECT day, namesrv_id, code, count(*) AS listed FROM route_mismatches
              WHERE classification = 'mismatched' GROUP BY ALL) AS found
              ON found.day = checked.day AND found.namesrv_id = checked.namesrv_id AND found.code = checked.code""",
        ),
    ),
)
