"""Stored rows of which a part cannot be read, as an earlier reader let them through: they cost that part, and are noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.store.check import check
from jobs.store.files import read_files, write_file
from jobs.store.warehouse import Warehouse
from namesrv_day.arrow.rows import with_columns
from namesrv_wire.protocol.bodies import content_digest
from schemas import bronze, gold
from schemas.table import Table
from tests.ingest.given import BEAT, FIRST, Line, at, broker, read_in, warehouse_at, write
from tests.night.nights import night, rows

pytestmark = pytest.mark.slow

ANSWERED = {"response_code": 0, "response_fields": {}, "request_version": 493}
REGISTERED = {**broker("a", "xy", 1), **ANSWERED}
STATIC = {"topic": "x", "bname": "broker-a", "total_queues": 1, "curr_id_map": {"0": 0}}
ASKED = {"kind": "observation", "code": 105, "subject": "none", "response_code": 17, "response_version": 493}


def rewritten(warehouse: Warehouse, table: Table, **columns: Any) -> None:
    """Put rows with other values in some columns in place of those of a table: `columns` makes them of the old ones."""
    for file in warehouse.files(table):
        old = read_files(warehouse.path, table, [file])
        said = old.to_pylist()
        made = {name: pa.array(map(of, said), old.schema.field(name).type) for name, of in columns.items()}
        new = with_columns(old, **made)
        warehouse.change(table, [write_file(new, warehouse.path, table, file.day, warehouse.run_id)], [file])


def stored_so(warehouse: Path, log: Path) -> None:
    """Read a log, and have an answer's fields and a static topic's queue map be what an earlier reader took unread."""
    read_in(warehouse, log)
    opened = warehouse_at(warehouse, log.stem)

    def with_map(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**one, "curr_id_map": "{oops"} for one in row["mappings"]]

    digest = {}
    for row in opened.rows(bronze.TOPIC_CONFIGS_TABLE).to_pylist():
        of_both = ([tuple(one.values()) for one in records] for records in (row["topics"], with_map(row)))
        digest[row["topic_config_digest"]] = content_digest(*of_both)
    rewritten(
        opened,
        bronze.TOPIC_CONFIGS_TABLE,
        topic_config_digest=lambda row: digest[row["topic_config_digest"]],
        mappings=with_map,
    )
    rewritten(opened, bronze.REGISTRATIONS, topic_config_digest=lambda row: digest[row["topic_config_digest"]])
    rewritten(opened, bronze.HEARTBEATS, response_fields=lambda row: "{oops" if row["code"] == 322 else None)
    rewritten(opened, bronze.ROUTE_OBSERVATIONS, response_fields=lambda _: '{"a":{}}')
    opened.commit()


def noted(warehouse: Path) -> list[tuple[str, str, str, int]]:
    columns = ("reason", "detail", "source_file", "source_offset")
    return sorted(tuple(row[name] for name in columns) for row in rows(warehouse, bronze.QUARANTINE))


NOTED = [
    ("broken_rule", "heartbeats: response_fields_are_read", "a.jsonl", 4),
    ("broken_rule", "registrations: queue_maps_are_read", "a.jsonl", 3),
    ("broken_rule", "route_observations: response_fields_are_read", "a.jsonl", 6),
]


def test_a_stored_row_of_which_a_part_cannot_be_read_costs_that_part(tmp_path: Path) -> None:
    """The night publishes and notes each in quarantine, once; nothing else of the day is lost, and the warehouse is whole."""
    version = {"timestamp": 1, "counter": 1}
    lines: list[Line] = [
        {"kind": "namesrv", "event": "started"},
        {"kind": "namesrv", "event": "identified", "version": 493},
        {**REGISTERED, "mappings": [STATIC]},
        {**BEAT, "code": 322, "broker_addr": "10.0.0.97:10911", "data_version": version, **ANSWERED},
        {**BEAT, "broker_addr": "10.0.0.97:10911"},
        ASKED,
        {**BEAT, "broker_addr": "10.0.0.97:10911"},
    ]
    log = write(tmp_path / "a.jsonl", [at(8 + number / 3_600, line) for number, line in enumerate(lines)])
    stored_so(tmp_path / "w", log)
    said = night(tmp_path / "w")
    assert (said.status, said.errors) == ("published", [])
    assert noted(tmp_path / "w") == NOTED
    assert [row["topic"] for row in rows(tmp_path / "w", gold.TOPIC_QUEUE_HISTORY) if row["valid_to"] is None] == [
        "x",
        "y",
    ]
    (mapping,) = rows(tmp_path / "w", gold.TOPIC_QUEUE_MAPPING_HISTORY)
    assert (mapping["topic"], mapping["bname"]) == ("x", "broker-a")
    broken = {warning.split(":")[0].split(" ")[0] for warning in said.warnings}
    assert {"heartbeats.response_fields_are_read", "topic_configs.queue_maps_are_read"} <= broken

    assert night(tmp_path / "w", write(tmp_path / "b.jsonl", [at(9, BEAT)])).status == "published"
    assert noted(tmp_path / "w") == NOTED
    assert night(tmp_path / "w", first=FIRST, last=FIRST).status == "published"
    assert noted(tmp_path / "w") == NOTED
    assert check(warehouse_at(tmp_path / "w", "look")).wrong == []
