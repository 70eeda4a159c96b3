"""The table namesrv_events: one fact about a name server's life."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from namesrv_core.machine.profile import COMPARED
from namesrv_wire.codes import VERSION_NAMES
from namesrv_wire.logs.event_fields import NAMESRV_KINDS
from namesrv_wire.rows import UNTIL_MS
from schemas.recorded import events
from schemas.rule import has_form, is_code, is_one_of, told_apart, union, warn
from schemas.table import INT, STRING, Column, Rule, required

REQUESTS = ("heartbeats", "registrations", "unregistrations", "admin_events")
_EVENTS = (*REQUESTS, "channel_events", "namesrv_events")
NAMESRV_EVENTS = events(
    "namesrv_events",
    "one fact about a name server's life",
    required(
        "kind",
        STRING,
        "started, stopped (routes are lost), observed_from (first packet), identified (version), "
        "configured (its answer about its configuration), idle_limit_outlasted (a silent connection was not closed), "
        "min_broker_id_notified (it told a broker of its group's smallest id, 905), "
        "recording_gap (nothing was recorded of it from then on for a while), "
        "logged (lines of its log that one call wrote), "
        "clock_went_back (by more than five seconds, from one record to a later one); address_started, address_stopped, "
        "address_observed_from, address_recording_gap: what one of its addresses shows, and another row says of it, or denies",
    ),
    Column("version", INT, "identified: protocol version in its responses, e.g. 407 = 4.9.7, 493 = 5.4.0"),
    required("evidence", STRING, "What in the source says so"),
    Column(
        "properties",
        STRING,
        "configured: what is kept of its properties, one name=value a line; recording gaps: until_ms=, the end; "
        "logged: what it was, and behind it the lines' messages",
    ),
    rules=(
        Rule(
            "kind_is_known",
            is_one_of("kind", sorted(NAMESRV_KINDS)),
            f"kind is one of {', '.join(sorted(NAMESRV_KINDS))}.",
        ),
        Rule(
            "properties_if_configured",
            "(kind IN ('configured', 'recording_gap', 'address_recording_gap', 'logged')) = (properties IS NOT NULL)",
            "configured and logged rows and recording gaps, and only they, have properties.",
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
            _EVENTS,
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
)
