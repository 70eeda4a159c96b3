"""A gap in the recording: the name server went on, and nobody saw it.

What it held when the gap began is the best guess afterwards, no more: as where a recording begins in the middle of its
life. Nothing is invented for the time between - above all no outage of all brokers, which is what leases that nobody
renews look like.
"""

from __future__ import annotations

from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.events import RecordingGap
from namesrv_core.machine.past import Past
from namesrv_core.machine.registry import Registry


def pass_over(registry: Registry, event: RecordingGap, at_ms: int) -> Step:
    """Take the gap that begins at `at_ms`: from its end on nothing is known but what events and answers show.

    A lease that had not ended when the gap began counts from its end: the broker may have beaten until then. One that had
    ended goes with the next scan, as it would have.
    """
    for key, live in registry.broker_live_table.items():
        if registry.last_update_ms[key] + live.lease_ms >= at_ms:
            registry.refresh(key, max(event.until_ms, registry.last_update_ms[key]))
    registry.past = Past(event.until_ms)
    return Step(Outcome.UNRECORDED, result=event.until_ms)
