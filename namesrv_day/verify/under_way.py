"""Removals run on another thread: a query received just after one may still see the old state.

A one-way request is worked off by another thread, and no response tells when. A connection has ended, and its broker is taken out
by another thread, in 5.x by a second one after that; that one also takes out who has unregistered, and been answered.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import Namesrv

Numbers = npt.NDArray[np.int64]
REMOVAL, ONE_WAY = "removal_under_way", "one_way_under_way"
IN_PARTS = "changes_under_way"
"""Of an answer among several changes: each broker as it was at some instant in between, not all as at the same."""
# Measured on busy machines: 53 ms behind a scan's packet, 45 ms behind a one-way request, behind the end of a connection 36 ms to
# an answer and 73 ms to the name server's log; 3 ms else, and behind an unregistration.
_LIMIT_NS: Final = 100 * NS_PER_MS
_REMOVALS: Final = ("channel_", "scan")
_UNREGISTRATION: Final = "unregister_broker"


class UnderWay:
    """Where something began that another thread does."""

    def __init__(self, changed: pa.Table, one_way: Collection[str], namesrv: Namesrv) -> None:
        """`changed`: the outcomes that changed something; `one_way`: ids of one-way requests among them."""
        operations = changed["operation"]
        removes = [pc.starts_with(operations, operation) for operation in _REMOVALS]
        removes.append(pc.and_(pc.equal(operations, _UNREGISTRATION), _batches(changed["seq"], namesrv)))
        begun = {REMOVAL: np.logical_or.reduce([each.to_numpy() for each in removes])}
        begun[ONE_WAY] = np.isin(changed["event_id"].to_numpy(), [*one_way])
        seqs = changed["seq"].to_numpy()
        self._is_one_way = frozenset(seqs[begun[ONE_WAY]].tolist())
        self._begun = np.concatenate([[0], np.sort(seqs[begun[REMOVAL] | begun[ONE_WAY]])])

    def before(self, asked: Numbers) -> Numbers:
        """Return of questions the position of the last of it that may still have been under way; 0 where there was none."""
        last: Numbers = self._begun[np.searchsorted(self._begun[1:], asked)]
        return np.where(asked - last <= _LIMIT_NS, last, 0)

    def class_of(self, seq: int) -> str:
        """Return as what an answer is told apart that shows the state before a position."""
        return ONE_WAY if seq in self._is_one_way else REMOVAL


def _batches(seqs: pa.ChunkedArray, namesrv: Namesrv) -> pa.Array:
    if not namesrv.later:
        return pa.repeat(namesrv.profile.batches_unregistrations, len(seqs))
    return pa.array([namesrv.at(seq).profile.batches_unregistrations for seq in seqs.to_pylist()], pa.bool_())
