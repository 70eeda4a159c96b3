"""Evidence for findings from heartbeats and registrations: silent brokers, false data versions, lone topics ...

Single registrations are read only if hours or histories suggest that there are relevant ones.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.step import LEASE_ENDED
from namesrv_day.arrow import ask, conformed, empty
from namesrv_day.context import DURING, BeatsDuring, RawBeats
from namesrv_day.events import BEATS, Frames
from namesrv_wire.codes import version_name
from namesrv_wire.errors import Reason
from schemas.bronze import REGISTRATIONS
from schemas.gold import (
    BROKER_ADDR_HISTORY,
    BROKER_LIVE_HISTORY,
    DATA_VERSION_HISTORY,
    EVENT_OUTCOMES,
    EXPIRED_BROKERS,
    NAMESRV_SETTINGS,
    ROUTE_CHANGES,
    TOPIC_QUEUE_HISTORY,
    TOPIC_QUEUE_MAPPING_HISTORY,
)
from schemas.sql_files import query
from schemas.table import LONG, STRING, TIMESTAMP, list_of
from schemas.times import US_PER_DAY, day_start, day_start_us

_STRING = pa.string()
_BROKER = [("broker_name", _STRING), ("broker_addr", _STRING)]
_EVENT = [("seen_time", TIMESTAMP), ("event_id", _STRING)]
_ENDED = [("until", TIMESTAMP), ("ended_by", _STRING)]
_TOPICS = [(name, list_of(_STRING)) for name in ("changed", "skipped")]
SAME_VERSION = pa.schema([*_BROKER, *_EVENT, ("version", _STRING), ("is_new_version", pa.bool_()), *_TOPICS])
"""A registration that repeats a data version with other topics. `changed`: topics that differ or are missing in it; `skipped`:
those that the name server did not take over. `is_new_version`: the version was first seen on the day."""
LONE = pa.schema([*_BROKER, *_EVENT, ("is_refused", pa.bool_())])
"""A first registration with a single topic."""
_VERSIONS = [("broker_version", _STRING), ("namesrv_version", _STRING)]
REFUSED = pa.schema([*_BROKER, *_EVENT, ("reason", _STRING), *_VERSIONS])
"""A refused registration, with its reason, and the releases of the broker and the name server."""
TAKEN = pa.schema([*_BROKER, *_EVENT])
"""An accepted registration of a broker with refused ones: the first of the day, and the first after refused ones."""
_WIPED = (("seen_time", TIMESTAMP), ("seen_by", _STRING), ("decided_time", TIMESTAMP), ("removed_time", TIMESTAMP))
WIPED = pa.schema([*_BROKER, *_WIPED, ("removed_by", _STRING)])
"""The last registration that came between the arrival of a broker's removal and its effect."""
ASKED = pa.schema(
    [("first_us", pa.int64()), ("last_us", pa.int64()), ("first_id", pa.string()), ("last_id", pa.string())]
)
"""The first and the last route question of an hour, and their answers; empty if a broker was live all day."""
TOO_LONG = pa.schema(
    [*_BROKER, ("seen_time", TIMESTAMP), ("channel_id", _STRING), ("bytes", pa.int64()), ("quarantine_id", _STRING)]
)
"""A registration whose frame exceeds the maximum length; broker fields that its header does not show are NULL."""
UNMAPPED = pa.schema(
    [
        *(*_BROKER, ("topic", _STRING), *_EVENT, ("seq", pa.int64()), ("kind", _STRING)),
        *(("until_time", TIMESTAMP), ("until_by", _STRING)),
    ]
)
"""How a master registers a topic that has a mapping at the name server, until that changes: `kind` static, plain or missing."""
SILENT = pa.schema([*_BROKER, ("broker_id", pa.int64()), ("since", TIMESTAMP), ("event_id", _STRING), *_ENDED])
"""Time in which a broker name was silent while another one has its address, too; `until` NULL: to the end of the day."""
DELETING = pa.schema([("event_id", _STRING), ("topic_count", pa.int64())])
"""Registrations by which topics lost their route, and the number of topics in them."""
READ_ONLY = pa.schema([("broker_name", _STRING), ("topic", _STRING), *_EVENT])
"""The first registration by which a master itself removes write permission from a topic that had lost it already."""
SEEN = {
    "same_version": SAME_VERSION,
    "lone": LONE,
    "refused": REFUSED,
    "taken": TAKEN,
    "wiped": WIPED,
    "asked": ASKED,
    "silent": SILENT,
    "read_only": READ_ONLY,
    "deleting": DELETING,
    "too_long": TOO_LONG,
    "unmapped": UNMAPPED,
}
# A live entry from before the day that was renewed in its last ten minutes existed all day.
_LATE_US = 600_000_000
_REMOVES = ("unregister_broker", "channel_close", "channel_exception", "channel_idle")


