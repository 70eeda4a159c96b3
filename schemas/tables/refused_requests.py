"""The table refused_requests: why does this broker not appear?"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from namesrv_core.machine.draft import Outcome
from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import OF_AN_HOUR, is_one_of, known_event, words
from schemas.table import LONG, STRING, TIMESTAMP, Column, Rule, Table, required

_OUTCOMES = tuple(
    outcome.value for outcome in (Outcome.REFUSED_REQUEST, Outcome.REFUSED_LONE_TOPIC, Outcome.REJECTED_STATE_VERSION)
)
REFUSED_REQUESTS = Table(
    "refused_requests",
    "gold",
    "one hour of what one client asked for one broker, or for none, and was refused for one reason",
    (
        NAMESRV_ID,
        required("hour", TIMESTAMP, "Start of the hour"),
        required(
            "operation", STRING, "What was asked for: register_broker, query_data_version ..., as in event_outcomes"
        ),
        Column("cluster_name", STRING, "Cluster name in the request; NULL if absent"),
        Column("broker_name", STRING, "Broker name, likewise"),
        Column("broker_addr", STRING, "Broker address, likewise"),
        Column(
            "client", STRING, "Host that asked, by its connection, which may be a proxy's; NULL where there is none"
        ),
        required(
            "outcome",
            STRING,
            "refused_request (its answer says that it failed), refused_lone_topic (a first registration with exactly one topic), "
            "rejected_state_version (the broker id is held by an address with a newer state version)",
        ),
        Column("reason", STRING, "Why, as far as the answer or the rule says it; NULL if it does not"),
        required("requests", LONG, "How many there were"),
        required("first_time", TIMESTAMP, "When the first of them took effect"),
        required("last_time", TIMESTAMP, "When the last did"),
        required("first_event", STRING, "event_id of the first"),
        required("last_event", STRING, "event_id of the last"),
        DAY,
    ),
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
        Rule(
            "outcome_is_a_refusal", is_one_of("outcome", _OUTCOMES), f"The outcome is one of: {', '.join(_OUTCOMES)}."
        ),
        Rule("hour_had_requests", "requests >= 1", "An hour without refused requests has no row."),
        known_event("refused_requests", "first_event"),
        known_event("refused_requests", "last_event"),
    ),
)
