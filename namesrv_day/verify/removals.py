"""Removals that another thread makes: an answer that was asked for just behind one may show the state before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import Namesrv

Numbers = npt.NDArray[np.int64]
_UNREGISTRATION: Final = "unregister_broker"
# So long a removal may be under way. Measured behind the end of a connection, on busy machines: 36 ms to an answer, 73 ms to the
# name server's log; 3 ms else, and behind an unregistration. Where a scan ran is concluded, to some milliseconds.
_UNDER_WAY_NS: Final = {"channel_": 100 * NS_PER_MS, _UNREGISTRATION: 100 * NS_PER_MS, "scan": 20 * NS_PER_MS}


def removals(changed: pa.Table, namesrv: Namesrv) -> dict[str, Numbers]:
    """Return, by what it was, where there were removals that another thread makes, in order.

    A connection has ended, and its broker is taken out by another thread, in 5.x by a second one after that. That one also takes
    out who has unregistered, and been answered.
    """
    found = {}
    for operation in _UNDER_WAY_NS:
        seqs = np.sort(changed.filter(pc.starts_with(changed["operation"], operation))["seq"].to_numpy())
        if operation == _UNREGISTRATION:
            batched = [namesrv.at(seq).profile.batches_unregistrations for seq in seqs.tolist()]
            seqs = seqs[np.array(batched, dtype=bool)]
        found[operation] = np.concatenate([[0], seqs])
    return found


def removal_before(asked: Numbers, removals_of: Mapping[str, Numbers]) -> Numbers:
    """Return of questions the position of the removal that may still have been under way; 0 where there was none."""
    begun = np.zeros_like(asked)
    for operation, limit in _UNDER_WAY_NS.items():
        removals = removals_of[operation]
        last = removals[np.searchsorted(removals[1:], asked)]
        begun = np.maximum(begun, np.where(asked - last <= limit, last, 0))
    return begun
