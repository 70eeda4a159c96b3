"""What must hold of every table, as data: a rule is a Spark SQL boolean and the sentence that it stands for.

Critical rules say what this software promises: a broken one is an error of its own and stops publication.
Warnings say what brokers and operators usually do: real input may break them, and is then shown, not refused.
What a name server really holds is never forbidden: live entries without a group, a cluster set with the name
of a group that is gone, one address in several groups.
"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from namesrv_core.draft import Outcome
from namesrv_wire.codes import EVENT_TABLES as TABLE_OF_CODE
from namesrv_wire.codes import OBSERVED, REQUEST_NAMES
from namesrv_wire.errors import Reason
from schemas import bronze, gold
from schemas.table import Severity, Table

Kind = Literal["row", "unique", "reference", "query"]

BROKEN_RULE = "broken_rule"
"""Reason code of a quarantined row that could be decoded but broke critical rules; its detail names them."""

QUARANTINE_REASONS = (*sorted(reason.value for reason in Reason), BROKEN_RULE)
QUARANTINE_SHARE = 0.01
"""Share of a run's frames above which quarantine stops it: whoever sends only rubbish must not hide in it."""

QUARANTINE_FLOOR = 10
"""Pieces that a run may always quarantine: one bad line is more than the share of a small file."""

# What a timer starts, not a packet; its ids are in event_outcomes only.
SYNTHETIC_OPERATIONS = ("scan",)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a table.

    `holds` is a Spark SQL boolean over one row of the table, or of `over`: a query that names tables as
    `{table_name}` and whose rows are judged instead. A row for which it is not TRUE breaks the rule. Only
    rules of kind `row` have no `over`.
    """

    name: str
    holds: str
    says: str
    severity: Severity = "critical"
    kind: Kind = "row"
    over: str | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the names of the tables that `over` reads, in alphabetical order."""
        fields = (field for _, field, _, _ in string.Formatter().parse(self.over or ""))
        return tuple(sorted({field for field in fields if field}))


# -- building blocks -------------------------------------------------------------------------------


def _warn(name: str, holds: str, says: str) -> Rule:
    return Rule(name, holds, says, "warning")


def _words(values: Iterable[str | int]) -> str:
    """Return SQL literals, separated by commas."""
    return ", ".join(repr(value) for value in values)


def _present(table: Table) -> Rule:
    required = [column.name for column in table.columns if column.required]
    return Rule(
        "required_columns_present",
        " AND ".join(f"{name} IS NOT NULL" for name in required),
        f"None of these is NULL: {', '.join(required)}.",
    )


def _unique(table: str, key: Iterable[str], name: str = "key_is_unique", severity: Severity = "critical") -> Rule:
    columns = ", ".join(key)
    return Rule(
        name,
        "copies = 1",
        f"No two rows have the same {columns}.",
        severity,
        "unique",
        f"SELECT {columns}, count(*) AS copies FROM {{{table}}} GROUP BY {columns}",
    )


_OR_REGISTRATION = " UNION ALL SELECT day, namesrv_id, event_id FROM {registrations}"


def _known(table: str, column: str, where: str = "TRUE", also: str = "") -> Rule:
    """Return the rule that the events in `column` are in event_outcomes, `where` they are of the day.

    `also` adds events (day, namesrv_id, event_id) that may have been plain refreshes, which event_outcomes leaves out.
    """
    events = "SELECT day, namesrv_id, event_id FROM {event_outcomes}" + also
    return Rule(
        f"{column}_is_known",
        "known IS NOT NULL",
        f"Every {column} of the slice's own day is a recorded event.",
        kind="reference",
        over=f"""
            SELECT judged.day, judged.namesrv_id, judged.{column}, outcomes.event_id AS known
            FROM {{{table}}} AS judged
            LEFT JOIN (SELECT DISTINCT day, namesrv_id, event_id FROM ({events})) AS outcomes
              ON outcomes.day = judged.day AND outcomes.namesrv_id = judged.namesrv_id
             AND outcomes.event_id = judged.{column}
            WHERE judged.{column} IS NOT NULL AND {where}""",
    )


def _hex(column: str, digits: int) -> str:
    return f"{column} RLIKE '^[0-9a-f]{{{digits}}}$'"


def _one_of(column: str, values: Iterable[str | int]) -> str:
    return f"{column} IN ({_words(values)})"


def _queues(rows: str = "") -> tuple[Rule, ...]:
    """Return the rules of queue data: of the row's own columns, or of the structs in the array `rows`."""

    def each(condition: str) -> str:
        return f"{rows} IS NULL OR forall({rows}, q -> {condition})" if rows else condition

    q = "q." if rows else ""
    return (
        _warn("perm_is_three_bits", each(f"{q}perm BETWEEN 0 AND 7"), "A permission is 0 to 7."),
        _warn(
            "queue_numbers_are_plausible",
            each(f"{q}read_queue_nums BETWEEN 0 AND 65536 AND {q}write_queue_nums BETWEEN 0 AND 65536"),
            "Queue numbers are 0 to 65,536.",
        ),
        _warn(
            "sys_flag_is_two_bits",
            each(f"{q}topic_sys_flag BETWEEN 0 AND 3"),
            "A topic's system flag is 0 to 3.",
        ),
    )


