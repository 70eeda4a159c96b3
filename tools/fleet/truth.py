"""The truth about a simulated day: each hole that was planted, and the removals that must come of it.

It follows from the plan alone, and from nothing that was replayed.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

from namesrv_core.machine.events import US_PER_MS
from schemas.times import day_start_us
from tools.fleet.events import broker_addr, broker_name, instants, namesrv_id
from tools.fleet.fleet import HOURS_PER_DAY, Fleet
from tools.fleet.plan import KINDS, RESTART, beat_us, plan_of


def holes_from(fleet: Fleet, n: int, day: dt.date) -> pa.Table:
    """Return the holes of a day at name server `n`; an outage between two beats, which nobody notices, is none.

    Instants are timestamps: from when to when beats are lost, the last beat before and the first after (of a restart, when
    the process stopped and the next one started, and beats around these). `expiries_min`, `expiries_max`: the least and the
    most removals that must and may be found: a name server removes a broker at the first tick of its scan that lies after the
    last beat plus the lease (`lease_end_time`), unless the broker has come back by then, and ticks are one period apart, at a
    phase that the log does not show exactly (the last instant: `removal_due_time`). A restart removes nobody: the new process
    knows no broker.

    Source: RocketMQ 4.9.7 and 5.4.0 RouteInfoManager.scanNotActiveBroker; the period is the profile's.
    """
    first_hour = fleet.number_of(day) * HOURS_PER_DAY
    planned = plan_of(fleet, n, day, range(first_hour, first_hour + HOURS_PER_DAY)).holes
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
