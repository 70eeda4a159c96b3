"""The bronze tables: the recording as read from its sources, one row per event, answer or refused input.

All events share the columns of one envelope. `event_time` is when the name server had received the event's last byte.
`effect_time` and `seq` are when the event took effect: a request with its response, a request without response when it arrived
(or just before its connection closed), a close when the name server handled it. Tables of events and answers come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from namesrv_core.machine.events import NS_PER_US
from namesrv_core.machine.profile import COMPARED
from namesrv_wire.codes import EVENT_TABLES as TABLE_OF_CODE
from namesrv_wire.codes import OBSERVED, REQUEST_NAMES, VERSION_NAMES
from namesrv_wire.errors import PIECES, Reason
from namesrv_wire.logs.event_log import NAMESRV_KINDS
from namesrv_wire.rows import UNTIL_MS
from schemas.table import (
    DATE,
    DAY_OF_EFFECT,
    STRING,
    Column,
    Rule,
    Table,
    columns,
    each,
    has_form,
    is_code,
    is_hex,
    is_one_of,
    queues,
    reference,
    required,
    rules,
    union,
    unique_across,
    warn,
    words,
)

SOURCE = columns("""
    source_file* STRING: Name of the file that the row was read from, with folders where its run read several of that name
    source_offset* BIGINT: Packet number (capture) or line number (event log) in that file, from 1
    ingest_run* STRING: Run that read the row
""")
DAY = required("day", DATE, "UTC date of effect_time; partition")
ENVELOPE = columns("""
    namesrv_id
    seq* BIGINT: Order within the name server: effect time in ns since the epoch, made unique
    event_id* STRING: Deterministic id of the event from content and position, 32 hex digits
    event_time* TIMESTAMP: When the name server had received the event's last byte
    effect_time* TIMESTAMP: When the event took effect; for a request, when its response left
    channel_id STRING: Connection: remote ip:port, '#', opening time in ns; NULL where there is none
    proxied_addr STRING: Client's ip:port from the PROXY preamble of the connection; NULL without a preamble
    namesrv_addr
""")
REQUEST = columns("""
    code* INT: Request code
    one_way* BOOLEAN: TRUE: sent one-way, without asking for a response
    request_version* INT: Protocol version in the request header
    response_code INT: Code of the response; NULL if none was seen
    response_remark STRING: Remark of the response
    response_fields STRING: Header fields of the response (masterAddr, changed ...) as JSON; NULL if none
    response_body STRING: Body of the response as text; NULL if empty
""")
BROKER = columns("""
    cluster_name STRING: clusterName of the header; NULL if absent
    broker_name STRING: brokerName of the header; NULL if absent
    broker_addr STRING: brokerAddr of the header; NULL if absent
    broker_id BIGINT: brokerId of the header, 0 = master; NULL if absent
""")
FOLLOWING_ID = """coalesce(stated_id, md5(concat_ws('|', namesrv_addr, channel_id, CAST(code AS STRING),
CAST(unix_micros({time}) AS STRING), CAST(nth AS STRING))))"""
STATED_ID = Column("stated_id", STRING, "event_id as its source states it; NULL if it follows from the row")
SOURCE_RULES = rules("""
    source_file_is_relative: source_file does not begin at the root.
        source_file NOT LIKE '/%'
    source_offset_counts_from_1: Packets and lines are counted from 1.
        source_offset >= 1
""")
IS_ADDRESS, ADDRESS_SAYS = has_form("namesrv_id", ".+:[0-9]{1,5}"), "namesrv_id looks like host:port."


# seq is compared with products, which take less time than a quotient.
_ORDER_RULES = rules("""
    effect_follows_arrival?: An event takes effect after it arrived; otherwise the recording clock went back.
        effect_time >= event_time
    seq_is_effect_time?: seq lies within a second of effect_time.
        seq BETWEEN (epoch_us(effect_time) - 1000000) * 1000 AND (epoch_us(effect_time) + 1000000) * 1000 + 999
