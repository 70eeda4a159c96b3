"""The gold tables: what the replay makes of the events.

History tables are cut by day: the slice of a day holds every interval that was alive during it. `valid_from` is the
true start, maybe weeks ago; `valid_to` is NULL while the interval was open at the end of the day. The open rows of a
day are the state with which the next one starts. Intervals are half open: [valid_from, valid_to).
"""

from __future__ import annotations

from pyspark.sql import types as T

from schemas.bronze import DATA_VERSION, NAMESRV_ID
from schemas.table import (
    BOOLEAN,
    DATE,
    INT,
    LONG,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    Table,
    struct_of,
)

DAY = Column("day", DATE, "UTC date; partition", required=True)
POSITION = struct_of(seq=LONG, no=INT)
NOTIFICATION = struct_of(
    to=STRING, min_broker_id=LONG, min_broker_addr=STRING, offline_broker_addr=STRING, ha_broker_addr=STRING
)
INTERVAL = (
    Column("valid_from", TIMESTAMP, "Start of the interval, inclusive", required=True),
    Column("valid_to", TIMESTAMP, "End of the interval, exclusive; NULL = open at the end of the day"),
    Column("opened_by", STRING, "event_id that opened it", required=True),
    Column("closed_by", STRING, "event_id that closed it; NULL = open"),
    Column(
        "opened_at",
        POSITION,
        "Position of the opening change: seq of its event, number within it",
        required=True,
    ),
    Column("closed_at", POSITION, "Position of the closing change; NULL = open"),
    Column(
        "entered_at",
        POSITION,
        "Position at which the key entered its map: decides Java's iteration order",
        required=True,
    ),
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
    Column(
        "beginning_seen",
        BOOLEAN,
        "The row began at valid_from; FALSE: it may have been so before, when nothing was recorded",
        required=True,
    ),
    Column("day", DATE, "Day of the slice; partition", required=True),
)
CLUSTER_NAME = Column("cluster_name", STRING, "Cluster name")
BROKER_NAME = Column("broker_name", STRING, "Broker name")
BROKER_ADDR = Column("broker_addr", STRING, "Broker address, ip:port")


def _history(name: str, grain: str, key: tuple[str, ...], *columns: Column) -> Table:
    return Table(name, "gold", grain, (NAMESRV_ID, *columns, *INTERVAL), key=("day", "namesrv_id", *key, "opened_at"))