class Recorded(NamedTuple):
    """Recorded rows of a name server's day, read on demand.

    `topic_configs` reads topic tables by digest; `arrivals` (event_id, event_time) of events that removed brokers;
    `questions` the route questions of each hour (ASKED); `refused` the day's rows of `quarantine` with one reason.
    """

    raw_beats: RawBeats
    beats_during: BeatsDuring
    topic_configs: Callable[[pa.ChunkedArray], pa.Table]
    arrivals: Callable[[pa.Array], pa.Table]
    questions: Callable[[], pa.Table]
    refused: Callable[[Reason], pa.Table]


def registered(today: Frames, recorded: Recorded, day: dt.date, open_findings: pa.Table) -> dict[str, pa.Table]:
    """Return the tables of `SEEN` of a name server's `day`, by name.

    `today`: its histories, event_outcomes, route_changes, namesrv_settings, and `hours`. `open_findings`: those
    at the beginning of the day.
    """
    refused = _refused(today, recorded)
    return {
        "same_version": _same_version(today, recorded, day),
        "lone": _lone(today, recorded, day),
        "refused": refused,
        "taken": _taken(refused, open_findings, today, recorded),
        "wiped": _wiped(today, recorded),
        "asked": _asked(today, recorded, day),
        "silent": _silent(today, recorded, day),
        "read_only": _read_only(today, recorded, day),
        "deleting": _deleting(today, recorded),
        "too_long": _too_long(recorded),
        "unmapped": _unmapped(today, recorded),
    }


def _same_version(today: Frames, recorded: Recorded, day: dt.date) -> pa.Table:
    versions = {"hours": today["hours"], DATA_VERSION_HISTORY.name: today[DATA_VERSION_HISTORY.name]}
    changed = ask(query("flags/versions"), versions, start=day_start(day))
    if not changed.num_rows:
        return SAME_VERSION.empty_table()
    tables = {**_with_topics(changed, recorded), TOPIC_QUEUE_HISTORY.name: today[TOPIC_QUEUE_HISTORY.name]}
    return conformed(ask(query("flags/same_version"), tables), SAME_VERSION)


def _with_topics(requests: pa.Table, recorded: Recorded) -> dict[str, pa.Table]:
    """Return query inputs: registrations (`seq`, and `digest` of their topics), these as recorded, and their topics."""
    wanted, columns = pc.field("seq").isin(requests["seq"].combine_chunks()), ["event_id", "seq", "effect_time"]
    return {
        "registered": requests,
        "single": recorded.raw_beats(REGISTRATIONS.name, columns=columns, where=wanted),
        "configs": recorded.topic_configs(pc.unique(requests["digest"])),
    }


def _lone(today: Frames, recorded: Recorded, day: dt.date) -> pa.Table:
    refused = today[EVENT_OUTCOMES.name].filter(pc.field("outcome") == "refused_lone_topic")
    is_new = pc.field("valid_from") >= pa.scalar(day_start_us(day), TIMESTAMP)
    lives = today[BROKER_LIVE_HISTORY.name]
    # an entry that is replaced by the event that closes it goes on
    goes_on = pc.field("opened_by").isin(pc.drop_null(lives["closed_by"].combine_chunks()))
    begun = lives.filter(pc.field("beginning_seen") & is_new & ~goes_on)
    opened = pc.struct_field(begun["opened_at"], "seq").combine_chunks()
    wanted = pc.field("seq").isin(opened) & (pc.field("topic_count") == 1)
    columns = ["broker_name", "broker_addr", "effect_time", "event_id"]
    found = (
        recorded.raw_beats(REGISTRATIONS.name, columns=columns, where=wanted) if len(opened) else refused.slice(0, 0)
    )
    parts = [
        rows.select(columns)
        .rename_columns([*columns[:2], "seen_time", "event_id"])
        .append_column("is_refused", pa.repeat(is_refused, rows.num_rows))
        for rows, is_refused in ((refused, True), (found, False))
    ]
    return pa.concat_tables([conformed(part, LONE) for part in parts])