_DAY_OF_EFFECT = Rule("day_is_day_of_effect", "day = CAST(effect_time AS DATE)", "day is the UTC date of effect_time.")
_SOURCE = (
    Rule("source_file_is_a_name", "NOT contains(source_file, '/')", "source_file is a name without a folder."),
    Rule("source_offset_counts_from_1", "source_offset >= 1", "Packets and lines are counted from 1."),
)
_ENVELOPE = (
    Rule("event_id_is_a_digest", _hex("event_id", 32), "event_id is 32 hex digits."),
    _DAY_OF_EFFECT,
    *_SOURCE,
    _warn(
        "effect_follows_arrival",
        "effect_time >= event_time",
        "An event takes effect after it arrived; otherwise the recording clock went back.",
    ),
    _warn(
        "seq_is_effect_time",
        "seq DIV 1000 BETWEEN unix_micros(effect_time) - 1000000 AND unix_micros(effect_time) + 1000000",
        "seq lies within a second of effect_time.",
    ),
    _warn("namesrv_id_is_an_address", "namesrv_id RLIKE '^.+:[0-9]{1,5}$'", "namesrv_id looks like host:port."),
    _warn(
        "channel_id_has_its_form",
        "channel_id IS NULL OR channel_id RLIKE '^.+#[0-9]+$'",
        "channel_id is the remote address, '#', and the opening time.",
    ),
)
_USUAL_CODES = "The answer is SUCCESS, SYSTEM_ERROR, BUSY, NOT_SUPPORTED, TOPIC_NOT_EXIST or QUERY_NOT_FOUND."
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
    _warn(
        "response_code_is_usual",
        "response_code IS NULL OR response_code IN (0, 1, 2, 3, 17, 22)",
        _USUAL_CODES,
    ),
)
_BROKER = (
    _warn(
        "broker_is_named",
        "cluster_name <> '' AND broker_name <> '' AND broker_addr <> ''",
        "A broker gives its cluster, name and address.",
    ),
    _warn("broker_id_is_not_negative", "broker_id >= 0", "A broker id is 0 or more."),
)


_LIVES_IN_ITS_SLICE = Rule(
    "lives_in_its_slice",
    "CAST(valid_from AS DATE) <= day AND (valid_to IS NULL OR CAST(valid_to AS DATE) = day)",
    "A slice holds intervals that were alive during its day.",
)


def _code_of(table: str) -> Rule:
    codes = sorted(code for code, name in TABLE_OF_CODE.items() if name == table)
    return Rule("code_belongs_here", _one_of("code", codes), f"Request codes of this table: {_words(codes)}.")


# -- bronze ----------------------------------------------------------------------------------------

_EVENTS = tuple(table.name for table in bronze.EVENT_TABLES)
_REQUESTS = ("heartbeats", "registrations", "unregistrations", "admin_events")


def _union(tables: Iterable[str], columns: str) -> str:
    return " UNION ALL ".join(f"SELECT {columns} FROM {{{name}}}" for name in tables)