TOPIC_QUEUE_HISTORY = _history(
    "topic_queue_history",
    "one interval in which a broker name offered a topic with the same queues and permission (topicQueueTable)",
    ("topic", "broker_name"),
    Column("topic", STRING, "Topic"),
    BROKER_NAME,
    Column("read_queue_nums", INT, "Queues to read from", required=True),
    Column("write_queue_nums", INT, "Queues to write to", required=True),
    Column("perm", INT, "Permission bits: 4 read, 2 write, 1 inherit", required=True),
    Column("topic_sys_flag", INT, "System flag bits: 1 unit, 2 unit-sub", required=True),
)
BROKER_ADDR_HISTORY = _history(
    "broker_addr_history",
    "one interval of one member of a group (brokerAddrTable); broker_id NULL: a group without members (5.x)",
    ("broker_name", "broker_id"),
    BROKER_NAME,
    Column("broker_id", LONG, "Broker id, 0 = master; NULL: the group has no member"),
    BROKER_ADDR,
    Column("cluster_name", STRING, "Cluster of the group's first registration"),
    Column("enable_acting_master", BOOLEAN, "The group may have an acting master (5.x)", required=True),
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
    Column(
        "broker_name",
        STRING,
        "Name in the registration that wrote the entry; not part of the name server's table",
    ),
    Column("data_version", DATA_VERSION, "Stored data version"),
    Column("heartbeat_timeout_ms", LONG, "Lease in milliseconds", required=True),
    Column("channel_id", STRING, "Connection of the registration"),
    Column("ha_server_addr", STRING, "haServerAddr"),
    Column(
        "first_update_time",
        TIMESTAMP,
        "lastUpdateTimestamp at the start of this row in this slice",
        required=True,
    ),
    Column(
        "last_update_time",
        TIMESTAMP,
        "lastUpdateTimestamp at the end of this row in this slice",
        required=True,
    ),
)
FILTER_SERVER_HISTORY = _history(
    "filter_server_history",
    "one interval of a broker's filter servers (filterServerTable)",
    ("cluster_name", "broker_addr"),
    Column("cluster_name", STRING, "Cluster in the key (5.x); NULL in 4.x"),
    BROKER_ADDR,
    Column("filter_servers", STRINGS, "Filter servers, in order", required=True),
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
    Column("total_queues", INT, "Queues of the static topic", required=True),
    Column("epoch", LONG, "Epoch of the mapping", required=True),
    Column("dirty", BOOLEAN, "Flag of the mapping", required=True),
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
    Column("is_regression", BOOLEAN, "Older than the version reported before", required=True),
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

EVENT_OUTCOMES = Table(
    "event_outcomes",
    "gold",
    "one event that was not a plain refresh, scans that removed something included",
    (
        NAMESRV_ID,
        Column("seq", LONG, "Position of the event", required=True),
        Column("event_id", STRING, "Event", required=True),
        Column("effect_time", TIMESTAMP, "When it took effect", required=True),
        Column("operation", STRING, "What it was: register_broker, scan, channel_close ...", required=True),
        Column("outcome", STRING, "What became of it", required=True),
        Column("cluster_name", STRING, "Cluster name in the event"),
        Column("broker_name", STRING, "Broker name in the event"),
        Column("broker_addr", STRING, "Broker address in the event"),
        Column("topic", STRING, "Topic in the event"),
        Column("channel_id", STRING, "Connection of the event"),
        Column("detail", STRING, "Reason of a refusal, exception, or count returned"),
        Column("changes", INT, "Rows opened and closed by it", required=True),
        Column(
            "notifications",
            T.ArrayType(NOTIFICATION, containsNull=True),
            "5.x: the NOTIFY_MIN_BROKER_ID_CHANGE (905) that the server sent on it; NULL if none",
        ),
        DAY,
    ),
    key=("day", "namesrv_id", "event_id"),
)
REFRESHES_HOURLY = Table(
    "refreshes_hourly",
    "gold",
    "one hour of one live entry's plain refreshes",
    (
        NAMESRV_ID,
        Column("cluster_name", STRING, "Cluster in the key (5.x); NULL in 4.x"),
        BROKER_ADDR,
        Column("hour", TIMESTAMP, "Start of the hour", required=True),
        Column("refreshes", LONG, "Plain refreshes in it", required=True),
        Column("first_time", TIMESTAMP, "First of them", required=True),
        Column("last_time", TIMESTAMP, "Last of them", required=True),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "hour"),
)
PAST_KNOWLEDGE = Table(
    "past_knowledge",
    "gold",
    "one thing that is known, or in doubt, of a name server whose recording began in the middle of its life",
    (
        NAMESRV_ID,
        Column("what", STRING, "known, doubted, listed, beat, channel or setting", required=True),
        Column("about", STRING, "History table (without _history), or what has no rows of its own", required=True),
        Column("one", STRING, "First part of the key: topic, broker name, cluster ..."),
        Column("other", STRING, "Second part of the key"),
        Column("any_one", BOOLEAN, "It holds for every first part", required=True),
        Column("any_other", BOOLEAN, "It holds for every second part", required=True),
        Column(
            "number",
            LONG,
            "Serial number: the later of known and doubted counts; or a time or a setting",
            required=True,
        ),
        DAY,
    ),
    key=("day", "namesrv_id", "what", "about", "one", "other", "any_one", "any_other"),
)
ROUTE_CHANGES = Table(
    "route_changes",
    "gold",
    "one change of a topic's route as clients see it",
    (
        NAMESRV_ID,
        Column("topic", STRING, "Topic", required=True),
        Column("seq", LONG, "Position of the event that changed it", required=True),
        Column("effect_time", TIMESTAMP, "When it changed", required=True),
        Column("caused_by", STRING, "event_id that changed it", required=True),
        Column(
            "change",
            STRING,
            "appeared, changed, vanished, or learned: an answer or a snapshot showed what had been so before",
            required=True,
        ),
        Column(
            "route_before",
            STRING,
            "Route before as JSON, lists sorted by broker name; NULL if there was none",
        ),
        Column("route_after", STRING, "Route after as JSON; NULL if there is none"),
        DAY,
    ),
    key=("day", "namesrv_id", "topic", "seq"),
)
EXPIRED_BROKERS = Table(
    "expired_brokers",
    "gold",
    "one removal of a broker that had fallen silent",
    (
        NAMESRV_ID,
        CLUSTER_NAME,
        BROKER_NAME,
        BROKER_ADDR,
        Column(
            "cause",
            STRING,
            "scan (lease ended) or idle_channel (server closed the silent connection)",
            required=True,
        ),
        Column("last_beat_time", TIMESTAMP, "Last refresh", required=True),
        Column("heartbeat_timeout_ms", LONG, "Lease in milliseconds", required=True),
        Column("removed_time", TIMESTAMP, "When it was removed", required=True),
        Column("removed_by", STRING, "event_id of the scan or of the channel event", required=True),
        Column("detection_lag_ms", LONG, "Milliseconds from the last refresh to the removal", required=True),
        Column("returned_time", TIMESTAMP, "Next registration under the same live key that day; NULL if none"),
        Column("returned_by", STRING, "event_id of that registration"),
        Column("topics_lost", STRINGS, "Topics that lost queue data with it", required=True),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "removed_by"),
)
ORPHANED_TOPICS = Table(
    "orphaned_topics",
    "gold",
    "one interval in which a topic was routed but could not be served as it looks",
    (
        NAMESRV_ID,
        Column("topic", STRING, "Topic", required=True),
        Column("broker_name", STRING, "residual: broker name; NULL for reasons that concern the whole topic"),
        Column(
            "reason",
            STRING,
            "no_broker_address, no_live_broker, no_master, no_writable_queue, residual (no longer reported), "
            "stale_order_conf",
            required=True,
        ),
        Column("valid_from", TIMESTAMP, "Start, inclusive", required=True),
        Column("valid_to", TIMESTAMP, "End, exclusive; NULL = open at the end of the day"),
        Column("opened_by", STRING, "event_id that began it", required=True),
        Column("closed_by", STRING, "event_id that ended it; NULL = open"),
        DAY,
    ),
    key=("day", "namesrv_id", "topic", "broker_name", "reason", "valid_from", "opened_by"),
)
FINDINGS = Table(
    "findings",
    "gold",
    "one thing that an operator should know, with its evidence",
    (
        NAMESRV_ID,
        Column("code", STRING, "Code from the catalogue", required=True),
        Column("severity", STRING, "critical, warning or info", required=True),
        Column("subject", STRING, "Broker, topic or key concerned", required=True),
        Column("from_time", TIMESTAMP, "Start", required=True),
        Column("to_time", TIMESTAMP, "End; NULL = open"),
        Column("detail", STRING, "In words"),
        Column("evidence", STRINGS, "event ids", required=True),
        DAY,
    ),
    key=("day", "namesrv_id", "code", "subject", "from_time", "evidence"),
)
ORDER_DECISIONS = Table(
    "order_decisions",
    "gold",
    "events whose order the wire does not show",
    (
        NAMESRV_ID,
        Column("decision_id", STRING, "Deterministic id, 32 hex digits", required=True),
        Column(
            "kind",
            STRING,
            "register_and_close (a request without response on a connection that closes at once), "
            "removal_and_registration (a broker's new registration while its old connection ends), "
            "overlapping_requests, burst_order (a name server that stood still and goes on)",
            required=True,
        ),
        Column("effect_time", TIMESTAMP, "When", required=True),
        Column("channel_ids", STRINGS, "Connections concerned", required=True),
        Column("event_ids", STRINGS, "The events, in the default order", required=True),
        Column("alternatives", STRINGS, "The orders in words, the default first", required=True),
        Column("chosen", INT, "Which alternative was taken, from 0", required=True),
        Column("answers_for", LONG, "Answers that only the chosen order explains", required=True),
        Column("answers_against", LONG, "Answers that only another order explains", required=True),
        Column("evidence_for", STRINGS, "Those answers (event ids)", required=True),
        Column(
            "evidence_against",
            STRINGS,
            "The answers that only another order explains (event ids)",
            required=True,
        ),
        DAY,
    ),
    key=("day", "namesrv_id", "decision_id"),
)
NAMESRV_SETTINGS = Table(
    "namesrv_settings",
    "gold",
    "one value of one setting of a name server, as long as it held, by process: with it the day was replayed",
    (
        NAMESRV_ID,
        Column("setting", STRING, "version, or a setting as conf/ names it", required=True),
        Column("value", STRING, "Value; unlimited: longer than any silence that was seen", required=True),
        Column(
            "source",
            STRING,
            "given (conf), stated (by its answers: version, 319), changed (318), inferred (from answers and closes), "
            "inherited (from the process before), default (RocketMQ's; nothing speaks for or against)",
            required=True,
        ),
        Column("valid_from", TIMESTAMP, "Since when; NULL: since before the recording"),
        Column("valid_to", TIMESTAMP, "Until when, exclusive; NULL = still so at the end of the day"),
        Column("from_seq", LONG, "Position since when; 0: since before the recording", required=True),
        Column("process_seq", LONG, "Position of the start of the process; 0: before the recording", required=True),
        Column("restart_value", STRING, "Value with which the next process starts, as far as is known", required=True),
        Column("answers_for", LONG, "Answers and closes that only this value explains", required=True),
        Column("answers_against", LONG, "Answers and closes that only another value explains", required=True),
        Column("evidence", STRINGS, "The first few that speak for it (event ids)", required=True),
        DAY,
    ),
    key=("day", "namesrv_id", "setting", "from_seq"),
)
ROUTE_MISMATCHES = Table(
    "route_mismatches",
    "gold",
    "one answer that the replayed registry does not give at any instant between request and answer; should be empty",
    (
        NAMESRV_ID,
        Column("event_id", STRING, "Answer, in route_observations", required=True),
        Column("code", INT, "Request code", required=True),
        Column("subject", STRING, "Topic or cluster asked about"),
        Column("request_time", TIMESTAMP, "When the request had arrived", required=True),
        Column("answer_time", TIMESTAMP, "When the answer left", required=True),
        Column(
            "classification",
            STRING,
            "mismatched, or the class that explains it: order_decision, unknown_past",
            required=True,
        ),
        Column("decision_id", STRING, "Order decision that explains it"),
        Column("answered", STRING, "What the name server answered"),
        Column("expected", STRING, "What the replayed registry says at the answer"),
        DAY,
    ),
    key=("day", "namesrv_id", "event_id"),
)
ANSWER_CHECKS = Table(
    "answer_checks",
    "gold",
    "one request code of one name server on one day: how many answers the replayed registry gives too",
    (
        NAMESRV_ID,
        Column(
            "code",
            INT,
            "Request code: questions (105, 106, 206 ..., 101, 219, 901) and responses to events (103, 205, 322, 327)",
            required=True,
        ),
        Column("answers", LONG, "Answers compared", required=True),
        Column("matched", LONG, "Equal to the registry at an instant between request and answer", required=True),
        Column("same_order", LONG, "Of the matched: list order equal too", required=True),
        Column("same_bytes", LONG, "Of the matched: equal byte for byte", required=True),
        Column(
            "in_flight",
            LONG,
            "Of the matched: not equal to the state at the answer, but to an earlier one in its window",
            required=True,
        ),
        Column("explained", LONG, "Equal only under another order than the one taken", required=True),
        Column(
            "unknown_past",
            LONG,
            "Different only in what was not known yet, in a recording that began mid-life",
            required=True,
        ),
        Column("mismatched", LONG, "Equal to no state", required=True),
        DAY,
    ),
    key=("day", "namesrv_id", "code"),
)
SLICES = T.ArrayType(struct_of(table=STRING, day=DATE, namesrv_id=STRING, digest=STRING), containsNull=True)
LAYOUT = 2
"""Number of the layout of a warehouse: which tables there are, their columns, and what the ledger says of them."""
RUNS = Table(
    "runs",
    "gold",
    "one run: the ledger through which readers find published tables",
    (
        Column("run_id", STRING, "Run", required=True),
        Column("layout", INT, "Layout of the warehouse that the run wrote", required=True),
        Column("parent_run", STRING, "Published run on which it builds; NULL for the first"),
        Column("started_time", TIMESTAMP, "Start", required=True),
        Column("finished_time", TIMESTAMP, "End", required=True),
        Column("status", STRING, "published or refused (gate)", required=True),
        Column("days", T.ArrayType(DATE, containsNull=True), "Days recomputed", required=True),
        Column("ingest_runs", STRINGS, "Ingest runs whose rows it is the first to cover", required=True),
        Column("sources", STRINGS, "SHA-256 of the files that those ingest runs read", required=True),
        Column(
            "inputs",
            SLICES,
            "What it read, cut by table, day and name server: the events of its days, and the gold slices from which it "
            "started; digests are rows-sum-xor of 64-bit row hashes",
            required=True,
        ),
        Column("outputs", SLICES, "The slices of gold tables that it wrote, likewise", required=True),
        Column(
            "versions",
            T.MapType(STRING, LONG, valueContainsNull=True),
            "Delta version of every table after the run",
            required=True,
        ),
        Column(
            "digests",
            T.MapType(STRING, STRING, valueContainsNull=True),
            "Digest of every table that is cut by day, all its days together",
            required=True,
        ),
        Column(
            "counts",
            T.MapType(STRING, LONG, valueContainsNull=True),
            "Frames read, by what became of them; events of the run's days by outcome (outcome.*), plain refreshes as "
            "outcome.refreshed",
            required=True,
        ),
        Column(
            "seconds",
            T.MapType(STRING, T.DoubleType(), valueContainsNull=True),
            "Seconds by step",
            required=True,
        ),
        Column("gate", STRING, "passed, or the critical rules that failed", required=True),
        Column("code_version", STRING, "Version of this software", required=True),
        Column("config_sha256", STRING, "SHA-256 of the configuration in force", required=True),
        Column("report", STRING, "What the run's summary says of its days, as JSON; NULL if it was refused"),
    ),
    key=("run_id",),
    partition_by=(),
)
RESTATEMENTS = Table(
    "restatements",
    "gold",
    "one slice - a table's day of one name server - that a run published with other rows than the run before it",
    (
        Column("run_id", STRING, "Run that changed it", required=True),
        Column("previous_run", STRING, "Published run before it, whose rows were others", required=True),
        Column("table_name", STRING, "Gold table", required=True),
        NAMESRV_ID,
        Column("rows_before", LONG, "Rows of the slice in the previous run", required=True),
        Column("rows_after", LONG, "Rows of it now", required=True),
        Column(
            "rows_added",
            LONG,
            "Rows that were not there before; a changed row is one added and one removed",
            required=True,
        ),
        Column("rows_removed", LONG, "Rows that are gone", required=True),
        Column(
            "cause",
            STRING,
            "events (late or repeated ones of that day), earlier_day (what a day before it left is different), "
            "configuration, code",
            required=True,
        ),
        Column("ingest_runs", STRINGS, "Ingest runs whose events of that day no earlier run knew", required=True),
        Column("new_events", LONG, "How many events and answers those are", required=True),
        Column("event_ids", STRINGS, "The first 20 of them", required=True),
        Column(
            "changes",
            T.ArrayType(struct_of(key=STRING, change=STRING, before=STRING, after=STRING), containsNull=True),
            "Rows that changed, by the table's key: change is added, removed or changed, before and after are the rest of the "
            "row as JSON. Of the tables that are read most, at most 100 a day",
            required=True,
        ),
        Column("day", DATE, "Day that was published before; partition", required=True),
    ),
    key=("day", "run_id", "table_name", "namesrv_id"),
)

REPORT_TABLES = (
    EVENT_OUTCOMES,
    REFRESHES_HOURLY,
    PAST_KNOWLEDGE,
    ROUTE_CHANGES,
    EXPIRED_BROKERS,
    ORPHANED_TOPICS,
    FINDINGS,
    ORDER_DECISIONS,
    NAMESRV_SETTINGS,
    ROUTE_MISMATCHES,
    ANSWER_CHECKS,
)
TABLES = (*HISTORY_TABLES, *REPORT_TABLES, RUNS, RESTATEMENTS)
