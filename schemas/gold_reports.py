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
        Column("seq", LONG, "Position of the event", required=True),
        Column(
            "event_id",
            STRING,
            "Event; for a response to a registration, the registration's with -response",
            required=True,
        ),
        Column("effect_time", TIMESTAMP, "When it took effect", required=True),
        Column("operation", STRING, "What it was: register_broker, scan, channel_close ...", required=True),
        Column("outcome", STRING, "What became of it", required=True),
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
        Column("changes", INT, "Rows opened and closed by it", required=True),
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
        Column("hour", TIMESTAMP, "Start of the hour", required=True),
        Column("refreshes", LONG, "Plain refreshes in it", required=True),
        Column("first_time", TIMESTAMP, "First of them", required=True),
        Column("last_time", TIMESTAMP, "Last of them", required=True),
        DAY,
    ),
    key=("day", "namesrv_id", "cluster_name", "broker_addr", "hour"),
)
PAST_KNOWLEDGE = Table(
    "past_knowledge",
    "gold",
    "one thing that is known, or in doubt, of a name server whose recording began in the middle of its life",
    (
        NAMESRV_ID,
        Column("what", STRING, "known, doubted, listed, beat, channel or setting", required=True),
        Column("about", STRING, "History table (without _history), or what has no rows of its own", required=True),
        Column("one", STRING, "First part of the key: topic, broker name, cluster ..."),
        Column("other", STRING, "Second part of the key"),
        Column("any_one", BOOLEAN, "It holds for every first part", required=True),
        Column("any_other", BOOLEAN, "It holds for every second part", required=True),
        Column(
            "number",
            LONG,
            "Serial number: the later of known and doubted counts; or a time or a setting",
            required=True,
        ),
        DAY,
    ),
    key=("day", "namesrv_id", "what", "about", "one", "other", "any_one", "any_other"),
)
MAP_ORDERS = Table(
    "map_orders",
    "gold",
    "one map of a name server that was, at the end of the day, in another order than the rows of the histories tell",
    (
        NAMESRV_ID,
        Column("map_table", STRING, "Table of the registry: topic_queue_table, broker_live_table ...", required=True),
        Column("is_inner", BOOLEAN, "It is the map under outer_key; FALSE: the table's own", required=True),
        Column(
            "outer_key", STRING, "Topic, cluster or namespace whose map it is; NULL: the table's own, or a null key"
        ),
        Column("capacity", INT, "Number of buckets: it grew with what the map held, and never shrinks", required=True),
        Column(
            "keys",
            list_of(struct_of(cluster_name=STRING, key=STRING, node=INT)),
            "Keys of the buckets in which they do not stand by age, in Java's order; cluster_name belongs to live entries of "
            "5.x. node NULL: the bucket is a list; in a tree: the parent's place in it (-1: the root) times two, plus one if red",
            required=True,
        ),
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
        Column("topic", STRING, "Topic", required=True),
        Column("seq", LONG, "Position of the event that changed it", required=True),
        Column("effect_time", TIMESTAMP, "When it changed", required=True),
        Column("caused_by", STRING, "event_id that changed it", required=True),
        Column(
            "change",
            STRING,
            "appeared, changed, vanished, or learned: an answer or a snapshot showed what had been so before",
            required=True,
        ),
        Column(
            "parts", list_of(ROUTE_PART), "What differs from the route before; of a route that came or went, all of it"
        ),
        Column("groups_before", INT, "Groups in the route before; 0: there was none", required=True),
        Column("groups_after", INT, "Groups in the route after; 0: there is none", required=True),
        Column("length_before", LONG, "Characters of the route before as JSON, likewise", required=True),
        Column("length_after", LONG, "Characters of the route after", required=True),
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
        Column(
            "cause",
            STRING,
            "scan (lease ended) or idle_channel (server closed the silent connection)",
            required=True,
        ),
        Column("last_beat_time", TIMESTAMP, "Last refresh", required=True),
        Column("heartbeat_timeout_ms", LONG, "Lease in milliseconds", required=True),
        Column("removed_time", TIMESTAMP, "When it was removed", required=True),
        Column("removed_by", STRING, "event_id of the scan or of the channel event", required=True),
        Column("detection_lag_ms", LONG, "Milliseconds from the last refresh to the removal", required=True),
        Column("returned_time", TIMESTAMP, "Next registration under the same live key that day; NULL if none"),
        Column("returned_by", STRING, "event_id of that registration"),
        Column("topics_lost", STRINGS, "Topics that lost queue data with it", required=True),
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
        Column("topic", STRING, "Topic", required=True),
        Column("broker_name", STRING, "residual: broker name; NULL for reasons that concern the whole topic"),
        Column(
            "reason",
            STRING,
            "no_broker_address, no_live_broker, no_master, no_writable_queue, residual (no longer reported), "
            "stale_order_conf",
            required=True,
        ),
        Column("valid_from", TIMESTAMP, "Start, inclusive", required=True),
        Column("valid_to", TIMESTAMP, "End, exclusive; NULL = open at the end of the day"),
        Column("opened_by", STRING, "event_id that began it", required=True),
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
        Column("code", STRING, "Code from the catalogue", required=True),
        Column("severity", STRING, "critical, warning or info", required=True),
        Column(
            "subject",
            STRING,
            "Broker, topic, cluster or key concerned; of several with one cause the first, and how many more",
            required=True,
        ),
        Column("from_time", TIMESTAMP, "Start, also where its end is told", required=True),
        Column("to_time", TIMESTAMP, "End; NULL = not over when its day ended"),
        Column("detail", STRING, "In words, with the first few of what it touches"),
        Column("evidence", STRINGS, "event ids, that which began it first; of many the first 20", required=True),
        Column("brokers", LONG, "How many broker names it touches", required=True),
        Column("broker_names", STRINGS, "The first ten of them, by name", required=True),
        Column("topics", LONG, "How many topics it touches", required=True),
        Column("topic_names", STRINGS, "The first ten of them, by name", required=True),
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
        Column("decision_id", STRING, "Deterministic id, 32 hex digits", required=True),
        Column(
            "kind",
            STRING,
            "register_and_close (a request without response on a connection that closes at once), "
            "removal_and_registration (a broker's new registration while its old connection ends), "
            "ends_of_shared_channel (each event of its end takes down one of the brokers of a connection, or finds the same one "
            "again), overlapping_requests, burst_order (a name server that stood still and goes on)",
            required=True,
        ),
        Column("effect_time", TIMESTAMP, "When", required=True),
        Column("channel_ids", STRINGS, "Connections concerned", required=True),
        Column("event_ids", STRINGS, "The events, in the default order", required=True),
        Column("alternatives", STRINGS, "The orders in words, the default first", required=True),
        Column("chosen", INT, "Which alternative was taken, from 0", required=True),
        Column("answers_for", LONG, "Answers that only the chosen order explains", required=True),
        Column("answers_against", LONG, "Answers that only another order explains", required=True),
        Column("evidence_for", STRINGS, "Those answers (event ids)", required=True),
        Column(
            "evidence_against",
            STRINGS,
            "The answers that only another order explains (event ids)",
            required=True,
        ),
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
        Column(
            "setting",
            STRING,
            "version, or a setting as conf/ names it; addresses: if it has several; configuration: all of its properties",
            required=True,
        ),
        Column(
            "value",
            STRING,
            "Value; unlimited: longer than any silence that was seen; of addresses all, its id first; of the configuration what is "
            "kept, a property a line, ? where that is not known",
            required=True,
        ),
        Column(
            "source",
            STRING,
            "given (conf; addresses: or an event log), stated (by its answers: version, 319), changed (318), inferred (from "
            "answers and closes), "
            "inherited (from the process before; the configuration: or from before a gap), "
            "default (RocketMQ's; nothing speaks for or against)",
            required=True,
        ),
        Column("valid_from", TIMESTAMP, "Since when; NULL: since before the recording"),
        Column("valid_to", TIMESTAMP, "Until when, exclusive; NULL = still so at the end of the day"),
        Column("from_seq", LONG, "Position since when; 0: since before the recording", required=True),
        Column("process_seq", LONG, "Position of the start of the process; 0: before the recording", required=True),
        Column("restart_value", STRING, "Value with which the next process starts, as far as is known", required=True),
        Column("answers_for", LONG, "Answers and closes that only this value explains", required=True),
        Column("answers_against", LONG, "Answers and closes that only another value explains", required=True),
        Column("evidence", STRINGS, "The first few that speak for it (event ids)", required=True),
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
        Column("event_id", STRING, "Answer, in route_observations", required=True),
        Column("code", INT, "Request code", required=True),
        Column("subject", STRING, "Topic or cluster asked about"),
        Column("request_time", TIMESTAMP, "When the request had arrived", required=True),
        Column("answer_time", TIMESTAMP, "When the answer left", required=True),
        Column(
            "classification",
            STRING,
            "mismatched, or the class that explains it: order_decision, unknown_past, unseen_broker (it shows brokers that "
            "nobody registered, and there were connections that cannot be read), removal_under_way, one_way_under_way "
            "(equal to the state before a removal that another thread makes, or before a one-way request, that had begun "
            "up to 100 ms before the question)",
            required=True,
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
        Column(
            "code",
            INT,
            "Request code: questions (105, 106, 206 ..., 101, 219, 901) and responses to events (103, 205, 322, 327)",
            required=True,
        ),
        Column("answers", LONG, "Answers compared", required=True),
        Column("matched", LONG, "Equal to the registry at an instant between request and answer", required=True),
        Column("same_order", LONG, "Of the matched: list order equal too", required=True),
        Column("same_bytes", LONG, "Of the matched: equal byte for byte", required=True),
        Column(
            "in_flight",
            LONG,
            "Of the matched: not equal to the state at the answer, but to an earlier one in its window",
            required=True,
        ),
        Column(
            "explained",
            LONG,
            "Equal only under another order than the one taken, or if a removal lagged",
            required=True,
        ),
        Column(
            "unknown_past",
            LONG,
            "Different only in what was not known: yet, in a recording that began mid-life, or of brokers that registered over "
            "a connection that cannot be read",
            required=True,
        ),
        Column("mismatched", LONG, "Equal to no state", required=True),
        DAY,
    ),
    key=("day", "namesrv_id", "code"),
)

REPORT_TABLES = (
    EVENT_OUTCOMES,
    REFRESHES_HOURLY,
    PAST_KNOWLEDGE,
    MAP_ORDERS,
    ROUTE_CHANGES,
    EXPIRED_BROKERS,
    ORPHANED_TOPICS,
    FINDINGS,
    ORDER_DECISIONS,
    NAMESRV_SETTINGS,
    ROUTE_MISMATCHES,
    ANSWER_CHECKS,
)
