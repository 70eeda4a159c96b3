"""Rows that keep every rule of their table, with an identity of their own."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from namesrv_day.arrow import table_of
from namesrv_day.context import on_a_day
from schemas.gold import INTERVAL_TABLES
from schemas.rules import TABLES
from tests.day import row_values
from tests.day.row_values import E1, NOON, ONE_DAY, SEQ, TOPICS, addr_of, digest

TIMED = {name for name, table in TABLES.items() if "event_id" in (column.name for column in table.derived)}
_FOLDER = Path(__file__).parents[1] / "tables"
_BY_NAME: dict[str, Any] = {**vars(row_values), "1000": 1_000, "00": "00"}
_UNITS: dict[str, Any] = {"m": row_values.MINUTE, "d": ONE_DAY, "": 1}
_numbers = count(1)


def _meant(value: Any, n: int) -> Any:
    """Return what stands in a file of `tests/tables` as values of a row.

    `$NAME` is a value of `row_values`, and so is `of: NAME`, whose fields others may replace; `$NOON+2m`, `$DAY-1d`, `$SEQ+1`,
    `$00*257` differ from it; `$digest(text, 64)` is a digest of so many digits; `$addr` and `{n}` are of the row's number.
    """
    if isinstance(value, dict):
        bases = value.get("of", ())
        whole = [_BY_NAME[name] for name in ([bases] if isinstance(bases, str) else bases)]
        own = {name: _meant(of, n) for name, of in value.items() if name != "of"}
        return {name: of for one in (*whole, own) for name, of in one.items()}
    if isinstance(value, list):
        return [_meant(one, n) for one in value]
    text = value.replace("{n}", str(n)) if isinstance(value, str) else ""
    if not text.startswith("$"):
        return text or value
    if found := re.fullmatch(r"\$digest\((.*?)(?:, (\d+))?\)", text):
        return digest(found[1], int(found[2] or 32))
    name, sign, number, unit = re.fullmatch(r"\$(\w+)(?:([-+*])(\d+)([md]?))?", text).groups()  # type: ignore[union-attr]
    base: Any = addr_of(n) if name == "addr" else _BY_NAME[name]
    if sign is None:
        return base
    return base * int(number) if sign == "*" else base + int(f"{sign}{number}") * _UNITS[unit]


def _read(table: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((_FOLDER / f"{table}.yaml").read_text(encoding="utf-8"))
    return found


TOLD = {table: _read(table) for table in TABLES}
"""Each table's file: a good row, what is its own of the row of a number, a column to be null, and rows that break rules."""
GOOD: dict[str, dict] = {name: _meant({"of": told.get("of", ()), **told["good"]}, 0) for name, told in TOLD.items()}


def breaking(table: str) -> dict[str, Any]:
    """Return by rule what makes good rows break it."""
    found: dict[str, Any] = _meant(TOLD[table].get("planted", {}), 0)
    return found


def twice(table: str) -> list[dict] | None:
    """Return two rows of one key, where it takes more than their columns."""
    found: list[dict] | None = _meant(TOLD[table].get("twice"), 0)
    return found


def own(table: str) -> dict[str, object]:
    n = next(_numbers)
    if "seq" in TABLES[table].column_names and "event_id" in TABLES[table].column_names:
        identity = {"seq": SEQ + n, "event_id": digest(f"event {n}"), "channel_id": f"10.0.0.1:4000#{n}"}
        return identity | ({"source_file": f"{n}.pcap"} if "source_file" in TABLES[table].column_names else {})
    found: dict[str, object] = _meant(TOLD[table]["own"], n)
    return found


def row(table: str, **different) -> dict:
    return GOOD[table] | own(table) | different


def good_rows() -> dict[str, list[dict]]:
    """Return rows that keep every rule, and what the planted ones refer to."""
    rows = {table: [row(table)] for table in TABLES}
    rows["registrations"].append(row("registrations", event_id=E1))
    rows["event_outcomes"].append(row("event_outcomes", event_id=E1, operation="register_broker", outcome="applied"))
    rows["topic_configs"].append(row("topic_configs", topic_config_digest=TOPICS))
    rows["broker_addr_history"].append(row("broker_addr_history", broker_name="broker-a"))
    rows["broker_addr_history"].append(row("broker_addr_history", broker_name="broker-c", valid_from=NOON - ONE_DAY))
    rows["kv_config_history"].append(row("kv_config_history", config_key=None, config_value=None))
    return rows


def frames(rows: dict[str, list[dict]]) -> dict[str, pa.Table]:
    """Return the tables of `rows`, intervals with the `day`; answers that are not explained are recorded, but for nobody's."""
    answers = {r["event_id"] for r in rows.get("route_mismatches", ())} - {digest("nobody")}
    if answers:
        recorded = [row("route_observations", event_id=event_id) for event_id in sorted(answers)]
        rows = rows | {"route_observations": rows["route_observations"] + recorded}
    for name in TIMED & rows.keys():
        rows = rows | {name: [of | {"stated_id": of["event_id"]} for of in rows[name]]}
    intervals = {
        table.name: pa.Table.from_pylist(rows[table.name], on_a_day(table))
        for table in INTERVAL_TABLES
        if table.name in rows
    }
    return {name: table_of(of, TABLES[name]) for name, of in rows.items()} | intervals
