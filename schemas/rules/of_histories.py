"""The rules of the history tables: what holds of all of them, and of each."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from schemas import gold
from schemas.rule import INTERVAL_DOES_NOT_RUN_BACK, LIVES_IN_ITS_SLICE, present, query, queues, reference, union, warn
from schemas.table import Rule, Table


def of_history(table: Table) -> tuple[Rule, ...]:
    """Return what holds of the intervals of every history that were there on a `day`: they are whole and do not overlap."""
    key = ", ".join(column for column in table.key if column != "opened_at")
    # What a plain refresh reports opens a data version, and plain refreshes have no outcome.
    beats = ("heartbeats", "registrations") if table is gold.DATA_VERSION_HISTORY else ()
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
            WITH judged AS (
              SELECT DISTINCT day, namesrv_id, 'opened_by' AS role, opened_by AS event_id
              FROM {table.name} WHERE opened_by IS NOT NULL AND CAST(valid_from AS DATE) = day
              UNION ALL
              SELECT DISTINCT day, namesrv_id, 'closed_by' AS role, closed_by AS event_id
              FROM {table.name} WHERE closed_by IS NOT NULL)
            SELECT judged.*, recorded.event_id AS known
            FROM judged
            LEFT JOIN (SELECT DISTINCT event_id FROM ({known}) SEMI JOIN judged USING (event_id)) AS recorded
              ON recorded.event_id = judged.event_id""",
        ),
    )


def _covered(table: str, by: str, match: str, *, where: str = "TRUE", by_where: str = "TRUE") -> str:
    """Return the query that says of each interval of `table` whether intervals of `by` cover it.

    `match` are the columns that both share. Covering intervals that touch are joined first. One event changes
    several tables at once, so only positions of events count (seq). What was open before the day is
    open from its start.
    """
    start = "CASE WHEN CAST(valid_from AS DATE) < day THEN -1 ELSE opened_at.seq END"
    end = "coalesce(closed_at.seq, 9223372036854775807)"
    same = " AND ".join(
        f"judged.{column} IS NOT DISTINCT FROM spans.{column}" for column in ("day", "namesrv_id", *match.split(", "))
    )
    keys = f"day, namesrv_id, {match}"
    return f"""
        WITH judged AS (
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
        SELECT judged.*, spans.starts IS NOT NULL AS covered
        FROM judged
        LEFT JOIN spans ON {same} AND spans.starts <= judged.starts AND spans.ends >= judged.ends"""


# A name server's own log tells of queue data, and mostly not of whose they are.
_IS_RECORDED = (
    "(day, namesrv_id) NOT IN (SELECT (day, namesrv_id) FROM past_knowledge WHERE about = 'is_logged' AND number <> 0)"
)
HISTORIES: dict[str, tuple[Rule, ...]] = {
    "topic_queue_history": (
        *queues(),
        warn("topic_is_named", "coalesce(topic, '') <> ''", "A topic has a name."),
        query(
            "broker_has_a_group",
            "covered",
            "Queue data exist only while their broker name is in broker_addr_history, unless only a log tells of them.",
            _covered("topic_queue_history", "broker_addr_history", "broker_name", where=_IS_RECORDED),
        ),
    ),
    "broker_addr_history": (
        warn("broker_id_is_not_negative", "broker_id IS NULL OR broker_id >= 0", "A broker id is 0 or more."),
        Rule(
            "no_member_has_no_address", "broker_id IS NOT NULL OR broker_addr IS NULL", "Only a member has an address."
        ),
        query(
            "address_has_one_id",
            "next_seq IS NULL OR (closed_seq IS NOT NULL AND closed_seq <= next_seq)",
            "An address has at most one id in a group at a time.",
            """
            SELECT day, namesrv_id, broker_name, broker_addr, broker_id, closed_at.seq AS closed_seq,
                   lead(opened_at.seq) OVER (
                     PARTITION BY day, namesrv_id, broker_name, broker_addr
                     ORDER BY opened_at.seq, closed_at.seq NULLS LAST) AS next_seq
            FROM broker_addr_history WHERE broker_addr IS NOT NULL""",
        ),
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
    "cluster_addr_history": (
        warn(
            "names_are_not_empty",
            "coalesce(cluster_name, '') <> '' AND coalesce(broker_name, '') <> ''",
            "Clusters and brokers have names.",
        ),
    ),
    "broker_live_history": (
        warn(
            "lease_is_not_negative",
            "heartbeat_timeout_ms IS NULL OR heartbeat_timeout_ms >= 0",
            "A lease is 0 ms or more.",
        ),
        Rule(
            "updates_are_in_order",
            "last_update_time IS NULL OR first_update_time <= last_update_time",
            "first_update_time is not after last_update_time.",
        ),
        Rule(
            "no_update_after_its_end",
            "valid_to IS NULL OR last_update_time IS NULL OR last_update_time <= valid_to",
            "An entry is not refreshed after it was removed.",
        ),
    ),
    "filter_server_history": (
        Rule("list_is_not_empty", "len(filter_servers) > 0", "An empty list removes the entry, so none is stored."),
    ),
    "kv_config_history": (
        Rule(
            "namespace_has_no_value",
            "config_key IS NOT NULL OR config_value IS NULL",
            "A namespace itself has no value.",
        ),
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
    "topic_queue_mapping_history": (
        warn("mapping_is_plausible", "total_queues >= 0 AND epoch >= 0", "total_queues and epoch are 0 or more."),
    ),
    "data_version_history": (
        Rule(
            "version_differs_from_previous",
            "data_version IS NULL OR data_version IS DISTINCT FROM previous",
            "An interval begins where the version changes.",
        ),
        Rule(
            "regression_has_two_versions",
            "NOT is_regression OR (data_version IS NOT NULL AND previous IS NOT NULL)",
            "A regression is known from two versions.",
        ),
    ),
}
