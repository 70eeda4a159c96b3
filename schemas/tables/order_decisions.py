"""The table order_decisions: chosen orders of events whose order the wire does not show."""

from __future__ import annotations

from schemas.table import DAY_OF_EFFECT, Table, columns, is_hex, rules

ORDER_DECISIONS = Table(
    "order_decisions",
    "gold",
    "one group of events whose order the wire does not show, with the order chosen",
    columns("""
        namesrv_id
        decision_id* STRING: Deterministic id, 32 hex digits
        kind* STRING: register_and_close (a request without response, and the end of its connection or of its broker name's),
            removal_and_registration (a broker's new registration while its old connection ends, or its unregistration waits),
            overlapping_requests,
            ends_of_shared_channel (a connection of several brokers ends: each event removes one of them, or the same one again)
        effect_time* TIMESTAMP: When the events took effect
        channel_ids* ARRAY<STRING>: Connections concerned
        event_ids* ARRAY<STRING>: event_ids of the events, in the default order
        alternatives* ARRAY<STRING>: Possible orders in words, the default first
        chosen* INT: Index of the chosen alternative, from 0
        answers_for* BIGINT: Answers that only the chosen order explains; answers are examined until one decides
        answers_against* BIGINT: Answers that only another order explains, of those examined
        evidence_for* ARRAY<STRING>: event_ids of the answers that only the chosen order explains
        evidence_against* ARRAY<STRING>: event_ids of the answers that only another order explains
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