_BRONZE: dict[str, tuple[Rule, ...]] = {
    "heartbeats": (
        *_ENVELOPE,
        *_REQUEST,
        *_BROKER,
        _code_of("heartbeats"),
        Rule(
            "light_heartbeat_has_no_version",
            "code = 322 OR data_version IS NULL",
            "Only code 322 sends a version.",
        ),
    ),
    "registrations": (
        *_ENVELOPE,
        *_REQUEST,
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
        _warn(
            "lease_is_not_negative",
            "heartbeat_timeout_ms IS NULL OR heartbeat_timeout_ms >= 0",
            "A lease is 0 ms or more.",
        ),
        _warn(
            "refusal_is_answered_so",
            "refusal IS NULL OR response_code IS NULL OR response_code <> 0",
            "What the request layer refused was not answered with SUCCESS.",
        ),
        Rule(
            "topics_are_stored",
            "known IS NOT NULL",
            "Every topic_config_digest is in topic_configs.",
            kind="reference",
            over="""
                SELECT DISTINCT r.topic_config_digest, t.topic_config_digest AS known
                FROM {registrations} AS r
                LEFT JOIN {topic_configs} AS t ON t.topic_config_digest = r.topic_config_digest
                WHERE r.topic_config_digest IS NOT NULL""",
        ),
    ),
    "unregistrations": (*_ENVELOPE, *_REQUEST, *_BROKER, _code_of("unregistrations")),
    "channel_events": (
        *_ENVELOPE,
        Rule("kind_is_known", "kind IN ('close', 'exception', 'idle')", "kind is close, exception or idle."),
        Rule(
            "closed_by_is_known",
            "closed_by IN ('client', 'namesrv', 'timer')",
            "closed_by is client, namesrv or timer.",
        ),
        Rule("has_a_channel", "channel_id IS NOT NULL", "A channel event names its connection."),
        Rule("pending_is_not_negative", "pending_requests >= 0", "pending_requests is 0 or more."),
        _warn("silence_is_not_negative", "silent_ms IS NULL OR silent_ms >= 0", "silent_ms is 0 or more."),
        _warn(
            "channel_is_of_its_remote",
            "channel_id IS NULL OR startswith(channel_id, concat(remote_addr, '#'))",
            "channel_id begins with remote_addr.",
        ),
        Rule(
            "channel_closes_once",
            "closes <= 1",
            "A connection is closed once.",
            "warning",
            "query",
            """
            SELECT namesrv_id, channel_id, count_if(kind = 'close') AS closes
            FROM {channel_events} GROUP BY namesrv_id, channel_id""",
        ),
    ),
    "admin_events": (
        *_ENVELOPE,
        *_REQUEST,
        _code_of("admin_events"),
        Rule(
            "operation_is_of_its_code",
            "operation = CASE code "
            + " ".join(f"WHEN {code} THEN '{REQUEST_NAMES[code]}'" for code in sorted(TABLE_OF_CODE))
            + " ELSE operation END",
            "operation is the name of the request code.",
        ),
        *_queues("queue_datas"),
    ),
    "namesrv_events": (
        *_ENVELOPE,
        Rule(
            "kind_is_known",
            "kind IN ('started', 'stopped', 'observed_from', 'identified')",
            "kind is started, stopped, observed_from or identified.",
        ),
        Rule(
            "version_if_identified",
            "(kind = 'identified') = (version IS NOT NULL)",
            "identified rows, and only they, have a version.",
        ),
        _warn(
            "version_is_tried",
            "version IS NULL OR version IN (407, 493)",
            "The name server is 4.9.7 or 5.4.0, the versions this replay was compared with.",
        ),
        Rule(
            "seq_is_unique_in_all_events",
            "copies = 1",
            "No two events of a name server have the same seq, whatever their tables.",
            kind="unique",
            over="SELECT namesrv_id, seq, count(*) AS copies FROM ("
            + _union(_EVENTS, "namesrv_id, seq")
            + ") GROUP BY namesrv_id, seq",
        ),
        Rule(
            "clock_does_not_go_back",
            "first_time = earliest AND last_time = latest AND (before IS NULL OR before <= first_time)",
            "Requests are recorded in order of time, looked at per thousand packets or lines of a file.",
            "warning",
            "query",
            """
            SELECT *, lag(last_time) OVER (PARTITION BY namesrv_id, source_file ORDER BY bucket) AS before
            FROM (
              SELECT namesrv_id, source_file, source_offset DIV 1000 AS bucket,
                     min(event_time) AS earliest, min_by(event_time, source_offset) AS first_time,
                     max(event_time) AS latest, max_by(event_time, source_offset) AS last_time
              FROM ("""
            + _union(_REQUESTS, "namesrv_id, source_file, source_offset, event_time")
            + """)
              GROUP BY namesrv_id, source_file, source_offset DIV 1000)""",
        ),
    ),
    "topic_configs": (
        Rule("digest_has_its_form", _hex("topic_config_digest", 32), "topic_config_digest is 32 hex digits."),
        Rule("topics_are_counted", "topic_count = size(topics)", "topic_count is the number of topics."),
        _warn("topics_are_named", "forall(topics, t -> t.topic <> '')", "Every topic has a name."),
        _warn(
            "topics_are_named_once",
            "size(array_distinct(transform(topics, t -> t.topic))) = size(topics)",
            "No topic is there twice.",
        ),
        _warn(
            "mappings_are_plausible",
            "forall(mappings, m -> m.total_queues >= 0)",
            "Mappings have 0 queues or more.",
        ),
        *_queues("topics"),
    ),
    "route_observations": (
        *_ENVELOPE,
        Rule(
            "code_belongs_here",
            _one_of("code", sorted(OBSERVED)),
            f"Request codes of this table: {_words(sorted(OBSERVED))}.",
        ),
        Rule(
            "subject_is_of_its_code",
            "code IN (105, 224) OR subject IS NULL",
            "Only questions about a topic (105) or a cluster (224) have a subject.",
        ),
        _warn("answer_follows_question", "request_seq <= seq", "An answer comes after its question."),
        _warn(
            "response_code_is_usual",
            "response_code IN (0, 1, 2, 3, 17, 22)",
            _USUAL_CODES,
        ),
        _warn(
            "route_has_a_body",
            "code <> 105 OR response_code <> 0 OR body IS NOT NULL",
            "A route that was found has a body.",
        ),
    ),
    "quarantine": (
        *_SOURCE,
        Rule("quarantine_id_is_a_digest", _hex("quarantine_id", 32), "quarantine_id is 32 hex digits."),
        Rule(
            "reason_is_known",
            _one_of("reason", QUARANTINE_REASONS),
            f"The reason is one of: {', '.join(QUARANTINE_REASONS)}.",
        ),
        Rule("length_is_not_negative", "length >= 0", "length is 0 or more."),
        Rule("sha256_has_its_form", _hex("sha256", 64), "sha256 is 64 hex digits."),
        Rule(
            "first_bytes_are_few",
            "first_bytes RLIKE '^[0-9a-f]*$' AND length(first_bytes) % 2 = 0 AND length(first_bytes) <= 512",
            "first_bytes are at most 256 bytes in hex.",
        ),
        Rule(
            "quarantine_is_small",
            f"quarantined <= greatest({QUARANTINE_FLOOR}, {QUARANTINE_SHARE} * frames)",
            f"A run quarantines at most {QUARANTINE_SHARE:.0%} of its frames (or {QUARANTINE_FLOOR} of few).",
            severity="warning",  # the limit that stops a night is configuration
            kind="query",
            over="""
                SELECT ingest_run, sum(frames) AS frames, sum(quarantined) AS quarantined
                FROM (SELECT ingest_run, frames, 0 AS quarantined FROM {sources}
                      UNION ALL SELECT ingest_run, 0, 1 FROM {quarantine})
                GROUP BY ingest_run""",
        ),
    ),
    "sources": (
        Rule("sha256_has_its_form", _hex("content_sha256", 64), "content_sha256 is 64 hex digits."),
        Rule(
            "source_file_is_a_name",
            "NOT contains(source_file, '/')",
            "source_file is a name without a folder.",
        ),
        Rule("kind_is_known", "kind IN ('capture', 'event_log')", "kind is capture or event_log."),
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
        _warn(
            "times_are_in_order",
            "first_time IS NULL OR last_time IS NULL OR first_time <= last_time",
            "A file does not end before it begins.",
        ),
        _warn("read_to_its_end", "error IS NULL", "Reading did not stop early."),
    ),
    "open_streams": (
        Rule("state_is_intact", "sha256 = sha2(state, 256)", "sha256 is the SHA-256 of state."),
        Rule("state_is_json", "get_json_object(state, '$') IS NOT NULL", "state is JSON."),
    ),
}

