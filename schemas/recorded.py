"""What tables of recorded events have in common: the columns of an event, a request, a broker, a source, and their rules."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from namesrv_wire.codes import EVENT_TABLES as TABLE_OF_CODE
from schemas.rule import DAY_OF_EFFECT, has_form, is_code, is_hex, warn, words
from schemas.table import BOOLEAN, DATE, INT, LONG, STRING, TIMESTAMP, Column, Rule, Table, list_of, required, struct_of

DATA_VERSION = struct_of(state_version=LONG, timestamp=LONG, counter=LONG)
TOPIC_CONFIG = struct_of(topic=STRING, read_queue_nums=INT, write_queue_nums=INT, perm=INT, topic_sys_flag=INT)
MAPPING_INFO = struct_of(
    topic=STRING, bname=STRING, total_queues=INT, epoch=LONG, dirty=BOOLEAN, scope=STRING, curr_id_map=STRING
)
QUEUE_DATA = struct_of(broker_name=STRING, read_queue_nums=INT, write_queue_nums=INT, perm=INT, topic_sys_flag=INT)
DAYS = list_of(DATE)
TOPIC_CONFIGS = list_of(TOPIC_CONFIG)
MAPPING_INFOS = list_of(MAPPING_INFO)
QUEUE_DATAS = list_of(QUEUE_DATA)

NAMESRV_ID = required("namesrv_id", STRING, "Name server: its address, or one of its addresses, ip:port")
NAMESRV_ADDR = required("namesrv_addr", STRING, "Address of the name server that was used, ip:port as seen")
SOURCE = (
    required("source_file", STRING, "Name of the file the row was read from, without its folder"),
    required("source_offset", LONG, "Packet number (capture) or line number (event log) in that file, from 1"),
    required("ingest_run", STRING, "Run that read the row"),
)
DAY = required("day", DATE, "UTC date of effect_time; partition")
ENVELOPE = (
    NAMESRV_ID,
    required("seq", LONG, "Order within the name server: effect time in ns since the epoch, made unique"),
    required("event_id", STRING, "Deterministic id from content and position, 32 hex digits"),
    required("event_time", TIMESTAMP, "When the name server had received the event's last byte"),
    required("effect_time", TIMESTAMP, "When the event took effect (a request: with its response)"),
    Column("channel_id", STRING, "Connection: remote ip:port, '#', opening time in ns; NULL where there is none"),
    Column(
        "proxied_addr", STRING, "Client's ip:port, as a PROXY preamble on the connection named it; NULL without one"
    ),
    NAMESRV_ADDR,
)
REQUEST = (
    required("code", INT, "Request code"),
    required("one_way", BOOLEAN, "Sent one-way: no response was asked for"),
    required("request_version", INT, "Protocol version in the request header"),
    Column("response_code", INT, "Code of the response; NULL if none was seen"),
    Column("response_remark", STRING, "Remark of the response"),
    Column("response_fields", STRING, "Header fields of the response (masterAddr, changed ...) as JSON; NULL if none"),
    Column("response_body", STRING, "Body of the response as text; NULL if empty"),
)
BROKER = (
    Column("cluster_name", STRING, "clusterName of the header; NULL if absent"),
    Column("broker_name", STRING, "brokerName of the header; NULL if absent"),
    Column("broker_addr", STRING, "brokerAddr of the header; NULL if absent"),
    Column("broker_id", LONG, "brokerId of the header, 0 = master; NULL if absent"),
)


FOLLOWING_ID = """coalesce(stated_id, md5(concat_ws('|', namesrv_addr, channel_id, CAST(code AS STRING),
CAST(unix_micros({time}) AS STRING), CAST(nth AS STRING))))"""
STATED_ID = Column("stated_id", STRING, "event_id as its source states it; NULL where that follows from the row")
SOURCE_FILE_IS_A_NAME = Rule(
    "source_file_is_a_name", "NOT contains(source_file, '/')", "source_file is a name without a folder."
)
SOURCE_RULES = (
    SOURCE_FILE_IS_A_NAME,
    Rule("source_offset_counts_from_1", "source_offset >= 1", "Packets and lines are counted from 1."),
)
IS_ADDRESS, ADDRESS_SAYS = has_form("namesrv_id", ".+:[0-9]{1,5}"), "namesrv_id looks like host:port."


UNREAD_FIELDS = "response_fields_are_read"
"""Rule of what replay parses: a row that was stored before it was looked at when it is read counts for the rest of it."""


def _envelope(table: str, *, has_derived_id: bool) -> tuple[Rule, ...]:
    """Return the rules of what all tables of events have."""
    # Millions of events come over a few thousand connections: each of these has its form once.
    connections = f"SELECT DISTINCT namesrv_id, channel_id FROM {table}"
    # An id that follows from its row has its form: it is not made for it.
    is_digest = f"stated_id IS NULL OR {is_hex('stated_id', 32)}" if has_derived_id else is_hex("event_id", 32)
    return (
        Rule("event_id_is_a_digest", is_digest, "event_id is 32 hex digits."),
        DAY_OF_EFFECT,
        *SOURCE_RULES,
        warn(
            "effect_follows_arrival",
            "effect_time >= event_time",
            "An event takes effect after it arrived; otherwise the recording clock went back.",
        ),
        warn(
            "seq_is_effect_time",
            # A product takes less than a quotient.
            "seq BETWEEN (epoch_us(effect_time) - 1000000) * 1000 AND (epoch_us(effect_time) + 1000000) * 1000 + 999",
            "seq lies within a second of effect_time.",
        ),
        warn("namesrv_id_is_an_address", IS_ADDRESS, ADDRESS_SAYS, over=connections),
        warn(
            "channel_id_has_its_form",
            f"channel_id IS NULL OR {has_form('channel_id', '.+#[0-9]+')}",
            "channel_id is the remote address, '#', and the opening time.",
            over=connections,
        ),
    )


USUAL_CODES = (0, 1, 2, 3, 17, 22)
ARE_USUAL = "The answer is SUCCESS, SYSTEM_ERROR, BUSY, NOT_SUPPORTED, TOPIC_NOT_EXIST or QUERY_NOT_FOUND."


def is_object(text: str, values: str, keys: str | None = None) -> str:
    """Return the SQL condition that `text` is a JSON object whose values (`v`) and keys (`k`) are as they should be."""
    flat = f"len(list_filter(json_extract({text}, '$.*'), lambda v: NOT coalesce({values}, FALSE))) = 0"
    named = f" AND len(list_filter(json_keys({text}), lambda k: NOT coalesce({keys}, FALSE))) = 0" if keys else ""
    return f"CASE WHEN json_valid({text}) THEN json_type({text}) = 'OBJECT' AND {flat}{named} END"


FIELDS_ARE_READ = warn(
    UNREAD_FIELDS,
    # Most answers have none.
    "response_fields IS NULL OR response_fields = '{}' OR "
    + is_object("response_fields", "json_type(v) NOT IN ('OBJECT', 'ARRAY')"),
    "response_fields is a JSON object of texts; what nobody can read counts as no fields, see quarantine.",
)
REQUEST_RULES = (
    Rule("one_way_has_no_response", "NOT one_way OR response_code IS NULL", "A one-way request has no response."),
    Rule(
        "remark_needs_response",
        "response_remark IS NULL OR response_code IS NOT NULL",
        "There is no remark without a response.",
    ),
    warn("response_code_is_usual", f"response_code IS NULL OR {is_code('response_code', USUAL_CODES)}", ARE_USUAL),
)
BROKER_RULES = (
    warn(
        "broker_is_named",
        "cluster_name <> '' AND broker_name <> '' AND broker_addr <> ''",
        "A broker gives its cluster, name and address.",
    ),
    # QUERY_DATA_VERSION has no broker id in 5.x; brokers leave it out of BROKER_HEARTBEAT, which may have one.
    warn(
        "broker_id_is_not_negative",
        "broker_id >= 0 OR (broker_id IS NULL AND code IN (322, 904))",
        "A broker id is 0 or more; only QUERY_DATA_VERSION (322) and BROKER_HEARTBEAT (904) may have none.",
    ),
)


def code_of(table: str) -> Rule:
    """Return the rule that a table has the request codes of its own alone."""
    codes = sorted(code for code, name in TABLE_OF_CODE.items() if name == table)
    return Rule("code_belongs_here", is_code("code", codes), f"Request codes of this table: {words(codes)}.")


def events(
    name: str, grain: str, *columns: Column, rules: tuple[Rule, ...], derived: Mapping[str, str] | None = None
) -> Table:
    """Return a table of events: the envelope, `columns`, and the source; `derived`: SQL of those that are not stored."""
    follow = derived or {}
    made = [replace(column, derived=follow.get(column.name)) for column in (*ENVELOPE, *columns, *SOURCE, DAY)]
    shared = _envelope(name, has_derived_id="event_id" in follow)
    return Table(name, "bronze", grain, tuple(made), key=("event_id",), rules=(*shared, *rules))