""")
_CHANNEL_FORM = f"channel_id IS NULL OR {has_form('channel_id', '.+#[0-9]+')}"
_CHANNEL_SAYS = "channel_id is the remote address, '#', and the opening time."
USUAL_CODES = (0, 1, 2, 3, 17, 22)
ARE_USUAL = "The answer is SUCCESS, SYSTEM_ERROR, BUSY, NOT_SUPPORTED, TOPIC_NOT_EXIST or QUERY_NOT_FOUND."


def is_object(text: str, values: str, keys: str | None = None) -> str:
    """Return the SQL condition that `text` is a JSON object; `values` and `keys` are conditions on each value `v` and key `k`."""
    flat = f"len(list_filter(json_extract({text}, '$.*'), lambda v: NOT coalesce({values}, FALSE))) = 0"
    named = f" AND len(list_filter(json_keys({text}), lambda k: NOT coalesce({keys}, FALSE))) = 0" if keys else ""
    return f"CASE WHEN json_valid({text}) THEN json_type({text}) = 'OBJECT' AND {flat}{named} END"


FIELDS_ARE_READ = warn(
    "response_fields_are_read",
    # Most answers have none.
    "response_fields IS NULL OR response_fields = '{}' OR "
    + is_object("response_fields", "json_type(v) NOT IN ('OBJECT', 'ARRAY')"),
    "response_fields is a JSON object of texts.",
)
REQUEST_RULES = rules(f"""
    one_way_has_no_response: A one-way request has no response.
        NOT one_way OR response_code IS NULL
    remark_needs_response: There is no remark without a response.
        response_remark IS NULL OR response_code IS NOT NULL
    response_code_is_usual?: {ARE_USUAL}
        response_code IS NULL OR {is_code("response_code", USUAL_CODES)}
""")
# In 5.x QUERY_DATA_VERSION has no broker id. BROKER_HEARTBEAT may have one, but brokers leave it out.
BROKER_RULES = rules("""
    broker_is_named?: A broker gives its cluster, name and address.
        cluster_name <> '' AND broker_name <> '' AND broker_addr <> ''
    broker_id_is_not_negative?: A broker id is 0 or more; only QUERY_DATA_VERSION (322) and BROKER_HEARTBEAT (904) may have none.
        broker_id >= 0 OR (broker_id IS NULL AND code IN (322, 904))
""")


def events(
    name: str, grain: str, *columns: Column, rules: tuple[Rule, ...], derived: Mapping[str, str] | None = None
) -> Table:
    """Return a table of events: the envelope, `columns`, and the source; `derived`: SQL of the columns that are not stored."""
    follow = derived or {}
    made = [replace(column, derived=follow.get(column.name)) for column in (*ENVELOPE, *columns, *SOURCE, DAY)]
    # Millions of events come over a few thousand connections, so each connection is checked once.
    connections = f"SELECT DISTINCT namesrv_id, channel_id FROM {name}"
    # A derived id has the form by construction, so it is not computed for this check.
    is_digest = f"stated_id IS NULL OR {is_hex('stated_id', 32)}" if "event_id" in follow else is_hex("event_id", 32)
    shared = (
        Rule("event_id_is_a_digest", is_digest, "event_id is 32 hex digits."),
        *(DAY_OF_EFFECT, *SOURCE_RULES, *_ORDER_RULES),
        warn("namesrv_id_is_an_address", IS_ADDRESS, ADDRESS_SAYS, over=connections),
        warn("channel_id_has_its_form", _CHANNEL_FORM, _CHANNEL_SAYS, over=connections),
    )
    return Table(name, "bronze", grain, tuple(made), key=("event_id",), rules=(*shared, *rules))


def requests(name: str, grain: str, *columns: Column, rules: tuple[Rule, ...] = (), **more: Any) -> Table:
    """Return a table of requests: events with the columns and rules of all requests, and a broker's rules if `columns` name one."""
    codes = sorted(code for code, table in TABLE_OF_CODE.items() if table == name)
    own = Rule("code_belongs_here", is_code("code", codes), f"Request codes of this table: {words(codes)}.")
    shared = (*REQUEST_RULES, FIELDS_ARE_READ, *(BROKER_RULES if BROKER[-1] in columns else ()), own)
    return events(name, grain, *REQUEST, *columns, rules=(*shared, *rules), **more)


