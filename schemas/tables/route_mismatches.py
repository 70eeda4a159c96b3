"""The table route_mismatches: answers that the replayed registry does not give."""

from __future__ import annotations

from schemas.table import Table, columns, is_day_of, reference, rules, union

_ANSWERS = ("route_observations", "registrations", "heartbeats", "admin_events")
ROUTE_MISMATCHES = Table(
    "route_mismatches",
    "gold",
    "one answer that the replayed registry does not give at any instant between request and answer; should be empty",
    columns("""
        namesrv_id
        event_id* STRING: event_id of the answer in route_observations, or of the event whose response it is
        code* INT: Request code
        subject STRING: Topic or cluster asked about
        request_time* TIMESTAMP: When the request had arrived
        answer_time* TIMESTAMP: When the answer left
        classification* STRING: mismatched, or the class that explains it: order_decision; unknown_past; unseen_broker (the
            answer shows brokers without a recorded registration, and some connections are unreadable); removal_under_way or
            one_way_under_way (the answer equals the state before a removal in another thread, or before a one-way request,
            that began up to 100 ms before the question); changes_under_way (several requests were answered in between: each
            broker is shown as at some instant between question and answer, but not all as at the same instant)
        decision_id STRING: Order decision that explains it; NULL if none
        answered STRING: Recorded answer: header fields and body, each on a line, or remark
        expected STRING: Answer of the replayed registry at the time of the answer, likewise
        day
    """),
    key=("day", "namesrv_id", "event_id"),
    made_by="verify",
    rules=(
        *rules(f"""
            answered_that_day: day is the UTC date of answer_time.
                {is_day_of("answer_time")}
            is_explained?: The replayed registry gives every answer that was given.
                classification <> 'mismatched'
            answer_follows_question?: An answer comes after its question.
                request_time <= answer_time
        """),
        reference(
            "answer_is_recorded",
            "Every event_id is in route_observations or, for a response, among the events.",
            f"""
            SELECT checked.day, checked.namesrv_id, checked.event_id, answers.event_id AS known
            FROM route_mismatches AS checked
            LEFT JOIN (
              SELECT DISTINCT event_id FROM ({union(_ANSWERS, "event_id")})
              SEMI JOIN route_mismatches USING (event_id)) AS answers
              ON answers.event_id = checked.event_id""",
        ),
        reference(
            "decision_is_recorded",
            "Every decision_id is in order_decisions.",
            """
            SELECT checked.day, checked.namesrv_id, checked.decision_id, decisions.decision_id AS known
            FROM route_mismatches AS checked
            LEFT JOIN (SELECT DISTINCT decision_id FROM order_decisions) AS decisions
              ON decisions.decision_id = checked.decision_id
            WHERE checked.decision_id IS NOT NULL""",
        ),
    ),
)
