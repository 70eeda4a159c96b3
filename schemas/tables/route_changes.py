"""The table route_changes: one change of a topic's route as clients see it."""

from __future__ import annotations

from schemas.table import DAY_OF_EFFECT, Table, columns, known_event, query, rules

ROUTE_CHANGES = Table(
    "route_changes",
    "gold",
    "one change of a topic's route as clients see it",
    columns("""
        namesrv_id
        topic* STRING: Topic
        seq* BIGINT: Position of the event that changed it
        effect_time* TIMESTAMP: When it changed
        caused_by* STRING: event_id that changed it
        change* STRING: appeared, changed, vanished, or learned (an answer showed a state that had begun earlier)
        parts ARRAY<STRUCT<part: STRING, name: STRING, text: STRING>>: Parts that differ from the route before; all parts of a
            route that appeared or vanished
        groups_before* INT: Groups in the route before; 0: there was no route
        groups_after* INT: Groups in the route after; 0: there is no route
        length_before* BIGINT: Characters of the route before as JSON
        length_after* BIGINT: Characters of the route after as JSON
        day
    """),
    key=("day", "namesrv_id", "topic", "seq"),
    made_by="flags",
    rules=(
        DAY_OF_EFFECT,
        *rules("""
            change_is_what_it_says: A route appeared from nothing, vanished into nothing, changed, or was learned.
                CASE change WHEN 'appeared' THEN groups_before = 0 AND groups_after > 0
                            WHEN 'vanished' THEN groups_before > 0 AND groups_after = 0
                            WHEN 'changed' THEN groups_before > 0 AND groups_after > 0
                            WHEN 'learned' THEN TRUE
                            ELSE FALSE END
            route_differs: A change names what differs.
                coalesce(len(parts), 0) > 0
            parts_are_json: Parts of routes are JSON.
                len(list_filter(parts, lambda p: p.text IS NOT NULL AND NOT json_valid(
                CASE WHEN p.part IN ('filterServerTable', 'topicQueueMappingByBroker') THEN '{' || p.text || '}'
                ELSE p.text END))) = 0
        """),
        query(
            "changes_follow_on",
            "is_last OR (next_groups, next_length) = (groups_after, length_after)",
            "A change begins with the route that the change before it left.",
            """
            SELECT day, namesrv_id, topic, seq, groups_after, length_after,
                   lead(groups_before) OVER topic_of_day AS next_groups,
                   lead(length_before) OVER topic_of_day AS next_length,
                   lead(seq) OVER topic_of_day IS NULL AS is_last
            FROM route_changes
            WINDOW topic_of_day AS (PARTITION BY day, namesrv_id, topic ORDER BY seq)""",
        ),
        known_event("route_changes", "caused_by"),
    ),
)
