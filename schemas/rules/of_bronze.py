"""The rules of the bronze tables."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from namesrv_core.machine.profile import COMPARED
from namesrv_wire.codes import EVENT_TABLES as TABLE_OF_CODE
from namesrv_wire.codes import OBSERVED, REQUEST_NAMES, VERSION_NAMES
from namesrv_wire.errors import PIECES, Reason
from namesrv_wire.logs.event_fields import NAMESRV_KINDS
from namesrv_wire.rows import UNTIL_MS
from schemas import bronze
from schemas.rule import (
    DAY_OF_EFFECT,
    each,
    has_form,
    is_code,
    is_hex,
    is_one_of,
    queues,
    reference,
    told_apart,
    union,
    warn,
    words,
)
from schemas.table import Rule

EVENTS = tuple(table.name for table in bronze.EVENT_TABLES)
REQUESTS = ("heartbeats", "registrations", "unregistrations", "admin_events")

BROKEN_RULE = "broken_rule"
"""Reason code of a quarantined row that could be decoded but broke critical rules; its detail names them."""

QUARANTINE_REASONS = (*sorted(reason.value for reason in Reason), BROKEN_RULE)
_PIECES = sorted(reason.value for reason in PIECES)
QUARANTINE_SHARE = 0.01
"""Share of a run's frames above which quarantine stops it: whoever sends only rubbish must not hide in it."""

QUARANTINE_FLOOR = 10
"""Pieces that a run may always quarantine: one bad line is more than the share of a small file."""

_SOURCE_FILE = Rule(
    "source_file_is_a_name", "NOT contains(source_file, '/')", "source_file is a name without a folder."
)
_SOURCE = (
    _SOURCE_FILE,
    Rule("source_offset_counts_from_1", "source_offset >= 1", "Packets and lines are counted from 1."),
)
_TIMED = frozenset(table.name for table in bronze.EVENT_TABLES if table.derived) | {bronze.ROUTE_OBSERVATIONS.name}
_ADDRESS, _ADDRESS_SAYS = has_form("namesrv_id", ".+:[0-9]{1,5}"), "namesrv_id looks like host:port."


def _envelope(table: str) -> tuple[Rule, ...]:
    """Return the rules of what all tables of events have."""
    # Millions of events come over a few thousand connections: each of these has its form once.
    connections = f"SELECT DISTINCT namesrv_id, channel_id FROM {table}"
    # An id that follows from its row has its form: it is not made for it.
    is_digest = f"stated_id IS NULL OR {is_hex('stated_id', 32)}" if table in _TIMED else is_hex("event_id", 32)
    return (
        Rule("event_id_is_a_digest", is_digest, "event_id is 32 hex digits."),
        DAY_OF_EFFECT,
        *_SOURCE,
        warn(
            "effect_follows_arrival",
            "effect_time >= event_time",
            "An event takes effect after it arrived; otherwise the recording clock went back.",
        ),
        warn(
            "seq_is_effect_time",
            # A product takes less than a quotient.
            "seq BETWEEN (epoch_us(effect_time) - 1000000) * 1000 AND (epoch_us(effect_time) + 1000000) * 1000 + 999",
            "seq lies within a second of effect_time.",
        ),
        warn("namesrv_id_is_an_address", _ADDRESS, _ADDRESS_SAYS, over=connections),
        warn(
            "channel_id_has_its_form",
            f"channel_id IS NULL OR {has_form('channel_id', '.+#[0-9]+')}",
            "channel_id is the remote address, '#', and the opening time.",
            over=connections,
        ),
    )


_USUAL_CODES = (0, 1, 2, 3, 17, 22)
_ARE_USUAL = "The answer is SUCCESS, SYSTEM_ERROR, BUSY, NOT_SUPPORTED, TOPIC_NOT_EXIST or QUERY_NOT_FOUND."


UNREAD_FIELDS, UNREAD_QUEUES = "response_fields_are_read", "queue_maps_are_read"
"""Rules of what replay parses: a row that was stored before they were looked at when it is read counts for the rest of it."""


