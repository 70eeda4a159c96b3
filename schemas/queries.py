"""Saved queries: questions that people ask of a registry's history, each a file of `schemas/sql/queries`, in Spark's dialect.

A file begins with comments: the question; `group:`; a line for each parameter, `parameter NAME TYPE: what it is`, with
`= default` behind the type if it need not be given; a line for each column of the answer, `column NAME: what it is`, in its order;
perhaps `unknown:`, what no source can tell. Of usual ones the names alone stand behind `parameters:` and `columns:`. Parameters
stand as `:name` in the statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from schemas.sql_files import with_shared

FOLDER = Path(__file__).parent / "sql" / "queries"
GROUPS = (
    "availability",
    "liveness",
    "name servers that disagree",
    "identity and roles",
    "permissions",
    "topics",
    "versions, load and audit",
)
_PARAMETER = re.compile(
    r"parameter (?P<name>\w+) (?P<type>STRING|TIMESTAMP|INT)(?: = (?P<default>\S+))?: (?P<comment>.+)"
)
_COLUMN = re.compile(r"column (?P<name>\w+): (?P<comment>.+)")
_USUAL = {
    line.split(maxsplit=2)[1].rstrip(":"): line
    for line in (
        "parameter broker STRING = NULL: only this broker name",
        "parameter since TIMESTAMP = NULL: start of the time range",
        "parameter until TIMESTAMP = NULL: end of the time range, exclusive",
        "column namesrv_id: name server",
        "column topic: topic",
        "column broker_name: broker name",
        "column broker_addr: broker address",
        "column effect_time: when",
        "column from_time: start",
        "column to_time: end, exclusive; NULL = not over",
        "column lasted_ms: milliseconds; NULL = not over",
        "column operation: what that event was",
        "column outcome: what became of it",
        "column event_id: event that did it",
        "column closed_by: event that ended it",
        "column source_file: file in which it is recorded; NULL for a scan",
        "column source_offset: packet or line in that file",
    )
}
"""The lines of parameters and columns that many queries have, by name."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a query is asked for; `default`: its value where none is given, NULL for none; None: it must be given."""

    name: str
    type: str
    comment: str
    default: str | None

    @property
    def described(self) -> str:
        """Return the comment, with the default of what need not be given; NULL leaves nothing out."""
        if self.default is None:
            return self.comment
        return f"{self.comment} (default: {'all' if self.default == 'NULL' else self.default})"


@dataclass(frozen=True, slots=True)
class Query:
    """A saved query: its question in words, its parameters, the columns of its answer with comments, its statement."""

    name: str
    question: str
    group: str
    parameters: tuple[Parameter, ...]
    columns: dict[str, str]
    unknown: str | None
    sql: str


@cache
def queries() -> dict[str, Query]:
    """Return all queries by name, in the order of their groups."""
    found = [_read(path) for path in sorted(FOLDER.glob("*.sql"))]
    return {query.name: query for query in sorted(found, key=lambda one: (GROUPS.index(one.group), one.name))}


def _read(path: Path) -> Query:
    """Return the query of a file. Raises ValueError or KeyError for a header that is not as it should be."""
    lines = with_shared(path.read_text(encoding="utf-8")).splitlines()
    head = list(takewhile(lambda line: line.startswith("--"), lines))
    words: list[str] = []
    parameters: list[Parameter] = []
    columns: dict[str, str] = {}
    said: dict[str, str] = {}
    for line in (one for text in head for one in _in_full(text[2:].strip())):
        parameter, column = _PARAMETER.fullmatch(line), _COLUMN.fullmatch(line)
        key, _, value = line.partition(": ")
        if parameter:
            parameters.append(Parameter(**parameter.groupdict()))
        elif column:
            columns[column["name"]] = column["comment"]
        elif key in ("group", "unknown"):
            said[key] = value
        elif line:
            words.append(line)
    if said.get("group") not in GROUPS or not words or not columns:
        raise ValueError(f"{path.name}: the header lacks a question, a known group or columns")
    sql = "\n".join(lines[len(head) :]) + "\n"
    return Query(path.stem, " ".join(words), said["group"], tuple(parameters), columns, said.get("unknown"), sql)


def _in_full(line: str) -> list[str]:
    """Return a line of a header, or those for which it stands."""
    kind, _, names = line.partition(": ")
    return [_USUAL[name] for name in names.split(", ")] if kind in ("parameters", "columns") else [line]


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
