"""A day's answers for the core, which holds the orders of a race against them: most days have none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.verification import Observed
from namesrv_day.arrow.rows import distinct, rows_of
from namesrv_day.day.day_events import observation_rows
from schemas import codec

_PLACE = ("event_id", "request_seq", "seq")


class Observations(Sequence[Observed]):
    """The answers in order of (seq, event_id). They are made when the first is asked for; of a day there are millions."""

    def __init__(self, rows: pa.Table) -> None:
        """`rows`: of `route_observations`, in any order."""
        self._rows = rows

    def __len__(self) -> int:
        return len(self._observed)

    @overload
    def __getitem__(self, at: int) -> Observed: ...

    @overload
    def __getitem__(self, at: slice) -> list[Observed]: ...

    def __getitem__(self, at: int | slice) -> Observed | list[Observed]:
        return self._observed[at]

    @cached_property
    def _observed(self) -> list[Observed]:
        """Return them all; what is said more than once is one question and one answer."""
        rows = observation_rows(self._rows)
        said, numbers = distinct(rows, [name for name in rows.column_names if name not in _PLACE])
        contents = [(codec.question_of(row), codec.answer_of(row)) for row in rows_of(said)]
        order = pc.sort_indices(rows, [("seq", "ascending"), ("event_id", "ascending")])
        places = (column.to_pylist() for column in rows.select(_PLACE).take(order).columns)
        of_each = map(contents.__getitem__, numbers[order.to_numpy()].tolist())
        return [Observed(*place, *content) for *place, content in zip(*places, of_each, strict=True)]