def _refused(today: Frames, recorded: Recorded) -> pa.Table:
    is_refused = (pc.field("operation") == "register_broker") & (pc.field("outcome") == "refused_request")
    refused = today[EVENT_OUTCOMES.name].filter(is_refused)
    if not refused.num_rows:
        return REFUSED.empty_table()
    wanted = pc.field("event_id").isin(refused["event_id"].combine_chunks())
    requests = recorded.raw_beats(REGISTRATIONS.name, columns=["event_id", "request_version"], where=wanted)
    releases = [version_name(version) for version in requests["request_version"].to_pylist()]
    tables = {
        "refused": refused,
        "requests": requests.append_column("broker_version", pa.array(releases, _STRING)),
        "settings": today[NAMESRV_SETTINGS.name],
    }
    return conformed(ask(_REFUSED, tables), REFUSED)


def _taken(refused: pa.Table, opened: pa.Table, today: Frames, recorded: Recorded) -> pa.Table:
    known = opened.filter(pc.field("code") == "REGISTRATION_REFUSED")["broker_names"].combine_chunks().flatten()
    names = pa.chunked_array([*refused["broker_name"].chunks, known], _STRING).unique()
    if not len(names):
        return TAKEN.empty_table()
    columns = [*("broker_name", "broker_addr", "effect_time", "event_id"), "refusal", "seq"]
    requests = recorded.raw_beats(REGISTRATIONS.name, columns=columns, where=pc.field("broker_name").isin(names))
    return conformed(ask(_TAKEN, {"requests": requests, "outcomes": today[EVENT_OUTCOMES.name]}), TAKEN)


def _wiped(today: Frames, recorded: Recorded) -> pa.Table:
    outcomes, lives = today[EVENT_OUTCOMES.name], today[BROKER_LIVE_HISTORY.name]
    removals = outcomes.filter(pc.field("operation").isin(_REMOVES))["event_id"].combine_chunks()
    gone = lives.filter(pc.field("closed_by").isin(removals))
    if not gone.num_rows:
        return WIPED.empty_table()
    came = recorded.arrivals(gone["closed_by"].unique())
    late = ask(_LATE, {"gone": gone, "came": came})
    if not late.num_rows:
        return WIPED.empty_table()
    columns = ["broker_addr", "event_id", "event_time", "effect_time", "refusal"]
    fresh = recorded.beats_during(REGISTRATIONS.name, columns, during(late, "decided_time", "removed_time"))
    return conformed(ask(query("flags/fresh"), {"late": late, "fresh": fresh}), WIPED)


def _asked(today: Frames, recorded: Recorded, day: dt.date) -> pa.Table:
    start_us = day_start_us(day)
    is_old = pc.field("valid_from") <= pa.scalar(start_us, TIMESTAMP)
    beats_on = pc.field("last_update_time") >= pa.scalar(start_us + US_PER_DAY - _LATE_US, TIMESTAMP)
    if today[BROKER_LIVE_HISTORY.name].filter(is_old & beats_on).num_rows:
        return ASKED.empty_table()
    return recorded.questions()


def _silent(today: Frames, recorded: Recorded, day: dt.date) -> pa.Table:
    members = today[BROKER_ADDR_HISTORY.name]
    shared = ask(_SHARED, {"members": members})["broker_addr"].combine_chunks()
    if not len(shared):
        return SILENT.empty_table()
    columns, where = ["broker_name", "broker_addr", "effect_time", "event_id"], pc.field("broker_addr").isin(shared)
    beats = [recorded.raw_beats(table.name, columns=columns, where=where) for table in BEATS]
    tables = {"members": members, "live": today[BROKER_LIVE_HISTORY.name], "beats": pa.concat_tables(beats)}
    tables["outcomes"] = today[EVENT_OUTCOMES.name]
    return conformed(ask(query("flags/silent"), tables, start=day_start(day)), SILENT)


def _read_only(today: Frames, recorded: Recorded, day: dt.date) -> pa.Table:
    wipes = today[EVENT_OUTCOMES.name].filter(pc.field("operation") == "wipe_write_perm")
    lost = ask(_LOST, {"queues": today[TOPIC_QUEUE_HISTORY.name], "wipes": wipes}, start=day_start(day))
    requests = ask(_REGISTERED_SINCE, {"hours": today["hours"], "lost": lost}) if lost.num_rows else lost
    if not requests.num_rows:
        return READ_ONLY.empty_table()
    return conformed(ask(query("flags/read_only"), {"lost": lost, **_with_topics(requests, recorded)}), READ_ONLY)


