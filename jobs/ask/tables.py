"""What can be asked: the name servers' tables by RocketMQ's names, and the names that there are in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schemas import asked

_FOR_OTHERS = ("_committed", "_stored", "_rows_at", "_rows_between", "utc")
FUNCTIONS: Final = {
    "topicQueueTable": "topic_queue_table_at",
    "brokerAddrTable": "broker_addr_table_at",
    "clusterAddrTable": "cluster_addr_table_at",
    "brokerLiveTable": "broker_live_table_at",
    "filterServerTable": "filter_server_table_at",
    "kvConfigTable": "kv_config_table_at",
}
"""The functions that say what was in a table at an instant."""


def names_in_sql() -> Iterator[tuple[str, str]]:
    """Yield the names that readers meet in SQL, each with what it is: a function, or a table or view. Those for others are not."""
    for name in sorted(asked.names()):
        if "." not in name and not name.endswith(_FOR_OTHERS):
            is_function = " MACRO " in (asked.statement(name) or "")
            yield name, "function" if is_function else "table or view"
