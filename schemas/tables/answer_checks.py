"""The table answer_checks: one request code of one name server on one day: how many answers the replayed registry gives too."""

from __future__ import annotations

from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import query, warn
from schemas.table import INT, LONG, Rule, Table, required

ANSWER_CHECKS = Table(
    "answer_checks",
    "gold",
    "one request code of one name server on one day: how many answers the replayed registry gives too",
    (
        NAMESRV_ID,
        required(
            "code",
            INT,
            "Request code: questions (105, 106, 206 ..., 101, 219, 901) and responses to events (103, 205, 322, 327)",
        ),
        required("answers", LONG, "Answers compared"),
        required("matched", LONG, "Equal to the registry at an instant between request and answer"),
        required("same_order", LONG, "Of the matched: list order equal too"),
        required("same_bytes", LONG, "Of the matched: equal byte for byte"),
        required(
            "in_flight",
            LONG,
            "Of the matched: not equal to the state at the answer, but to an earlier one in its window",
        ),
        required(
            "explained",
            LONG,
            "Equal only under another order than the one taken, or if a removal or a one-way request lagged",
        ),
        required(
            "unknown_past",
            LONG,
            "Different only in what was not known: yet, in a recording that began mid-life, or of brokers that registered over "
            "a connection that cannot be read; or at an address that shows not all of one name server, or several (see findings)",
        ),
        required("mismatched", LONG, "Equal to no state"),
        DAY,
    ),
    key=("day", "namesrv_id", "code"),
    made_by="verify",
    rules=(
        Rule(
            "every_answer_is_counted",
            "answers = matched + explained + unknown_past + mismatched",
            "An answer is matched, explained, about an unknown past, or mismatched.",
        ),
        Rule(
            "counts_are_plausible",
            "least(matched, same_order, same_bytes, in_flight, explained, unknown_past, mismatched) >= 0 "
            "AND greatest(same_order, same_bytes, in_flight) <= matched",
            "Counts are 0 or more; same_order, same_bytes and in_flight count among the matched.",
        ),
        warn("nothing_is_mismatched", "mismatched = 0", "The replayed registry gives every answer that was given."),
        query(
            "mismatches_are_listed",
            "listed = mismatched",
            "Every mismatched answer is in route_mismatches.",
            """
            SELECT judged.day, judged.namesrv_id, judged.code, judged.mismatched, coalesce(found.listed, 0) AS listed
            FROM answer_checks AS judged
            LEFT JOIN (
              SELECT day, namesrv_id, code, count(*) AS listed FROM route_mismatches
              WHERE classification = 'mismatched' GROUP BY ALL) AS found
              ON found.day = judged.day AND found.namesrv_id = judged.namesrv_id AND found.code = judged.code""",
        ),
    ),
)
