"""What people ask of the history, with SQL that answers it on the capture v4-lifecycle.

The capture shows a 4.9.7 name server with four brokers from 2026-11-21 08:54:27 to 09:06:39 UTC.
"""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """A question in words and the SQL that answers it."""

    text: str
    sql: str


QUESTIONS = (
    Question(
        "Which topics had no writable queue between 08:56 and 08:59, since when, and which event did it?",
        """
        SELECT orphan.topic, orphan.valid_from, orphan.valid_to, outcome.operation, outcome.broker_name, orphan.opened_by
        FROM orphaned_topics AS orphan
        LEFT JOIN event_outcomes AS outcome
            ON outcome.namesrv_id = orphan.namesrv_id AND outcome.event_id = orphan.opened_by
        WHERE orphan.reason = 'no_writable_queue'
            AND orphan.valid_from < TIMESTAMP'2026-11-21 08:59:00'
            AND (orphan.valid_to IS NULL OR orphan.valid_to > TIMESTAMP'2026-11-21 08:56:00')
        ORDER BY orphan.valid_from, orphan.topic
        """,
    ),
    Question(
        "What was in topicQueueTable for TopicA at 08:58:00, and which event put it there?",
        """
        SELECT namesrv_id, broker_name, read_queue_nums, write_queue_nums, perm, valid_from, opened_by
        FROM topic_queue_table_at(TIMESTAMP'2026-11-21 08:58:00')
        WHERE topic = 'TopicA'
        ORDER BY namesrv_id, broker_name
        """,
    ),
    Question(
        "Which brokers fell silent, how and how late were they removed, and when were they back?",
        """
        SELECT broker_name, broker_addr, cause, last_beat_time, removed_time, detection_lag_ms, returned_time,
            size(topics_lost) AS topics_lost
        FROM expired_brokers
        ORDER BY namesrv_id, removed_time, broker_addr
        """,
    ),
)