# -- gold: histories -------------------------------------------------------------------------------


def _history(table: Table) -> tuple[Rule, ...]:
    """Return what holds of every history: intervals are whole, do not overlap, and are carried on."""
    name = table.name
    key = ", ".join(column for column in table.key if column not in {"day", "opened_at"})
    events = "heartbeats", "registrations", "event_outcomes"
    # What a plain refresh reports opens a data version, and plain refreshes have no outcome.
    known = _union(events if table is gold.DATA_VERSION_HISTORY else events[2:], "event_id")
    neighbours = f"""
        SELECT day, {key}, opened_at, closed_at,
               lead(opened_at) OVER (PARTITION BY day, {key} ORDER BY opened_at) AS next_opened_at,
               CAST(valid_from AS DATE) < day
                 AND array_contains(days, concat_ws(' ', date_sub(day, 1), namesrv_id)) AS is_carried,
               coalesce(lag(day) OVER same_row = date_sub(day, 1), FALSE)
                 AND coalesce(lag(valid_to IS NULL) OVER same_row, FALSE)
                 AS was_there,
               valid_to IS NULL
                 AND array_contains(days, concat_ws(' ', date_add(day, 1), namesrv_id)) AS is_to_carry,
               coalesce(lead(day) OVER same_row = date_add(day, 1), FALSE) AS is_there
        FROM {{{name}}}
        CROSS JOIN (SELECT collect_set(concat_ws(' ', day, namesrv_id)) AS days FROM {{{name}}})
        WINDOW same_row AS (PARTITION BY {key}, opened_at ORDER BY day)"""
    return (
        _present(table),
        Rule(
            "closes_whole",
            "(valid_to IS NULL) = (closed_by IS NULL) AND (valid_to IS NULL) = (closed_at IS NULL)",
            "A closed interval has valid_to, closed_by and closed_at, an open one has none of them.",
        ),
        Rule(
            "opens_before_it_closes",
            "closed_at IS NULL OR opened_at.seq < closed_at.seq",
            "An interval is closed by a later event than the one that opened it.",
        ),
        Rule(
            "time_does_not_run_back",
            "valid_to IS NULL OR valid_from <= valid_to",
            "valid_from is not after valid_to.",
        ),
        _LIVES_IN_ITS_SLICE,
        Rule(
            "key_entered_before",
            "entered_at <= opened_at",
            "A key enters its map no later than its row opens.",
        ),
        Rule(
            "does_not_overlap",
            "next_opened_at IS NULL OR (closed_at IS NOT NULL AND closed_at <= next_opened_at)",
            f"Intervals of one key ({key}) do not overlap within a slice; no interval is there twice.",
            kind="query",
            over=neighbours,
        ),
        Rule(
            "is_carried_to_the_next_day",
            "(NOT is_carried OR was_there) AND (NOT is_to_carry OR is_there)",
            "What is open at the end of a day is what the next day begins with, where both days are there.",
            kind="query",
            over=neighbours,
        ),
        Rule(
            "its_events_are_known",
            "known IS NOT NULL",
            "The events that opened or closed an interval on its slice's day are recorded.",
            kind="reference",
            over=f"""
                WITH judged AS (
                  SELECT DISTINCT day, namesrv_id, inline(array(
                    struct('opened_by' AS role,
                           IF(CAST(valid_from AS DATE) = day, opened_by, NULL) AS event_id),
                    struct('closed_by' AS role, closed_by AS event_id)))
                  FROM {{{name}}})
                SELECT judged.*, recorded.event_id AS known
                FROM judged
                LEFT JOIN (
                  SELECT DISTINCT events.event_id FROM ({known}) AS events
                  LEFT SEMI JOIN judged ON judged.event_id = events.event_id) AS recorded
                  ON recorded.event_id = judged.event_id
                WHERE judged.event_id IS NOT NULL""",
        ),
    )


