"""Open rows of topic_queue_history, kept as columns until an event needs them.

A broker name's queue data enter the registry when they are first asked for, and a row becomes an interval when its key
changes. All other rows are carried into the next day as columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import Interval
from namesrv_core.machine.registry import Change
from namesrv_core.machine.rows import QueueData
from namesrv_day.day.start import intervals_from
from schemas.gold import TOPIC_QUEUE_HISTORY
from schemas.table import BOOLEAN

_Text = str | None


class QueueRows:
    """The open rows of topic_queue_history with which a day begins."""

    def __init__(self, rows: pa.Table) -> None:
        self.as_read = rows

    @cached_property
    def rows(self) -> pa.Table:
        """Return the rows in one chunk, from which single rows can be taken."""
        return self.as_read.combine_chunks()

    @cached_property
    def spans(self) -> dict[_Text, npt.NDArray[np.int64]]:
        """Return the numbers of each broker name's rows, in the order in which their keys entered the table."""
        entered = self.rows["entered_at"].combine_chunks()
        names = self.rows["broker_name"].combine_chunks().dictionary_encode()
        of = pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False)
        order = np.lexsort((entered.field("no").to_numpy(), entered.field("seq").to_numpy(), of))
        found, first = np.unique(of[order], return_index=True)
        keys = [None if number < 0 else names.dictionary[number].as_py() for number in found.tolist()]
        starts = [*first.tolist(), len(order)]
        return {name: order[start:end] for name, start, end in zip(keys, starts, starts[1:], strict=False)}


class UnmetQueues:
    """These rows as `UnmetRows` of one registry."""

    def __init__(self, of: QueueRows) -> None:
        self._of = of
        self._met: set[_Text] = set()
        self._row_of: dict[tuple[_Text, ...], int] = {}
        self._made: list[int] = []

    def names(self, topic: _Text = None) -> list[_Text]:
        """See `UnmetRows`."""
        if topic is None:
            return [name for name in self._of.spans if name not in self._met]
        rows = self._of.rows
        return pc.unique(rows["broker_name"].filter(pc.equal(rows["topic"], topic))).to_pylist()  # type: ignore[no-any-return]

    def of_name(self, broker_name: _Text) -> Iterable[tuple[_Text, QueueData]]:
        """See `UnmetRows`."""
        if broker_name in self._met:
            return ()
        self._met.add(broker_name)
        numbers = self._of.spans.get(broker_name)
        if numbers is None:
            return ()
        rows = self._of.rows
        topics, *values = (rows[name].take(numbers).to_pylist() for name in ("topic", *QueueData._fields))
        self._row_of.update(((topic, broker_name), row) for topic, row in zip(topics, numbers.tolist(), strict=True))
        return list(zip(topics, map(QueueData, *values), strict=True))

    def touched(self, changes: Iterable[Change]) -> list[Interval]:
        """Return the open intervals of rows that `changes` change for the first time."""
        keys = (change.key for change in changes if change.table == "topic_queue_table")
        rows = [row for key in keys if (row := self._row_of.pop(key, None)) is not None]
        self._made += rows
        return intervals_from(TOPIC_QUEUE_HISTORY.name, self._of.rows.take(rows)) if rows else []

    @property
    def untouched(self) -> pa.Table:
        """Return the rows that no change has touched."""
        if not self._made:
            return self._of.as_read
        kept = np.ones(self._of.rows.num_rows, dtype=bool)
        kept[self._made] = False
        return self._of.rows.filter(pa.array(kept, BOOLEAN))