def _object(text: str, values: str, keys: str | None = None) -> str:
    """Return the SQL condition that `text` is a JSON object whose values (`v`) and keys (`k`) are as they should be."""
    flat = f"len(list_filter(json_extract({text}, '$.*'), lambda v: NOT coalesce({values}, FALSE))) = 0"
    named = f" AND len(list_filter(json_keys({text}), lambda k: NOT coalesce({keys}, FALSE))) = 0" if keys else ""
    return f"CASE WHEN json_valid({text}) THEN json_type({text}) = 'OBJECT' AND {flat}{named} END"


_FIELDS_ARE_READ = warn(
    UNREAD_FIELDS,
    # Most answers have none.
    "response_fields IS NULL OR response_fields = '{}' OR "
    + _object("response_fields", "json_type(v) NOT IN ('OBJECT', 'ARRAY')"),
    "response_fields is a JSON object of texts; what nobody can read counts as no fields, see quarantine.",
)
_IS_INT = "json_type(v) IN ('BIGINT', 'UBIGINT') AND try_cast(CAST(v AS VARCHAR) AS INTEGER) IS NOT NULL"
_IS_INT_KEY = "try_cast(k AS INTEGER) IS NOT NULL"

_REQUEST = (
    Rule(
        "one_way_has_no_response",
        "NOT one_way OR response_code IS NULL",
        "A one-way request has no response.",
    ),
    Rule(
        "remark_needs_response",
        "response_remark IS NULL OR response_code IS NOT NULL",
        "There is no remark without a response.",
    ),
    warn(
        "response_code_is_usual",
        f"response_code IS NULL OR {is_code('response_code', _USUAL_CODES)}",
        _ARE_USUAL,
    ),
)
_BROKER = (
    warn(
        "broker_is_named",
        "cluster_name <> '' AND broker_name <> '' AND broker_addr <> ''",
        "A broker gives its cluster, name and address.",
    ),
    # QUERY_DATA_VERSION has no broker id in 5.x; brokers leave it out of BROKER_HEARTBEAT, which may have one.
    warn(
        "broker_id_is_not_negative",
        "broker_id >= 0 OR (broker_id IS NULL AND code IN (322, 904))",
        "A broker id is 0 or more; only QUERY_DATA_VERSION (322) and BROKER_HEARTBEAT (904) may have none.",
    ),
)


def _code_of(table: str) -> Rule:
    codes = sorted(code for code, name in TABLE_OF_CODE.items() if name == table)
    return Rule("code_belongs_here", is_code("code", codes), f"Request codes of this table: {words(codes)}.")