def _covered(table: str, by: str, match: str, *, where: str, by_where: str) -> str:
    """Return the query that says of each interval of `table` whether intervals of `by` cover it.

    `match` are the columns that both share. Covering intervals that touch are joined first. One event changes
    several tables at once, so only positions of events count (seq). What was open before the slice's day is
    open from its start.
    """
    start = "CASE WHEN CAST(valid_from AS DATE) < day THEN -1 ELSE opened_at.seq END"
    end = "coalesce(closed_at.seq, 9223372036854775807)"
    same = " AND ".join(f"judged.{column} <=> spans.{column}" for column in ("day", "namesrv_id", *match.split(", ")))
    keys = f"day, namesrv_id, {match}"
    return f"""
        WITH judged AS (
          SELECT {keys}, opened_by, {start} AS starts, {end} AS ends FROM {{{table}}} WHERE {where}),
        parts AS (SELECT {keys}, {start} AS starts, {end} AS ends FROM {{{by}}} WHERE {by_where}),
        marked AS (
          SELECT *, CASE WHEN starts <= max(ends) OVER (
              PARTITION BY {keys} ORDER BY starts, ends ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            THEN 0 ELSE 1 END AS gap
          FROM parts),
        numbered AS (SELECT *, sum(gap) OVER (PARTITION BY {keys} ORDER BY starts, ends) AS span FROM marked),
        spans AS (
          SELECT {keys}, span, min(starts) AS starts, max(ends) AS ends FROM numbered GROUP BY {keys}, span)
        SELECT judged.*, spans.starts IS NOT NULL AS covered
        FROM judged
        LEFT JOIN spans ON {same} AND spans.starts <= judged.starts AND spans.ends >= judged.ends"""


