"""The name servers' tables by RocketMQ's names, and the functions that say what was in them at an instant."""

from __future__ import annotations

from typing import Final

FUNCTIONS: Final = {
    "topicQueueTable": "topic_queue_table_at",
    "brokerAddrTable": "broker_addr_table_at",
    "clusterAddrTable": "cluster_addr_table_at",
    "brokerLiveTable": "broker_live_table_at",
    "filterServerTable": "filter_server_table_at",
    "kvConfigTable": "kv_config_table_at",
}
