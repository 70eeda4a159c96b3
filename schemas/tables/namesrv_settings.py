"""The table namesrv_settings."""

# ruff: noqa: S608  the SQL is made of names in this package; values of rows never get into it

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from namesrv_core.inference.settings import (
    ADDRESSES,
    CONFIGURATION,
    OPTIONS,
    SCAN_PHASE,
    VERSION,
    Setting,
    Source,
    text_of,
    value_of,
)
from namesrv_core.machine.profile import COMPARED
from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import is_one_of, query, warn
from schemas.table import LONG, STRING, STRINGS, TIMESTAMP, Column, Rule, Table, required

_SETTINGS = (VERSION, *OPTIONS, SCAN_PHASE, ADDRESSES, CONFIGURATION)
_SOURCES = tuple(source.value for source in Source)
NAMESRV_SETTINGS = Table(
    "namesrv_settings",
    "gold",
    "one value of one setting of a name server, as long as it held, by process: with it the day was replayed",
    (
        NAMESRV_ID,
        required(
            "setting",
            STRING,
            "version, or a setting as conf/ names it; addresses: if it has several; configuration: all of its properties",
        ),
        required(
            "value",
            STRING,
            "Value; unlimited: longer than any silence that was seen; of addresses all, its id first; of the configuration what is "
            "kept, a property a line, ? where that is not known",
        ),
        required(
            "source",
            STRING,
            "given (conf; addresses: or an event log), stated (by its answers: version, 319), changed (318), inferred (from "
            "answers and closes), "
            "inherited (from the process before; the configuration: or from before a gap), "
            "default (RocketMQ's; nothing speaks for or against)",
        ),
        Column("valid_from", TIMESTAMP, "Since when; NULL: since before the recording"),
        Column("valid_to", TIMESTAMP, "Until when, exclusive; NULL = still so at the end of the day"),
        required("from_seq", LONG, "Position since when; 0: since before the recording"),
        required("process_seq", LONG, "Position of the start of the process; 0: before the recording"),
        required("restart_value", STRING, "Value with which the next process starts, as far as is known"),
        required("answers_for", LONG, "Answers and closes that only this value explains"),
        required("answers_against", LONG, "Answers and closes that only another value explains"),
        required("evidence", STRINGS, "The first few that speak for it (event ids)"),
        DAY,
    ),
    key=("day", "namesrv_id", "setting", "from_seq"),
    made_by="settle",
    rules=(
        Rule(
            "setting_is_known",
            is_one_of("setting", _SETTINGS),
            "setting is version, addresses, configuration or the name of a setting in the configuration.",
        ),
        Rule("source_is_known", is_one_of("source", _SOURCES), f"source is one of {', '.join(_SOURCES)}."),
        Rule(
            "interval_is_positive",
            "valid_to IS NULL OR valid_from IS NULL OR valid_from <= valid_to",
            "A value does not end before it begins.",
        ),
        Rule("process_started_before", "process_seq <= from_seq", "A value is one of a process that has started."),
        Rule(
            "evidence_is_counted",
            "answers_for >= len(evidence) AND answers_against >= 0",
            "There are as many answers for a value as are named, or more.",
        ),
        Rule(
            "findings_have_evidence",
            "source NOT IN ('stated', 'changed', 'inferred') OR len(evidence) >= 1",
            "What is stated, changed or inferred names the events that say so.",
        ),
        warn(
            "release_was_compared",
            # What a name server states itself is told of its `namesrv_events`.
            f"setting <> '{VERSION}' OR source = 'stated' OR {is_one_of('value', COMPARED)} "
            f"OR {is_one_of('concat(value, $$.0$$)', COMPARED)}",
            "The release that conf/ or brokers give was compared (docs/versions.md); others get the rules of the one before.",
        ),
        query(
            "no_value_was_taken_that_later_days_refute",
            "later IS NULL OR later = value",
            "All days of a process were replayed with the value that was found for it.",
            f"""
            SELECT judged.day, judged.namesrv_id, judged.setting, judged.value, found.value AS later
            FROM namesrv_settings AS judged
            LEFT JOIN (SELECT * FROM namesrv_settings
                       WHERE source IN ('stated', 'inferred') AND from_seq = process_seq
                         AND setting NOT IN ('{SCAN_PHASE}', '{ADDRESSES}', '{CONFIGURATION}')) AS found
              ON found.namesrv_id = judged.namesrv_id AND found.setting = judged.setting
             AND found.from_seq = judged.from_seq AND found.day > judged.day""",
        ),
    ),
)


def setting_rows(settings: Sequence[Setting], namesrv_id: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of `namesrv_settings`, without `day`; times are microseconds."""
    starts: dict[str, list[int]] = {}
    for setting in settings:
        starts.setdefault(setting.name, []).append(setting.from_seq)
    for setting in settings:
        until_seq = min((seq for seq in starts[setting.name] if seq > setting.from_seq), default=None)
        yield {
            "namesrv_id": namesrv_id,
            "setting": setting.name,
            "value": text_of(setting.value),
            "source": setting.source.value,
            "valid_from": setting.from_seq // 1_000 or None,
            "valid_to": None if until_seq is None else until_seq // 1_000,
            "from_seq": setting.from_seq,
            "process_seq": setting.life_seq,
            "restart_value": text_of(setting.restart_value),
            "answers_for": setting.answers_for,
            "answers_against": setting.answers_against,
            "evidence": list(setting.evidence),
        }


def setting_of(row: Mapping[str, Any]) -> Setting:
    """Return the setting of a row of `namesrv_settings`."""
    name = row["setting"]
    return Setting(
        name,
        value_of(name, row["value"]),
        Source(row["source"]),
        row["from_seq"],
        row["process_seq"],
        value_of(name, row["restart_value"]),
        tuple(row["evidence"]),
        row["answers_for"],
        row["answers_against"],
    )