_HISTORIES: dict[str, tuple[Rule, ...]] = {
    "topic_queue_history": (
        *_queues(),
        _warn("topic_is_named", "coalesce(topic, '') <> ''", "A topic has a name."),
        Rule(
            "broker_has_a_group",
            "covered",
            "Queue data exist only while their broker name is in broker_addr_history.",
            kind="query",
            over=_covered("topic_queue_history", "broker_addr_history", "broker_name", where="TRUE", by_where="TRUE"),
        ),
    ),
    "broker_addr_history": (
        _warn("broker_id_is_not_negative", "broker_id IS NULL OR broker_id >= 0", "A broker id is 0 or more."),
        Rule(
            "no_member_has_no_address",
            "broker_id IS NOT NULL OR broker_addr IS NULL",
            "Only a member has an address.",
        ),
        Rule(
            "address_has_one_id",
            "next_seq IS NULL OR (closed_seq IS NOT NULL AND closed_seq <= next_seq)",
            "An address has at most one id in a group at a time.",
            kind="query",
            over="""
                SELECT day, namesrv_id, broker_name, broker_addr, broker_id, closed_at.seq AS closed_seq,
                       lead(opened_at.seq) OVER (
                         PARTITION BY day, namesrv_id, broker_name, broker_addr
                         ORDER BY opened_at.seq, closed_at.seq NULLS LAST) AS next_seq
                FROM {broker_addr_history} WHERE broker_addr IS NOT NULL""",
        ),
        Rule(
            "empty_group_is_empty",
            "member IS NULL",
            "A group without members has no member at the same time.",
            kind="query",
            over="""
                SELECT empty.day, empty.namesrv_id, empty.broker_name, empty.opened_by,
                       member.broker_id AS member
                FROM {broker_addr_history} AS empty
                LEFT JOIN {broker_addr_history} AS member
                  ON member.day = empty.day AND member.namesrv_id = empty.namesrv_id
                 AND member.broker_name <=> empty.broker_name AND member.broker_id IS NOT NULL
                 AND (empty.closed_at IS NULL OR member.opened_at.seq < empty.closed_at.seq)
                 AND (member.closed_at IS NULL OR empty.opened_at.seq < member.closed_at.seq)
                WHERE empty.broker_id IS NULL""",
        ),
    ),
    "cluster_addr_history": (
        _warn(
            "names_are_not_empty",
            "coalesce(cluster_name, '') <> '' AND coalesce(broker_name, '') <> ''",
            "Clusters and brokers have names.",
        ),
    ),
    "broker_live_history": (
        _warn("lease_is_not_negative", "heartbeat_timeout_ms >= 0", "A lease is 0 ms or more."),
        Rule(
            "updates_are_in_order",
            "first_update_time <= last_update_time",
            "first_update_time is not after last_update_time.",
        ),
        Rule(
            "no_update_after_its_end",
            "valid_to IS NULL OR last_update_time <= valid_to",
            "An entry is not refreshed after it was removed.",
        ),
    ),
    "filter_server_history": (
        Rule(
            "list_is_not_empty",
            "size(filter_servers) > 0",
            "An empty list removes the entry, so none is stored.",
        ),
    ),
    "kv_config_history": (
        Rule(
            "namespace_has_no_value",
            "config_key IS NOT NULL OR config_value IS NULL",
            "A namespace itself has no value.",
        ),
        Rule(
            "key_has_a_namespace",
            "covered",
            "Keys exist only while their namespace does.",
            kind="query",
            over=_covered(
                "kv_config_history",
                "kv_config_history",
                "namespace",
                where="config_key IS NOT NULL",
                by_where="config_key IS NULL",
            ),
        ),
    ),
    "topic_queue_mapping_history": (
        _warn(
            "mapping_is_plausible",
            "total_queues >= 0 AND epoch >= 0",
            "total_queues and epoch are 0 or more.",
        ),
    ),
    "data_version_history": (
        Rule(
            "version_differs_from_previous",
            "data_version IS NULL OR NOT data_version <=> previous",
            "An interval begins where the version changes.",
        ),
        Rule(
            "regression_has_two_versions",
            "NOT is_regression OR (data_version IS NOT NULL AND previous IS NOT NULL)",
            "A regression is known from two versions.",
        ),
    ),
}

# -- gold: reports ---------------------------------------------------------------------------------

_ORPHAN_REASONS = (
    "no_broker_address",
    "no_live_broker",
    "no_master",
    "no_writable_queue",
    "residual",
    "stale_order_conf",
)