BRONZE: dict[str, tuple[Rule, ...]] = {
    "heartbeats": (
        *_envelope("heartbeats"),
        *_REQUEST,
        _FIELDS_ARE_READ,
        *_BROKER,
        _code_of("heartbeats"),
        Rule(
            "light_heartbeat_has_no_version",
            f"{is_code('code', [322])} OR data_version IS NULL",
            "Only code 322 sends a version.",
        ),
    ),
    "registrations": (
        *_envelope("registrations"),
        *_REQUEST,
        _FIELDS_ARE_READ,
        *_BROKER,
        _code_of("registrations"),
        Rule(
            "topic_count_has_topics",
            "topic_config_digest IS NOT NULL OR coalesce(topic_count, 0) = 0",
            "Counted topics are stored under a digest.",
        ),
        Rule(
            "body_fits_a_frame",
            "body_bytes BETWEEN 0 AND 16777216",
            "A body is no longer than the longest frame, 16 MiB.",
        ),
        warn(
            "lease_is_not_negative",
            "heartbeat_timeout_ms IS NULL OR heartbeat_timeout_ms >= 0",
            "A lease is 0 ms or more.",
        ),
        warn(
            "refusal_is_answered_so",
            "refusal IS NULL OR response_code IS NULL OR response_code <> 0",
            "What the request layer refused was not answered with SUCCESS.",
        ),
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
    "unregistrations": (
        *_envelope("unregistrations"),
        *_REQUEST,
        _FIELDS_ARE_READ,
        *_BROKER,
        _code_of("unregistrations"),
    ),
    "channel_events": (
        *_envelope("channel_events"),
        Rule(
            "kind_is_known",
            "kind IN ('close', 'exception', 'idle', 'late_close')",
            "kind is close, exception, idle or late_close.",
        ),
        Rule(
            "closed_by_is_known",
            "closed_by IN ('client', 'namesrv', 'timer')",
            "closed_by is client, namesrv or timer.",
        ),
        Rule("has_a_channel", "channel_id IS NOT NULL", "A channel event names its connection."),
        Rule("pending_is_not_negative", "pending_requests >= 0", "pending_requests is 0 or more."),
        warn("silence_is_not_negative", "silent_ms IS NULL OR silent_ms >= 0", "silent_ms is 0 or more."),
        warn(
            "channel_is_of_its_remote",
            "channel_id IS NULL OR starts_with(channel_id, remote_addr || '#')",
            "channel_id begins with remote_addr.",
        ),
        warn(
            "channel_closes_once",
            "closes <= 1",
            "A connection is closed once.",
            over="""
                SELECT namesrv_id, channel_id, count_if(kind = 'close') AS closes
                FROM channel_events GROUP BY namesrv_id, channel_id""",
        ),
    ),
    "admin_events": (
        *_envelope("admin_events"),
        *_REQUEST,
        _FIELDS_ARE_READ,
        _code_of("admin_events"),
        Rule(
            "operation_is_of_its_code",
            "operation = CASE code "
            + " ".join(f"WHEN {code} THEN '{REQUEST_NAMES[code]}'" for code in sorted(TABLE_OF_CODE))
            + " ELSE operation END",
            "operation is the name of the request code.",
        ),
        *queues("queue_datas"),
    ),
    "namesrv_events": (
        *_envelope("namesrv_events"),
        Rule(
            "kind_is_known",
            is_one_of("kind", sorted(NAMESRV_KINDS)),
            f"kind is one of {', '.join(sorted(NAMESRV_KINDS))}.",
        ),
        Rule(
            "properties_if_configured",
            "(kind IN ('configured', 'recording_gap', 'address_recording_gap')) = (properties IS NOT NULL)",
            "configured rows and recording gaps, and only they, have properties.",
        ),
        Rule(
            "gap_has_an_end",
            f"kind NOT IN ('recording_gap', 'address_recording_gap') OR ({has_form('properties', UNTIL_MS + '[0-9]{1,15}')} AND "
            f"try_cast(substring(properties, {len(UNTIL_MS) + 1}) AS BIGINT) >= epoch_ms(effect_time))",
            "A gap in the recording ends after it began.",
        ),
        Rule(
            "version_if_identified",
            "(kind = 'identified') = (version IS NOT NULL)",
            "identified rows, and only they, have a version.",
        ),
        warn(
            "version_is_tried",
            f"version IS NULL OR {is_code('version', map(VERSION_NAMES.index, COMPARED))}",
            "The name server is of a release whose rules were compared (docs/versions.md); others get those of the one before.",
        ),
        told_apart(
            "seq_is_unique_in_all_events",
            ("namesrv_id", "seq"),
            EVENTS,
            "No two events of a name server have the same seq, whatever their tables.",
        ),
        warn(
            "clock_does_not_go_back",
            "first_time = earliest AND last_time = latest AND (before IS NULL OR before <= first_time)",
            "Requests are recorded in order of time, looked at per thousand packets or lines of a file.",
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
    "topic_configs": (
        Rule("digest_has_its_form", is_hex("topic_config_digest", 32), "topic_config_digest is 32 hex digits."),
        Rule("topics_are_counted", "topic_count = len(topics)", "topic_count is the number of topics."),
        warn("topics_are_named", each("topics", "e.topic <> ''"), "Every topic has a name."),
        warn(
            "topics_are_named_once",
            "len(list_distinct(list_transform(topics, lambda t: {'topic': t.topic}))) = len(topics)",
            "No topic is there twice.",
        ),
        warn(
            "mappings_are_plausible",
            each("mappings", "e.total_queues >= 0"),
            "Mappings have 0 queues or more.",
        ),
        warn(
            UNREAD_QUEUES,
            each(
                "mappings",
                f"e.curr_id_map IS NULL OR e.curr_id_map = '' OR {_object('e.curr_id_map', _IS_INT, _IS_INT_KEY)}",
            ),
            "A queue map is a JSON object of queue ids; what nobody can read counts as no queues, see quarantine.",
        ),
        *queues("topics"),
    ),
    "route_observations": (
        *_envelope("route_observations"),
        _FIELDS_ARE_READ,
        Rule(
            "code_belongs_here",
            is_code("code", sorted(OBSERVED)),
            f"Request codes of this table: {words(sorted(OBSERVED))}.",
        ),
        Rule(
            "subject_is_of_its_code",
            "code IN (101, 105, 219, 224, 901) OR subject IS NULL",
            "Only questions about a topic, a cluster, a KV key or namespace, or a group have a subject.",
        ),
        warn("answer_follows_question", "request_seq <= seq", "An answer comes after its question."),
        warn(
            "response_code_is_usual",
            is_code("response_code", _USUAL_CODES),
            _ARE_USUAL,
        ),
        warn(
            "route_has_a_body",
            "code <> 105 OR response_code <> 0 OR body IS NOT NULL",
            "A route that was found has a body.",
        ),
    ),
    "snapshots": (
        *_SOURCE,
        Rule("event_id_is_a_digest", is_hex("event_id", 32), "event_id is 32 hex digits."),
        Rule(
            "snapshot_is_json",
            "CASE WHEN json_valid(snapshot) THEN json_extract_string(snapshot, '$.format') IS NOT NULL END",
            "snapshot names its format.",
        ),
    ),
    "quarantine": (
        *_SOURCE,
        Rule("quarantine_id_is_a_digest", is_hex("quarantine_id", 32), "quarantine_id is 32 hex digits."),
        Rule(
            "reason_is_known",
            is_one_of("reason", QUARANTINE_REASONS),
            f"The reason is one of: {', '.join(QUARANTINE_REASONS)}.",
        ),
        Rule("length_is_not_negative", "length >= 0", "length is 0 or more."),
        Rule("sha256_has_its_form", is_hex("sha256", 64), "sha256 is 64 hex digits."),
        Rule(
            "first_bytes_are_few",
            f"{has_form('first_bytes', '[0-9a-f]*')} AND length(first_bytes) % 2 = 0 AND length(first_bytes) <= 512",
            "first_bytes are at most 256 bytes in hex.",
        ),
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
    "sources": (
        Rule("sha256_has_its_form", is_hex("content_sha256", 64), "content_sha256 is 64 hex digits."),
        _SOURCE_FILE,
        Rule(
            "kind_is_known",
            "kind IN ('capture', 'event_log', 'snapshot', 'addresses')",
            "kind is capture, event_log, snapshot or addresses.",
        ),
        Rule(
            "counts_are_not_negative",
            "bytes >= 0 AND frames >= 0 AND coalesce(packets, 0) >= 0",
            "bytes, frames and packets are 0 or more.",
        ),
        Rule(
            "packets_if_capture",
            "(kind = 'capture') = (packets IS NOT NULL)",
            "Captures, and only they, have packets.",
        ),
        warn(
            "times_are_in_order",
            "first_time IS NULL OR last_time IS NULL OR first_time <= last_time",
            "A file does not end before it begins.",
        ),
        Rule(
            "verdict_is_known",
            is_one_of("verdict", (bronze.ACCEPTED, bronze.UNREAD, bronze.REFUSED)),
            "verdict is accepted, unread or refused.",
        ),
        warn(
            "is_accepted",
            f"verdict NOT IN ('{bronze.UNREAD}', '{bronze.REFUSED}')",
            "Most of the file could be read, and it breaks no rule.",
        ),
        warn("read_to_its_end", "error IS NULL", "Reading did not stop early."),
    ),
    "open_streams": (
        Rule("state_is_intact", "sha256 = sha256(state)", "sha256 is the SHA-256 of state."),
        Rule("state_is_json", "json_valid(state)", "state is JSON."),
    ),
    "addresses": (
        Rule("source_is_known", "source IN ('given', 'stated', 'joined')", "source is given, stated or joined."),
        Rule("other_address_is_another", "namesrv_addr <> namesrv_id", "No address is its own other one."),
    ),
    "watermarks": (warn("namesrv_id_is_an_address", _ADDRESS, _ADDRESS_SAYS),),
}