HEARTBEATS = requests(
    "heartbeats",
    "one QUERY_DATA_VERSION (322) or BROKER_HEARTBEAT (904)",
    *BROKER,
    *columns("""
        data_version DATA_VERSION: Version sent; NULL for 904
        nth* INT: Number, from 0, among its connection's heartbeats with this code and event_time; higher behind a clock's step back
    """),
    STATED_ID,
    derived={"event_id": FOLLOWING_ID.format(time="event_time")},
    rules=rules(f"""
        light_heartbeat_has_no_version: Only code 322 sends a version.
            {is_code("code", [322])} OR data_version IS NULL
    """),
)
"""Heartbeats; their ids are derived, because tens of millions of digests a day would be most of all bytes (`timed_id`)."""
REGISTRATIONS = requests(
    "registrations",
    "one REGISTER_BROKER (103); its topics are in topic_configs under topic_config_digest",
    *BROKER,
    *columns("""
        ha_server_addr STRING: haServerAddr of the header
        enable_acting_master BOOLEAN: enableActingMaster of the header; NULL if absent (4.x)
        heartbeat_timeout_ms BIGINT: heartbeatTimeoutMillis of the header; NULL if absent
        zone_name STRING: __ZONE_NAME of the header
        data_version DATA_VERSION: dataVersion of the body; NULL if the
            body says null
        topic_config_digest STRING: Key into topic_configs; NULL if the topic table is null
        topic_count INT: Topics in the body
        filter_servers ARRAY<STRING>: filterServerList; NULL keeps the stored list, an empty one removes it
        compressed* BOOLEAN: TRUE: the body was compressed
        body_bytes* BIGINT: Size of the body on the wire
        refusal STRING: Reason of the refusal: a flaw of the request, or the text of its answer; NULL if not refused
    """),
    rules=(
        *rules("""
            topic_count_has_topics: Counted topics are stored under a digest.
                topic_config_digest IS NOT NULL OR coalesce(topic_count, 0) = 0
            body_fits_a_frame: A body is no longer than the longest frame, 16 MiB.
                body_bytes BETWEEN 0 AND 16777216
            lease_is_not_negative?: A lease is 0 ms or more.
                heartbeat_timeout_ms IS NULL OR heartbeat_timeout_ms >= 0
            refusal_is_answered_so?: A request that the request layer refused was not answered with SUCCESS.
                refusal IS NULL OR response_code IS NULL OR response_code <> 0
        """),
        reference(
            "topics_are_stored",
            "Every topic_config_digest is in topic_configs.",
            """
            SELECT DISTINCT r.topic_config_digest, t.topic_config_digest AS known
            FROM registrations AS r
            LEFT JOIN topic_configs AS t ON t.topic_config_digest = r.topic_config_digest
            WHERE r.topic_config_digest IS NOT NULL""",
            scope="table",
        ),
    ),
)
UNREGISTRATIONS = requests("unregistrations", "one UNREGISTER_BROKER (104)", *BROKER)
CHANNEL_EVENTS = events(
    "channel_events",
    "one step in the end of a connection, as the name server met it; a close follows an idle close or an exception",
    *columns("""
        kind* STRING: close, exception, idle, or late_close (the packet that ended a connection after its idle limit)
        closed_by* STRING: client, namesrv, or timer (idle close without a packet)
        remote_addr* STRING: Remote ip:port
        silent_ms BIGINT: Milliseconds since the last byte on the connection, either direction
        pending_requests* INT: Requests on the connection that had no response when it ended
    """),
    rules=(
        *rules("""
            kind_is_known: kind is close, exception, idle or late_close.
                kind IN ('close', 'exception', 'idle', 'late_close')
            closed_by_is_known: closed_by is client, namesrv or timer.
                closed_by IN ('client', 'namesrv', 'timer')
            has_a_channel: A channel event names its connection.
                channel_id IS NOT NULL
            pending_is_not_negative: pending_requests is 0 or more.
                pending_requests >= 0
            silence_is_not_negative?: silent_ms is 0 or more.
                silent_ms IS NULL OR silent_ms >= 0
            channel_is_of_its_remote?: channel_id begins with remote_addr.
                channel_id IS NULL OR starts_with(channel_id, remote_addr || '#')
        """),
        warn(
            "channel_closes_once",
            "closes <= 1",
            "A connection is closed once.",
            over="""
                SELECT namesrv_id, channel_id, count_if(kind = 'close') AS closes
                FROM channel_events GROUP BY namesrv_id, channel_id""",
        ),
    ),
)
_NAMES_BY_CODE = " ".join(f"WHEN {code} THEN '{REQUEST_NAMES[code]}'" for code in sorted(TABLE_OF_CODE))
ADMIN_EVENTS = requests(
    "admin_events",
    "one administrative request that changes the registry or the configuration",
    *columns("""
        operation* STRING: Name of the request code, lower case
        broker_name STRING: 205, 327: broker whose queues change
        cluster_name STRING: 216: cluster; NULL or empty = the whole topic
        topic STRING: 216, 217: topic
        queue_datas ARRAY<STRUCT<broker_name: STRING, read_queue_nums: INT, write_queue_nums: INT, perm: INT,
            topic_sys_flag: INT>>: 217: queue data to store; NULL if the list is null
        namespace STRING: 100, 102: KV namespace
        config_key STRING: 100, 102: KV key
        config_value STRING: 100: KV value; 318: the properties that are kept (docs/auditors.md), one name=value a line
    """),
    rules=(
        *rules(f"""
            operation_is_of_its_code: operation is the name of the request code.
                operation = CASE code {_NAMES_BY_CODE} ELSE operation END
        """),
        *queues("queue_datas"),
    ),
)
REQUESTS = ("heartbeats", "registrations", "unregistrations", "admin_events")
_EVENTS = (*REQUESTS, "channel_events", "namesrv_events")
NAMESRV_EVENTS = events(
    "namesrv_events",
    "one fact about a name server's life",
    *columns("""
        kind* STRING: started, stopped (routes are lost), observed_from (first packet), identified (version), configured
            (its answer about its configuration), idle_limit_outlasted (a silent connection was not closed),
            min_broker_id_notified (it told a broker its group's smallest id, 905), recording_gap (nothing was recorded
            of it for a while), logged (lines of its log written by one call), clock_went_back (the recording clock, by more
            than five seconds between two records);
            address_started, address_stopped, address_observed_from, address_recording_gap: shown by one of its several
            addresses or captures; another row confirms it for the name server, or denies it
        version INT: identified: protocol version in its responses, e.g. 407 = 4.9.7, 493 = 5.4.0
        evidence* STRING: Evidence in the source
        properties STRING: configured: the properties that are kept, one name=value a line; recording gaps: until_ms=, the
            end; logged: what happened, followed by the messages of the lines
    """),
    rules=(
        *rules(f"""
            kind_is_known: kind is one of {", ".join(sorted(NAMESRV_KINDS))}.
                {is_one_of("kind", sorted(NAMESRV_KINDS))}
            properties_if_configured: configured and logged rows and recording gaps, and only they, have properties.
                (kind IN ('configured', 'recording_gap', 'address_recording_gap', 'logged')) = (properties IS NOT NULL)
            gap_has_an_end: A gap in the recording ends after it began.
                kind NOT IN ('recording_gap', 'address_recording_gap') OR ({has_form("properties", UNTIL_MS + "[0-9]{1,15}")} AND
                try_cast(substring(properties, {len(UNTIL_MS) + 1}) AS BIGINT) >= epoch_ms(effect_time))
            version_if_identified: identified rows, and only they, have a version.
                (kind = 'identified') = (version IS NOT NULL)
            version_is_tried?: The rules of the release were compared (docs/versions.md); others get those of the one before.
                version IS NULL OR {is_code("version", map(VERSION_NAMES.index, COMPARED))}
        """),
        unique_across(
            "seq_is_unique_in_all_events",
            ("namesrv_id", "seq"),
            _EVENTS,
            "No two events of a name server have the same seq, whatever their tables.",
        ),
        warn(
            "clock_does_not_go_back",
            "first_time = earliest AND last_time = latest AND (before IS NULL OR before <= first_time)",
            "Requests are recorded in order of time, checked per thousand packets or lines of a file.",
            over=f"""
                SELECT *, lag(last_time) OVER (PARTITION BY namesrv_id, source_file ORDER BY bucket) AS before
                FROM (
                  SELECT namesrv_id, source_file, source_offset // 1000 AS bucket,
                         min(event_time) AS earliest, min_by(event_time, source_offset) AS first_time,
                         max(event_time) AS latest, max_by(event_time, source_offset) AS last_time
                  FROM ({union(REQUESTS, "namesrv_id, source_file, source_offset, event_time")})
                  GROUP BY ALL)""",
        ),
    ),
)
ROUTE_OBSERVATIONS = events(
    "route_observations",
    "one answer of a name server to a question about its registry or configuration",
    *columns("""
        code* INT: Request code: 105 route, 106 cluster info, 206 topic list, 224/304/311/312/313 other lists, 101/219 KV
            value/list, 319 configuration, 901 member group
        subject STRING: 105: topic; 224: cluster; 101: key; 219: namespace; 901: broker name; NULL otherwise
        scope STRING: 105: zone; 101: namespace of the key; 901: cluster; NULL otherwise
        request_seq* BIGINT: Position of the request's last byte, on the scale of seq
        standard_json* BOOLEAN: 105: TRUE: the client accepts only standard JSON
        request_version* INT: Protocol version in the request header
        language STRING: Language in the request header
        response_code* INT: Code of the answer; 17 = TOPIC_NOT_EXIST
        response_version* INT: Protocol version in the answer's header
        remark STRING: Remark of the answer
        response_fields STRING: Header fields of the answer (101: value) as JSON; NULL if none
        body STRING: Body of the answer as text (319: the properties that are kept); NULL if empty
        nth* INT: Number, from 0, among its connection's answers with this code and effect_time; higher behind a clock's step back
    """),
    STATED_ID,
    *columns("""
        seq_rest* BIGINT: seq minus effect_time, in ns
        request_rest* BIGINT: request_seq minus event_time, in ns
    """),
    derived={
        "event_id": FOLLOWING_ID.format(time="effect_time"),
        "seq": f"unix_micros(effect_time) * {NS_PER_US} + seq_rest",
        "request_seq": f"unix_micros(event_time) * {NS_PER_US} + request_rest",
    },
    rules=(
        FIELDS_ARE_READ,
        *rules(f"""
            code_belongs_here: Request codes of this table: {words(sorted(OBSERVED))}.
                {is_code("code", sorted(OBSERVED))}
            subject_is_of_its_code: Only questions about a topic, a cluster, a KV key or namespace, or a group have a subject.
                code IN (101, 105, 219, 224, 901) OR subject IS NULL
            answer_follows_question?: An answer comes after its question.
                request_seq <= seq
            response_code_is_usual?: {ARE_USUAL}
                {is_code("response_code", USUAL_CODES)}
            route_has_a_body?: A route that was found has a body.
                code <> 105 OR response_code <> 0 OR body IS NOT NULL
        """),
    ),
)
"""Answers: columns that follow from others are not stored; equal texts are stored once for many rows (`jobs.store.files`)."""
EVENT_TABLES = (HEARTBEATS, REGISTRATIONS, UNREGISTRATIONS, CHANNEL_EVENTS, ADMIN_EVENTS, NAMESRV_EVENTS)
RECORDED_TABLES = (*EVENT_TABLES, ROUTE_OBSERVATIONS)
"""The tables of events, and that of answers."""