def _deleting(today: Frames, recorded: Recorded) -> pa.Table:
    vanished = today[ROUTE_CHANGES.name].filter(pc.field("change") == "vanished")["caused_by"].combine_chunks()
    is_one = (pc.field("operation") == "register_broker") & pc.field("event_id").isin(vanished)
    seqs = today[EVENT_OUTCOMES.name].filter(is_one)["seq"].combine_chunks()
    if not len(seqs):
        return DELETING.empty_table()
    columns = ["event_id", "topic_count"]
    return conformed(
        recorded.raw_beats(REGISTRATIONS.name, columns=columns, where=pc.field("seq").isin(seqs)), DELETING
    )


_SHARED = """
SELECT broker_addr FROM members WHERE broker_addr IS NOT NULL GROUP BY broker_addr HAVING count(DISTINCT broker_name) > 1
"""
# For permissions lost before the day, the cause is not checked here.
_LOST = """
SELECT broker_name, topic, valid_from FROM queues
WHERE perm & 2 = 0 AND (valid_from < $start OR opened_by IN (SELECT event_id FROM wipes))
"""
_REGISTERED_SINCE = """
SELECT
    l.broker_name, l.valid_from, h.topic_config_digest AS digest,
    min(if(h.first_us >= epoch_us(l.valid_from), h.first_seq, h.last_seq)) AS seq
FROM (SELECT DISTINCT broker_name, valid_from FROM lost) AS l
JOIN hours AS h ON h.broker_name = l.broker_name AND h.last_us >= epoch_us(l.valid_from)
WHERE h.kind = 'registrations' AND h.broker_id = 0 AND h.refusal IS NULL AND h.topic_config_digest IS NOT NULL
GROUP BY ALL
"""
_REFUSED = """
SELECT broker_name, broker_addr, effect_time AS seen_time, event_id, detail AS reason, broker_version, (
    SELECT max_by(value, from_seq) FROM settings AS s WHERE setting = 'version' AND from_seq <= refused.seq AND source <> 'default'
) AS namesrv_version
FROM refused LEFT JOIN requests USING (event_id)
"""


_TAKEN = """
WITH outcome_of AS (
    SELECT requests.*, refusal IS NULL AND coalesce(outcome, 'refreshed') IN ('applied', 'refreshed') AS is_taken
    FROM requests LEFT JOIN (SELECT event_id, outcome FROM outcomes) AS o USING (event_id)
)
SELECT broker_name, broker_addr, effect_time AS seen_time, event_id FROM outcome_of
QUALIFY is_taken AND NOT coalesce(lag(is_taken) OVER (PARTITION BY broker_name, broker_addr ORDER BY seq), FALSE)
"""


def _unmapped(today: Frames, recorded: Recorded) -> pa.Table:
    mappings = today[TOPIC_QUEUE_MAPPING_HISTORY.name]
    if not mappings.num_rows:
        return UNMAPPED.empty_table()
    requests = ask(_TABLES_OF_MASTERS, {"hours": today["hours"], TOPIC_QUEUE_MAPPING_HISTORY.name: mappings})
    if not requests.num_rows:
        return UNMAPPED.empty_table()
    tables = {**_with_topics(requests, recorded), TOPIC_QUEUE_MAPPING_HISTORY.name: mappings}
    return conformed(ask(query("flags/unmapped"), tables), UNMAPPED)


_TABLES_OF_MASTERS = """
SELECT broker_name, broker_addr, topic_config_digest AS digest, version_timestamp, version_counter,
    first_seq AS seq, first_us AS seen_us
FROM hours
WHERE kind = 'registrations' AND refusal IS NULL AND broker_id = 0 AND topic_config_digest IS NOT NULL
    AND broker_name IN (SELECT bname FROM topic_queue_mapping_history)
"""


def _too_long(recorded: Recorded) -> pa.Table:
    rows = list[dict[str, Any]]()
    for piece in recorded.refused(Reason.FRAME_TOO_LONG).to_pylist():
        data = bytes.fromhex(piece["first_bytes"])
        code = _CODE.search(data) if data[_AFTER_LENGTHS : _AFTER_LENGTHS + 1] == b"{" else None
        number = int(code[1]) if code else int.from_bytes(data[_AFTER_LENGTHS : _AFTER_LENGTHS + 2], "big")
        if number == RequestCode.REGISTER_BROKER:
            broker = {"broker_name": _field(data, b"brokerName"), "broker_addr": _field(data, b"brokerAddr")}
            shown = {"seen_time": piece["event_time"], "bytes": int.from_bytes(data[:4], "big")}
            rows.append({**piece, **broker, **shown})
    return pa.Table.from_pylist(rows, TOO_LONG)


