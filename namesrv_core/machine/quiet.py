"""Heartbeats that change nothing: told without replaying each of them.

Almost all brokers do nothing but beat. If a heartbeat only renews a lease, an equal one that follows does the same, as
long as nothing else happens to the tables; and if no two of them lie further apart than the lease, no scan can come in
between. Then the first and the last of them say it all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.events import BrokerHeartbeat, QueryDataVersion, RefreshRun, RegisterBroker
from namesrv_core.machine.heartbeat import broker_heartbeat, query_data_version
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import register_broker
from namesrv_core.machine.registry import Registry

SLOTS = 60
"""Slots in a bucket: one bit each."""
_SLOT_SECONDS = (60, 30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1)


class NotQuietError(ValueError):
    """A run of heartbeats that does more than renew one lease, or in the middle of which something else changes."""


def slot_seconds(lease_ms: int) -> int | None:
    """Return the width of a slot for a lease; None: the lease is too short for any.

    Two beats in neighbouring slots are less than two slots apart, which no lease of twice a slot can end in. Sixty slots
    are a bucket, and buckets divide an hour.
    """
    return next((seconds for seconds in _SLOT_SECONDS if 2_000 * seconds <= lease_ms), None)


def refresh_run(registry: Registry, event: RefreshRun, namesrv: Namesrv) -> Step:
    """Return what a run of equal heartbeats does: it renews one lease. Raises NotQuietError if it does anything else."""
    if type(event.beat) not in _STEPS:
        raise NotQuietError(f"{event.beat}: no heartbeat")
    taken = _STEPS[type(event.beat)](registry, event.beat, namesrv)
    if taken.outcome is not Outcome.REFRESHED or taken.changes or taken.notifications:
        raise NotQuietError(f"{event.beat}: {taken.outcome.value}, not the renewal of a lease only")
    return Step(Outcome.REFRESHED, refreshed=taken.refreshed)


_STEPS: dict[type, Callable[[Registry, Any, Namesrv], Step]] = {
    BrokerHeartbeat: broker_heartbeat,
    QueryDataVersion: query_data_version,
    RegisterBroker: register_broker,
}