__all__ = ("EVENT_TABLES", "RECORDED_TABLES", "REQUEST", "ROUTE_OBSERVATIONS", "TABLES")

_IS_INT = "json_type(v) IN ('BIGINT', 'UBIGINT') AND try_cast(CAST(v AS VARCHAR) AS INTEGER) IS NOT NULL"
_IS_MAP = is_object("e.curr_id_map", _IS_INT, "try_cast(k AS INTEGER) IS NOT NULL")
_QUEUES_ARE_READ = each("mappings", f"e.curr_id_map IS NULL OR e.curr_id_map = '' OR {_IS_MAP}")

TOPIC_CONFIGS_TABLE = Table(
    "topic_configs",
    "bronze",
    "one distinct topic table of registrations",
    columns("""
        topic_config_digest* STRING: SHA-256 over the topics and mappings in canonical form, 32 hex digits
        topics* ARRAY<STRUCT<topic: STRING, read_queue_nums: INT, write_queue_nums: INT, perm: INT, topic_sys_flag: INT>>:
            Topic configurations, in the order of the first body that had them
        mappings* ARRAY<STRUCT<topic: STRING, bname: STRING, total_queues: INT, epoch: BIGINT, dirty: BOOLEAN, scope:
            STRING, curr_id_map: STRING>>: topicQueueMappingInfoMap of 5.x; empty if none
        topic_count* INT: Number of topics
        ingest_run* STRING: Run that read it first
    """),
    key=("topic_config_digest",),
    partition_by=(),
    rules=(
        *rules(f"""
            digest_has_its_form: topic_config_digest is 32 hex digits.
                {is_hex("topic_config_digest", 32)}
            topics_are_counted: topic_count is the number of topics.
                topic_count = len(topics)
            topics_are_named?: Every topic has a name.
                {each("topics", "e.topic <> ''")}
            topics_are_named_once?: No topic is there twice.
                len(list_distinct(list_transform(topics, lambda t: {{'topic': t.topic}}))) = len(topics)
            mappings_are_plausible?: Mappings have 0 queues or more.
                {each("mappings", "e.total_queues >= 0")}
            queue_maps_are_read?: A queue map is a JSON object of queue ids.
                {_QUEUES_ARE_READ}
        """),
        *queues("topics"),
    ),
)
BROKEN_RULE = "broken_rule"
"""Reason code of a quarantined row that could be decoded but broke critical rules; its detail names them."""

