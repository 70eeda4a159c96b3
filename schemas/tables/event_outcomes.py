"""The table event_outcomes: one event that was not a plain refresh, scans that removed something included."""

from __future__ import annotations

from namesrv_core.machine import events
from namesrv_core.machine.registry import Outcome, Step
from schemas.bronze import EVENT_TABLES, ROUTE_OBSERVATIONS
from schemas.table import DAY_OF_EFFECT, Table, columns, has_form, is_one_of, reference, rules, union, unique, words

# Events that a timer starts, not a packet; their ids are in event_outcomes only.
SYNTHETIC_OPERATIONS = ("scan",)
_RECORDED = tuple(table.name for table in (*EVENT_TABLES, ROUTE_OBSERVATIONS))
EVENT_OUTCOMES = Table(
    "event_outcomes",
    "gold",
    "one event that was not a plain refresh, including scans that removed something; equal heartbeats without a live entry "
    "share a row until there is an entry",
    columns("""
        namesrv_id
        seq* BIGINT: Position of the event
        event_id* STRING: Id of the event; for a response to a registration, the registration's id with -response
        effect_time* TIMESTAMP: When it took effect
        events* BIGINT: Number of events in this row: 1, or the number of heartbeats with outcome unknown_broker; sum them
        last_time* TIMESTAMP: When the last of these took effect
        operation* STRING: Operation: register_broker, scan, channel_close ...
        outcome* STRING: Outcome of the event
        cluster_name STRING: Cluster name in the event; for a close or scan that of brokers_gone[0]
        broker_name STRING: Broker name, likewise
        broker_addr STRING: Broker address, likewise
        brokers_gone ARRAY<STRUCT<broker_name: STRING, broker_addr: STRING, cluster_name: STRING>>: Brokers that a scan or the
            end of a connection removed, by name; NULL if none
        topic STRING: Topic in the event
        channel_id STRING: Connection of the event
        detail STRING: Reason of a refusal, exception, or count returned
        changes* INT: Number of rows that it opened or closed
        notifications ARRAY<STRUCT<to: STRING, min_broker_id: BIGINT, min_broker_addr: STRING, offline_broker_addr: STRING,
            ha_broker_addr: STRING>>: 5.x: the NOTIFY_MIN_BROKER_ID_CHANGE (905) requests that the server then sent; NULL if none
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
            WITH checked AS (
              SELECT day, namesrv_id, regexp_replace(event_id, '-response$', '') AS event_id FROM event_outcomes
              WHERE operation NOT IN ({words(SYNTHETIC_OPERATIONS)}))
            SELECT checked.*, recorded.event_id AS known
            FROM checked
            LEFT JOIN (
              SELECT DISTINCT event_id FROM ({union(_RECORDED, "event_id")})
              SEMI JOIN checked USING (event_id)) AS recorded
              ON recorded.event_id = checked.event_id""",
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
    """Return the `operation` of an event in `event_outcomes`; `channel_kind`: how a connection ended."""
    refused = event.asked if isinstance(event, events.RefusedRequest) else None
    if isinstance(event, events.ChangeLogged):
        return event.operation
    operation = _OPERATIONS[type(refused or event)]
    return f"channel_{channel_kind or 'close'}" if operation == "channel_close" else operation


def detail_of(step: Step) -> str | None:
    """Return the `detail` of a step in `event_outcomes`: an exception, a reason or a count."""
    detail = step.exception or (step.swallowed[0] if step.swallowed else None)
    if detail is None and isinstance(step.result, (int, str)) and not isinstance(step.result, bool):
        detail = str(step.result)
    return detail
