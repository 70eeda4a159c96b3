"""The history tables: what a name server's tables held, and when.

An interval is one row, however long it lasts, from its opening on; `valid_to` is NULL while it is open. Intervals are half
open, [valid_from, valid_to): what was so at t are the rows with `valid_from <= t AND (valid_to IS NULL OR valid_to > t)`.
A table is cut by the month in which its intervals closed, NULL for those that are open. What changes while an interval stays
open, when a live entry beat last, is no column of it: `last_heartbeats` has it.
"""

from __future__ import annotations

from schemas.recorded import DATA_VERSION, NAMESRV_ID
from schemas.table import (
    BOOLEAN,
    CLOSED_MONTH,
    DATE,
    INT,
    LONG,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    Table,
    required,
    struct_of,
)

DAY = required("day", DATE, "UTC date; partition")
POSITION = struct_of(seq=LONG, no=INT)
BROKER = struct_of(broker_name=STRING, broker_addr=STRING, cluster_name=STRING)
NOTIFICATION = struct_of(
    to=STRING, min_broker_id=LONG, min_broker_addr=STRING, offline_broker_addr=STRING, ha_broker_addr=STRING
)
INTERVAL = (
    required("valid_from", TIMESTAMP, "Start of the interval, inclusive"),
    Column("valid_to", TIMESTAMP, "End of the interval, exclusive; NULL = open"),
    required("opened_by", STRING, "event_id that opened it"),
    Column("closed_by", STRING, "event_id that closed it; NULL = open"),
    required("opened_at", POSITION, "Position of the opening change: seq of its event, number within it"),
    Column("closed_at", POSITION, "Position of the closing change; NULL = open"),
    required("entered_at", POSITION, "Position at which the key entered its map: decides Java's iteration order"),
    Column(
        "outer_entered_at",
        POSITION,
        "The same for the outer key (topic, cluster, namespace, broker name), as far as its replay unit knows",
    ),
    Column(
        "known_from",
        TIMESTAMP,
        "Since when the row is known to be so; later than valid_from, or NULL = only believed, in a recording that began "
        "in the middle of the name server's life",
    ),
    required(
        "beginning_seen",
        BOOLEAN,
        "The row began at valid_from; FALSE: it may have been so before, when nothing was recorded",
    ),
)
CLUSTER_NAME = Column("cluster_name", STRING, "Cluster name")
BROKER_NAME = Column("broker_name", STRING, "Broker name")
BROKER_ADDR = Column("broker_addr", STRING, "Broker address, ip:port")


def _history(name: str, grain: str, key: tuple[str, ...], *columns: Column) -> Table:
    columns = (NAMESRV_ID, *columns, *INTERVAL)
    return Table(name, "gold", grain, columns, ("namesrv_id", *key, "opened_at"), partition_by=(CLOSED_MONTH,))


TOPIC_QUEUE_HISTORY = _history(
    "topic_queue_history",
    "one interval in which a broker name offered a topic with the same queues and permission (topicQueueTable)",
    ("topic", "broker_name"),
    Column("topic", STRING, "Topic"),
    BROKER_NAME,
    required("read_queue_nums", INT, "Queues to read from"),
    required("write_queue_nums", INT, "Queues to write to"),
    required("perm", INT, "Permission bits: 4 read, 2 write, 1 inherit"),
    required("topic_sys_flag", INT, "System flag bits: 1 unit, 2 unit-sub"),
)
BROKER_ADDR_HISTORY = _history(
    "broker_addr_history",
    "one interval of one member of a group (brokerAddrTable); broker_id NULL: a group without members (5.x)",
    ("broker_name", "broker_id"),
    BROKER_NAME,
    Column("broker_id", LONG, "Broker id, 0 = master; NULL: the group has no member"),
    BROKER_ADDR,
    Column("cluster_name", STRING, "Cluster of the group's first registration"),
    required("enable_acting_master", BOOLEAN, "The group may have an acting master (5.x)"),
    Column("zone_name", STRING, "Zone (5.x)"),
)
CLUSTER_ADDR_HISTORY = _history(
    "cluster_addr_history",
    "one interval in which a broker name stood in a cluster's set (clusterAddrTable)",
    ("cluster_name", "broker_name"),
    CLUSTER_NAME,
    BROKER_NAME,
)
BROKER_LIVE_HISTORY = _history(
    "broker_live_history",
    "one interval of a live entry with the same version, timeout, channel and HA address (brokerLiveTable)",
    ("cluster_name", "broker_addr"),
    Column("cluster_name", STRING, "Cluster in the key (5.x); NULL in 4.x, whose key is the address"),
    BROKER_ADDR,
    Column("broker_name", STRING, "Name in the registration that wrote the entry; not part of the name server's table"),
    Column("data_version", DATA_VERSION, "Stored data version"),
    Column("heartbeat_timeout_ms", LONG, "Lease in milliseconds; NULL: only a log tells of the entry, and not of that"),
    Column("channel_id", STRING, "Connection of the registration"),
    Column("ha_server_addr", STRING, "haServerAddr"),
    required("first_update_time", TIMESTAMP, "lastUpdateTimestamp when the row was opened"),
    Column(
        "last_update_time",
        TIMESTAMP,
        "lastUpdateTimestamp when it was closed; NULL = open: see last_heartbeats, or told by a log",
    ),
)
FILTER_SERVER_HISTORY = _history(
    "filter_server_history",
    "one interval of a broker's filter servers (filterServerTable)",
    ("cluster_name", "broker_addr"),
    Column("cluster_name", STRING, "Cluster in the key (5.x); NULL in 4.x"),
    BROKER_ADDR,
    required("filter_servers", STRINGS, "Filter servers, in order"),
)
KV_CONFIG_HISTORY = _history(
    "kv_config_history",
    "one interval of a KV entry; config_key NULL: the namespace itself exists",
    ("namespace", "config_key"),
    Column("namespace", STRING, "KV namespace"),
    Column("config_key", STRING, "KV key; NULL: the namespace itself"),
    Column("config_value", STRING, "KV value; NULL if a null was put"),
)
TOPIC_QUEUE_MAPPING_HISTORY = _history(
    "topic_queue_mapping_history",
    "one interval of a static topic's mapping (topicQueueMappingInfoTable, 5.x)",
    ("topic", "bname"),
    Column("topic", STRING, "Topic"),
    Column("bname", STRING, "Broker name of the mapping"),
    required("total_queues", INT, "Queues of the static topic"),
    required("epoch", LONG, "Epoch of the mapping"),
    required("dirty", BOOLEAN, "Flag of the mapping"),
    Column("scope", STRING, "Scope of the mapping"),
    Column("curr_id_map", STRING, "currIdMap as JSON text"),
)
DATA_VERSION_HISTORY = _history(
    "data_version_history",
    "one interval in which a broker reported the same data version, stored or not",
    ("cluster_name", "broker_name", "broker_addr"),
    CLUSTER_NAME,
    BROKER_NAME,
    BROKER_ADDR,
    Column("data_version", DATA_VERSION, "Version reported"),
    Column("previous", DATA_VERSION, "Version reported before; NULL for the first"),
    required("is_regression", BOOLEAN, "Older than the version reported before"),
)
HISTORY_TABLES = (
    TOPIC_QUEUE_HISTORY,
    BROKER_ADDR_HISTORY,
    CLUSTER_ADDR_HISTORY,
    BROKER_LIVE_HISTORY,
    FILTER_SERVER_HISTORY,
    KV_CONFIG_HISTORY,
    TOPIC_QUEUE_MAPPING_HISTORY,
    DATA_VERSION_HISTORY,
)
