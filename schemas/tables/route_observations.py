"""The table route_observations: one answer that a name server gave to a question about what it holds."""

from __future__ import annotations

from namesrv_core.machine.instants import NS_PER_US
from namesrv_wire.codes import OBSERVED
from schemas.recorded import ARE_USUAL, FIELDS_ARE_READ, FOLLOWING_ID, STATED_ID, USUAL_CODES, events
from schemas.rule import is_code, warn, words
from schemas.table import BOOLEAN, INT, LONG, STRING, Column, Rule, required

ROUTE_OBSERVATIONS = events(
    "route_observations",
    "one answer that a name server gave to a question about what it holds",
    required(
        "code",
        INT,
        "Request code: 105 route, 106 cluster info, 206 topic list, 224/304/311/312/313 other lists, "
        "101/219 KV value/list, 319 configuration, 901 member group",
    ),
    Column("subject", STRING, "105: topic; 224: cluster; 101: key; 219: namespace; 901: broker name; NULL otherwise"),
    Column("scope", STRING, "105: zone; 101: namespace of the key; 901: cluster; NULL otherwise"),
    required("request_seq", LONG, "Position of the request's last byte, on the scale of seq"),
    required("standard_json", BOOLEAN, "105: the asker accepts standard JSON only"),
    required("request_version", INT, "Protocol version in the request header"),
    Column("language", STRING, "Language in the request header"),
    required("response_code", INT, "Code of the answer; 17 = TOPIC_NOT_EXIST"),
    required("response_version", INT, "Protocol version in the answer's header"),
    Column("remark", STRING, "Remark of the answer"),
    Column("response_fields", STRING, "Header fields of the answer (101: value) as JSON; NULL if none"),
    Column("body", STRING, "Body of the answer as text, 319: what is kept of it; NULL if empty"),
    required("nth", INT, "Of its connection's answers with its code and effect_time the first is 0"),
    STATED_ID,
    required("seq_rest", LONG, "What seq is beyond effect_time in ns"),
    required("request_rest", LONG, "What request_seq is beyond event_time in ns"),
    derived={
        "event_id": FOLLOWING_ID.format(time="effect_time"),
        "seq": f"unix_micros(effect_time) * {NS_PER_US} + seq_rest",
        "request_seq": f"unix_micros(event_time) * {NS_PER_US} + request_rest",
    },
    rules=(
        FIELDS_ARE_READ,
        Rule(
            "code_belongs_here",
            is_code("code", sorted(OBSERVED)),
            f"Request codes of this table: {words(sorted(OBSERVED))}.",
        ),
        Rule(
            "subject_is_of_its_code",
            "code IN (101, 105, 219, 224, 901) OR subject IS NULL",
            "Only questions about a topic, a cluster, a KV key or namespace, or a group have a subject.",
        ),
        warn("answer_follows_question", "request_seq <= seq", "An answer comes after its question."),
        warn("response_code_is_usual", is_code("response_code", USUAL_CODES), ARE_USUAL),
        warn(
            "route_has_a_body",
            "code <> 105 OR response_code <> 0 OR body IS NOT NULL",
            "A route that was found has a body.",
        ),
    ),
)
"""Of an answer nothing is stored that follows from its row; texts are there once among many rows (`jobs.store.files`)."""
