"""The rules of the tables that report what happened."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from namesrv_core.inference.settings import ADDRESSES, CONFIGURATION, OPTIONS, SCAN_PHASE, VERSION, Source
from namesrv_core.machine.draft import Outcome
from namesrv_core.machine.profile import COMPARED
from schemas.rules.of_bronze import EVENTS
from schemas.rules.rule import (
    DAY_OF_EFFECT,
    INTERVAL_DOES_NOT_RUN_BACK,
    LIVES_IN_ITS_SLICE,
    Rule,
    each,
    has_form,
    is_day_of,
    is_hex,
    is_one_of,
    query,
    reference,
    union,
    unique,
    warn,
    words,
)

# What a timer starts, not a packet; its ids are in event_outcomes only.
SYNTHETIC_OPERATIONS = ("scan",)
SETTINGS = (VERSION, *OPTIONS, SCAN_PHASE, ADDRESSES, CONFIGURATION)
SOURCES = tuple(source.value for source in Source)
_ANSWERS = ("route_observations", "registrations", "heartbeats", "admin_events")
_OR_REGISTRATION = " UNION ALL SELECT day, namesrv_id, event_id FROM registrations"
_ORPHAN_REASONS = (
    "no_broker_address",
    "no_live_broker",
    "no_master",
    "no_writable_queue",
    "residual",
    "stale_order_conf",
)


def _known(table: str, column: str, where: str = "TRUE", also: str = "") -> Rule:
    """Return the rule that the events in `column` are in event_outcomes, `where` they are of the day.

    `also` adds events (day, namesrv_id, event_id) that may have been plain refreshes, which event_outcomes leaves out.
    """
    events = "SELECT day, namesrv_id, event_id FROM event_outcomes" + also
    return reference(
        f"{column}_is_known",
        f"Every {column} of the slice's own day is a recorded event.",
        f"""
        SELECT judged.day, judged.namesrv_id, judged.{column}, outcomes.event_id AS known
        FROM {table} AS judged
        LEFT JOIN (SELECT DISTINCT day, namesrv_id, event_id FROM ({events})) AS outcomes
          ON outcomes.day = judged.day AND outcomes.namesrv_id = judged.namesrv_id
         AND outcomes.event_id = judged.{column}
        WHERE judged.{column} IS NOT NULL AND {where}""",
    )


REPORTS: dict[str, tuple[Rule, ...]] = {
    "event_outcomes": (
        DAY_OF_EFFECT,
        Rule(
            "outcome_is_known",
            is_one_of("outcome", [outcome.value for outcome in Outcome]),
            f"The outcome is one of: {', '.join(outcome.value for outcome in Outcome)}.",
        ),
        Rule("operation_has_its_form", has_form("operation", "[a-z][a-z0-9_]*"), "operation is a lower-case name."),
        Rule("changes_are_counted", "changes >= 0", "changes is 0 or more."),
        Rule(
            "refusal_changes_no_row",
            "outcome NOT IN ('no_effect', 'refused_request', 'scan_halted') OR changes = 0",
            "Events without effect change no row.",
        ),
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
              SELECT DISTINCT event_id FROM ({union((*EVENTS, "route_observations", "snapshots"), "event_id")})
              SEMI JOIN judged USING (event_id)) AS recorded
              ON recorded.event_id = judged.event_id""",
        ),
    ),
    "past_knowledge": (
        Rule(
            "what_is_named",
            is_one_of("what", ("known", "doubted", "listed", "beat", "channel", "setting")),
            "what is known, doubted, listed, beat, channel or setting.",
        ),
        Rule(
            "any_has_no_part",
            "NOT (any_one AND one IS NOT NULL) AND NOT (any_other AND other IS NOT NULL)",
            "What holds for every part of a key names none.",
        ),
    ),
    # A lease goes on from the end of a recording gap, which may lie on a later day.
    "last_heartbeats": (),
    "map_capacities": (
        Rule("capacity_is_a_power_of_two", "bit_count(capacity) = 1", "capacity is a power of two."),
        Rule("only_inner_maps_lie_under_a_key", "is_inner OR outer_key IS NULL", "A table's own map has no outer_key."),
    ),
    "refreshes_hourly": (
        Rule("hour_was_refreshed", "refreshes >= 1", "An hour without refresh has no row."),
        Rule(
            "times_lie_in_the_hour",
            "first_time <= last_time AND hour <= first_time AND last_time < hour + INTERVAL 1 HOUR",
            "first_time and last_time are in order and lie in the hour.",
        ),
        Rule("hour_lies_in_its_day", is_day_of("hour"), "day is the UTC date of the hour."),
    ),
    "route_changes": (
        DAY_OF_EFFECT,
        Rule(
            "change_is_what_it_says",
            """CASE change WHEN 'appeared' THEN groups_before = 0 AND groups_after > 0
                           WHEN 'vanished' THEN groups_before > 0 AND groups_after = 0
                           WHEN 'changed' THEN groups_before > 0 AND groups_after > 0
                           WHEN 'learned' THEN TRUE
                           ELSE FALSE END""",
            "A route appeared from nothing, vanished into nothing, changed from one to another, or was learned.",
        ),
        Rule("route_differs", "coalesce(len(parts), 0) > 0", "A change names what differs."),
        Rule(
            "parts_are_json",
            """len(list_filter(parts, lambda p: p.text IS NOT NULL AND NOT json_valid(
                   CASE WHEN p.part IN ('filterServerTable', 'topicQueueMappingByBroker') THEN '{' || p.text || '}'
                        ELSE p.text END))) = 0""",
            "Parts of routes are JSON.",
        ),
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
        _known("route_changes", "caused_by"),
    ),
    "expired_brokers": (
        Rule("cause_is_known", "cause IN ('scan', 'idle_channel')", "The cause is scan or idle_channel."),
        Rule("removed_that_day", is_day_of("removed_time"), "day is the UTC date of removed_time."),
        Rule(
            "removed_after_last_beat",
            "last_beat_time <= removed_time",
            "A broker is removed after its last refresh.",
        ),
        Rule(
            "lag_is_the_difference",
            "abs(detection_lag_ms - (epoch_us(removed_time) - epoch_us(last_beat_time)) / 1000) <= 1",
            "detection_lag_ms runs from the last refresh to the removal.",
        ),
        warn(
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
            is_one_of("reason", _ORPHAN_REASONS),
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
        INTERVAL_DOES_NOT_RUN_BACK,
        LIVES_IN_ITS_SLICE,
        query(
            "does_not_overlap",
            "next_from IS NULL OR (valid_to IS NOT NULL AND valid_to <= next_from)",
            "Intervals of one topic, broker and reason do not overlap within a slice.",
            """
            SELECT day, namesrv_id, topic, broker_name, reason, valid_from, valid_to,
                   lead(valid_from) OVER (
                     PARTITION BY day, namesrv_id, topic, broker_name, reason
                     ORDER BY valid_from, valid_to NULLS LAST) AS next_from
            FROM orphaned_topics""",
        ),
        # A registration that changes nothing may still begin or end a residual topic: it says what the broker has.
        _known("orphaned_topics", "opened_by", "CAST(judged.valid_from AS DATE) = judged.day", _OR_REGISTRATION),
        _known("orphaned_topics", "closed_by", also=_OR_REGISTRATION),
    ),
    "findings": (
        Rule("code_has_its_form", has_form("code", "[A-Z][A-Z0-9_]*"), "code is in capitals."),
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
            "len(evidence) > 0 AND " + each("evidence", "e <> ''"),
            "A finding names its events.",
        ),
    ),
    "order_decisions": (
        DAY_OF_EFFECT,
        Rule("decision_id_is_a_digest", is_hex("decision_id", 32), "decision_id is 32 hex digits."),
        Rule(
            "chosen_is_an_alternative",
            "chosen >= 0 AND chosen < len(alternatives)",
            "chosen is one of the alternatives.",
        ),
        Rule(
            "there_is_a_choice",
            "len(alternatives) >= 2 AND len(event_ids) >= 1",
            "A decision has two alternatives or more.",
        ),
        Rule(
            "answers_are_counted",
            "answers_for >= 0 AND answers_against >= 0",
            "Counts of answers are 0 or more.",
        ),
        warn(
            "answers_agree",
            "answers_against <= answers_for",
            "More answers speak for the chosen order than against it.",
        ),
    ),
    "namesrv_settings": (
        Rule(
            "setting_is_known",
            is_one_of("setting", SETTINGS),
            "setting is version, addresses, configuration or the name of a setting in the configuration.",
        ),
        Rule("source_is_known", is_one_of("source", SOURCES), f"source is one of {', '.join(SOURCES)}."),
        Rule(
            "interval_is_positive",
            "valid_to IS NULL OR valid_from IS NULL OR valid_from <= valid_to",
            "A value does not end before it begins.",
        ),
        Rule("process_started_before", "process_seq <= from_seq", "A value is one of a process that has started."),
        Rule(
            "evidence_is_counted",
            "answers_for >= len(evidence) AND answers_against >= 0",
            "There are as many answers for a value as are named, or more.",
        ),
        Rule(
            "findings_have_evidence",
            "source NOT IN ('stated', 'changed', 'inferred') OR len(evidence) >= 1",
            "What is stated, changed or inferred names the events that say so.",
        ),
        warn(
            "release_was_compared",
            # What a name server states itself is told of its `namesrv_events`.
            f"setting <> '{VERSION}' OR source = 'stated' OR {is_one_of('value', COMPARED)} "
            f"OR {is_one_of('concat(value, $$.0$$)', COMPARED)}",
            "The release that conf/ or brokers give was compared (docs/versions.md); others get the rules of the one before.",
        ),
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
    "route_mismatches": (
        Rule("answered_that_day", is_day_of("answer_time"), "day is the UTC date of answer_time."),
        warn(
            "is_explained",
            "classification <> 'mismatched'",
            "The replayed registry gives every answer that was given.",
        ),
        warn("answer_follows_question", "request_time <= answer_time", "An answer comes after its question."),
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
    "answer_checks": (
        Rule(
            "every_answer_is_counted",
            "answers = matched + explained + unknown_past + mismatched",
            "An answer is matched, explained, about an unknown past, or mismatched.",
        ),
        Rule(
            "counts_are_plausible",
            "least(matched, same_order, same_bytes, in_flight, explained, unknown_past, mismatched) >= 0 "
            "AND greatest(same_order, same_bytes, in_flight) <= matched",
            "Counts are 0 or more; same_order, same_bytes and in_flight count among the matched.",
        ),
        warn(
            "nothing_is_mismatched",
            "mismatched = 0",
            "The replayed registry gives every answer that was given.",
        ),
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
}
