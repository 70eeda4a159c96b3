"""Gold tables of what became of events, a day at a time, of what an operator should know of it, and of runs, the ledger."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from namesrv_core.inference.settings import (
    ADDRESSES,
    CONFIGURATION,
    OPTIONS,
    SCAN_PHASE,
    VERSION,
    Setting,
    Source,
    text_of,
    value_of,
)
from namesrv_core.machine import events
from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.profile import COMPARED
from schemas.bronze import EVENT_TABLES, ROUTE_OBSERVATIONS
from schemas.table import (
    CLOSED_MONTH,
    DAY_OF_EFFECT,
    INTERVAL_DOES_NOT_RUN_BACK,
    LIVES_IN_ITS_SLICE,
    OF_AN_HOUR,
    Table,
    columns,
    each,
    has_form,
    is_day_of,
    is_hex,
    is_one_of,
    known_event,
    query,
    reference,
    rules,
    union,
    unique,
    words,
)

ANSWER_CHECKS = Table(
    "answer_checks",
    "gold",
    "one request code of one name server on one day: how many answers the replayed registry gives too",
    columns("""
        namesrv_id
        code* INT: Request code: questions (105, 106, 206 ..., 101, 219, 901) and responses to events (103, 205, 322, 327)
        answers* BIGINT: Answers compared
        matched* BIGINT: Equal to the registry at an instant between request and answer
        same_order* BIGINT: Of the matched: list order equal too
        same_bytes* BIGINT: Of the matched: equal byte for byte
        in_flight* BIGINT: Of the matched: not equal to the state at the answer, but to an earlier one in its window
        explained* BIGINT: Equal only under another order than the one taken, or if a removal or a one-way request lagged, or
            part by part at several instants
        unknown_past* BIGINT: Different only in what was not known: yet, in a recording that began mid-life, or of brokers
            that registered over a connection that cannot be read; or at an address that shows not all of one name server,
            or several (see findings)
        mismatched* BIGINT: Equal to no state
        day
    """),
    key=("day", "namesrv_id", "code"),
    made_by="verify",
    rules=(
        *rules("""
            every_answer_is_counted: An answer is matched, explained, about an unknown past, or mismatched.
                answers = matched + explained + unknown_past + mismatched
            counts_are_plausible: Counts are 0 or more; same_order, same_bytes and in_flight count among the matched.
                least(matched, same_order, same_bytes, in_flight, explained, unknown_past, mismatched) >= 0 AND
                greatest(same_order, same_bytes, in_flight) <= matched
            nothing_is_mismatched?: The replayed registry gives every answer that was given.
                mismatched = 0
        """),
        query(
            "mismatches_are_listed",
            "listed = mismatched",
            "Every mismatched answer is in route_mismatches.",
            """
            SELECT judged.day, judged.namesrv_id, judged.code, judged.mismatched, coalesce(found.listed, 0) AS listed
            FROM answer_checks AS judged
            LEFT JOIN (
              SELECT day, namesrv_id, code, count(*) AS listed FROM route_mismatches
              WHERE classification = 'mismatched' GROUP BY ALL) AS found
              ON found.day = judged.day AND found.namesrv_id = judged.namesrv_id AND found.code = judged.code""",
        ),
    ),
)

# What a timer starts, not a packet; its ids are in event_outcomes only.
SYNTHETIC_OPERATIONS = ("scan",)
_RECORDED = tuple(table.name for table in (*EVENT_TABLES, ROUTE_OBSERVATIONS))
EVENT_OUTCOMES = Table(
    "event_outcomes",
    "gold",
    "one event that was not a plain refresh, scans that removed something included; equal heartbeats for which there was no "
    "live entry are one until there is one",
    columns("""
        namesrv_id
        seq* BIGINT: Position of the event
        event_id* STRING: Event; for a response to a registration, the registration's with -response
        effect_time* TIMESTAMP: When it took effect
        events* BIGINT: How many it stands for: 1, or as many heartbeats with outcome unknown_broker; sum them
        last_time* TIMESTAMP: When the last of these took effect
        operation* STRING: What it was: register_broker, scan, channel_close ...
        outcome* STRING: What became of it
        cluster_name STRING: Cluster name in the event; of a close or scan that of brokers_gone[0]
        broker_name STRING: Broker name, likewise
        broker_addr STRING: Broker address, likewise
        brokers_gone ARRAY<STRUCT<broker_name: STRING, broker_addr: STRING, cluster_name: STRING>>: Brokers that went with a
            scan or the end of a connection, by name; NULL if none
        topic STRING: Topic in the event
        channel_id STRING: Connection of the event
        detail STRING: Reason of a refusal, exception, or count returned
        changes* INT: Rows opened and closed by it
        notifications ARRAY<STRUCT<to: STRING, min_broker_id: BIGINT, min_broker_addr: STRING, offline_broker_addr: STRING,
            ha_broker_addr: STRING>>: 5.x: the NOTIFY_MIN_BROKER_ID_CHANGE (905) that the server sent on it; NULL if none
        day
    """),
    key=("day", "namesrv_id", "event_id"),
    made_by="outcomes",
    rules=(
        DAY_OF_EFFECT,
        *rules(f"""
            outcome_is_known: The outcome is one of: {", ".join(outcome.value for outcome in Outcome)}.
                {is_one_of("outcome", [outcome.value for outcome in Outcome])}
            operation_has_its_form: operation is a lower-case name.
                {has_form("operation", "[a-z][a-z0-9_]*")}
            events_are_counted: events is 1, or counts beats without a live entry; last_time is when the last took effect.
                events = 1 AND last_time = effect_time
                OR events > 1 AND last_time >= effect_time AND outcome = 'unknown_broker'
            changes_are_counted: changes is 0 or more.
                changes >= 0
            refusal_changes_no_row: Events without effect change no row.
                outcome NOT IN ('no_effect', 'refused_request', 'scan_halted') OR changes = 0
        """),
        unique("event_outcomes", ("namesrv_id", "seq"), "seq_is_unique"),
        reference(
            "event_is_recorded",
            f"Every event is in bronze, except what no packet starts: {', '.join(SYNTHETIC_OPERATIONS)}.",
            f"""
            WITH judged AS (
              SELECT day, namesrv_id, regexp_replace(event_id, '-response$', '') AS event_id FROM event_outcomes
              WHERE operation NOT IN ({words(SYNTHETIC_OPERATIONS)}))
            SELECT judged.*, recorded.event_id AS known
            FROM judged
            LEFT JOIN (
              SELECT DISTINCT event_id FROM ({union(_RECORDED, "event_id")})
              SEMI JOIN judged USING (event_id)) AS recorded
              ON recorded.event_id = judged.event_id""",
        ),
    ),
)

_OPERATIONS: dict[type, str] = {
    events.RegisterBroker: "register_broker",
    events.UnregisterBroker: "unregister_broker",
    events.BrokerHeartbeat: "broker_heartbeat",
    events.QueryDataVersion: "query_data_version",
    events.ScanNotActiveBroker: "scan",
    events.ChannelDestroyed: "channel_close",
    events.WipeWritePerm: "wipe_write_perm",
    events.AddWritePerm: "add_write_perm",
    events.DeleteTopic: "delete_topic",
    events.RegisterTopic: "register_topic",
    events.PutKvConfig: "put_kv_config",
    events.DeleteKvConfig: "delete_kv_config",
    events.UpdateNamesrvConfig: "update_namesrv_config",
    events.RefusedRequest: "register_broker",
    events.AnswerObserved: "observed_answer",
    events.ResponseObserved: "observed_answer",
    events.NamesrvStarted: "namesrv_started",
    events.NamesrvStopped: "namesrv_stopped",
    events.RecordingGap: "recording_gap",
}


def operation_of(event: events.Event, channel_kind: str | None) -> str:
    """Return what `event_outcomes` calls an event; `channel_kind`: how a connection ended."""
    refused = event.asked if isinstance(event, events.RefusedRequest) else None
    if isinstance(event, events.ChangeLogged):
        return event.operation
    operation = _OPERATIONS[type(refused or event)]
    return f"channel_{channel_kind or 'close'}" if operation == "channel_close" else operation


def detail_of(step: Step) -> str | None:
    """Return what `event_outcomes` says of a step beside its outcome: an exception, a reason or a count."""
    detail = step.exception or (step.swallowed[0] if step.swallowed else None)
    if detail is None and isinstance(step.result, (int, str)) and not isinstance(step.result, bool):
        detail = str(step.result)
    return detail


EXPIRED_BROKERS = Table(
    "expired_brokers",
    "gold",
    "one removal of a broker that had fallen silent",
    columns("""
        namesrv_id
        cluster_name
        broker_name
        broker_addr
        cause* STRING: scan (lease ended) or idle_channel (server closed the silent connection)
        last_beat_time TIMESTAMP: Last refresh; NULL: only a log tells of the removal
        heartbeat_timeout_ms BIGINT: Lease in milliseconds; NULL likewise
        removed_time* TIMESTAMP: When it was removed
        removed_by* STRING: event_id of the scan or of the channel event
        detection_lag_ms BIGINT: Milliseconds from the last refresh to the removal; NULL likewise
        returned_time TIMESTAMP: Next registration under the same live key that day; NULL if none
        returned_by STRING: event_id of that registration
        topics_lost* ARRAY<STRING>: Topics that lost queue data with it
        day
    """),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "removed_by"),
    made_by="flags",
    rules=(
        *rules(f"""
            cause_is_known: The cause is scan or idle_channel.
                cause IN ('scan', 'idle_channel')
            removed_that_day: day is the UTC date of removed_time.
                {is_day_of("removed_time")}
            removed_after_last_beat: A broker is removed after its last refresh.
                coalesce(last_beat_time <= removed_time, TRUE)
            lag_is_the_difference: detection_lag_ms runs from the last refresh to the removal.
                detection_lag_ms IS NULL OR
                abs(detection_lag_ms - (epoch_us(removed_time) - epoch_us(last_beat_time)) / 1000) <= 1
            scan_removes_after_the_lease?: A scan removes brokers whose lease has ended; in 4.x also one on their connection.
                cause <> 'scan' OR coalesce(detection_lag_ms > heartbeat_timeout_ms, TRUE)
            returns_whole: A return has time and event, and follows the removal.
                (returned_time IS NULL) = (returned_by IS NULL) AND NOT coalesce(returned_time < removed_time, FALSE)
        """),
        known_event("expired_brokers", "removed_by"),
        known_event("expired_brokers", "returned_by"),
    ),
)

FINDINGS = Table(
    "findings",
    "gold",
    "one thing that an operator should know, with its evidence, however many days it lasts",
    columns("""
        namesrv_id
        code* STRING: Code from the catalogue
        severity* STRING: critical, warning or info
        subject* STRING: Broker, topic, cluster or key concerned; of several with one cause the first, and how many more
        from_time* TIMESTAMP: Start
        to_time TIMESTAMP: End; NULL = not over
        detail STRING: In words, with the first few of what it touches
        evidence* ARRAY<STRING>: event ids, that which began it first; of many the first 20, and 20 more when it ended
        brokers* BIGINT: How many broker names it touches
        broker_names* ARRAY<STRING>: The first ten of them, by name
        topics* BIGINT: How many topics it touches
        topic_names* ARRAY<STRING>: The first ten of them, by name
        begun_with* BIGINT: How many of the evidence it began with; its end added the others
        told_on* DATE: UTC date on which it was first told
        ended_on DATE: UTC date on which it was told that it is over; NULL = it is not
    """),
    key=("namesrv_id", "code", "subject", "from_time", "evidence", "told_on"),
    partition_by=(CLOSED_MONTH,),
    span=("told_on", "ended_on"),
    made_by="flags",
    rules=rules(f"""
        code_has_its_form: code is in capitals.
            {has_form("code", "[A-Z][A-Z0-9_]*")}
        severity_is_known: severity is critical, warning or info.
            severity IN ('critical', 'warning', 'info')
        time_does_not_run_back: from_time is not after to_time.
            to_time IS NULL OR from_time <= to_time
        begins_by_its_day: A finding is not told before it begins.
            CAST(from_time AS DATE) <= told_on
        closes_whole: A finding that is over has to_time and ended_on.
            (to_time IS NULL) = (ended_on IS NULL)
        was_there_on_the_day: A finding was there on the day.
            told_on <= day AND (ended_on IS NULL OR ended_on = day)
        keeps_its_beginning: Only an end on a later day adds to the evidence.
            begun_with <= len(evidence) AND (ended_on > told_on OR begun_with = len(evidence))
        has_evidence: A finding names its events.
            len(evidence) > 0 AND {each("evidence", "e <> ''")}
    """),
)

_SETTINGS = (VERSION, *OPTIONS, SCAN_PHASE, ADDRESSES, CONFIGURATION)
_SOURCES = tuple(source.value for source in Source)
NAMESRV_SETTINGS = Table(
    "namesrv_settings",
    "gold",
    "one value of one setting of a name server, as long as it held, by process: with it the day was replayed",
    columns("""
        namesrv_id
        setting* STRING: version, or a setting as conf/ names it; addresses: if it has several; configuration: all of its
            properties
        value* STRING: Value; unlimited: longer than any silence that was seen; of addresses all, its id first; of the
            configuration what is kept, a property a line, ? where that is not known
        source* STRING: given (conf; addresses: or an event log), stated (by its answers: version, 319), changed (318),
            inferred (from answers and closes), inherited (from the process before; the configuration: or from before a
            gap), default (RocketMQ's; nothing speaks for or against)
        valid_from TIMESTAMP: Since when; NULL: since before the recording
        valid_to TIMESTAMP: Until when, exclusive; NULL = still so at the end of the day
        from_seq* BIGINT: Position since when; 0: since before the recording
        process_seq* BIGINT: Position of the start of the process; 0: before the recording
        restart_value* STRING: Value with which the next process starts, as far as is known
        answers_for* BIGINT: Answers and closes that only this value explains
        answers_against* BIGINT: Answers and closes that only another value explains
        evidence* ARRAY<STRING>: The first few that speak for it (event ids)
        day
    """),
    key=("day", "namesrv_id", "setting", "from_seq"),
    made_by="settle",
    rules=(
        *rules(f"""
            setting_is_known: setting is version, addresses, configuration or the name of a setting in the configuration.
                {is_one_of("setting", _SETTINGS)}
            source_is_known: source is one of {", ".join(_SOURCES)}.
                {is_one_of("source", _SOURCES)}
            interval_is_positive: A value does not end before it begins.
                valid_to IS NULL OR valid_from IS NULL OR valid_from <= valid_to
            process_started_before: A value is one of a process that has started.
                process_seq <= from_seq
            evidence_is_counted: There are as many answers for a value as are named, or more.
                answers_for >= len(evidence) AND answers_against >= 0
            findings_have_evidence: What is stated, changed or inferred names the events that say so.
                source NOT IN ('stated', 'changed', 'inferred') OR len(evidence) >= 1
            release_was_compared?: The release that conf/ or brokers give was compared (docs/versions.md).
                setting <> '{VERSION}' OR source = 'stated' OR {is_one_of("value", COMPARED)}
                OR {is_one_of("concat(value, $$.0$$)", COMPARED)}
        """),
        query(
            "no_value_was_taken_that_later_days_refute",
            "later IS NULL OR later = value",
            "All days of a process were replayed with the value that was found for it.",
            f"""
            SELECT judged.day, judged.namesrv_id, judged.setting, judged.value, found.value AS later
            FROM namesrv_settings AS judged
            LEFT JOIN (SELECT * FROM namesrv_settings
                       WHERE source IN ('stated', 'inferred') AND from_seq = process_seq
                         AND setting NOT IN ('{SCAN_PHASE}', '{ADDRESSES}', '{CONFIGURATION}')) AS found
              ON found.namesrv_id = judged.namesrv_id AND found.setting = judged.setting
             AND found.from_seq = judged.from_seq AND found.day > judged.day""",
        ),
    ),
)


def setting_rows(settings: Sequence[Setting], namesrv_id: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of `namesrv_settings`, without `day`; times are microseconds."""
    starts: dict[str, list[int]] = {}
    for setting in settings:
        starts.setdefault(setting.name, []).append(setting.from_seq)
    for setting in settings:
        until_seq = min((seq for seq in starts[setting.name] if seq > setting.from_seq), default=None)
        yield {
            "namesrv_id": namesrv_id,
            "setting": setting.name,
            "value": text_of(setting.value),
            "source": setting.source.value,
            "valid_from": setting.from_seq // 1_000 or None,
            "valid_to": None if until_seq is None else until_seq // 1_000,
            "from_seq": setting.from_seq,
            "process_seq": setting.life_seq,
            "restart_value": text_of(setting.restart_value),
            "answers_for": setting.answers_for,
            "answers_against": setting.answers_against,
            "evidence": list(setting.evidence),
        }


def setting_of(row: Mapping[str, Any]) -> Setting:
    """Return the setting of a row of `namesrv_settings`."""
    name = row["setting"]
    return Setting(
        name,
        value_of(name, row["value"]),
        Source(row["source"]),
        row["from_seq"],
        row["process_seq"],
        value_of(name, row["restart_value"]),
        tuple(row["evidence"]),
        row["answers_for"],
        row["answers_against"],
    )


ORDER_DECISIONS = Table(
    "order_decisions",
    "gold",
    "events whose order the wire does not show",
    columns("""
        namesrv_id
        decision_id* STRING: Deterministic id, 32 hex digits
        kind* STRING: register_and_close (a request without response on a connection that closes at once),
            removal_and_registration (a broker's new registration while its old connection ends), overlapping_requests
        effect_time* TIMESTAMP: When
        channel_ids* ARRAY<STRING>: Connections concerned
        event_ids* ARRAY<STRING>: The events, in the default order
        alternatives* ARRAY<STRING>: The orders in words, the default first
        chosen* INT: Which alternative was taken, from 0
        answers_for* BIGINT: Answers that only the chosen order explains, of those looked at until one decided
        answers_against* BIGINT: Answers of these that only another order explains
        evidence_for* ARRAY<STRING>: Those answers (event ids)
        evidence_against* ARRAY<STRING>: The answers that only another order explains (event ids)
        day
    """),
    key=("day", "namesrv_id", "decision_id"),
    made_by="settle",
    rules=(
        DAY_OF_EFFECT,
        *rules(f"""
            decision_id_is_a_digest: decision_id is 32 hex digits.
                {is_hex("decision_id", 32)}
            chosen_is_an_alternative: chosen is one of the alternatives.
                chosen >= 0 AND chosen < len(alternatives)
            there_is_a_choice: A decision has two alternatives or more.
                len(alternatives) >= 2 AND len(event_ids) >= 1
            answers_are_counted: Counts of answers are 0 or more.
                answers_for >= 0 AND answers_against >= 0
            answers_agree?: More answers speak for the chosen order than against it.
                answers_against <= answers_for
        """),
    ),
)

_OR_REGISTRATION = " UNION ALL SELECT day, namesrv_id, event_id FROM registrations"
_REASONS = ("no_broker_address", "no_live_broker", "no_master", "no_writable_queue", "residual", "stale_order_conf")
ORPHANED_TOPICS = Table(
    "orphaned_topics",
    "gold",
    "one interval in which a topic was routed but could not be served as it looks",
    columns("""
        namesrv_id
        topic* STRING: Topic
        broker_name STRING: residual: broker name; NULL for reasons that concern the whole topic
        reason* STRING: no_broker_address, no_live_broker, no_master, no_writable_queue, residual (no longer reported),
            stale_order_conf
        valid_from* TIMESTAMP: Start, inclusive
        valid_to TIMESTAMP: End, exclusive; NULL = open
        opened_by* STRING: event_id that began it
        closed_by STRING: event_id that ended it; NULL = open
    """),
    key=("namesrv_id", "topic", "broker_name", "reason", "valid_from", "opened_by"),
    partition_by=(CLOSED_MONTH,),
    made_by="flags",
    rules=(
        *rules(f"""
            reason_is_known: The reason is one of: {", ".join(_REASONS)}.
                {is_one_of("reason", _REASONS)}
            residual_names_the_broker: residual rows name the broker.
                reason <> 'residual' OR broker_name IS NOT NULL
            closes_whole: A closed interval has valid_to and closed_by.
                (valid_to IS NULL) = (closed_by IS NULL)
        """),
        INTERVAL_DOES_NOT_RUN_BACK,
        LIVES_IN_ITS_SLICE,
        query(
            "does_not_overlap",
            "next_from IS NULL OR (valid_to IS NOT NULL AND valid_to <= next_from)",
            "Intervals of one topic, broker and reason do not overlap.",
            """
            SELECT day, namesrv_id, topic, broker_name, reason, valid_from, valid_to,
                   lead(valid_from) OVER (
                     PARTITION BY day, namesrv_id, topic, broker_name, reason
                     ORDER BY valid_from, valid_to NULLS LAST) AS next_from
            FROM orphaned_topics""",
        ),
        # A registration that changes nothing may still begin or end a residual topic: it says what the broker has.
        known_event("orphaned_topics", "opened_by", "CAST(judged.valid_from AS DATE) = judged.day", _OR_REGISTRATION),
        known_event("orphaned_topics", "closed_by", also=_OR_REGISTRATION),
    ),
)

_OUTCOMES = tuple(
    outcome.value for outcome in (Outcome.REFUSED_REQUEST, Outcome.REFUSED_LONE_TOPIC, Outcome.REJECTED_STATE_VERSION)
)
REFUSED_REQUESTS = Table(
    "refused_requests",
    "gold",
    "one hour of what one client asked for one broker, or for none, and was refused for one reason",
    columns("""
        namesrv_id
        hour* TIMESTAMP: Start of the hour
        operation* STRING: What was asked for: register_broker, query_data_version ..., as in event_outcomes
        cluster_name STRING: Cluster name in the request; NULL if absent
        broker_name STRING: Broker name, likewise
        broker_addr STRING: Broker address, likewise
        client STRING: Host that asked, by its connection, which may be a proxy's; NULL where there is none
        outcome* STRING: refused_request (its answer says that it failed), refused_lone_topic (a first registration with
            exactly one topic), rejected_state_version (the broker id is held by an address with a newer state version)
        reason STRING: Why, as far as the answer or the rule says it; NULL if it does not
        requests* BIGINT: How many there were
        first_time* TIMESTAMP: When the first of them took effect
        last_time* TIMESTAMP: When the last did
        first_event* STRING: event_id of the first
        last_event* STRING: event_id of the last
        day
    """),
    key=(
        *("day", "namesrv_id", "hour", "operation", "cluster_name", "broker_name", "broker_addr"),
        *("client", "outcome", "reason"),
    ),
    made_by="flags",
    sql=f"""
        SELECT namesrv_id, day, make_timestamptz(epoch_us(effect_time) // 3600000000 * 3600000000) AS hour, operation,
            cluster_name, broker_name, broker_addr, regexp_replace(channel_id, ':[0-9]+#[0-9]+$', '') AS client, outcome,
            detail AS reason, count(*) AS requests, min(effect_time) AS first_time, max(effect_time) AS last_time,
            arg_min(event_id, seq) AS first_event, arg_max(event_id, seq) AS last_event
        FROM event_outcomes WHERE outcome IN ({words(_OUTCOMES)}) GROUP BY ALL""",
    rules=(
        *OF_AN_HOUR,
        *rules(f"""
            outcome_is_a_refusal: The outcome is one of: {", ".join(_OUTCOMES)}.
                {is_one_of("outcome", _OUTCOMES)}
            hour_had_requests: An hour without refused requests has no row.
                requests >= 1
        """),
        known_event("refused_requests", "first_event"),
        known_event("refused_requests", "last_event"),
    ),
)

ROUTE_CHANGES = Table(
    "route_changes",
    "gold",
    "one change of a topic's route as clients see it",
    columns("""
        namesrv_id
        topic* STRING: Topic
        seq* BIGINT: Position of the event that changed it
        effect_time* TIMESTAMP: When it changed
        caused_by* STRING: event_id that changed it
        change* STRING: appeared, changed, vanished, or learned: an answer showed what had been so before
        parts ARRAY<STRUCT<part: STRING, name: STRING, text: STRING>>: What differs from the route before; of a route that
            came or went, all of it
        groups_before* INT: Groups in the route before; 0: there was none
        groups_after* INT: Groups in the route after; 0: there is none
        length_before* BIGINT: Characters of the route before as JSON, likewise
        length_after* BIGINT: Characters of the route after
        day
    """),
    key=("day", "namesrv_id", "topic", "seq"),
    made_by="flags",
    rules=(
        DAY_OF_EFFECT,
        *rules("""
            change_is_what_it_says: A route appeared from nothing, vanished into nothing, changed, or was learned.
                CASE change WHEN 'appeared' THEN groups_before = 0 AND groups_after > 0
                            WHEN 'vanished' THEN groups_before > 0 AND groups_after = 0
                            WHEN 'changed' THEN groups_before > 0 AND groups_after > 0
                            WHEN 'learned' THEN TRUE
                            ELSE FALSE END
            route_differs: A change names what differs.
                coalesce(len(parts), 0) > 0
            parts_are_json: Parts of routes are JSON.
                len(list_filter(parts, lambda p: p.text IS NOT NULL AND NOT json_valid(
                CASE WHEN p.part IN ('filterServerTable', 'topicQueueMappingByBroker') THEN '{' || p.text || '}'
                ELSE p.text END))) = 0
        """),
        query(
            "changes_follow_on",
            "is_last OR (next_groups, next_length) = (groups_after, length_after)",
            "A change begins with the route that the change before it left.",
            """
            SELECT day, namesrv_id, topic, seq, groups_after, length_after,
                   lead(groups_before) OVER topic_of_day AS next_groups,
                   lead(length_before) OVER topic_of_day AS next_length,
                   lead(seq) OVER topic_of_day IS NULL AS is_last
            FROM route_changes
            WINDOW topic_of_day AS (PARTITION BY day, namesrv_id, topic ORDER BY seq)""",
        ),
        known_event("route_changes", "caused_by"),
    ),
)

_ANSWERS = ("route_observations", "registrations", "heartbeats", "admin_events")
ROUTE_MISMATCHES = Table(
    "route_mismatches",
    "gold",
    "one answer that the replayed registry does not give at any instant between request and answer; should be empty",
    columns("""
        namesrv_id
        event_id* STRING: Answer, in route_observations
        code* INT: Request code
        subject STRING: Topic or cluster asked about
        request_time* TIMESTAMP: When the request had arrived
        answer_time* TIMESTAMP: When the answer left
        classification* STRING: mismatched, or the class that explains it: order_decision, unknown_past, unseen_broker (it
            shows brokers that nobody registered, and there were connections that cannot be read), removal_under_way,
            one_way_under_way (equal to the state before a removal that another thread makes, or before a one-way request,
            that had begun up to 100 ms before the question), changes_under_way (several requests were answered in between: each
            broker is shown as it was at some instant between question and answer, not all as at the same)
        decision_id STRING: Order decision that explains it
        answered STRING: What the name server answered: header fields and body, each on a line, or remark
        expected STRING: What the replayed registry says at the answer, likewise
        day
    """),
    key=("day", "namesrv_id", "event_id"),
    made_by="verify",
    rules=(
        *rules(f"""
            answered_that_day: day is the UTC date of answer_time.
                {is_day_of("answer_time")}
            is_explained?: The replayed registry gives every answer that was given.
                classification <> 'mismatched'
            answer_follows_question?: An answer comes after its question.
                request_time <= answer_time
        """),
        reference(
            "answer_is_recorded",
            "Every event_id is in route_observations or, for a response, among the events.",
            f"""
            SELECT judged.day, judged.namesrv_id, judged.event_id, answers.event_id AS known
            FROM route_mismatches AS judged
            LEFT JOIN (
              SELECT DISTINCT event_id FROM ({union(_ANSWERS, "event_id")})
              SEMI JOIN route_mismatches USING (event_id)) AS answers
              ON answers.event_id = judged.event_id""",
        ),
        reference(
            "decision_is_recorded",
            "Every decision_id is in order_decisions.",
            """
            SELECT judged.day, judged.namesrv_id, judged.decision_id, decisions.decision_id AS known
            FROM route_mismatches AS judged
            LEFT JOIN (SELECT DISTINCT decision_id FROM order_decisions) AS decisions
              ON decisions.decision_id = judged.decision_id
            WHERE judged.decision_id IS NOT NULL""",
        ),
    ),
)

RUNS = Table(
    "runs",
    "gold",
    "one run: the ledger through which readers find published tables",
    columns("""
        run_id* STRING: Run
        layout* INT: Layout of the warehouse that the run wrote
        parent_run STRING: Published run on which it builds; NULL for the first
        started_time* TIMESTAMP: Start
        finished_time* TIMESTAMP: End
        status* STRING: published or refused (gate)
        days* ARRAY<DATE>: Days recomputed
        ingest_runs* ARRAY<STRING>: Ingest runs whose rows it is the first to cover
        sources* ARRAY<STRING>: SHA-256 of the files that those ingest runs read
        late_namesrvs* ARRAY<STRING>: Name servers of which those ingest runs have read, on the last day that was known, what
            lies before the end of what was known
        inputs* ARRAY<STRUCT<table: STRING, day: DATE, namesrv_id: STRING, digest: STRING>>: What it read, by table, day and
            name server: the events of its days, and the gold partitions from which it started; digests are rows-sum-xor of
            64-bit row hashes
        outputs* ARRAY<STRUCT<table: STRING, day: DATE, namesrv_id: STRING, digest: STRING>>: The partitions of gold tables
            that it wrote, likewise: of a history the intervals that closed on a day, and, without a day, all that are open
            now
        coverage* ARRAY<STRUCT<namesrv_id: STRING, day: DATE, first_time: TIMESTAMP, last_time: TIMESTAMP, marks:
            ARRAY<STRUCT<kind: STRING, at: TIMESTAMP, until: TIMESTAMP>>>>: What is recorded of each name server on its
            days: the first and the last event or answer, and what lies between: started, stopped, log_started (only its own
            log tells of the start), observed_from (the recording begins in the middle of its life), gap (until:
            its end), doubt (all brokers fell silent: an outage or a gap). The view coverage puts days together
        previous_sha256* STRING: The hash of the chain up to the row before (64 zeros: there is none). docs/auditors.md says
            how it is made
        files_root* STRING: Merkle root of all data files that readers see after the run
        files* ARRAY<STRUCT<table: STRING, path: STRING, sha256: STRING, pieces: ARRAY<STRUCT<rows: BIGINT, root: STRING>>>>:
            The files that are new since the row before, commits of Delta logs among them, with the SHA-256 of their bytes; of
            histories, reports and small tables the Merkle root of the rows of each piece that was once written in one
        gone* ARRAY<STRUCT<table: STRING, path: STRING>>: The files that readers do not see any more
        versions* MAP<STRING, BIGINT>: Delta version of every table after the run
        digests* MAP<STRING, STRING>: Digest of every table that is cut by day, all its days together
        counts* MAP<STRING, BIGINT>: Frames read, by what became of them (ignored.*: by which rule); events of the run's
            days by outcome (outcome.*), plain refreshes as outcome.refreshed
        seconds* MAP<STRING, DOUBLE>: Seconds by step
        gate* STRING: passed, or the critical rules that failed
        code_version* STRING: Version of this software
        config_sha256* STRING: SHA-256 of the configuration in force
        report STRING: What the run's summary says of its days, as JSON; NULL if it was refused
    """),
    key=("run_id",),
    partition_by=(),
    rules=rules(f"""
        status_is_known: status is published or refused.
            status IN ('published', 'refused')
        gate_agrees: What is published passed the gate, what is refused did not.
            status NOT IN ('published', 'refused') OR (status = 'published') = (gate = 'passed')
        hashes_are_hex: config_sha256, previous_sha256 and files_root are 64 hex digits.
            {" AND ".join(is_hex(name, 64) for name in ("config_sha256", "previous_sha256", "files_root"))}
        figures_are_not_negative: Versions, counts and seconds are 0 or more.
            {" AND ".join(each(f"map_values({figures})", "e >= 0") for figures in ("versions", "counts", "seconds"))}
        time_does_not_run_back?: A run does not end before it starts.
            started_time <= finished_time
    """),
)
