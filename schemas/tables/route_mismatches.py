"""The table route_mismatches."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import is_day_of, reference, union, warn
from schemas.table import INT, STRING, TIMESTAMP, Column, Rule, Table, required

_ANSWERS = ("route_observations", "registrations", "heartbeats", "admin_events")
ROUTE_MISMATCHES = Table(
    "route_mismatches",
    "gold",
    "one answer that the replayed registry does not give at any instant between request and answer; should be empty",
    (
        NAMESRV_ID,
        required("event_id", STRING, "Answer, in route_observations"),
        required("code", INT, "Request code"),
        Column("subject", STRING, "Topic or cluster asked about"),
        required("request_time", TIMESTAMP, "When the request had arrived"),
        required("answer_time", TIMESTAMP, "When the answer left"),
        required(
            "classification",
            STRING,
            "mismatched, or the class that explains it: order_decision, unknown_past, unseen_broker (it shows brokers that "
            "nobody registered, and there were connections that cannot be read), removal_under_way, one_way_under_way "
            "(equal to the state before a removal that another thread makes, or before a one-way request, that had begun "
            "up to 100 ms before the question)",
        ),
        Column("decision_id", STRING, "Order decision that explains it"),
        Column("answered", STRING, "What the name server answered: header fields and body, each on a line, or remark"),
        Column("expected", STRING, "What the replayed registry says at the answer, likewise"),
        DAY,
    ),
    key=("day", "namesrv_id", "event_id"),
    made_by="verify",
    rules=(
        Rule("answered_that_day", is_day_of("answer_time"), "day is the UTC date of answer_time."),
        warn(
            "is_explained", "classification <> 'mismatched'", "The replayed registry gives every answer that was given."
        ),
        warn("answer_follows_question", "request_time <= answer_time", "An answer comes after its question."),
        reference(
            "answer_is_recorded",
            "Every event_id is in route_observations or, for a response, among the events.",
            f"""
            SELECT judged.day, judged.namesrv_id, judged.event_id, answers.event_id AS known
            FROM route_mismatches AS judged
            LEFT JOIN (
              SELECT DISTINCT event_id FROM ({union(_ANSWERS, "event_id")})
              SEMI JOIN route_mismatches USING (event_id)) AS answers
              ON answers.event_id = judged.event_id""",
        ),
        reference(
            "decision_is_recorded",
            "Every decision_id is in order_decisions.",
            """
            SELECT judged.day, judged.namesrv_id, judged.decision_id, decisions.decision_id AS known
            FROM route_mismatches AS judged
            LEFT JOIN (SELECT DISTINCT decision_id FROM order_decisions) AS decisions
              ON decisions.decision_id = judged.decision_id
            WHERE judged.decision_id IS NOT NULL""",
        ),
    ),
)