_REPORTS: dict[str, tuple[Rule, ...]] = {
    "event_outcomes": (
        _DAY_OF_EFFECT,
        Rule(
            "outcome_is_known",
            _one_of("outcome", [outcome.value for outcome in Outcome]),
            f"The outcome is one of: {', '.join(outcome.value for outcome in Outcome)}.",
        ),
        Rule("operation_has_its_form", "operation RLIKE '^[a-z][a-z0-9_]*$'", "operation is a lower-case name."),
        Rule("changes_are_counted", "changes >= 0", "changes is 0 or more."),
        Rule(
            "refusal_changes_no_row",
            "outcome NOT IN ('no_effect', 'refused_request', 'scan_halted') OR changes = 0",
            "Events without effect change no row.",
        ),
        _unique("event_outcomes", ("namesrv_id", "seq"), "seq_is_unique"),
        Rule(
            "event_is_recorded",
            "known IS NOT NULL",
            f"Every event is in bronze, except what no packet starts: {', '.join(SYNTHETIC_OPERATIONS)}.",
            kind="reference",
            over=f"""
                WITH judged AS (
                  SELECT day, namesrv_id, event_id FROM {{event_outcomes}}
                  WHERE operation NOT IN ({_words(SYNTHETIC_OPERATIONS)}))
                SELECT judged.*, recorded.event_id AS known
                FROM judged
                LEFT JOIN (
                  SELECT DISTINCT events.event_id FROM ({_union(_EVENTS, "event_id")}) AS events
                  LEFT SEMI JOIN judged ON judged.event_id = events.event_id) AS recorded
                  ON recorded.event_id = judged.event_id""",
        ),
    ),
    "refreshes_hourly": (
        Rule("hour_was_refreshed", "refreshes >= 1", "An hour without refresh has no row."),
        Rule(
            "times_lie_in_the_hour",
            "first_time <= last_time AND hour <= first_time AND last_time < hour + INTERVAL 1 HOUR",
            "first_time and last_time are in order and lie in the hour.",
        ),
        Rule("hour_lies_in_its_day", "day = CAST(hour AS DATE)", "day is the UTC date of the hour."),
    ),
    "route_changes": (
        _DAY_OF_EFFECT,
        Rule(
            "change_is_what_it_says",
            """CASE change WHEN 'appeared' THEN route_before IS NULL AND route_after IS NOT NULL
                           WHEN 'vanished' THEN route_before IS NOT NULL AND route_after IS NULL
                           WHEN 'changed' THEN route_before IS NOT NULL AND route_after IS NOT NULL
                           ELSE FALSE END""",
            "A route appeared from nothing, vanished into nothing, or changed from one to another.",
        ),
        Rule(
            "route_differs",
            "NOT route_before <=> route_after",
            "The route after a change is not the one before.",
        ),
        Rule(
            "routes_are_json",
            "(route_before IS NULL OR get_json_object(route_before, '$') IS NOT NULL) "
            "AND (route_after IS NULL OR get_json_object(route_after, '$') IS NOT NULL)",
            "Routes are JSON.",
        ),
        Rule(
            "changes_follow_on",
            "is_last OR next_before <=> route_after",
            "A change begins with the route that the change before it left.",
            kind="query",
            over="""
                SELECT day, namesrv_id, topic, seq, route_after,
                       lead(route_before) OVER topic_of_day AS next_before,
                       lead(seq) OVER topic_of_day IS NULL AS is_last
                FROM {route_changes}
                WINDOW topic_of_day AS (PARTITION BY day, namesrv_id, topic ORDER BY seq)""",
        ),
        _known("route_changes", "caused_by"),
    ),
    "expired_brokers": (
        Rule("cause_is_known", "cause IN ('scan', 'idle_channel')", "The cause is scan or idle_channel."),
        Rule("removed_that_day", "day = CAST(removed_time AS DATE)", "day is the UTC date of removed_time."),
        Rule(
            "removed_after_last_beat",
            "last_beat_time <= removed_time",
            "A broker is removed after its last refresh.",
        ),
        Rule(
            "lag_is_the_difference",
            "abs(detection_lag_ms - (unix_micros(removed_time) - unix_micros(last_beat_time)) / 1000) <= 1",
            "detection_lag_ms runs from the last refresh to the removal.",
        ),
        _warn(
            "scan_removes_after_the_lease",
            "cause <> 'scan' OR detection_lag_ms > heartbeat_timeout_ms",
            "A scan removes brokers whose lease has ended; in 4.x also one that shares their connection.",
        ),
        Rule(
            "returns_whole",
            "(returned_time IS NULL) = (returned_by IS NULL) AND NOT coalesce(returned_time < removed_time, FALSE)",
            "A return has time and event, and follows the removal.",
        ),
        _known("expired_brokers", "removed_by"),
        _known("expired_brokers", "returned_by"),
    ),
    "orphaned_topics": (
        Rule(
            "reason_is_known",
            _one_of("reason", _ORPHAN_REASONS),
            f"The reason is one of: {', '.join(_ORPHAN_REASONS)}.",
        ),
        Rule(
            "residual_names_the_broker",
            "reason <> 'residual' OR broker_name IS NOT NULL",
            "residual rows name the broker.",
        ),
        Rule(
            "closes_whole",
            "(valid_to IS NULL) = (closed_by IS NULL)",
            "A closed interval has valid_to and closed_by.",
        ),
        Rule(
            "time_does_not_run_back",
            "valid_to IS NULL OR valid_from <= valid_to",
            "valid_from is not after valid_to.",
        ),
        _LIVES_IN_ITS_SLICE,
        Rule(
            "does_not_overlap",
            "next_from IS NULL OR (valid_to IS NOT NULL AND valid_to <= next_from)",
            "Intervals of one topic, broker and reason do not overlap within a slice.",
            kind="query",
            over="""
                SELECT day, namesrv_id, topic, broker_name, reason, valid_from, valid_to,
                       lead(valid_from) OVER (
                         PARTITION BY day, namesrv_id, topic, broker_name, reason
                         ORDER BY valid_from, valid_to NULLS LAST) AS next_from
                FROM {orphaned_topics}""",
        ),
        # A registration that changes nothing may still begin or end a residual topic: it says what the broker has.
        _known("orphaned_topics", "opened_by", "CAST(judged.valid_from AS DATE) = judged.day", _OR_REGISTRATION),
        _known("orphaned_topics", "closed_by", also=_OR_REGISTRATION),
    ),
    "findings": (
        Rule("code_has_its_form", "code RLIKE '^[A-Z][A-Z0-9_]*$'", "code is in capitals."),
        Rule(
            "severity_is_known",
            "severity IN ('critical', 'warning', 'info')",
            "severity is critical, warning or info.",
        ),
        Rule(
            "time_does_not_run_back",
            "to_time IS NULL OR from_time <= to_time",
            "from_time is not after to_time.",
        ),
        Rule("begins_by_its_day", "CAST(from_time AS DATE) <= day", "A finding does not begin after its day."),
        Rule(
            "has_evidence",
            "size(evidence) > 0 AND NOT array_contains(evidence, '')",
            "A finding names its events.",
        ),
    ),
    "order_decisions": (
        _DAY_OF_EFFECT,
        Rule("decision_id_is_a_digest", _hex("decision_id", 32), "decision_id is 32 hex digits."),
        Rule(
            "chosen_is_an_alternative",
            "chosen >= 0 AND chosen < size(alternatives)",
            "chosen is one of the alternatives.",
        ),
        Rule(
            "there_is_a_choice",
            "size(alternatives) >= 2 AND size(event_ids) >= 1",
            "A decision has two alternatives or more.",
        ),
        Rule(
            "answers_are_counted",
            "answers_for >= 0 AND answers_against >= 0",
            "Counts of answers are 0 or more.",
        ),
        _warn(
            "answers_agree",
            "answers_against <= answers_for",
            "More answers speak for the chosen order than against it.",
        ),
    ),
    "route_mismatches": (
        Rule("answered_that_day", "day = CAST(answer_time AS DATE)", "day is the UTC date of answer_time."),
        _warn(
            "is_explained",
            "classification <> 'mismatched'",
            "The replayed registry gives every answer that was given.",
        ),
        _warn("answer_follows_question", "request_time <= answer_time", "An answer comes after its question."),
        Rule(
            "answer_is_recorded",
            "known IS NOT NULL",
            "Every event_id is in route_observations.",
            kind="reference",
            over="""
                SELECT judged.day, judged.namesrv_id, judged.event_id, answers.event_id AS known
                FROM {route_mismatches} AS judged
                LEFT JOIN (SELECT DISTINCT event_id FROM {route_observations}) AS answers
                  ON answers.event_id = judged.event_id""",
        ),
        Rule(
            "decision_is_recorded",
            "known IS NOT NULL",
            "Every decision_id is in order_decisions.",
            kind="reference",
            over="""
                SELECT judged.day, judged.namesrv_id, judged.decision_id, decisions.decision_id AS known
                FROM {route_mismatches} AS judged
                LEFT JOIN (SELECT DISTINCT decision_id FROM {order_decisions}) AS decisions
                  ON decisions.decision_id = judged.decision_id
                WHERE judged.decision_id IS NOT NULL""",
        ),
    ),
    "answer_checks": (
        Rule(
            "every_answer_is_counted",
            "answers = matched + explained + mismatched",
            "An answer is matched, explained or mismatched.",
        ),
        Rule(
            "counts_are_plausible",
            "least(matched, same_order, same_bytes, in_flight, explained, mismatched) >= 0 "
            "AND greatest(same_order, same_bytes, in_flight) <= matched",
            "Counts are 0 or more; same_order, same_bytes and in_flight count among the matched.",
        ),
        _warn(
            "nothing_is_mismatched",
            "mismatched = 0",
            "The replayed registry gives every answer that was given.",
        ),
        Rule(
            "mismatches_are_listed",
            "listed = mismatched",
            "Every mismatched answer is in route_mismatches.",
            kind="query",
            over="""
                SELECT checks.day, checks.namesrv_id, checks.code, checks.mismatched,
                       coalesce(rows.listed, 0) AS listed
                FROM {answer_checks} AS checks
                LEFT JOIN (
                  SELECT day, namesrv_id, code, count(*) AS listed FROM {route_mismatches}
                  WHERE classification = 'mismatched' GROUP BY day, namesrv_id, code) AS rows
                  ON rows.day = checks.day AND rows.namesrv_id = checks.namesrv_id
                 AND rows.code = checks.code""",
        ),
    ),
    "runs": (
        Rule(
            "status_is_known",
            "status IN ('published', 'refused', 'nothing_to_do')",
            "status is published, refused or nothing_to_do.",
        ),
        Rule(
            "gate_agrees",
            "status NOT IN ('published', 'refused') OR (status = 'published') = (gate = 'passed')",
            "What is published passed the gate, what is refused did not.",
        ),
        Rule("config_has_a_digest", _hex("config_sha256", 64), "config_sha256 is 64 hex digits."),
        Rule(
            "figures_are_not_negative",
            "forall(map_values(versions), v -> v >= 0) AND forall(map_values(counts), c -> c >= 0) "
            "AND forall(map_values(seconds), s -> s >= 0)",
            "Versions, counts and seconds are 0 or more.",
        ),
        _warn("time_does_not_run_back", "started_time <= finished_time", "A run does not end before it starts."),
    ),
}


def _all_rules() -> dict[str, tuple[Rule, ...]]:
    own = _BRONZE | _HISTORIES | _REPORTS
    shared: dict[str, tuple[Rule, ...]] = {
        table.name: (_present(table), _unique(table.name, table.key)) for table in TABLES.values()
    }
    # Intervals that do not overlap have unique keys.
    shared |= {table.name: _history(table) for table in gold.HISTORY_TABLES}
    return {name: (*shared[name], *own[name]) for name in TABLES}


TABLES: dict[str, Table] = {table.name: table for table in (*bronze.TABLES, *gold.TABLES)}
RULES: dict[str, tuple[Rule, ...]] = _all_rules()
"""The rules of every table, by its name."""
