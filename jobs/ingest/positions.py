"""Gives each event of an event log a position of its own.

The lines of a log may leave it out; then it is made from the time, file by file. Events of one instant in different files
would share one, so the one that was made gives way. Two events that both say the same position contradict each other: the
later one is refused.
"""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from jobs.ingest.staging import Staging, parts_of
from jobs.store.files import read_files
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.instants import NS_PER_US
from schemas.bronze import EVENT_TABLES
from schemas.sql_files import query

_COLUMNS = ("namesrv_id", "event_id", "seq")


def give_own_positions(warehouse: Warehouse, staging: Staging) -> None:
    """Make the positions of the staged events unique among themselves and those that are stored on the same days.

    A stored event keeps its position, a given one goes before a made one, an earlier line before a later one. What has to
    move goes behind the last event of its microsecond.
    """
    found = [
        f"SELECT namesrv_id, event_id, seq, seq // {NS_PER_US} AS micros, _seq_is_given, _n FROM kept_{table.name}"
        for table in EVENT_TABLES
        if table.name in staging.tables
    ]
    if not found:
        return
    staging.ask(f"CREATE TABLE events AS {' UNION ALL '.join(found)}")
    staging.ask("CREATE TABLE neighbours (namesrv_id VARCHAR, event_id VARCHAR, seq BIGINT)")
    for table in EVENT_TABLES:
        for files in parts_of(warehouse.files(table, staging.days)):
            staging.ask(
                f"""INSERT INTO neighbours SELECT namesrv_id, event_id, seq FROM stored
                WHERE (namesrv_id, event_id) IN (SELECT (namesrv_id, event_id) FROM events)
                   OR (namesrv_id, seq // {NS_PER_US}) IN (SELECT (namesrv_id, micros) FROM events)""",
                stored=read_files(warehouse.path, table, files, _COLUMNS),
            )
    staging.ask(query("ingest/moved"))
