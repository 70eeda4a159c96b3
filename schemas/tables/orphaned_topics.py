"""The table orphaned_topics: intervals in which a topic was routed but could not be served as its route says."""

from __future__ import annotations

from schemas.table import (
    CLOSED_MONTH,
    INTERVAL_DOES_NOT_RUN_BACK,
    LIVES_IN_ITS_SLICE,
    Table,
    columns,
    is_one_of,
    known_event,
    query,
    rules,
)

_OR_REGISTRATION = " UNION ALL SELECT day, namesrv_id, event_id FROM registrations"
_REASONS = ("no_broker_address", "no_live_broker", "no_master", "no_writable_queue", "residual", "stale_order_conf")
ORPHANED_TOPICS = Table(
    "orphaned_topics",
    "gold",
    "one interval in which a topic was routed but could not be served as its route says",
    columns("""
        namesrv_id
        topic* STRING: Topic
        broker_name STRING: residual: broker name; NULL for reasons that concern the whole topic
        reason* STRING: no_broker_address, no_live_broker, no_master, no_writable_queue, residual (no longer reported),
            stale_order_conf
        valid_from* TIMESTAMP: Start, inclusive
        valid_to TIMESTAMP: End, exclusive; NULL = open
        opened_by* STRING: event_id that began it
        closed_by STRING: event_id that ended it; NULL = open
    """),
    key=("namesrv_id", "topic", "broker_name", "reason", "valid_from", "opened_by"),
    partition_by=(CLOSED_MONTH,),
    made_by="flags",
    rules=(
        *rules(f"""
            reason_is_known: The reason is one of: {", ".join(_REASONS)}.
                {is_one_of("reason", _REASONS)}
            residual_names_the_broker: residual rows name the broker.
                reason <> 'residual' OR broker_name IS NOT NULL
            closes_whole: A closed interval has valid_to and closed_by.
                (valid_to IS NULL) = (closed_by IS NULL)
        """),
        INTERVAL_DOES_NOT_RUN_BACK,
        LIVES_IN_ITS_SLICE,
        query(
            "does_not_overlap",
            "next_from IS NULL OR (valid_to IS NOT NULL AND valid_to <= next_from)",
            "Intervals of one topic, broker and reason do not overlap.",
            """
            SELECT day, namesrv_id, topic, broker_name, reason, valid_from, valid_to,
                   lead(valid_from) OVER (
                     PARTITION BY day, namesrv_id, topic, broker_name, reason
                     ORDER BY valid_from, valid_to NULLS LAST) AS next_from
            FROM orphaned_topics""",
        ),
        # A registration that changes no row may still begin or end a residual topic, because it lists the broker's topics.
        known_event("orphaned_topics", "opened_by", "CAST(checked.valid_from AS DATE) = checked.day", _OR_REGISTRATION),
        known_event("orphaned_topics", "closed_by", also=_OR_REGISTRATION),
    ),
)
