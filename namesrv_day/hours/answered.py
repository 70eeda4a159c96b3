"""Answers condensed to hours: equal answers to equal questions are a row, and single ones are looked up where that will not do."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from namesrv_core.asking.answers import STANDARD_JSON_SINCE
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_day.arrow.rows import derived_of
from namesrv_day.arrow.sql import connection
from schemas.bronze import ROUTE_OBSERVATIONS
from schemas.table import LONG, STRING, TIMESTAMP

ASKED = ("code", "subject", "scope", "standard_json")
"""What a question says."""
TOLD = ("response_code", "remark", "response_fields", "body")
"""What an answer says."""
_TYPE_OF = {column.name: column.type for column in ROUTE_OBSERVATIONS.columns}
_SAID = [(name, _TYPE_OF[name]) for name in (*ASKED, *TOLD)]
HOURS = pa.schema(
    [("namesrv_id", STRING), *_SAID, *((name, LONG) for name in ("hour", "answers", "request_seq", "seq"))]
)
"""Columns of condensed answers, one row for each question, answer and hour (since the epoch) of a file.

`standard_json`: the asker accepts standard JSON only, as it says or its version implies; `answers`: how many there are;
`request_seq`: where the first question arrived; `seq`: where the last answer left.
"""
SINGLES = pa.schema(
    [("said", LONG), ("event_id", STRING), ("request_seq", LONG), ("seq", LONG), ("effect_time", TIMESTAMP)]
)
"""Columns of single answers; `said`: the number (`row`) of the condensed ones of which each is one."""
_STANDARD = f"(standard_json OR request_version >= {STANDARD_JSON_SINCE})"
_HOUR = "epoch_us(effect_time) // 3600000000"
_MADE = {"standard_json": _STANDARD, "hour": _HOUR}


def hours_from(answers: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return rows of `route_observations`, a relation of this thread's `sql.connection`, condensed: `HOURS`, in no order."""
    said = ", ".join(f"{_MADE[name]} AS {name}" if name in _MADE else name for name in (*ASKED, *TOLD, "hour"))
    found = answers.aggregate(
        f"namesrv_id, {said}, count(*) AS answers, min(request_seq) AS request_seq, max(seq) AS seq"
    )
    return found.to_arrow_table().cast(HOURS)


def singles_from(answers: duckdb.DuckDBPyRelation, wanted: pa.Table) -> pa.Table:
    """Return the single answers that are condensed to the rows `wanted` of one name server: columns `SINGLES`, in no order.

    `wanted`: what was asked and told, `hour` and `row`. `answers`: as `hours_from` has them, of that name server; they need no
    ids, which are made of what is found.
    """
    names = (*ASKED, *TOLD, "hour")
    few = connection().from_arrow(wanted.select([*names, "row"]).rename_columns([*(f"w_{n}" for n in names), "said"]))
    same = " AND ".join(f"{_MADE.get(name, name)} IS NOT DISTINCT FROM w_{name}" for name in names)
    columns = {name: name for name in SINGLES.names} | {"event_id": derived_of(ROUTE_OBSERVATIONS)["event_id"]}
    found = answers.join(few, same, how="inner").project(", ".join(f"{sql} AS {name}" for name, sql in columns.items()))
    return found.to_arrow_table().cast(SINGLES)


def asked_from(answers: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return the first and the last question for a route of each hour: `first_us`, `last_us`, `first_id`, `last_id`.

    `answers`: as `singles_from` has them.
    """
    event_id = derived_of(ROUTE_OBSERVATIONS)["event_id"]
    routes = answers.filter(f"code = {RequestCode.GET_ROUTEINFO_BY_TOPIC.value}")
    when = {"first_us": "min(epoch_us(event_time))", "last_us": "max(epoch_us(effect_time))"}
    ids = {"first_id": f"arg_min({event_id}, event_time)", "last_id": f"arg_max({event_id}, effect_time)"}
    hourly = routes.aggregate(", ".join(f"{sql} AS {name}" for name, sql in (when | ids).items()), _HOUR)
    return hourly.to_arrow_table()


def refused_from(answers: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return the topics that were refused because there are none, as `between.REFUSED`. `answers`: as `singles_from` has them."""
    event_id = derived_of(ROUTE_OBSERVATIONS)["event_id"]
    code, told = RequestCode.GET_ROUTEINFO_BY_TOPIC.value, ResponseCode.TOPIC_NOT_EXIST.value
    refused = answers.filter(f"code = {code} AND response_code = {told}")
    return refused.aggregate(
        "subject AS topic, count(*) AS answers, count(DISTINCT regexp_replace(channel_id, ':[0-9]+#.*$', '')) AS clients, "
        "min(epoch_us(effect_time)) AS first_us, max(epoch_us(effect_time)) AS last_us, "
        f"arg_min({event_id}, effect_time) AS event_id",
        "subject",
    ).to_arrow_table()
