"""Try quiet units: does each of their beats do nothing but renew a lease, on the state in which the day begins?

Nothing else changes that state, so that a beat that does so once does so all day.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import Histories
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.events import Event
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.quiet import NotQuietError
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.step import step
from namesrv_core.replay.take import is_unknown
from namesrv_day.arrow.rows import with_columns
from namesrv_day.arrow.sql import ask
from namesrv_day.day.context import NamesrvDay, frame
from namesrv_day.day.day_events import Frames, topic_digests
from namesrv_day.day.start import starting
from namesrv_day.day.timed import Report, Timed
from namesrv_day.hours.condense import VERSION
from schemas import gold
from schemas.sql_files import query
from schemas.table import LONG

TopicConfigs = Callable[[pa.ChunkedArray], pa.Table]
# Topics are compared as sets; KV entries are nobody's business here.
_NOT_TRIED = (gold.TOPIC_QUEUE_HISTORY, gold.TOPIC_QUEUE_MAPPING_HISTORY, gold.KV_CONFIG_HISTORY)
_STATE = [table for table in gold.HISTORY_TABLES if table not in _NOT_TRIED]


def failed_trials(context: NamesrvDay, runs: pa.Table, open_rows: Frames, topic_configs: TopicConfigs) -> set[str]:
    """Return the units of which a beat does more than renew a lease.

    `runs`: their beats of the day as runs, with their `unit`; `open_rows`: what was open of them when the day began. Topics are
    left out of the trial on both sides; who gives no version writes them with every registration.
    """
    namesrv, digests = context.namesrv, runs["topic_config_digest"]
    writes = pc.and_(pc.is_valid(digests), pc.is_null(runs["data_version"]))
    failed = set(runs.filter(writes)["unit"].to_pylist())
    beats = Timed(with_columns(runs, topic_config_digest=pa.nulls(runs.num_rows, digests.type)), {})
    registry, histories = starting(context, {table.name: frame(open_rows, table) for table in _STATE})
    for unit, (start, stop) in beats.spans.items():
        for number in np.unique(beats.numbers[start:stop]).tolist():
            if not _only_renews(registry, histories, beats.events[number], beats.reports[number], namesrv):
                failed.add(unit)
    if namesrv.profile.repairs_missing_topics:
        queues = frame(open_rows, gold.TOPIC_QUEUE_HISTORY)
        configs = topic_configs(topic_digests(runs))
        failed.update(
            ask(query("replay/missing"), {"beats": runs, "queues": queues, "configs": configs})["unit"].to_pylist()
        )
    return failed


def unsure(context: NamesrvDay, hours: pa.Table, open_rows: Frames) -> pa.Table:
    """Return those hours of which columns do not tell that their beats only renew a lease: of most nothing need be tried."""
    profile = context.namesrv.profile
    beats = hours.select(["code", "cluster_name", "broker_name", "broker_addr", *VERSION])
    given = {
        "hours": beats.append_column("number", pa.array(range(hours.num_rows), LONG)),
        "live": frame(open_rows, gold.BROKER_LIVE_HISTORY),
        "reported": frame(open_rows, gold.DATA_VERSION_HISTORY),
    }
    found = ask(
        query("replay/unsure"),
        given,
        with_cluster=profile.live_key_has_cluster,
        with_state=profile.has_state_version,
        light=RequestCode.BROKER_HEARTBEAT if profile.has_topic_registration else None,  # 4.x does not know it
        asked=RequestCode.QUERY_DATA_VERSION,
    )
    return hours.take(found["number"])


def _only_renews(
    registry: Registry, histories: Histories, event: Event, report: Report | None, namesrv: Namesrv
) -> bool:
    if is_unknown(event, namesrv):
        return False
    try:
        taken = step(registry, event, 0, namesrv)  # what a beat does hangs on no time
    except NotQuietError:
        return False
    return taken.refreshed is not None and (report is None or histories.has_reported(*report))
