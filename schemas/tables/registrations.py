"""The table registrations: one REGISTER_BROKER (103); its topics are in topic_configs under topic_config_digest."""

from __future__ import annotations

from schemas.recorded import (
    BROKER,
    BROKER_RULES,
    DATA_VERSION,
    FIELDS_ARE_READ,
    REQUEST,
    REQUEST_RULES,
    code_of,
    events,
)
from schemas.rule import reference, warn
from schemas.table import BOOLEAN, INT, LONG, STRING, STRINGS, Column, Rule, required

REGISTRATIONS = events(
    "registrations",
    "one REGISTER_BROKER (103); its topics are in topic_configs under topic_config_digest",
    *REQUEST,
    *BROKER,
    Column("ha_server_addr", STRING, "haServerAddr of the header"),
    Column("enable_acting_master", BOOLEAN, "enableActingMaster of the header; NULL if absent (4.x)"),
    Column("heartbeat_timeout_ms", LONG, "heartbeatTimeoutMillis of the header; NULL if absent"),
    Column("zone_name", STRING, "__ZONE_NAME of the header"),
    Column("data_version", DATA_VERSION, "dataVersion of the body; NULL if the body says null"),
    Column("topic_config_digest", STRING, "Key into topic_configs; NULL if the topic table is null"),
    Column("topic_count", INT, "Topics in the body"),
    Column("filter_servers", STRINGS, "filterServerList; NULL leaves the stored list, empty removes it"),
    required("compressed", BOOLEAN, "The body was compressed"),
    required("body_bytes", LONG, "Size of the body on the wire"),
    Column("refusal", STRING, "Why it was refused: a flaw of the request, or what its answer says; NULL if it was not"),
    rules=(
        *REQUEST_RULES,
        FIELDS_ARE_READ,
        *BROKER_RULES,
        code_of("registrations"),
        Rule(
            "topic_count_has_topics",
            "topic_config_digest IS NOT NULL OR coalesce(topic_count, 0) = 0",
            "Counted topics are stored under a digest.",
        ),
        Rule(
            "body_fits_a_frame",
            "body_bytes BETWEEN 0 AND 16777216",
            "A body is no longer than the longest frame, 16 MiB.",
        ),
        warn(
            "lease_is_not_negative",
            "heartbeat_timeout_ms IS NULL OR heartbeat_timeout_ms >= 0",
            "A lease is 0 ms or more.",
        ),
        warn(
            "refusal_is_answered_so",
            "refusal IS NULL OR response_code IS NULL OR response_code <> 0",
            "What the request layer refused was not answered with SUCCESS.",
        ),
        reference(
            "topics_are_stored",
            "Every topic_config_digest is in topic_configs.",
            """
            SELECT DISTINCT r.topic_config_digest, t.topic_config_digest AS known
            FROM registrations AS r
            LEFT JOIN topic_configs AS t ON t.topic_config_digest = r.topic_config_digest
            WHERE r.topic_config_digest IS NOT NULL""",
            scope="table",
        ),
    ),
)
