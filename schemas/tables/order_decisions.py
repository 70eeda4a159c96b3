"""The table order_decisions: events whose order the wire does not show."""

from __future__ import annotations

from schemas.table import DAY_OF_EFFECT, Table, columns, is_hex, rules

ORDER_DECISIONS = Table(
    "order_decisions",
    "gold",
    "events whose order the wire does not show",
    columns("""
        namesrv_id
        decision_id* STRING: Deterministic id, 32 hex digits
        kind* STRING: register_and_close (a request without response on a connection that closes at once),
            removal_and_registration (a broker's new registration while its old connection ends, or its unregistration waits),
            overlapping_requests,
            ends_of_shared_channel (each event of its end takes down one of the brokers of a connection, or the same one again)
        effect_time* TIMESTAMP: When
        channel_ids* ARRAY<STRING>: Connections concerned
        event_ids* ARRAY<STRING>: The events, in the default order
        alternatives* ARRAY<STRING>: The orders in words, the default first
        chosen* INT: Which alternative was taken, from 0
        answers_for* BIGINT: Answers that only the chosen order explains, of those looked at until one decided
        answers_against* BIGINT: Answers of these that only another order explains
        evidence_for* ARRAY<STRING>: Those answers (event ids)
        evidence_against* ARRAY<STRING>: The answers that only another order explains (event ids)
        day
    """),
    key=("day", "namesrv_id", "decision_id"),
    made_by="settle",
    rules=(
        DAY_OF_EFFECT,
        *rules(f"""
            decision_id_is_a_digest: decision_id is 32 hex digits.
                {is_hex("decision_id", 32)}
            chosen_is_an_alternative: chosen is one of the alternatives.
                chosen >= 0 AND chosen < len(alternatives)
            there_is_a_choice: A decision has two alternatives or more.
                len(alternatives) >= 2 AND len(event_ids) >= 1
            answers_are_counted: Counts of answers are 0 or more.
                answers_for >= 0 AND answers_against >= 0
            answers_agree?: More answers speak for the chosen order than against it.
                answers_against <= answers_for
        """),
    ),
)