QUARANTINE_REASONS = (*sorted(reason.value for reason in Reason), BROKEN_RULE)
_PIECES = sorted(reason.value for reason in PIECES)
QUARANTINE_SHARE = 0.01
"""Share of a run's frames above which quarantine stops the run, so that a flood of rubbish is noticed."""

QUARANTINE_FLOOR = 10
"""Pieces that a run may always quarantine: in a small file one bad line exceeds the share."""

QUARANTINE = Table(
    "quarantine",
    "bronze",
    "one part of the input that could not be decoded or broke a rule",
    (
        *columns("""
            quarantine_id* STRING: Deterministic id, 32 hex digits
            namesrv_id STRING: Name server, if known
            namesrv_addr STRING: Address of the name server that was used, if known
            event_time TIMESTAMP: When it was received, if known
            channel_id STRING: Connection, if known
            reason* STRING: Reason code; broken_rule: decoded, but it states something impossible; too_late,
                clock_went_back, ahead_of_clock, seq_taken: decoded, but it has no place in the history; tls, http, zeros,
                half_frame, silent_connection: a whole connection of this kind; truncated_packet: the first frame of a
                connection that the capture has cut
            detail STRING: What was found and what was expected; broken_rule: the table and its rules
            length* BIGINT: Bytes of the refused part; broken_rule: of the row as JSON
            sha256* STRING: SHA-256 of the refused part, hex
            first_bytes* STRING: First bytes, hex, secrets blotted out; at most 256
            decoder_version* STRING: Version of the decoder that refused it
        """),
        *SOURCE,
        required("day", DATE, "Last day with events of the run that refused it, else the last known day; partition"),
    ),
    key=("quarantine_id",),
    rules=(
        *SOURCE_RULES,
        *rules(f"""
            quarantine_id_is_a_digest: quarantine_id is 32 hex digits.
                {is_hex("quarantine_id", 32)}
            reason_is_known: The reason is one of: {", ".join(QUARANTINE_REASONS)}.
                {is_one_of("reason", QUARANTINE_REASONS)}
            length_is_not_negative: length is 0 or more.
                length >= 0
            sha256_has_its_form: sha256 is 64 hex digits.
                {is_hex("sha256", 64)}
            first_bytes_are_few: first_bytes are at most 256 bytes in hex.
                {has_form("first_bytes", "[0-9a-f]*")} AND length(first_bytes) % 2 = 0 AND length(first_bytes) <= 512
        """),
        Rule(
            "quarantine_is_small",
            f"quarantined <= greatest({QUARANTINE_FLOOR}, {QUARANTINE_SHARE} * frames)",
            f"A run quarantines at most {QUARANTINE_SHARE:.0%} of its frames (or {QUARANTINE_FLOOR} of few).",
            severity="warning",  # the limit that stops a night is configuration
            kind="query",
            over=f"""
                SELECT ingest_run, sum(frames) AS frames, sum(quarantined) AS quarantined
                FROM (SELECT ingest_run, frames, 0 AS quarantined FROM sources
                      UNION ALL SELECT ingest_run, 0, 1 FROM quarantine WHERE NOT list_contains({_PIECES}, reason))
                GROUP BY ingest_run""",
            scope="table",
        ),
    ),
)
ACCEPTED, UNREAD, REFUSED = "accepted", "unread", "refused"
"""Verdicts on a file that was given."""
SOURCES = Table(
    "sources",
    "bronze",
    "one input file, known by its content",
    columns("""
        content_sha256* STRING: SHA-256 of the file as read
        source_file* STRING: Name of the file, with folders where its run read several of that name
        kind* STRING: capture, event_log, namesrv_log or broker_log; addresses: not a file, but new knowledge about which
            addresses are one name server, after which rows get new namesrv_ids
        bytes* BIGINT: Size of the file
        fingerprint STRING: Digest of its path, size and modification time, which identifies it without reading it; NULL: it
            was modified at about the time of reading
        frames* BIGINT: Frames (capture) or lines (event log) in it
        packets BIGINT: Packets in it; NULL for an event log
        first_time TIMESTAMP: Time of the first packet; NULL for an event log
        last_time TIMESTAMP: Time of the last packet; NULL for an event log
        days* ARRAY<DATE>: Days on which the run that read it wrote or changed rows
        error STRING: What is wrong with it, or why reading stopped early; NULL: no error
        verdict* STRING: accepted; unread: most of it could not be read; refused: it breaks a rule, and none of its rows is
            kept
        counts MAP<STRING, BIGINT>: Counts of the run that read it, as in runs.counts; the same for all files of that run
        ingest_run* STRING: Run that read it
    """),
    key=("content_sha256",),
    partition_by=(),
    rules=(
        SOURCE_RULES[0],
        *rules(f"""
            sha256_has_its_form: content_sha256 is 64 hex digits.
                {is_hex("content_sha256", 64)}
            kind_is_known: kind is capture, event_log, namesrv_log, broker_log or addresses.
                kind IN ('capture', 'event_log', 'namesrv_log', 'broker_log', 'addresses')
            counts_are_not_negative: bytes, frames and packets are 0 or more.
                bytes >= 0 AND frames >= 0 AND coalesce(packets, 0) >= 0
            packets_if_capture: Captures, and only they, have packets.
                (kind = 'capture') = (packets IS NOT NULL)
            times_are_in_order?: A file does not end before it begins.
                first_time IS NULL OR last_time IS NULL OR first_time <= last_time
            verdict_is_known: verdict is accepted, unread or refused.
                {is_one_of("verdict", (ACCEPTED, UNREAD, REFUSED))}
            is_accepted?: Most of the file could be read, and it breaks no rule.
                verdict NOT IN ('{UNREAD}', '{REFUSED}')
            read_to_its_end?: Reading did not stop early.
                error IS NULL
        """),
    ),
)
OPEN_STREAMS = Table(
    "open_streams",
    "bronze",
    "one address of a name server, with its connections where reading stopped; the next capture continues them",
    columns("""
        namesrv_addr
        state* STRING: Open connections, half-received frames and unanswered requests as strict JSON
        sha256* STRING: SHA-256 of state, hex
        last_time* TIMESTAMP: Time of the last packet seen
        ingest_run* STRING: Run that wrote it
    """),
    key=("namesrv_addr",),
    partition_by=(),
    rules=rules("""
        state_is_intact: sha256 is the SHA-256 of state.
            sha256 = sha256(state)
        state_is_json: state is JSON.
            json_valid(state)
    """),
)
ADDRESSES = Table(
    "addresses",
    "bronze",
    "one further address of a name server",
    columns("""
        namesrv_addr
        namesrv_id
        source* STRING: given (conf), stated (by an event log), joined (suggested by a finding, with --join-addresses)
        ingest_run* STRING: Run that noted it
    """),
    key=("namesrv_addr",),
    partition_by=(),
    rules=rules("""
        source_is_known: source is given, stated or joined.
            source IN ('given', 'stated', 'joined')
        other_address_is_another: No address is its own other one.
            namesrv_addr <> namesrv_id
    """),
)
WATERMARKS = Table(
    "watermarks",
    "bronze",
    "one name server, with the latest time known of it; events further back than the configured limit are too late",
    columns("""
        namesrv_id
        latest_time* TIMESTAMP: Latest effect_time among its events and answers
        ingest_run* STRING: Run that moved it
    """),
    key=("namesrv_id",),
    partition_by=(),
    rules=(warn("namesrv_id_is_an_address", IS_ADDRESS, ADDRESS_SAYS),),
)
TABLES = (
    *EVENT_TABLES,
    TOPIC_CONFIGS_TABLE,
    ROUTE_OBSERVATIONS,
    QUARANTINE,
    SOURCES,
    OPEN_STREAMS,
    ADDRESSES,
    WATERMARKS,
)
