"""The beginning of a night: what is recorded is read, and, where that is asked for, name servers that seem to be one are."""

from __future__ import annotations

import datetime as dt

import pyarrow.compute as pc

from jobs.ingest.ingest import join_addresses
from jobs.night.days import Days, days_to_do
from jobs.night.night import Night
from jobs.passes import Passes
from jobs.store.warehouse import Warehouse
from schemas import gold


def begun(warehouse: Warehouse, passes: Passes, days: Days) -> tuple[Night, Days]:
    """Return a night that has read the days it is to do, and these: with `join_addresses` more than were wanted.

    Raises TamperedError as `Night.begin`.
    """
    night = Night(warehouse, passes)
    night.begin(days)
    while warehouse.conf.join_addresses and (groups := _may_be_one(night, days)):
        join_addresses(warehouse, groups)
        days, night = days_to_do(warehouse, days.wanted), Night(warehouse, passes)
        night.begin(days)
    return night, days


def suggested_days(warehouse: Warehouse) -> list[dt.date]:
    """Return the days of which a published finding suggests to join addresses, if that is asked for."""
    if not warehouse.conf.join_addresses or warehouse.ledger().last is None:
        return []
    is_line = (pc.field("code") == "SAME_PROCESS_SUSPECTED") & pc.match_substring(
        pc.field("detail"), '"] addresses = ["'
    )
    return sorted(set(warehouse.published_rows(gold.FINDINGS, None, ["told_on"], is_line)["told_on"].to_pylist()))


def _may_be_one(night: Night, days: Days) -> list[list[str]]:
    """Return the groups of name servers that seem to be one on the first day on which some do, by the same sign as a finding."""
    suspected = (night.suspected(day).to_pylist() for day in days.wanted)
    groups = ([[row["namesrv_id"], *row["others"]] for row in rows if row["kind"] == "one"] for rows in suspected)
    return next(filter(None, groups), [])
