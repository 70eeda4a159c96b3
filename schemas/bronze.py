"""The bronze tables: what was recorded, one row per event, answer or refused input, as read from its source.

One envelope for all events. `event_time` is when the name server had received the event's last byte; `effect_time` and
`seq` are when it took effect: a request with its response, a request without response when it arrived (or just before
its connection closed), a close when the name server handled it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from namesrv_core.machine.instants import NS_PER_US
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
    list_of,
    map_of,
    required,
    struct_of,
)

DATA_VERSION = struct_of(state_version=LONG, timestamp=LONG, counter=LONG)
TOPIC_CONFIG = struct_of(topic=STRING, read_queue_nums=INT, write_queue_nums=INT, perm=INT, topic_sys_flag=INT)
MAPPING_INFO = struct_of(
    topic=STRING, bname=STRING, total_queues=INT, epoch=LONG, dirty=BOOLEAN, scope=STRING, curr_id_map=STRING
)
QUEUE_DATA = struct_of(broker_name=STRING, read_queue_nums=INT, write_queue_nums=INT, perm=INT, topic_sys_flag=INT)
DAYS = list_of(DATE)
TOPIC_CONFIGS = list_of(TOPIC_CONFIG)
MAPPING_INFOS = list_of(MAPPING_INFO)
QUEUE_DATAS = list_of(QUEUE_DATA)

NAMESRV_ID = required("namesrv_id", STRING, "Name server: its address, or one of its addresses, ip:port")
NAMESRV_ADDR = required("namesrv_addr", STRING, "Address of the name server that was used, ip:port as seen")
SOURCE = (
    required("source_file", STRING, "Name of the file the row was read from, without its folder"),
    required("source_offset", LONG, "Packet number (capture) or line number (event log) in that file, from 1"),
    required("ingest_run", STRING, "Run that read the row"),
)
DAY = required("day", DATE, "UTC date of effect_time; partition")
ENVELOPE = (
    NAMESRV_ID,
    required("seq", LONG, "Order within the name server: effect time in ns since the epoch, made unique"),
    required("event_id", STRING, "Deterministic id from content and position, 32 hex digits"),
    required("event_time", TIMESTAMP, "When the name server had received the event's last byte"),
    required("effect_time", TIMESTAMP, "When the event took effect (a request: with its response)"),
    Column("channel_id", STRING, "Connection: remote ip:port, '#', opening time in ns; NULL where there is none"),
    Column(
        "proxied_addr", STRING, "Client's ip:port, as a PROXY preamble on the connection named it; NULL without one"
    ),
    NAMESRV_ADDR,
)
REQUEST = (
    required("code", INT, "Request code"),
    required("one_way", BOOLEAN, "Sent one-way: no response was asked for"),
    required("request_version", INT, "Protocol version in the request header"),
    Column("response_code", INT, "Code of the response; NULL if none was seen"),
    Column("response_remark", STRING, "Remark of the response"),
    Column("response_fields", STRING, "Header fields of the response (masterAddr, changed ...) as JSON; NULL if none"),
    Column("response_body", STRING, "Body of the response as text; NULL if empty"),
)
BROKER = (
    Column("cluster_name", STRING, "clusterName of the header; NULL if absent"),
    Column("broker_name", STRING, "brokerName of the header; NULL if absent"),
    Column("broker_addr", STRING, "brokerAddr of the header; NULL if absent"),
    Column("broker_id", LONG, "brokerId of the header, 0 = master; NULL if absent"),
)


def _events(name: str, grain: str, *columns: Column, derived: Mapping[str, str] | None = None) -> Table:
    made = [replace(column, derived=(derived or {}).get(column.name)) for column in (*ENVELOPE, *columns, *SOURCE, DAY)]
    return Table(name, "bronze", grain, tuple(made), key=("event_id",))


_ID = """coalesce(stated_id, md5(concat_ws('|', namesrv_addr, channel_id, CAST(code AS STRING),
CAST(unix_micros({time}) AS STRING), CAST(nth AS STRING))))"""
STATED_ID = Column("stated_id", STRING, "event_id as its source states it; NULL where that follows from the row")
HEARTBEATS = _events(
    "heartbeats",
    "one QUERY_DATA_VERSION (322) or BROKER_HEARTBEAT (904)",
    *REQUEST,
    *BROKER,
    Column("data_version", DATA_VERSION, "Version sent; NULL for 904"),
    required("nth", INT, "Of its connection's beats with its code and event_time the first is 0"),
    STATED_ID,
    derived={"event_id": _ID.format(time="event_time")},
)
"""Ids of beats are not stored: tens of millions of digests a day would be most of all bytes (`namesrv_wire.rows.timed_id`)."""
REGISTRATIONS = _events(
    "registrations",
    "one REGISTER_BROKER (103); its topics are in topic_configs under topic_config_digest",
    *REQUEST,
    *BROKER,
    Column("ha_server_addr", STRING, "haServerAddr of the header"),
    Column("enable_acting_master", BOOLEAN, "enableActingMaster of the header; NULL if absent (4.x)"),
    Column("heartbeat_timeout_ms", LONG, "heartbeatTimeoutMillis of the header; NULL if absent"),
    Column("zone_name", STRING, "__ZONE_NAME of the header"),
    Column("data_version", DATA_VERSION, "dataVersion of the body; NULL if the body says null"),
    Column("topic_config_digest", STRING, "Key into topic_configs; NULL if the topic table is null"),
    Column("topic_count", INT, "Topics in the body"),
    Column("filter_servers", STRINGS, "filterServerList; NULL leaves the stored list, empty removes it"),
    required("compressed", BOOLEAN, "The body was compressed"),
    required("body_bytes", LONG, "Size of the body on the wire"),
    Column("refusal", STRING, "Why it was refused: a flaw of the request, or what its answer says; NULL if it was not"),
)
UNREGISTRATIONS = _events("unregistrations", "one UNREGISTER_BROKER (104)", *REQUEST, *BROKER)
CHANNEL_EVENTS = _events(
    "channel_events",
    "one end of a connection as the name server met it; an idle close or an exception is followed by its close",
    required(
        "kind",
        STRING,
        "close, exception, idle, or late_close (the packet that ended a connection after its idle limit)",
    ),
    required("closed_by", STRING, "client, namesrv, or timer (idle close without a packet)"),
    required("remote_addr", STRING, "Remote ip:port"),
    Column("silent_ms", LONG, "Milliseconds since the last byte on the connection, either direction"),
    required("pending_requests", INT, "Requests on the connection that had no response when it ended"),
)
ADMIN_EVENTS = _events(
    "admin_events",
    "one administrative request that changes the registry or the configuration",
    *REQUEST,
    required("operation", STRING, "Name of the request code, lower case"),
    Column("broker_name", STRING, "205, 327: broker whose queues change"),
    Column("cluster_name", STRING, "216: cluster, NULL or empty = the whole topic"),
    Column("topic", STRING, "216, 217: topic"),
    Column("queue_datas", QUEUE_DATAS, "217: queue data to store; NULL if the list is null"),
    Column("namespace", STRING, "100, 102: KV namespace"),
    Column("config_key", STRING, "100, 102: KV key"),
    Column(
        "config_value",
        STRING,
        "100: KV value; 318: what is kept of the properties (docs/auditors.md), one name=value a line",
    ),
)
NAMESRV_EVENTS = _events(
    "namesrv_events",
    "one fact about a name server's life",
    required(
        "kind",
        STRING,
        "started, stopped (routes are lost), observed_from (first packet), identified (version), "
        "configured (its answer about its configuration), idle_limit_outlasted (a silent connection was not closed), "
        "min_broker_id_notified (it told a broker of its group's smallest id, 905), "
        "recording_gap (nothing was recorded of it from then on for a while), "
        "clock_went_back (by more than five seconds, from one record to a later one); address_started, address_stopped, "
        "address_observed_from, address_recording_gap: what one of its addresses shows, and another row says of it, or denies",
    ),
    Column("version", INT, "identified: protocol version in its responses, e.g. 407 = 4.9.7, 493 = 5.4.0"),
    required("evidence", STRING, "What in the source says so"),
    Column(
        "properties",
        STRING,
        "configured: what is kept of its properties, one name=value a line; recording gaps: until_ms=, the end",
    ),
)
TOPIC_CONFIGS_TABLE = Table(
    "topic_configs",
    "bronze",
    "one distinct topic table of a registration, stored once",
    (
        required(
            "topic_config_digest", STRING, "SHA-256 over the topics and mappings in canonical form, 32 hex digits"
        ),
        required("topics", TOPIC_CONFIGS, "Topic configurations, in the order of the first body that had them"),
        required("mappings", MAPPING_INFOS, "topicQueueMappingInfoMap of 5.x; empty if none"),
        required("topic_count", INT, "Number of topics"),
        required("ingest_run", STRING, "Run that read it first"),
    ),
    key=("topic_config_digest",),
    partition_by=(),
)
ROUTE_OBSERVATIONS = _events(
    "route_observations",
    "one answer that a name server gave to a question about what it holds",
    required(
        "code",
        INT,
        "Request code: 105 route, 106 cluster info, 206 topic list, 224/304/311/312/313 other lists, "
        "101/219 KV value/list, 319 configuration, 901 member group",
    ),
    Column("subject", STRING, "105: topic; 224: cluster; 101: key; 219: namespace; 901: broker name; NULL otherwise"),
    Column("scope", STRING, "105: zone; 101: namespace of the key; 901: cluster; NULL otherwise"),
    required("request_seq", LONG, "Position of the request's last byte, on the scale of seq"),
    required("standard_json", BOOLEAN, "105: the asker accepts standard JSON only"),
    required("request_version", INT, "Protocol version in the request header"),
    Column("language", STRING, "Language in the request header"),
    required("response_code", INT, "Code of the answer; 17 = TOPIC_NOT_EXIST"),
    required("response_version", INT, "Protocol version in the answer's header"),
    Column("remark", STRING, "Remark of the answer"),
    Column("response_fields", STRING, "Header fields of the answer (101: value) as JSON; NULL if none"),
    Column("body", STRING, "Body of the answer as text, 319: what is kept of it; NULL if empty"),
    required("nth", INT, "Of its connection's answers with its code and effect_time the first is 0"),
    STATED_ID,
    required("seq_rest", LONG, "What seq is beyond effect_time in ns"),
    required("request_rest", LONG, "What request_seq is beyond event_time in ns"),
    derived={
        "event_id": _ID.format(time="effect_time"),
        "seq": f"unix_micros(effect_time) * {NS_PER_US} + seq_rest",
        "request_seq": f"unix_micros(event_time) * {NS_PER_US} + request_rest",
    },
)
"""Of an answer nothing is stored that follows from its row; texts are there once among many rows (`jobs.store.files`)."""
SNAPSHOTS = Table(
    "snapshots",
    "bronze",
    "one state of a name server at an instant, from a file in the format namesrv-snapshot/1",
    (
        NAMESRV_ID,
        NAMESRV_ADDR,
        required("seq", LONG, "Position of the instant, in ns since the epoch"),
        required("event_id", STRING, "Deterministic id from the content, 32 hex digits"),
        required("effect_time", TIMESTAMP, "The instant"),
        required("snapshot", STRING, "The file's text"),
        *SOURCE,
        DAY,
    ),
    key=("event_id",),
)
QUARANTINE = Table(
    "quarantine",
    "bronze",
    "one piece of input that could not be decoded or broke a rule",
    (
        required("quarantine_id", STRING, "Deterministic id, 32 hex digits"),
        Column("namesrv_id", STRING, "Name server, if known"),
        Column("namesrv_addr", STRING, "Its address that was used, if known"),
        Column("event_time", TIMESTAMP, "When it was received, if known"),
        Column("channel_id", STRING, "Connection, if known"),
        required(
            "reason",
            STRING,
            "Reason code; broken_rule: it could be decoded, and says what cannot be; too_late, clock_went_back, ahead_of_clock, "
            "seq_taken: it could be decoded, and has no place in the history; tls, http, zeros, half_frame, "
            "silent_connection: what a whole connection looks like; truncated_packet: the first frame of a connection that the "
            "capture has cut",
        ),
        Column("detail", STRING, "What was met and what was expected; broken_rule: the table and its rules"),
        required("length", LONG, "Bytes of the refused piece; broken_rule: of the row as JSON"),
        required("sha256", STRING, "SHA-256 of the refused piece, hex"),
        required("first_bytes", STRING, "First bytes, hex, secrets blotted out; at most 256"),
        required("decoder_version", STRING, "Version of the decoder that refused it"),
        *SOURCE,
        required("day", DATE, "Last day with events of the run that refused it, or else that was known; partition"),
    ),
    key=("quarantine_id",),
)
ACCEPTED, UNREAD, REFUSED = "accepted", "unread", "refused"
"""Verdicts on a file that was given."""
SOURCES = Table(
    "sources",
    "bronze",
    "one file that was given, by content",
    (
        required("content_sha256", STRING, "SHA-256 of the file as read"),
        required("source_file", STRING, "Name of the file, without its folder"),
        required(
            "kind",
            STRING,
            "capture, event_log or snapshot; addresses: no file, but what is said of addresses is new, and rows are named anew",
        ),
        required("bytes", LONG, "Size of the file"),
        Column(
            "fingerprint",
            STRING,
            "Digest of its whole name, its size and the time of its last change, by which it is known without being read; NULL: "
            "it was as new as the reading of it",
        ),
        required("frames", LONG, "Frames (capture) or lines (event log) in it"),
        Column("packets", LONG, "Packets in it; NULL for an event log"),
        Column("first_time", TIMESTAMP, "Time of the first packet; NULL for an event log"),
        Column("last_time", TIMESTAMP, "Time of the last packet; NULL for an event log"),
        required("days", DAYS, "Days on which the run that read it has written or changed rows"),
        Column("error", STRING, "What is wrong with it, or why reading stopped early; NULL: nothing"),
        required(
            "verdict",
            STRING,
            "accepted; unread: nothing, or less than most, of it could be read; refused: it breaks a rule, and none of its rows "
            "is kept",
        ),
        Column(
            "counts",
            map_of(LONG),
            "What became of all that the run that read it has read, as in runs.counts; the same in each of its rows",
        ),
        required("ingest_run", STRING, "Run that read it"),
    ),
    key=("content_sha256",),
    partition_by=(),
)
OPEN_STREAMS = Table(
    "open_streams",
    "bronze",
    "the connections of one address of a name server where reading stopped, so that the next capture continues them",
    (
        NAMESRV_ADDR,
        required("state", STRING, "Open connections, half-received frames and unanswered requests as strict JSON"),
        required("sha256", STRING, "SHA-256 of state, hex"),
        required("last_time", TIMESTAMP, "Time of the last packet seen"),
        required("ingest_run", STRING, "Run that wrote it"),
    ),
    key=("namesrv_addr",),
    partition_by=(),
)
ADDRESSES = Table(
    "addresses",
    "bronze",
    "one address that is another address of a name server",
    (
        NAMESRV_ADDR,
        NAMESRV_ID,
        required(
            "source",
            STRING,
            "given (conf), stated (by an event log), joined (as findings suggest, where that is asked for)",
        ),
        required("ingest_run", STRING, "Run that noted it"),
    ),
    key=("namesrv_addr",),
    partition_by=(),
)
WATERMARKS = Table(
    "watermarks",
    "bronze",
    "how far one name server is known: what lies further back than the configured limit is too late",
    (
        NAMESRV_ID,
        required("latest_time", TIMESTAMP, "Latest effect_time among its events and answers"),
        required("ingest_run", STRING, "Run that moved it"),
    ),
    key=("namesrv_id",),
    partition_by=(),
)

EVENT_TABLES = (HEARTBEATS, REGISTRATIONS, UNREGISTRATIONS, CHANNEL_EVENTS, ADMIN_EVENTS, NAMESRV_EVENTS)
RECORDED_TABLES = (*EVENT_TABLES, ROUTE_OBSERVATIONS)
"""What happened, and what was answered."""
TABLES = (
    *EVENT_TABLES,
    TOPIC_CONFIGS_TABLE,
    ROUTE_OBSERVATIONS,
    SNAPSHOTS,
    QUARANTINE,
    SOURCES,
    OPEN_STREAMS,
    ADDRESSES,
    WATERMARKS,
)
