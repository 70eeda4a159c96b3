"""The Python library: the questions of `ask` and the saved queries as methods that return tables."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from jobs.ask.changes import changes
from jobs.ask.engine import Answer, Answers, Known, described, nearest, query_named, time_of
from jobs.ask.instants import known_at
from jobs.cli.arguments import QUESTIONS
from jobs.cli.ask import questions_of
from jobs.cli.validate import warehouse_at
from jobs.errors import UsageError
from jobs.store.coverage import require_within
from schemas.queries import Query, queries

if TYPE_CHECKING:  # slow to import
    import pyarrow as pa

warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)  # as in namesrv_day.arrow
_MEMORY_MIB = 2048
# Left out are `prometheus`, which is only a format, and `query`: each saved query is a method of its own.
METHODS = {name.replace("-", "_"): asked for name, asked in QUESTIONS.items() if name not in ("prometheus", "query")}
METHODS["changes"] = (f"{METHODS['changes'][0]} (its id, an instant, or none for all)", ("since",))


class History:
    """A warehouse as of one run, also when later runs are published. One thread at a time.

    Each question of `ask` is a method of its name (`route_at`, `table_at`, `why`, `diff`, `findings`, `incidents`, `history`,
    `explain`, `changes`, `sql`). So is each saved query (`departures`, ...; or `query`); its parameters are given by name.
    `help` describes each. Instants are datetimes, UTC unless they have a zone, or texts as `ask` takes them. Recorded names are
    passed as values, never as SQL.
    """

    def __init__(self, warehouse: str, as_known_at: str | dt.datetime | None = None, frames: str = "arrow") -> None:
        if frames not in ("arrow", "pandas", "polars"):
            raise UsageError(f"frames {frames!r}: expected arrow, pandas or polars")
        self._frames, known = frames, None if as_known_at is None else known_at(str(as_known_at))
        self.answers = Answers(warehouse_at(warehouse), known, memory_mib=_MEMORY_MIB)

    @property
    def known(self) -> Known:
        """Return the run that is read as of: its id, its time of publication, the versions of its tables."""
        return self.answers.known

    def coverage(self) -> Any:
        """Return what is recorded and known of each name server, one row for each interval."""
        return self._framed(self.answers.table("SELECT * FROM coverage ORDER BY ALL"))

    def query(self, name: str, **values: Any) -> Any:
        """Return the answer of a saved query, even if a question has the same name. Raises UsageError for an unknown name."""
        return self._answered(*self.statement(query_named(name), **values))

    def changes(self, since: str | dt.datetime) -> Any:
        """Return the changes of runs after a cursor: a run's id, an instant, or "none" for all. `known.run_id` is the next cursor.

        `row` and `before` are the row now and before, as JSON. Raises NothingPublishedError for a run that is none.
        """
        import pyarrow as pa  # noqa: PLC0415  as above

        found = self.changed(since)
        times = ("published_time", "at")
        of = [(name, pa.timestamp("us", "UTC") if name in times else pa.string()) for name in found.names]
        return self._framed(pa.Table.from_pylist(found.dicts(), pa.schema(of)))

    def changed(self, since: str | dt.datetime) -> Answer:
        """Return the same changes, with rows that are read lazily."""
        return changes(self.answers, known_at(str(since)))[1]

    def statement(self, asked: str | Query, *values: Any, **named: Any) -> tuple[str, dict[str, Any]]:
        """Return the statement, in DuckDB's dialect, and the values of a saved query or question.

        Raises UsageError, NotRecordedError; TypeError for other arguments than it has.
        """
        present = {key: value for key, value in named.items() if value is not None}
        bound = _signature(asked).bind(*values, **present).arguments
        if not isinstance(bound.get("tables", False), bool):  # the text "false" would count as true
            raise UsageError(f"diff: tables is true or false, not {bound['tables']!r}")
        given = {key: value if key == "tables" else str(value) for key, value in bound.items()}
        found = list(questions_of(asked if isinstance(asked, Query) else asked.replace("_", "-"), given))
        if len(found) != 1:
            raise UsageError("sql: one statement, please")
        if isinstance(asked, Query):
            require_within(self.answers.coverage, *time_of(found[0][1]))
        return found[0]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *METHODS, *queries()})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in METHODS and name not in queries():
            raise AttributeError(f"no question {name!r}{nearest(name, [*METHODS, *queries()])}")

        asked = name if name in METHODS else query_named(name)

        def ask(*values: Any, **named: Any) -> Any:
            return self._answered(*self.statement(asked, *values, **named))

        ask.__name__ = name
        ask.__doc__ = described(asked) if isinstance(asked, Query) else f"Return {METHODS[asked][0]}."
        ask.__signature__ = _signature(asked)  # type: ignore[attr-defined]
        return ask

    def _answered(self, sql: str, values: Mapping[str, Any]) -> Any:
        found = self.answers.table(sql, **values)
        rows = (row.values() for batch in found.to_batches(1_000) for row in batch.to_pylist())
        if remark := self.answers.remark(values, rows):
            warnings.warn(remark, stacklevel=3)
        return self._framed(found)

    def _framed(self, found: pa.Table) -> Any:
        import pyarrow as pa  # noqa: PLC0415  as above

        # DuckDB's sums have 128 bits, which Arrow has only as decimals.
        for at, field in enumerate(found.schema):
            if pa.types.is_decimal(field.type) and field.type.scale == 0:
                with suppress(pa.ArrowInvalid):  # wider than 64 bits: stays a decimal
                    found = found.set_column(at, field.name, found.column(at).cast(pa.int64()))
        if self._frames == "pandas":
            return found.to_pandas()
        if self._frames == "polars":
            try:
                import polars as pl  # noqa: PLC0415  optional
            except ModuleNotFoundError as error:
                raise UsageError("frames 'polars': polars is not installed") from error
            return pl.from_arrow(found)
        return found


def _signature(asked: str | Query) -> Signature:
    """Return the signature: a question's arguments, in order, or a saved query's parameters, by name."""
    if isinstance(asked, str):
        given = [Parameter(one, Parameter.POSITIONAL_OR_KEYWORD) for one in METHODS[asked][1]]
        tables = Parameter("tables", Parameter.KEYWORD_ONLY, default=False)
        return Signature([*given, tables] if asked == "diff" else given)
    defaults = {one.name: Parameter.empty if one.default is None else None for one in asked.parameters}
    return Signature([Parameter(of, Parameter.KEYWORD_ONLY, default=default) for of, default in defaults.items()])
