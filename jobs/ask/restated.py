"""What an earlier report said of a table at an instant, what is said now, and which late events made the difference."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from jobs.ask.engine import Answer, Answers
from schemas import asked

_SAID = ("said", "changed_by", "changed_time", "cause", "late_events")
_GONE = "SELECT {columns}, r.closed_by, r.valid_to FROM {history} AS r WHERE r.valid_to <= $t ORDER BY r.valid_to"
_RESTATED = """
    SELECT r.namesrv_id, string_agg(DISTINCT r.cause, ', ' ORDER BY r.cause), flatten(list(r.event_ids ORDER BY r.day))
    FROM restatements AS r JOIN runs USING (run_id)
    WHERE runs.finished_time > $then AND r.table_name = $history AND r.cause <> 'earlier_day' AND r.day <= CAST($t AS DATE)
    GROUP BY r.namesrv_id"""


def restated(then: Answers, now: Answers, function: str, t: dt.datetime) -> Answer:
    """Return the rows that only one of two reports has in a table at `t`, each with what changed it.

    `function`: gives the table at an instant. `said`: `then` or `now`; `changed_by`: the event that, as is known now, put the
    row or took it away; `cause` and `late_events`: why this day or one before it was published anew, and the first of the events
    that came after the earlier report.
    """
    sql = f"SELECT * EXCLUDE (known, coverage) FROM {function}($t) WHERE opened_by IS NOT NULL ORDER BY ALL"  # noqa: S608  a name of ours
    (names, old), (_, new) = ((found.names, list(found.rows)) for found in (of.ask(sql, t=t) for of in (then, now)))
    history = function.replace("_table_at", "_history")
    # A history's key stands behind the name server.
    key = list(asked.stored()[history].columns)[:3]
    at = [names.index(name) for name in key]
    # By key which event took the last row away until `t`, and when.
    columns = ", ".join(f"r.{name}" for name in key)
    gone = {row[:-2]: row[-2:] for row in now.ask(_GONE.format(columns=columns, history=history), t=t).rows}
    known = {tuple(row[i] for i in at): (row[names.index("opened_by")], row[names.index("valid_from")]) for row in new}
    late = {row[0]: row[1:] for row in now.ask(_RESTATED, then=then.known.finished_time, history=history, t=t).rows}

    def told() -> Iterator[tuple[Any, ...]]:
        both = set(map(repr, old)) & set(map(repr, new))
        rows = [(said, row) for said, of in (("then", old), ("now", new)) for row in of if repr(row) not in both]
        for said, row in sorted(rows, key=lambda one: ([str(one[1][i]) for i in at], one[0] == "now")):
            of = tuple(row[i] for i in at)
            yield said, *(known.get(of) or gone.get(of) or (None, None)), *late.get(of[0], (None, None)), *row

    return Answer([*_SAID, *names], told())
