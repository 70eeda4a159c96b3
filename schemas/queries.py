"""Saved queries: questions that people ask of a registry's history, in Spark's dialect.

Each is a file of `schemas/sql/queries`, in the folder of its group, with a head as `schemas.sql_files` has it: what it asks, its
parameters, which stand as `:name` in the statement, the columns of its answer.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from schemas.sql_files import Said, headed, with_shared

FOLDER = Path(__file__).parent / "sql" / "queries"
GROUPS = {
    "availability": "availability",
    "liveness": "liveness",
    "disagreement": "name servers that disagree",
    "identity": "identity and roles",
    "permissions": "permissions",
    "topics": "topics",
    "versions": "versions, load and audit",
}
"""What groups are called, by folder, in their order."""


class Query(NamedTuple):
    """A saved query: its question in words, its parameters, the columns of its answer with comments, its statement."""

    name: str
    question: str
    group: str
    parameters: tuple[Said, ...]
    columns: dict[str, str]
    sql: str


@cache
def queries() -> dict[str, Query]:
    """Return all queries by name, by group. Raises ValueError or KeyError for a head that is not as it should be."""
    found = [_read(path, group) for folder, group in GROUPS.items() for path in sorted((FOLDER / folder).glob("*.sql"))]
    return {query.name: query for query in found}


def _read(path: Path, group: str) -> Query:
    found = headed(with_shared(path.read_text(encoding="utf-8")))
    if not found.words or not found.columns:
        raise ValueError(f"{path.name}: the head lacks a question, or columns")
    columns = {column.name: column.comment for column in found.columns}
    return Query(path.stem, found.words, group, found.parameters, columns, found.sql)


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
