"""The table namesrv_settings: the settings with which each day was replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from namesrv_core.inference.settings import (
    ADDRESSES,
    OPTIONS,
    SCAN_PHASE,
    VERSION,
    Setting,
    Source,
    text_of,
    value_of,
)
from namesrv_core.machine.profile import COMPARED
from schemas.table import Table, columns, is_one_of, query, rules

_SETTINGS = (VERSION, *OPTIONS, SCAN_PHASE, ADDRESSES)
_SOURCES = tuple(source.value for source in Source)
NAMESRV_SETTINGS = Table(
    "namesrv_settings",
    "gold",
    "one value of one setting of a name server's process, for as long as it held; the day was replayed with it",
    columns("""
        namesrv_id
        setting* STRING: version, a setting as named in conf/, or addresses (only of a name server with several)
        value* STRING: Value; unlimited: longer than any silence seen; for addresses all of them, namesrv_id first
        source* STRING: given (conf; addresses: or an event log), stated (by its answers: version, 319), changed (318),
            inferred (from answers and closes), inherited (from the process before), default (RocketMQ's; no evidence for or
            against it)
        valid_from TIMESTAMP: Start, inclusive; NULL: before the recording
        valid_to TIMESTAMP: End, exclusive; NULL = in force at the end of the day
        from_seq* BIGINT: Position at which the value begins; 0: before the recording
        process_seq* BIGINT: Position of the start of the process; 0: before the recording
        restart_value* STRING: Value with which the next process will start, as far as known
        answers_for* BIGINT: Answers and closes that only this value explains; 0: those of a later day do, the first one is named
        answers_against* BIGINT: Answers and closes that only another value explains
        evidence* ARRAY<STRING>: event_ids of the first few answers and closes that support it
        day
    """),
    key=("day", "namesrv_id", "setting", "from_seq"),
    made_by="settle",
    rules=(
        *rules(f"""
            setting_is_known: setting is version, addresses or the name of a setting in the configuration.
                {is_one_of("setting", _SETTINGS)}
            source_is_known: source is one of {", ".join(_SOURCES)}.
                {is_one_of("source", _SOURCES)}
            interval_is_positive: A value does not end before it begins.
                valid_to IS NULL OR valid_from IS NULL OR valid_from <= valid_to
            process_started_before: A value is one of a process that has started.
                process_seq <= from_seq
            evidence_is_counted: There are as many answers for a value as are named, or more; or a later day names one.
                (answers_for >= len(evidence) OR answers_for = 0 AND len(evidence) = 1) AND answers_against >= 0
            findings_have_evidence: What is stated, changed or inferred names the events that say so.
                source NOT IN ('stated', 'changed', 'inferred') OR len(evidence) >= 1
            release_was_compared?: The release that conf/ or brokers give was compared (docs/versions.md).
                setting <> '{VERSION}' OR source = 'stated' OR {is_one_of("value", COMPARED)}
                OR {is_one_of("concat(value, $$.0$$)", COMPARED)}
        """),
        query(
            "no_value_was_taken_that_later_days_refute",
            "later IS NULL OR later = value",
            "All days of a process were replayed with the value that was found for it.",
            f"""
            SELECT checked.day, checked.namesrv_id, checked.setting, checked.value, found.value AS later
            FROM namesrv_settings AS checked
            LEFT JOIN (SELECT * FROM namesrv_settings
                       WHERE source IN ('stated', 'inferred') AND from_seq = process_seq
                         AND setting NOT IN ('{SCAN_PHASE}', '{ADDRESSES}')) AS found
              ON found.namesrv_id = checked.namesrv_id AND found.setting = checked.setting
             AND found.from_seq = checked.from_seq AND found.day > checked.day""",
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
