"""The report tables: what became of events, and what an operator should know about a day."""

from __future__ import annotations

from schemas.bronze import NAMESRV_ID
from schemas.gold_histories import BROKER, BROKER_ADDR, BROKER_NAME, CLUSTER_NAME, DAY, NOTIFICATION
from schemas.table import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    Table,
    list_of,
    required,
    struct_of,
)

ROUTE_PART = struct_of(part=STRING, name=STRING, text=STRING)
"""A part of a route: field of its JSON, whose part it is (broker name or address), its JSON now (NULL: it is no more)."""

EVENT_OUTCOMES = Table(
    "event_outcomes",
    "gold",
    "one event that was not a plain refresh, scans that removed something included",
    (
        NAMESRV_ID,
        required("seq", LONG, "Position of the event"),
        required("event_id", STRING, "Event; for a response to a registration, the registration's with -response"),
        required("effect_time", TIMESTAMP, "When it took effect"),
        required("operation", STRING, "What it was: register_broker, scan, channel_close ..."),
        required("outcome", STRING, "What became of it"),
        Column("cluster_name", STRING, "Cluster name in the event; of a close or scan that of brokers_gone[0]"),
        Column("broker_name", STRING, "Broker name, likewise"),
        Column("broker_addr", STRING, "Broker address, likewise"),
        Column(
            "brokers_gone",
            list_of(BROKER),
            "Brokers that went with a scan or the end of a connection, by name; NULL if none",
        ),
        Column("topic", STRING, "Topic in the event"),
        Column("channel_id", STRING, "Connection of the event"),
        Column("detail", STRING, "Reason of a refusal, exception, or count returned"),
        required("changes", INT, "Rows opened and closed by it"),
        Column(
            "notifications",
            list_of(NOTIFICATION),
            "5.x: the NOTIFY_MIN_BROKER_ID_CHANGE (905) that the server sent on it; NULL if none",
        ),
        DAY,
    ),
    key=("day", "namesrv_id", "event_id"),
)
REFRESHES_HOURLY = Table(
    "refreshes_hourly",
    "gold",
    "one hour of one live entry's plain refreshes",
    (
        NAMESRV_ID,
        Column("cluster_name", STRING, "Cluster in the key (5.x); NULL in 4.x"),
        BROKER_ADDR,
        required("hour", TIMESTAMP, "Start of the hour"),
        required("refreshes", LONG, "Plain refreshes in it"),
        required("first_time", TIMESTAMP, "First of them"),
        required("last_time", TIMESTAMP, "Last of them"),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "hour"),
)
PAST_KNOWLEDGE = Table(
    "past_knowledge",
    "internal",
    "one thing that is known, or in doubt, of a name server whose recording began in the middle of its life",
    (
        NAMESRV_ID,
        required("what", STRING, "known, doubted, listed, beat, channel or setting"),
        required("about", STRING, "History table (without _history), or what has no rows of its own"),
        Column("one", STRING, "First part of the key: topic, broker name, cluster ..."),
        Column("other", STRING, "Second part of the key"),
        required("any_one", BOOLEAN, "It holds for every first part"),
        required("any_other", BOOLEAN, "It holds for every second part"),
        required("number", LONG, "Serial number: the later of known and doubted counts; or a time or a setting"),
        DAY,
    ),
    key=("day", "namesrv_id", "what", "about", "one", "other", "any_one", "any_other"),
)
LAST_HEARTBEATS = Table(
    "last_heartbeats",
    "internal",
    "one live entry at the end of a day, and when it was renewed last",
    (
        NAMESRV_ID,
        Column("cluster_name", STRING, "Cluster in the key (5.x); NULL in 4.x"),
        BROKER_ADDR,
        required("last_update_time", TIMESTAMP, "lastUpdateTimestamp when the day ended"),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr"),
)
MAP_CAPACITIES = Table(
    "map_capacities",
    "internal",
    "one map of a name server that had, at the end of the day, more buckets than the keys in it need",
    (
        NAMESRV_ID,
        required("map_table", STRING, "Table of the registry: topic_queue_table, broker_live_table ..."),
        required("is_inner", BOOLEAN, "It is the map under outer_key; FALSE: the table's own"),
        Column(
            "outer_key", STRING, "Topic, cluster or namespace whose map it is; NULL: the table's own, or a null key"
        ),
        required("capacity", INT, "Number of buckets: it grew with what the map held, and never shrinks"),
        DAY,
    ),
    key=("day", "namesrv_id", "map_table", "is_inner", "outer_key"),
)
ROUTE_CHANGES = Table(
    "route_changes",
    "gold",
    "one change of a topic's route as clients see it",
    (
        NAMESRV_ID,
        required("topic", STRING, "Topic"),
        required("seq", LONG, "Position of the event that changed it"),
        required("effect_time", TIMESTAMP, "When it changed"),
        required("caused_by", STRING, "event_id that changed it"),
        required(
            "change",
            STRING,
            "appeared, changed, vanished, or learned: an answer or a snapshot showed what had been so before",
        ),
        Column(
            "parts", list_of(ROUTE_PART), "What differs from the route before; of a route that came or went, all of it"
        ),
        required("groups_before", INT, "Groups in the route before; 0: there was none"),
        required("groups_after", INT, "Groups in the route after; 0: there is none"),
        required("length_before", LONG, "Characters of the route before as JSON, likewise"),
        required("length_after", LONG, "Characters of the route after"),
        DAY,
    ),
    key=("day", "namesrv_id", "topic", "seq"),
)
EXPIRED_BROKERS = Table(
    "expired_brokers",
    "gold",
    "one removal of a broker that had fallen silent",
    (
        NAMESRV_ID,
        CLUSTER_NAME,
        BROKER_NAME,
        BROKER_ADDR,
        required("cause", STRING, "scan (lease ended) or idle_channel (server closed the silent connection)"),
        required("last_beat_time", TIMESTAMP, "Last refresh"),
        required("heartbeat_timeout_ms", LONG, "Lease in milliseconds"),
        required("removed_time", TIMESTAMP, "When it was removed"),
        required("removed_by", STRING, "event_id of the scan or of the channel event"),
        required("detection_lag_ms", LONG, "Milliseconds from the last refresh to the removal"),
        Column("returned_time", TIMESTAMP, "Next registration under the same live key that day; NULL if none"),
        Column("returned_by", STRING, "event_id of that registration"),
        required("topics_lost", STRINGS, "Topics that lost queue data with it"),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "removed_by"),
)
ORPHANED_TOPICS = Table(
    "orphaned_topics",
    "gold",
    "one interval in which a topic was routed but could not be served as it looks",
    (
        NAMESRV_ID,
        required("topic", STRING, "Topic"),
        Column("broker_name", STRING, "residual: broker name; NULL for reasons that concern the whole topic"),
        required(
            "reason",
            STRING,
            "no_broker_address, no_live_broker, no_master, no_writable_queue, residual (no longer reported), "
            "stale_order_conf",
        ),
        required("valid_from", TIMESTAMP, "Start, inclusive"),
        Column("valid_to", TIMESTAMP, "End, exclusive; NULL = open at the end of the day"),
        required("opened_by", STRING, "event_id that began it"),
        Column("closed_by", STRING, "event_id that ended it; NULL = open"),
        DAY,
    ),
    key=("day", "namesrv_id", "topic", "broker_name", "reason", "valid_from", "opened_by"),
)
FINDINGS = Table(
    "findings",
    "gold",
    "one thing that an operator should know, with its evidence, on the day on which it began; once more on the day on which it "
    "ended, if that is a later one",
    (
        NAMESRV_ID,
        required("code", STRING, "Code from the catalogue"),
        required("severity", STRING, "critical, warning or info"),
        required(
            "subject",
            STRING,
            "Broker, topic, cluster or key concerned; of several with one cause the first, and how many more",
        ),
        required("from_time", TIMESTAMP, "Start, also where its end is told"),
        Column("to_time", TIMESTAMP, "End; NULL = not over when its day ended"),
        Column("detail", STRING, "In words, with the first few of what it touches"),
        required("evidence", STRINGS, "event ids, that which began it first; of many the first 20"),
        required("brokers", LONG, "How many broker names it touches"),
        required("broker_names", STRINGS, "The first ten of them, by name"),
        required("topics", LONG, "How many topics it touches"),
        required("topic_names", STRINGS, "The first ten of them, by name"),
        DAY,
    ),
    key=("day", "namesrv_id", "code", "subject", "from_time", "evidence"),
)
ORDER_DECISIONS = Table(
    "order_decisions",
    "gold",
    "events whose order the wire does not show",
    (
        NAMESRV_ID,
        required("decision_id", STRING, "Deterministic id, 32 hex digits"),
        required(
            "kind",
            STRING,
            "register_and_close (a request without response on a connection that closes at once), "
            "removal_and_registration (a broker's new registration while its old connection ends), "
            "ends_of_shared_channel (each event of its end takes down one of the brokers of a connection, or finds the same one "
            "again), overlapping_requests, one_way_and_request (nothing answers the first of them), "
            "burst_order (a name server that stood still and goes on)",
        ),
        required("effect_time", TIMESTAMP, "When"),
        required("channel_ids", STRINGS, "Connections concerned"),
        required("event_ids", STRINGS, "The events, in the default order"),
        required("alternatives", STRINGS, "The orders in words, the default first"),
        required("chosen", INT, "Which alternative was taken, from 0"),
        required("answers_for", LONG, "Answers that only the chosen order explains"),
        required("answers_against", LONG, "Answers that only another order explains"),
        required("evidence_for", STRINGS, "Those answers (event ids)"),
        required("evidence_against", STRINGS, "The answers that only another order explains (event ids)"),
        DAY,
    ),
    key=("day", "namesrv_id", "decision_id"),
)
NAMESRV_SETTINGS = Table(
    "namesrv_settings",
    "gold",
    "one value of one setting of a name server, as long as it held, by process: with it the day was replayed",
    (
        NAMESRV_ID,
        required(
            "setting",
            STRING,
            "version, or a setting as conf/ names it; addresses: if it has several; configuration: all of its properties",
        ),
        required(
            "value",
            STRING,
            "Value; unlimited: longer than any silence that was seen; of addresses all, its id first; of the configuration what is "
            "kept, a property a line, ? where that is not known",
        ),
        required(
            "source",
            STRING,
            "given (conf; addresses: or an event log), stated (by its answers: version, 319), changed (318), inferred (from "
            "answers and closes), "
            "inherited (from the process before; the configuration: or from before a gap), "
            "default (RocketMQ's; nothing speaks for or against)",
        ),
        Column("valid_from", TIMESTAMP, "Since when; NULL: since before the recording"),
        Column("valid_to", TIMESTAMP, "Until when, exclusive; NULL = still so at the end of the day"),
        required("from_seq", LONG, "Position since when; 0: since before the recording"),
        required("process_seq", LONG, "Position of the start of the process; 0: before the recording"),
        required("restart_value", STRING, "Value with which the next process starts, as far as is known"),
        required("answers_for", LONG, "Answers and closes that only this value explains"),
        required("answers_against", LONG, "Answers and closes that only another value explains"),
        required("evidence", STRINGS, "The first few that speak for it (event ids)"),
        DAY,
    ),
    key=("day", "namesrv_id", "setting", "from_seq"),
)
ROUTE_MISMATCHES = Table(
    "route_mismatches",
    "gold",
    "one answer that the replayed registry does not give at any instant between request and answer; should be empty",
    (
        NAMESRV_ID,
        required("event_id", STRING, "Answer, in route_observations"),
        required("code", INT, "Request code"),
        Column("subject", STRING, "Topic or cluster asked about"),
        required("request_time", TIMESTAMP, "When the request had arrived"),
        required("answer_time", TIMESTAMP, "When the answer left"),
        required(
            "classification",
            STRING,
            "mismatched, or the class that explains it: order_decision, unknown_past, unseen_broker (it shows brokers that "
            "nobody registered, and there were connections that cannot be read), removal_under_way, one_way_under_way "
            "(equal to the state before a removal that another thread makes, or before a one-way request, that had begun "
            "up to 100 ms before the question)",
        ),
        Column("decision_id", STRING, "Order decision that explains it"),
        Column("answered", STRING, "What the name server answered: header fields and body, each on a line, or remark"),
        Column("expected", STRING, "What the replayed registry says at the answer, likewise"),
        DAY,
    ),
    key=("day", "namesrv_id", "event_id"),
)
ANSWER_CHECKS = Table(
    "answer_checks",
    "gold",
    "one request code of one name server on one day: how many answers the replayed registry gives too",
    (
        NAMESRV_ID,
        required(
            "code",
            INT,
            "Request code: questions (105, 106, 206 ..., 101, 219, 901) and responses to events (103, 205, 322, 327)",
        ),
        required("answers", LONG, "Answers compared"),
        required("matched", LONG, "Equal to the registry at an instant between request and answer"),
        required("same_order", LONG, "Of the matched: list order equal too"),
        required("same_bytes", LONG, "Of the matched: equal byte for byte"),
        required(
            "in_flight",
            LONG,
            "Of the matched: not equal to the state at the answer, but to an earlier one in its window",
        ),
        required(
            "explained",
            LONG,
            "Equal only under another order than the one taken, or if a removal or a one-way request lagged",
        ),
        required(
            "unknown_past",
            LONG,
            "Different only in what was not known: yet, in a recording that began mid-life, or of brokers that registered over "
            "a connection that cannot be read; or at an address that shows not all of one name server, or several (see findings)",
        ),
        required("mismatched", LONG, "Equal to no state"),
        DAY,
    ),
    key=("day", "namesrv_id", "code"),
)

REPORT_TABLES = (
    EVENT_OUTCOMES,
    REFRESHES_HOURLY,
    PAST_KNOWLEDGE,
    LAST_HEARTBEATS,
    MAP_CAPACITIES,
    ROUTE_CHANGES,
    EXPIRED_BROKERS,
    ORPHANED_TOPICS,
    FINDINGS,
    ORDER_DECISIONS,
    NAMESRV_SETTINGS,
    ROUTE_MISMATCHES,
    ANSWER_CHECKS,
)
