"""The table route_changes: one change of a topic's route as clients see it."""

from __future__ import annotations

from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import DAY_OF_EFFECT, known_event, query
from schemas.table import INT, LONG, STRING, TIMESTAMP, Column, Rule, Table, list_of, required, struct_of

ROUTE_PART = struct_of(part=STRING, name=STRING, text=STRING)
"""A part of a route: field of its JSON, whose part it is (broker name or address), its JSON now (NULL: it is no more)."""
ROUTE_CHANGES = Table(
    "route_changes",
    "gold",
    "one change of a topic's route as clients see it",
    (
        NAMESRV_ID,
        required("topic", STRING, "Topic"),
        required("seq", LONG, "Position of the event that changed it"),
        required("effect_time", TIMESTAMP, "When it changed"),
        required("caused_by", STRING, "event_id that changed it"),
        required(
            "change",
            STRING,
            "appeared, changed, vanished, or learned: an answer or a snapshot showed what had been so before",
        ),
        Column(
            "parts", list_of(ROUTE_PART), "What differs from the route before; of a route that came or went, all of it"
        ),
        required("groups_before", INT, "Groups in the route before; 0: there was none"),
        required("groups_after", INT, "Groups in the route after; 0: there is none"),
        required("length_before", LONG, "Characters of the route before as JSON, likewise"),
        required("length_after", LONG, "Characters of the route after"),
        DAY,
    ),
    key=("day", "namesrv_id", "topic", "seq"),
    made_by="flags",
    shows_changes=True,
    rules=(
        DAY_OF_EFFECT,
        Rule(
            "change_is_what_it_says",
            """CASE change WHEN 'appeared' THEN groups_before = 0 AND groups_after > 0
                           WHEN 'vanished' THEN groups_before > 0 AND groups_after = 0
                           WHEN 'changed' THEN groups_before > 0 AND groups_after > 0
                           WHEN 'learned' THEN TRUE
                           ELSE FALSE END""",
            "A route appeared from nothing, vanished into nothing, changed from one to another, or was learned.",
        ),
        Rule("route_differs", "coalesce(len(parts), 0) > 0", "A change names what differs."),
        Rule(
            "parts_are_json",
            """len(list_filter(parts, lambda p: p.text IS NOT NULL AND NOT json_valid(
                   CASE WHEN p.part IN ('filterServerTable', 'topicQueueMappingByBroker') THEN '{' || p.text || '}'
                        ELSE p.text END))) = 0""",
            "Parts of routes are JSON.",
        ),
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