def _field(data: bytes, name: bytes) -> str | None:
    """Return a header field, from JSON or RocketMQ's own serialisation (lengths in two and four bytes)."""
    found = re.search(rb'"%s":"([^"]*)"' % name, data)
    if found is not None:
        return found[1].decode(errors="replace")
    before = len(name).to_bytes(2, "big") + name
    at = data.find(before)
    if at < 0:
        return None
    begin = at + len(before) + 4
    size = int.from_bytes(data[begin - 4 : begin], "big")
    return data[begin : begin + size].decode(errors="replace") if begin + size <= len(data) else None


_AFTER_LENGTHS = 8
_CODE = re.compile(rb'"code":(\d+)')
_LATE = """
SELECT broker_name, broker_addr, event_time AS decided_time, valid_to AS removed_time, closed_by AS removed_by
FROM gone JOIN came ON event_id = closed_by WHERE event_time < valid_to
"""


def asked_from(answers: pa.Table) -> pa.Table:
    """Return the first and the last route question of each hour: `ASKED`. `answers`: rows of route_observations."""
    return ask(_ASKED, {"answers": answers}, code=RequestCode.GET_ROUTEINFO_BY_TOPIC.value).cast(ASKED)


_ASKED = """
SELECT min(epoch_us(event_time)) AS first_us, max(epoch_us(effect_time)) AS last_us,
    arg_min(event_id, event_time) AS first_id, arg_max(event_id, effect_time) AS last_id
FROM answers WHERE code = $code GROUP BY epoch_us(effect_time) // 3600000000
"""


# -- brokers that fell silent and were removed -------------------------------------------------------------------------


def expired_brokers(slices: Frames) -> pa.Table:
    """Return the rows of `expired_brokers` of one name server's day: live entries removed by a scan or an idle close.

    `slices`: the day's histories and `event_outcomes`.
    """
    removals = slices[EVENT_OUTCOMES.name].filter(pc.field("operation").isin(["scan", "channel_idle", LEASE_ENDED]))
    if not removals.num_rows:
        return empty(EXPIRED_BROKERS)
    touched = pc.field("closed_by").isin(removals["event_id"]) | pc.field("opened_by").isin(removals["event_id"])
    tables = {
        "removals": removals,
        "live": slices[BROKER_LIVE_HISTORY.name],
        "members": slices[BROKER_ADDR_HISTORY.name],
        "queues": slices[TOPIC_QUEUE_HISTORY.name].filter(touched),
    }
    return conformed(ask(query("flags/expired"), tables), EXPIRED_BROKERS)


_REFUSALS = (("refused_since", TIMESTAMP), ("refused_by", STRING), ("reasons", list_of(STRING)))
UNRENEWED = pa.schema(
    [("removed_by", STRING), ("broker_addr", STRING), ("beats", LONG), ("refused", LONG), *_REFUSALS],
)
"""Beats of a broker between the last one that renewed its lease and its removal, and those of them refused by then: since when,
by which event first, and why."""


def unrenewed_beats(expired: pa.Table, outcomes: pa.Table, beats_during: BeatsDuring) -> pa.Table:
    """Return a row (`UNRENEWED`) for each removed broker with beats before its removal that did not renew its lease.

    They were refused, or handled too late. `expired`: rows of `expired_brokers`; `outcomes`: event_outcomes.
    """
    if not expired.num_rows:
        return UNRENEWED.empty_table()
    expired = expired.filter(pc.field("last_beat_time").is_valid())
    silent = during(expired, "last_beat_time", "removed_time")
    parts = []
    for table in BEATS:
        columns = [name for name in _BEAT if name in table.column_names]
        parts.append(beats_during(table.name, columns, silent))
    beats = pa.concat_tables(parts, promote_options="default")
    outcomes = outcomes.filter(pc.field("event_id").isin(beats["event_id"].combine_chunks()))
    tables = {"expired": expired, "beats": beats, "outcomes": outcomes}
    return conformed(ask(query("flags/unrenewed"), tables), UNRENEWED)


def during(rows: pa.Table, begin: str, end: str) -> pa.Table:
    """Return the times (`DURING`) of addresses from the columns `begin` to `end` of `rows`."""
    return pa.table([rows[name] for name in ("broker_addr", begin, end)], names=DURING.names).cast(DURING)


_BEAT = ("broker_addr", "event_id", "event_time", "effect_time", "code", "refusal")
