"""The gold tables: the results of the replay, and the ledger of published runs.

Each constant has its table's name in capitals. The histories (rows of a name server's tables with their intervals) are defined
here; other tables have a file each: `gold.EXPIRED_BROKERS` is defined in `schemas/tables/expired_brokers.py`.

An interval is one row, however long it lasts; `valid_to` is NULL while it is open. Intervals are half open, [valid_from,
valid_to): the rows at t are those with `valid_from <= t AND (valid_to IS NULL OR valid_to > t)`. A history is partitioned by the
month in which its intervals closed, NULL for open ones. The last heartbeat of a live entry changes while its interval stays open,
so it is not a column of the history but of `last_heartbeats`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from schemas import tables
from schemas.table import (
    CLOSED_MONTH,
    INTERVAL_DOES_NOT_RUN_BACK,
    LIVES_IN_ITS_SLICE,
    USUAL,
    Rule,
    Step,
    Table,
    columns,
    present,
    query,
    queues,
    reference,
    rules,
    union,
    warn,
)

INTERVAL = columns("""
    valid_from* TIMESTAMP: Start of the interval, inclusive
    valid_to TIMESTAMP: End of the interval, exclusive; NULL = open
    opened_by* STRING: event_id that opened it
    closed_by STRING: event_id that closed it; NULL = open
    opened_at* POSITION: Position of the opening change: seq of its event, and number of the change within the event
    closed_at POSITION: Position of the closing change; NULL = open
    entered_at* POSITION: Position at which the key entered its map; it decides Java's iteration order
    outer_entered_at POSITION: The same for the outer key (topic, cluster, namespace, broker name)
    known_from TIMESTAMP: Since when the row is certain. Later than valid_from, or NULL (only believed), if the recording
        began in the middle of the name server's life
    beginning_seen* BOOLEAN: TRUE: the row began at valid_from; FALSE: it may have begun earlier, unrecorded
