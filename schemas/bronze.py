"""The bronze tables: what was recorded, one row per event, answer or refused input, as read from its source.

One envelope for all events. `event_time` is when the name server had received the event's last byte; `effect_time` and
`seq` are when it took effect: a request with its response, a request without response when it arrived (or just before
its connection closed), a close when the name server handled it. Tables of events and answers are in `schemas.recorded`.
"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from namesrv_wire.errors import PIECES, Reason
from schemas.recorded import (
    ADDRESS_SAYS,
    EVENT_TABLES,
    IS_ADDRESS,
    RECORDED_TABLES,
    REQUEST,
    ROUTE_OBSERVATIONS,
    SOURCE,
    SOURCE_RULES,
    is_object,
)
from schemas.table import DATE, Rule, Table, columns, each, has_form, is_hex, is_one_of, queues, required, rules, warn

__all__ = ("EVENT_TABLES", "RECORDED_TABLES", "REQUEST", "ROUTE_OBSERVATIONS", "TABLES")

_IS_INT = "json_type(v) IN ('BIGINT', 'UBIGINT') AND try_cast(CAST(v AS VARCHAR) AS INTEGER) IS NOT NULL"
_IS_MAP = is_object("e.curr_id_map", _IS_INT, "try_cast(k AS INTEGER) IS NOT NULL")
_QUEUES_ARE_READ = each("mappings", f"e.curr_id_map IS NULL OR e.curr_id_map = '' OR {_IS_MAP}")

TOPIC_CONFIGS_TABLE = Table(
    "topic_configs",
    "bronze",
    "one distinct topic table of a registration, stored once",
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
"""Share of a run's frames above which quarantine stops it: whoever sends only rubbish must not hide in it."""

QUARANTINE_FLOOR = 10
"""Pieces that a run may always quarantine: one bad line is more than the share of a small file."""

QUARANTINE = Table(
    "quarantine",
    "bronze",
    "one part of the input that could not be decoded or broke a rule",
    (
        *columns("""
            quarantine_id* STRING: Deterministic id, 32 hex digits
            namesrv_id STRING: Name server, if known
            namesrv_addr STRING: Its address that was used, if known
            event_time TIMESTAMP: When it was received, if known
            channel_id STRING: Connection, if known
            reason* STRING: Reason code; broken_rule: it could be decoded, and says what cannot be; too_late,
                clock_went_back, ahead_of_clock, seq_taken: it could be decoded, and has no place in the history; tls, http,
                zeros, half_frame, silent_connection: what a whole connection looks like; truncated_packet: the first frame
                of a connection that the capture has cut
            detail STRING: What was met and what was expected; broken_rule: the table and its rules
            length* BIGINT: Bytes of the refused part; broken_rule: of the row as JSON
            sha256* STRING: SHA-256 of the refused part, hex
            first_bytes* STRING: First bytes, hex, secrets blotted out; at most 256
            decoder_version* STRING: Version of the decoder that refused it
        """),
        *SOURCE,
        required("day", DATE, "Last day with events of the run that refused it, or else that was known; partition"),
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
    "one file that was given, by content",
    columns("""
        content_sha256* STRING: SHA-256 of the file as read
        source_file* STRING: Name of the file, without its folder
        kind* STRING: capture, event_log or namesrv_log; addresses: no file, but what is said of addresses is new,
            and rows are named anew
        bytes* BIGINT: Size of the file
        fingerprint STRING: Digest of its whole name, its size and the time of its last change, by which it is known without
            being read; NULL: it was as new as the reading of it
        frames* BIGINT: Frames (capture) or lines (event log) in it
        packets BIGINT: Packets in it; NULL for an event log
        first_time TIMESTAMP: Time of the first packet; NULL for an event log
        last_time TIMESTAMP: Time of the last packet; NULL for an event log
        days* ARRAY<DATE>: Days on which the run that read it has written or changed rows
        error STRING: What is wrong with it, or why reading stopped early; NULL: nothing
        verdict* STRING: accepted; unread: nothing, or less than most, of it could be read; refused: it breaks a rule, and
            none of its rows is kept
        counts MAP<STRING, BIGINT>: What became of all that the run that read it has read, as in runs.counts; the same in
            each of its rows
        ingest_run* STRING: Run that read it
    """),
    key=("content_sha256",),
    partition_by=(),
    rules=(
        SOURCE_RULES[0],
        *rules(f"""
            sha256_has_its_form: content_sha256 is 64 hex digits.
                {is_hex("content_sha256", 64)}
            kind_is_known: kind is capture, event_log, namesrv_log or addresses.
                kind IN ('capture', 'event_log', 'namesrv_log', 'addresses')
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
    "the connections of one address of a name server where reading stopped, so that the next capture continues them",
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
    "one address that is another address of a name server",
    columns("""
        namesrv_addr
        namesrv_id
        source* STRING: given (conf), stated (by an event log), joined (as findings suggest, where that is asked for)
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
    "how far one name server is known: what lies further back than the configured limit is too late",
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
_BY_NAME = {table.name.upper(): table for table in TABLES}


def __getattr__(name: str) -> Table:
    """Return the table of that name, in capitals, of events or answers."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise AttributeError(f"no bronze table is called {name.lower()}") from None
