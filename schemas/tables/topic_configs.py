"""The table topic_configs: one distinct topic table of a registration, stored once."""

from __future__ import annotations

from schemas.recorded import MAPPING_INFOS, TOPIC_CONFIGS, is_object
from schemas.rule import each, is_hex, queues, warn
from schemas.table import INT, STRING, Rule, Table, required

UNREAD_QUEUES = "queue_maps_are_read"
"""Rule of what replay parses, as `recorded.UNREAD_FIELDS`."""
_IS_INT = "json_type(v) IN ('BIGINT', 'UBIGINT') AND try_cast(CAST(v AS VARCHAR) AS INTEGER) IS NOT NULL"
_IS_INT_KEY = "try_cast(k AS INTEGER) IS NOT NULL"

TOPIC_CONFIGS_TABLE = Table(
    "topic_configs",
    "bronze",
    "one distinct topic table of a registration, stored once",
    (
        required(
            "topic_config_digest", STRING, "SHA-256 over the topics and mappings in canonical form, 32 hex digits"
        ),
        required("topics", TOPIC_CONFIGS, "Topic configurations, in the order of the first body that had them"),
        required("mappings", MAPPING_INFOS, "topicQueueMappingInfoMap of 5.x; empty if none"),
        required("topic_count", INT, "Number of topics"),
        required("ingest_run", STRING, "Run that read it first"),
    ),
    key=("topic_config_digest",),
    partition_by=(),
    rules=(
        Rule("digest_has_its_form", is_hex("topic_config_digest", 32), "topic_config_digest is 32 hex digits."),
        Rule("topics_are_counted", "topic_count = len(topics)", "topic_count is the number of topics."),
        warn("topics_are_named", each("topics", "e.topic <> ''"), "Every topic has a name."),
        warn(
            "topics_are_named_once",
            "len(list_distinct(list_transform(topics, lambda t: {'topic': t.topic}))) = len(topics)",
            "No topic is there twice.",
        ),
        warn("mappings_are_plausible", each("mappings", "e.total_queues >= 0"), "Mappings have 0 queues or more."),
        warn(
            UNREAD_QUEUES,
            each(
                "mappings",
                f"e.curr_id_map IS NULL OR e.curr_id_map = '' OR {is_object('e.curr_id_map', _IS_INT, _IS_INT_KEY)}",
            ),
            "A queue map is a JSON object of queue ids; what nobody can read counts as no queues, see quarantine.",
        ),
        *queues("topics"),
    ),
)
