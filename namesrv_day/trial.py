"""Try quiet units: does each of their beats do nothing but renew a lease, on the state in which the day begins?

Nothing else changes that state, so that a beat that does so once does so all day.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.history.intervals import Histories
from namesrv_core.machine.events import Event
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.quiet import NotQuietError
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.step import step
from namesrv_core.replay.take import is_unknown
from namesrv_day.context import NamesrvDay, frame
from namesrv_day.day_events import Frames, topic_digests
from namesrv_day.sql import ask
from namesrv_day.start import starting
from namesrv_day.timed import Report, Timed
from schemas import gold

TopicConfigs = Callable[[pa.ChunkedArray], pa.Table]
# Topics are compared as sets; KV entries are nobody's business here.
_NOT_TRIED = (gold.TOPIC_QUEUE_HISTORY, gold.TOPIC_QUEUE_MAPPING_HISTORY, gold.KV_CONFIG_HISTORY)
_STATE = [table for table in gold.HISTORY_TABLES if table not in _NOT_TRIED]


def failed_trials(context: NamesrvDay, runs: pa.Table, open_rows: Frames, topic_configs: TopicConfigs) -> set[str]:
    """Return the units of which a beat does more than renew a lease.

    `runs`: their beats of the day as runs, with their `unit`; `open_rows`: what was open of them when the day began. Topics are
    left out of the trial on both sides; who gives no version writes them with every registration.
    """
    namesrv, digest = context.namesrv, runs.schema.get_field_index("topic_config_digest")
    writes = pc.and_(pc.is_valid(runs[digest]), pc.is_null(runs["data_version"]))
    failed = set(runs.filter(writes)["unit"].to_pylist())
    without = runs.set_column(digest, runs.schema.field(digest), pa.nulls(runs.num_rows, runs[digest].type))
    beats = Timed(without, {})
    registry, histories = starting(context, {table.name: frame(open_rows, table) for table in _STATE})
    for unit, (start, stop) in beats.spans.items():
        for number in np.unique(beats.numbers[start:stop]).tolist():
            if not _only_renews(registry, histories, beats.events[number], beats.reports[number], namesrv):
                failed.add(unit)
    if namesrv.profile.repairs_missing_topics:
        queues = frame(open_rows, gold.TOPIC_QUEUE_HISTORY)
        configs = topic_configs(topic_digests(runs))
        failed.update(ask(_MISSING, {"beats": runs, "queues": queues, "configs": configs})["unit"].to_pylist())
    return failed


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


_MISSING = """
WITH registered AS (
    SELECT DISTINCT unit, broker_name, topic_config_digest FROM beats WHERE topic_config_digest IS NOT NULL
), wanted AS (
    SELECT unit, broker_name, list_distinct(list_transform(topics, lambda t: t.topic)) AS listed,
        len(listed) AS number, list_aggregate(list_transform(listed, lambda t: hash(t)), 'bit_xor') AS sum
    FROM registered JOIN configs USING (topic_config_digest)
), had AS (
    SELECT broker_name, count(*) AS number, bit_xor(hash(topic)) AS sum FROM queues GROUP BY broker_name
), asked AS (
    SELECT unit, broker_name, unnest(listed) AS topic FROM wanted ANTI JOIN had USING (broker_name, number, sum)
)
SELECT DISTINCT unit FROM asked ANTI JOIN queues
    ON queues.broker_name IS NOT DISTINCT FROM asked.broker_name AND queues.topic IS NOT DISTINCT FROM asked.topic
"""
"""Units that register a topic that their broker name does not have: 5.x brings it back.

Topics are compared by the sum of their hashes first, since nearly always all are there and no others.
"""
