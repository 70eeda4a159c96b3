"""Changes made by runs: intervals that began, ended, were restated or withdrawn, run by run.

Reads   of each interval table the data files that only one of two successive runs has pinned
Gives   each change of a run once, with an id that is the same in every answer
"""

# ruff: noqa: S608  the SQL is made of names in this package, and of files as `names.reading` quotes them

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from jobs.ask.engine import Answer, Answers, Known
from jobs.errors import (
    EXIT_UNTOLD,
    NoLongerReadableError,
    NothingPublishedError,
    PublishedError,
    UsageError,
    first_line,
    nobody,
)
from jobs.store.coverage import text_of
from schemas import asked

COLUMNS: Final = ["change_id", "run_id", "published_time", "table_name", "change", "namesrv_id", "at", "row", "before"]
"""`change`: opened, closed, restated or withdrawn; `at`: when the row began, or ended; `row`, `before`: as JSON, now and before."""
NOTHING: Final = "none"
"""The cursor in front of the first run."""
_RUNS = """
    SELECT run_id, finished_time, versions, digests FROM runs_committed WHERE status = 'published' AND finished_time <= $until
    ORDER BY finished_time, run_id"""
# As all answers have instants; `to_json` alone gives a form of its own.
_INSTANT = "replace(strftime(t.{}, '%Y-%m-%dT%H:%M:%S.%fZ'), '.000000Z', 'Z')"
# Each run has at most one row of a key.
_CHANGES: Final = """
    SELECT md5(concat_ws('|', $run, table_name, change, now, was)) AS change_id, $run AS run_id, $published AS published_time,
        table_name, change, namesrv_id, if(change = 'closed', ends, begins) AS "at", now AS "row", was AS before
    FROM (
        SELECT table_name, namesrv_id, now, was, coalesce(begins, began) AS begins, ends, unnest(CASE
            WHEN now IS NULL THEN ['withdrawn']
            WHEN was IS NULL AND ends IS NULL THEN ['opened']
            WHEN was IS NULL THEN ['opened', 'closed']
            WHEN ended IS NULL AND ends IS NOT NULL THEN ['closed']
            ELSE ['restated'] END) AS change
        FROM (
            SELECT table_name, namesrv_id, max(text) FILTER (is_now) AS now, max(text) FILTER (NOT is_now) AS was,
                max(begins) FILTER (is_now) AS begins, max(begins) FILTER (NOT is_now) AS began,
                max(ends) FILTER (is_now) AS ends, max(ends) FILTER (NOT is_now) AS ended
            FROM ({rows})
            GROUP BY table_name, namesrv_id, key
        )
    )
    ORDER BY "at", table_name, change DESC, change_id"""


def changes(
    answers: Answers, since: str | dt.datetime, share: Callable[[int, int], None] = nobody
) -> tuple[str, Answer]:
    """Return the cursor of the next call, and the changes of all runs after `since`: a run, an instant, or `NOTHING`.

    `share` receives the number of runs compared, and of how many. If maintenance has made a run unreadable, its changes are part
    of the next readable run's. Raises NothingPublishedError for an unknown run; NoLongerReadableError if the run to compare with
    first is no longer readable.
    """
    runs = [Known(*row) for row in answers.ask(_RUNS, until=answers.known.finished_time).rows]
    if isinstance(since, dt.datetime):
        behind = [run for run in runs if run.finished_time > since]
    elif since == NOTHING:
        behind = runs
    else:
        at = next((at for at, run in enumerate(runs) if run.run_id == since), None)
        if at is None:
            raise NothingPublishedError(f"{since}: no published run of {answers.warehouse}")
        behind = runs[at + 1 :]
    first = runs[-len(behind) - 1] if len(behind) < len(runs) else None
    if first is not None and behind:
        answers.require_kept(first.run_id, first.versions)
    return runs[-1].run_id, Answer(COLUMNS, _rows(answers, first, behind, share))


def lines(found: Answer) -> Iterator[str]:
    """Yield changes as JSON objects, one a line."""
    for change in objects(found):
        yield json.dumps(change, ensure_ascii=False, default=text_of) + "\n"


def objects(found: Answer) -> Iterator[dict[str, Any]]:
    """Yield changes as dicts by column name; their `row` and `before` are dicts, too."""
    for row in found.rows:
        change = dict(zip(found.names, row, strict=True))
        yield change | {name: None if change[name] is None else json.loads(change[name]) for name in ("row", "before")}


def _rows(
    answers: Answers, before: Known | None, behind: Sequence[Known], share: Callable[[int, int], None]
) -> Iterator[tuple[Any, ...]]:
    for number, run in enumerate(behind):
        share(number, len(behind))
        with suppress(NoLongerReadableError):
            answers.require_kept(run.run_id, run.versions)
            names = (name for name, table in asked.stored().items() if table.has_intervals)
            if parts := [part for name in names for part in _parts(answers, name, before, run)]:
                sql = _CHANGES.format(rows=" UNION ALL ".join(parts))
                yield from answers.ask(sql, run=run.run_id, published=run.finished_time).rows
            before = run


