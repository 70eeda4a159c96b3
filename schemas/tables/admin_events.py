"""The table admin_events: one administrative request that changes the registry or the configuration."""

from __future__ import annotations

from namesrv_wire.codes import EVENT_TABLES as TABLE_OF_CODE
from namesrv_wire.codes import REQUEST_NAMES
from schemas.recorded import FIELDS_ARE_READ, QUEUE_DATAS, REQUEST, REQUEST_RULES, code_of, events
from schemas.rule import queues
from schemas.table import STRING, Column, Rule, required

ADMIN_EVENTS = events(
    "admin_events",
    "one administrative request that changes the registry or the configuration",
    *REQUEST,
    required("operation", STRING, "Name of the request code, lower case"),
    Column("broker_name", STRING, "205, 327: broker whose queues change"),
    Column("cluster_name", STRING, "216: cluster, NULL or empty = the whole topic"),
    Column("topic", STRING, "216, 217: topic"),
    Column("queue_datas", QUEUE_DATAS, "217: queue data to store; NULL if the list is null"),
    Column("namespace", STRING, "100, 102: KV namespace"),
    Column("config_key", STRING, "100, 102: KV key"),
    Column(
        "config_value",
        STRING,
        "100: KV value; 318: what is kept of the properties (docs/auditors.md), one name=value a line",
    ),
    rules=(
        *REQUEST_RULES,
        FIELDS_ARE_READ,
        code_of("admin_events"),
        Rule(
            "operation_is_of_its_code",
            "operation = CASE code "
            + " ".join(f"WHEN {code} THEN '{REQUEST_NAMES[code]}'" for code in sorted(TABLE_OF_CODE))
            + " ELSE operation END",
            "operation is the name of the request code.",
        ),
        *queues("queue_datas"),
    ),
)
