"""The table refused_requests: refused requests by hour, which tell why a broker does not appear."""

from __future__ import annotations

from namesrv_core.machine.registry import Outcome
from schemas.table import Table, columns, is_day_of, is_one_of, known_event, rules, words

_OUTCOMES = tuple(
    outcome.value for outcome in (Outcome.REFUSED_REQUEST, Outcome.REFUSED_LONE_TOPIC, Outcome.REJECTED_STATE_VERSION)
)
REFUSED_REQUESTS = Table(
    "refused_requests",
    "gold",
    "one hour of one client's refused requests for one broker, or for none, with one operation, outcome and reason",
    columns("""
        namesrv_id
        hour* TIMESTAMP: Start of the hour
        operation* STRING: Operation, as in event_outcomes: register_broker, query_data_version ...
        cluster_name STRING: Cluster name in the request; NULL if absent
        broker_name STRING: Broker name, likewise
        broker_addr STRING: Broker address, likewise
        client STRING: Host of the connection, which may be a proxy; NULL without a connection
        outcome* STRING: refused_request (the answer says that it failed), refused_lone_topic (a first registration with
            exactly one topic), rejected_state_version (the broker id is held by an address with a newer state version)
        reason STRING: Reason that the answer or the rule gives; NULL if none
        requests* BIGINT: Number of requests
        first_time* TIMESTAMP: When the first request took effect
        last_time* TIMESTAMP: When the last request took effect
        first_event* STRING: event_id of the first request
        last_event* STRING: event_id of the last request
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
        *rules(f"""
            hour_lies_in_its_day: day is the UTC date of the hour.
                {is_day_of("hour")}
            times_lie_in_the_hour: first_time and last_time are in order and lie in the hour.
                first_time <= last_time AND hour <= first_time AND last_time < hour + INTERVAL 1 HOUR
            outcome_is_a_refusal: The outcome is one of: {", ".join(_OUTCOMES)}.
                {is_one_of("outcome", _OUTCOMES)}
            hour_had_requests: An hour without refused requests has no row.
                requests >= 1
        """),
        known_event("refused_requests", "first_event"),
        known_event("refused_requests", "last_event"),
    ),
)
