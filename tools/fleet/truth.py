"""The truth about simulated hours: each hole that was planted, and the removals that must come of it.

It follows from the plan alone, and from nothing that was replayed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from namesrv_core.machine.instants import US_PER_MS
from schemas.times import day_start_us
from tools.fleet.events import broker_addr, broker_name, instants, namesrv_id
from tools.fleet.fleet import Fleet
from tools.fleet.plan import KINDS, RESTART, Holes, beat_us


def holes_from(fleet: Fleet, n: int, planned: Holes) -> pa.Table:
    """Return the holes at name server `n` as rows of `holes`; an outage between two beats, which nobody notices, is none.

    A name server removes a broker at the first tick of its scan that lies after the last beat plus the lease, unless
    the broker has come back by then. Ticks are one period apart, at a phase that the log does not show exactly: hence a
    least and a most number of removals. A restart removes nobody: the new process knows no broker.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.scanNotActiveBroker; the period is the profile's.
    """
    is_noticed = (planned.k_to > planned.k_from) | (planned.kind == KINDS.index(RESTART))
    holes = planned.where(is_noticed & (planned.k_from > 0))
    begin_us = day_start_us(fleet.start)
    last = beat_us(fleet, n, holes.b, holes.k_from - 1) + begin_us
    first = beat_us(fleet, n, holes.b, holes.k_to) + begin_us
    # The lease is counted from the millisecond of the beat.
    lease_end = (last // US_PER_MS + fleet.lease_ms) * US_PER_MS
    due = lease_end + (fleet.profile.scan_period_ms + 1) * US_PER_MS
    may_expire = holes.kind != KINDS.index(RESTART)
    brokers = holes.b.tolist()
    return pa.table(
        {
            "namesrv_id": pa.repeat(namesrv_id(n), len(brokers)),
            "kind": [KINDS[kind] for kind in holes.kind],
            "broker_name": [broker_name(b) for b in brokers],
            "broker_addr": [broker_addr(b) for b in brokers],
            "hole_from": instants(holes.from_us + begin_us),
            "hole_to": instants(holes.to_us + begin_us),
            "last_beat_time": instants(last),
            "first_beat_time": instants(first),
            "lost_beats": holes.k_to - holes.k_from,
            "lease_ms": np.full(len(brokers), fleet.lease_ms),
            "lease_end_time": instants(lease_end),
            "removal_due_time": instants(due),
            "expiries_min": (may_expire & (first > due)).astype(np.int32),
            "expiries_max": (may_expire & (first >= lease_end + US_PER_MS)).astype(np.int32),
        }
    )