""")


def _history(name: str, grain: str, key: tuple[str, ...], text: str, rules: tuple[Rule, ...] = ()) -> Table:
    of = (USUAL["namesrv_id"], *columns(text), *INTERVAL)
    return Table(name, "gold", grain, of, ("namesrv_id", *key, "opened_at"), partition_by=(CLOSED_MONTH,), rules=rules)


def _covered(table: str, by: str, match: str, *, where: str = "TRUE", by_where: str = "TRUE") -> str:
    """Return the query that tells for each interval of `table` whether intervals of `by` cover it.

    `match`: the columns that both share. Covering intervals that touch are joined first. One event changes several tables at
    once, so only the seq of positions counts. An interval opened before the day counts from the day's start.
    """
    start = "CASE WHEN CAST(valid_from AS DATE) < day THEN -1 ELSE opened_at.seq END"
    end = "coalesce(closed_at.seq, 9223372036854775807)"
    same = " AND ".join(
        f"checked.{column} IS NOT DISTINCT FROM spans.{column}" for column in ("day", "namesrv_id", *match.split(", "))
    )
    keys = f"day, namesrv_id, {match}"
    return f"""
        WITH checked AS (
          SELECT {keys}, opened_by, {start} AS starts, {end} AS ends FROM {table} WHERE {where}),
        parts AS (SELECT {keys}, {start} AS starts, {end} AS ends FROM {by} WHERE {by_where}),
        marked AS (
          SELECT *, CASE WHEN starts <= max(ends) OVER (
              PARTITION BY {keys} ORDER BY starts, ends ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            THEN 0 ELSE 1 END AS gap
          FROM parts),
        numbered AS (SELECT *, sum(gap) OVER (PARTITION BY {keys} ORDER BY starts, ends) AS span FROM marked),
        spans AS (
          SELECT {keys}, span, min(starts) AS starts, max(ends) AS ends FROM numbered GROUP BY {keys}, span)
        SELECT checked.*, spans.starts IS NOT NULL AS covered
        FROM checked
        LEFT JOIN spans ON {same} AND spans.starts <= checked.starts AND spans.ends >= checked.ends"""


# A name server's own log shows queue data, but mostly not which broker they belong to. Neither does a route with an acting
# master, because it does not show that broker's id.
_IS_RECORDED = """beginning_seen
    AND (day, namesrv_id) NOT IN (SELECT (day, namesrv_id) FROM past_knowledge WHERE about = 'is_logged' AND number <> 0)"""
TOPIC_QUEUE_HISTORY = _history(
    "topic_queue_history",
    "one interval in which a broker name offered a topic with the same queues and permission (topicQueueTable)",
    ("topic", "broker_name"),
    """
        topic STRING: Topic
        broker_name
        read_queue_nums* INT: Queues to read from
        write_queue_nums* INT: Queues to write to
        perm* INT: Permission bits: 4 read, 2 write, 1 inherit
        topic_sys_flag* INT: System flag bits: 1 unit, 2 unit-sub
    """,
    rules=(
        *queues(),
        warn("topic_is_named", "coalesce(topic, '') <> ''", "A topic has a name."),
        query(
            "broker_has_a_group",
            "covered",
            "Queue data of a named broker exist only while the name is in broker_addr_history, unless only a log or an answer "
            "shows them, or others have no name.",
            # In 4.x those without a name may stay: a lost address is looked for further, and only what the last group had goes.
            # Before 4.9.4 the search for those of another name ends at one with an exception.
            _covered(
                "topic_queue_history",
                "broker_addr_history",
                "broker_name",
                where=f"broker_name IS NOT NULL AND {_IS_RECORDED} AND namesrv_id NOT IN"
                " (SELECT namesrv_id FROM topic_queue_history WHERE broker_name IS NULL)",
            ),
        ),
    ),
)
BROKER_ADDR_HISTORY = _history(
    "broker_addr_history",
    "one interval of one member of a group (brokerAddrTable); broker_id NULL: a group without members (5.x)",
    ("broker_name", "broker_id"),
    """
        broker_name
        broker_id BIGINT: Broker id, 0 = master; NULL: the group has no member
        broker_addr
        cluster_name STRING: Cluster of the group's first registration
        enable_acting_master* BOOLEAN: The group may have an acting master (5.x)
        zone_name STRING: Zone (5.x)
    """,
    rules=(
        *rules("""
            broker_id_is_not_negative?: A broker id is 0 or more.
                broker_id IS NULL OR broker_id >= 0
            no_member_has_no_address: Only a member has an address.
                broker_id IS NOT NULL OR broker_addr IS NULL
        """),
        query(
            "empty_group_is_empty",
            "member IS NULL",
            "A group without members has no member at the same time.",
            """
            SELECT bare.day, bare.namesrv_id, bare.broker_name, bare.opened_by, member.broker_id AS member
            FROM broker_addr_history AS bare
            LEFT JOIN broker_addr_history AS member
              ON member.day = bare.day AND member.namesrv_id = bare.namesrv_id
             AND member.broker_name IS NOT DISTINCT FROM bare.broker_name AND member.broker_id IS NOT NULL
             AND (bare.closed_at IS NULL OR member.opened_at.seq < bare.closed_at.seq)
             AND (member.closed_at IS NULL OR bare.opened_at.seq < member.closed_at.seq)
            WHERE bare.broker_id IS NULL""",
        ),
    ),
)
CLUSTER_ADDR_HISTORY = _history(
    "cluster_addr_history",
    "one interval in which a broker name stood in a cluster's set (clusterAddrTable)",
    ("cluster_name", "broker_name"),
    """
        cluster_name
        broker_name
    """,
    rules=rules("""
        names_are_not_empty?: Clusters and brokers have names.
            coalesce(cluster_name, '') <> '' AND coalesce(broker_name, '') <> ''
    """),
)
BROKER_LIVE_HISTORY = _history(
    "broker_live_history",
    "one interval of a live entry with the same version, timeout, channel and HA address (brokerLiveTable)",
    ("cluster_name", "broker_addr"),
    """
        cluster_name STRING: Cluster in the key (5.x); NULL in 4.x, whose key is the address
        broker_addr
        broker_name STRING: Name in the registration that wrote the entry; not part of the name server's table
        data_version DATA_VERSION: Stored data version
        heartbeat_timeout_ms BIGINT: Lease in milliseconds; NULL: the entry is known only from a log, which shows no lease
        channel_id STRING: Connection of the registration
        ha_server_addr STRING: haServerAddr
        first_update_time* TIMESTAMP: lastUpdateTimestamp when the row was opened
        last_update_time TIMESTAMP: lastUpdateTimestamp when it was closed; NULL = open (see last_heartbeats), or known only
            from a log
    """,
    rules=rules("""
        lease_is_not_negative?: A lease is 0 ms or more.
            heartbeat_timeout_ms IS NULL OR heartbeat_timeout_ms >= 0
        updates_are_in_order: first_update_time is not after last_update_time.
            last_update_time IS NULL OR first_update_time <= last_update_time
        no_update_after_its_end: An entry is not refreshed after it was removed.
            valid_to IS NULL OR last_update_time IS NULL OR last_update_time <= valid_to
    """),
)
FILTER_SERVER_HISTORY = _history(
    "filter_server_history",
    "one interval of a broker's filter servers (filterServerTable)",
    ("cluster_name", "broker_addr"),
    """
        cluster_name STRING: Cluster in the key (5.x); NULL in 4.x
        broker_addr
        filter_servers* ARRAY<STRING>: Filter servers, in order
    """,
    rules=(
        Rule("list_is_not_empty", "len(filter_servers) > 0", "An empty list removes the entry, so none is stored."),
    ),
)
KV_CONFIG_HISTORY = _history(
    "kv_config_history",
    "one interval of a KV entry; config_key NULL: the namespace exists",
    ("namespace", "config_key"),
    """
        namespace STRING: KV namespace
        config_key STRING: KV key; NULL: the namespace itself
        config_value STRING: KV value; NULL if a null was put
    """,
    rules=(
        *rules("""
            namespace_has_no_value: A namespace itself has no value.
                config_key IS NOT NULL OR config_value IS NULL
        """),
        query(
            "key_has_a_namespace",
            "covered",
            "Keys exist only while their namespace does.",
            _covered(
                "kv_config_history",
                "kv_config_history",
                "namespace",
                where="config_key IS NOT NULL",
                by_where="config_key IS NULL",
            ),
        ),
    ),
)
TOPIC_QUEUE_MAPPING_HISTORY = _history(
    "topic_queue_mapping_history",
    "one interval of a static topic's mapping (topicQueueMappingInfoTable, 5.x)",
    ("topic", "bname"),
    """
        topic STRING: Topic
        bname STRING: Broker name of the mapping
        total_queues* INT: Queues of the static topic
        epoch* BIGINT: Epoch of the mapping
        dirty* BOOLEAN: Flag of the mapping
        scope STRING: Scope of the mapping
        curr_id_map STRING: currIdMap as JSON text
    """,
    rules=(warn("mapping_is_plausible", "total_queues >= 0 AND epoch >= 0", "total_queues and epoch are 0 or more."),),
)
DATA_VERSION_HISTORY = _history(
    "data_version_history",
    "one interval in which a broker reported the same data version, stored or not",
    ("cluster_name", "broker_name", "broker_addr"),
    """
        cluster_name
        broker_name
        broker_addr
        data_version DATA_VERSION: Version reported
        previous DATA_VERSION: Version reported before; NULL for the
            first
        is_regression* BOOLEAN: Older than the version reported before
    """,
    rules=rules("""
        version_differs_from_previous: An interval begins where the version changes.
            data_version IS NULL OR data_version IS DISTINCT FROM previous
        regression_has_two_versions: A regression is known from two versions.
            NOT is_regression OR (data_version IS NOT NULL AND previous IS NOT NULL)
    """),
)
HISTORY_TABLES = (
    TOPIC_QUEUE_HISTORY,
    BROKER_ADDR_HISTORY,
    CLUSTER_ADDR_HISTORY,
    BROKER_LIVE_HISTORY,
    FILTER_SERVER_HISTORY,
    KV_CONFIG_HISTORY,
    TOPIC_QUEUE_MAPPING_HISTORY,
    DATA_VERSION_HISTORY,
)


def of_history(table: Table) -> tuple[Rule, ...]:
    """Return the rules of every history, for intervals that were alive on a `day`: they are whole and do not overlap."""
    key = ", ".join(column for column in table.key if column != "opened_at")
    # A plain refresh may open a data version, and plain refreshes have no row in event_outcomes.
    beats = ("heartbeats", "registrations") if table.name == "data_version_history" else ()
    known = union((*beats, "event_outcomes"), "event_id")
    return (
        present(table),
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
        INTERVAL_DOES_NOT_RUN_BACK,
        LIVES_IN_ITS_SLICE,
        Rule("key_entered_before", "entered_at <= opened_at", "A key enters its map no later than its row opens."),
        query(
            "does_not_overlap",
            "next_opened_at IS NULL OR (closed_at IS NOT NULL AND closed_at <= next_opened_at)",
            f"Intervals of one key ({key}) do not overlap; no interval is there twice.",
            f"""
            SELECT day, {key}, opened_at, closed_at,
                   lead(opened_at) OVER (PARTITION BY day, {key} ORDER BY opened_at) AS next_opened_at
            FROM {table.name}""",
        ),
        reference(
            "its_events_are_known",
            "The events that opened or closed an interval on the day are recorded.",
            f"""
            WITH checked AS (
              SELECT DISTINCT day, namesrv_id, 'opened_by' AS role, opened_by AS event_id
              FROM {table.name} WHERE opened_by IS NOT NULL AND CAST(valid_from AS DATE) = day
              UNION ALL
              SELECT DISTINCT day, namesrv_id, 'closed_by' AS role, closed_by AS event_id
              FROM {table.name} WHERE closed_by IS NOT NULL)
            SELECT checked.*, recorded.event_id AS known
            FROM checked
            LEFT JOIN (SELECT DISTINCT event_id FROM ({known}) SEMI JOIN checked USING (event_id)) AS recorded
              ON recorded.event_id = checked.event_id""",
        ),
    )


__all__ = ("HISTORY_TABLES", "INTERVAL", "INTERVAL_TABLES", "REPORT_TABLES", "TABLES", "made_by")

_MODULES = (import_module(f"{tables.__name__}.{module.name}") for module in iter_modules(tables.__path__))
_FOUND: tuple[Table, ...] = tuple(of for module in _MODULES for of in vars(module).values() if isinstance(of, Table))
_DEFINED = tuple(table for table in _FOUND if table.layer != "bronze")
REPORT_TABLES = tuple(table for table in _DEFINED if table.made_by is not None)
"""The tables of a day that are not histories: outcomes of events, findings, checks."""
TABLES = (*HISTORY_TABLES, *REPORT_TABLES, *(table for table in _DEFINED if table.made_by is None))
INTERVAL_TABLES = tuple(table for table in TABLES if table.has_intervals)
"""The tables of intervals: the histories, `orphaned_topics` and `findings`."""
_BY_NAME = {table.name.upper(): table for table in TABLES}


def made_by(step: Step) -> tuple[Table, ...]:
    """Return the tables that a step of a day's replay writes."""
    return tuple(table for table in REPORT_TABLES if table.made_by == step)


def __getattr__(name: str) -> Table:
    """Return the table of that name, in capitals."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise AttributeError(f"no gold table is called {name.lower()}") from None