def _parts(answers: Answers, name: str, before: Known | None, run: Known) -> Iterator[str]:
    """Yield the SQL of the rows of a table that one of two runs has more often than the other, if they differ."""
    was, now = (None if of is None else of.versions.get(name) for of in (before, run))
    if was == now:
        return
    table = asked.stored()[name]
    types = {column: of for column, of in table.columns.items() if column != "closed_month"}
    columns = ", ".join(types)
    fields = ", ".join(
        f"'{of}': {_INSTANT.format(of) if types[of].startswith('TIMESTAMP') else f't.{of}'}" for of in types
    )
    begins, ends = ("from_time", "to_time") if "from_time" in table.columns else ("valid_from", "valid_to")
    # The end of a finding adds to its evidence.
    keys = ("evidence[1:t.begun_with]" if column == "evidence" else column for column in table.key)
    key = ", ".join(f"to_json(t.{of})" for of in keys)
    sources = {"1": answers.rows_at(name, now, was), "-1": answers.rows_at(name, was, now)}
    rows = [f"SELECT t, {more} AS more FROM (SELECT {columns} FROM {of}) AS t" for more, of in sources.items() if of]
    if not rows:
        return
    differ = f"SELECT t, sum(more) AS more FROM ({' UNION ALL '.join(rows)}) GROUP BY t HAVING sum(more) <> 0"
    yield f"""
        SELECT '{name}' AS table_name, t.namesrv_id AS namesrv_id, CAST(to_json([{key}]) AS VARCHAR) AS key,
            t.{begins} AS begins, t.{ends} AS ends, CAST(to_json({{{fields}}}) AS VARCHAR) AS text, more > 0 AS is_now
        FROM ({rows[0] if len(rows) == 1 else differ})"""


class Hook:
    """The receiver of changes after each published run: a command, which gets JSON lines on standard input, or a file.

    The last run delivered is noted below the warehouse. If a run dies before or during its delivery, the next run delivers its
    changes again, with the same ids. A file still gets each line once, because the start of a delivery is noted, too. While one
    run delivers, another one waits: its changes come behind.
    """

    def __init__(self, warehouse: str, target: str) -> None:
        """`target`: a command, or `>>` and the name of a file to append to. Raises UsageError for neither."""
        import hashlib  # noqa: PLC0415  most callers have no hook

        self._warehouse, self._target = warehouse, target
        try:
            self._words = shlex.split(target)
        except ValueError as error:
            raise UsageError(f"--after-publish {target}: {error}") from error
        if not self._words or self._words == [">>"]:
            raise UsageError("--after-publish: a command, or >> and a file, expected")
        name = hashlib.sha256(target.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._place = f"{warehouse}/internal/told/{name}.json"
        if "://" not in warehouse:
            Path(self._place).parent.mkdir(parents=True, exist_ok=True)
        self._read()

    def begin(self, last_run: str | None) -> None:
        """Note, before the hook's first run, the last published run: later changes are delivered."""
        if self.delivered is None:
            self._note(last_run or NOTHING)

    def tell(self) -> int:
        """Deliver the pending changes, note that, and return their number. Raises PublishedError if the delivery fails."""
        with ExitStack() as held:
            if "://" not in self._warehouse:  # in an object store there is no lock, as for runs (`places.locked`)
                fcntl.flock(held.enter_context(Path(f"{self._place}.lease").open("a")), fcntl.LOCK_EX)
            self._read()
            return self._deliver()

    def _deliver(self) -> int:
        try:
            answers = Answers(self._warehouse)
        except NothingPublishedError:
            return 0
        try:
            cursor, found = changes(answers, self.delivered or NOTHING)
        except (NothingPublishedError, NoLongerReadableError) as error:
            raise PublishedError(
                f"--after-publish: the last run whose changes were delivered is gone: {first_line(error)}. This run is published. "
                f"To go on with the changes of later runs, delete {self._place}",
                EXIT_UNTOLD,
            ) from error
        if cursor == self.delivered:
            return 0
        try:
            count = self._send(lines(found))
        except (OSError, subprocess.SubprocessError) as error:
            raise PublishedError(
                f"--after-publish: {first_line(error).rstrip('.')}. The run is published; the next run with this command tells "
                f"its changes again (for another one: ask changes --since {self.delivered})",
                EXIT_UNTOLD,
            ) from error
        self._note(cursor)
        return count

    def _send(self, changed: Iterator[str]) -> int:
        count = 0
        if self._target.startswith(">>"):
            with Path(self._target[2:].strip()).open("a+b") as file:
                size = file.seek(0, os.SEEK_END)
                if self._began is None:
                    self._note(self.delivered or NOTHING, size)
                file.seek(min(self._began or 0, size))
                there, at = file.read(), 0  # lines of a delivery that died; the last one may be cut
                for data in map(str.encode, changed):
                    count += 1
                    if there.startswith(data, at):
                        at += len(data)
                        continue
                    rest = there[at:]
                    file.write(data.removeprefix(rest) if data.startswith(rest) else data)
                    there, at = b"", 0
                file.flush()
                os.fsync(file.fileno())
            return count
        process = subprocess.Popen(self._words, stdin=subprocess.PIPE, text=True, encoding="utf-8")  # noqa: S603  the user's own command
        with suppress(BrokenPipeError), process:  # the command may stop reading early: its exit code decides
            for line in changed:
                process.stdin.write(line)  # type: ignore[union-attr]
                count += 1
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, self._words[0])
        return count

    def _read(self) -> None:
        from jobs.store.places import read_text  # noqa: PLC0415  imports Arrow, which `ask` does not need

        noted = json.loads(read_text(self._place) or "{}")
        self.delivered: str | None = noted.get("run_id")
        self._began: int | None = noted.get("began")

    def _note(self, run_id: str, began: int | None = None) -> None:
        from jobs.store.places import write_text  # noqa: PLC0415  as above

        write_text(self._place, json.dumps({"target": self._target, "run_id": run_id, "began": began}) + "\n")
        self.delivered, self._began = run_id, began
