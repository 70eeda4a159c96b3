"""Proof for auditors: what is published, from which bytes, by which code, and what of it does not follow from the recorded events.

There are two proofs. One asks every recorded answer of a registry that is rebuilt from the published tables, as readers see
them. The other runs a night from the recorded events alone, in a folder of its own, and compares the results.

Reads   through `Answers`: the versions that a published run has pinned
Writes  a warehouse in a temporary folder, whose bronze tables are links to the files that the run has pinned
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs import __version__
from jobs.ask.engine import FUNCTIONS, Answers
from jobs.conf import NamesrvConf, PipelineConf
from jobs.errors import AS_KEPT, TamperedError, UsageError, nobody
from jobs.night import nightly
from jobs.night.nightly import Asked, Shows
from jobs.passes import InProcess
from jobs.store.check import Holder
from jobs.store.coverage import require_covered, text_of
from jobs.store.files import read_files
from jobs.store.places import table_path, temporary_folder
from jobs.store.published import sha256_of_file
from jobs.store.warehouse import DATA_TABLES, Warehouse
from namesrv_core.inference.settings import ADDRESSES, VERSION, namesrv_of, value_of
from namesrv_day.arrow import conformed, rows_of
from namesrv_day.content import (
    SHOWN_DIFFERENCES,
    Difference,
    Rows,
    compare_tables,
    only_in,
    rows_of_table,
    sha256_of,
)
from namesrv_day.events import BEATS
from namesrv_day.settle import settings_of
from namesrv_day.verify import VerifyInput, verdicts
from namesrv_wire.compression import unpacked
from namesrv_wire.errors import Reason
from schemas import bronze, gold
from schemas.table import Table
from schemas.times import day_start_seq

FORMAT: Final = "namesrv-attestation/2"
_CODE = ("namesrv_core", "namesrv_wire", "namesrv_day", "schemas", "jobs")
_SUFFIXES = frozenset({".py", ".sql", ".json"})
_CHECKOUT = Path(__file__).resolve().parents[2]
_ITSELF = "sha256"
# Parts that must be the same when an attestation is verified.
_SAME = ("asked", "run", "sources", "given", "answers", "wrong")
_BY_TABLE = ("inputs", "contents", "tables")
_RUN = "SELECT run_id, CAST(finished_time AS VARCHAR) AS finished_time, config_sha256, code_version FROM runs WHERE run_id = $run"
_SOURCES = "SELECT source_file, ingest_run, kind, content_sha256 FROM sources ORDER BY ALL"

Json = dict[str, Any]


def attest(
    answers: Answers, warehouse: Warehouse, at: tuple[str, dt.datetime] | None, tables: Sequence[str], console: Shows
) -> Json:
    """Prove what is published and return the attestation.

    `answers`, `warehouse`: the warehouse as of a run, with the settings for the night; `at`: a name server and an instant, of
    which `tables` (names of `jobs.ask.engine.FUNCTIONS`) are attested row by row. Raises NotRecordedError if the instant is not
    recorded, UsageError for an unknown name server, TamperedError if the recorded rows are not those that were read, or
    cannot be replayed.
    """
    if at is not None:
        require_covered(answers.coverage, *at)
    with nightly.timed(nightly.Summary(), console, "ask again"):
        known, again = published(answers), asked_again(answers, console.share)
    (run,) = answers.ask(_RUN, run=answers.known.run_id).dicts()
    with temporary_folder("audit") as folder:
        with nightly.timed(nightly.Summary(), console, "inputs"):
            files = linked(warehouse, answers.known.run_id, folder, console.share)
        conf = configured(answers, warehouse.conf)
        made = rerun(conf, folder, console)
        contents = contents_differing(answers, made)
        rows = {} if at is None else {name: tuple(_rows(of, name, *at) for of in (made, answers)) for name in tables}
    differing = answers_differing(again, known)
    by_table, wrong = dict[str, Json](), list(differing)
    for of in contents:
        keys = [of.key_of(left or right or {}) for left, right in of.rows]
        pairs = [{"key": key, "published": row[0], "replayed": row[1]} for key, row in zip(keys, of.rows, strict=True)]
        by_table[of.table] = {
            "same": of.both,
            "only_published": of.only_left,
            "only_replayed": of.only_right,
            "differences": json.loads(json.dumps(pairs, default=str)),
        }
        if not of.is_equal:
            first = ", ".join(f"{name} {value}" for name, value in keys[0].items())
            wrong.append(
                f"{of.table}: {of.only_right} row(s) follow from the events and are not published, {of.only_left} the other way; "
                f"the first: {first}"
            )
    sources = (path for package in _CODE for path in (_CHECKOUT / package).rglob("*") if path.suffix in _SUFFIXES)
    code = sha256_of((str(path.relative_to(_CHECKOUT)), path.read_bytes().hex()) for path in sorted(sources))
    body = {
        "format": FORMAT,
        "asked": None if at is None else {"namesrv_id": at[0], "at": text_of(at[1]), "tables": list(tables)},
        "made_at": text_of(dt.datetime.now(dt.timezone.utc).replace(microsecond=0)),
        "code": {"version": __version__, "sha256": code, "python": sys.version.partition(" ")[0]},
        "run": run,
        "config_sha256": conf.sha256,
        "given": given(answers),
        "inputs": {
            name: {"version": answers.known.versions.get(name), "files": dict(sorted(of.items()))}
            for name, of in sorted(files.items())
        },
        "sources": answers.ask(_SOURCES).dicts(),
        "answers": {**summed(again), "differing": differing[:SHOWN_DIFFERENCES]},
        "contents": by_table,
        "tables": {name: _compared(*of) for name, of in rows.items()},
        "wrong": wrong,
    }
    return {**body, _ITSELF: sha256_of([body])}


def read_attestation(path: Path) -> Json:
    """Return an attestation from a file. Raises UsageError if it is not one, TamperedError if it was changed since."""
    try:
        with path.open("rb") as file:
            found = json.loads(unpacked(file).read())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"attestation {path}: cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UsageError(f"attestation {path}: is not of format {FORMAT}")
    body = {name: value for name, value in found.items() if name != _ITSELF}
    if sha256_of([body]) != found.get(_ITSELF):
        raise TamperedError(f"attestation {path}: was changed: its contents are not those of its own SHA-256", AS_KEPT)
    return found


def differing(attested: Json, again: Json) -> list[str]:
    """Return a sentence for each part of an attestation that a second run does not reproduce."""
    parts = {name: (attested[name], again[name]) for name in _SAME}
    for name in _BY_TABLE:
        for table in sorted({*attested[name], *again[name]}):
            parts[f"{name} of {table}"] = attested[name].get(table), again[name].get(table)
    return [f"{name}: not as attested" for name, (one, other) in parts.items() if one != other]


def _rows(answers: Answers, name: str, namesrv_id: str, at: dt.datetime) -> Rows:
    """Return the rows of a name server's table at an instant."""
    of_rows = "WHERE namesrv_id = $id AND opened_by IS NOT NULL"
    sql = f"SELECT * EXCLUDE (known, coverage) FROM {FUNCTIONS[name]}($t) {of_rows}"  # noqa: S608  a name of ours
    return rows_of_table(answers.table(sql, t=at, id=namesrv_id))


def _compared(replayed: Rows, published: Rows) -> Json:
    missing, surplus = (only_in(one.rows, other.rows) for one, other in ((replayed, published), (published, replayed)))
    return {
        "columns": replayed.columns,
        "rows": replayed.rows,
        _ITSELF: replayed.sha256,
        "published_sha256": published.sha256,
        "only_replayed": len(missing),
        "only_published": len(surplus),
        "differences": {
            "only_replayed": [json.loads(text) for text in missing[:SHOWN_DIFFERENCES]],
            "only_published": [json.loads(text) for text in surplus[:SHOWN_DIFFERENCES]],
        },
    }


# -- every recorded answer, asked of the published tables ------------------------------------------------------------

Checks = Mapping[tuple[str, dt.date, int], Mapping[str, int]]
"""Number of answers of each class, by name server, day and request code."""
COUNTS = tuple(name for name in gold.ANSWER_CHECKS.column_names if name not in ("namesrv_id", "day", "code"))
_OF_DAY = (gold.EVENT_OUTCOMES, gold.ORDER_DECISIONS, gold.NAMESRV_SETTINGS)
# Intervals that existed at some time of a day, as known at its end.
_ALIVE = """
    SELECT * REPLACE (
        CASE WHEN closed_at.seq < $until THEN valid_to END AS valid_to,
        CASE WHEN closed_at.seq < $until THEN closed_by END AS closed_by,
        CASE WHEN closed_at.seq < $until THEN closed_at END AS closed_at
    )
    FROM {table} WHERE namesrv_id = $id AND opened_at.seq < $until AND (closed_at IS NULL OR closed_at.seq >= $since)"""
_CAPACITIES = """
    SELECT * FROM map_capacities
    WHERE namesrv_id = $id AND day = (SELECT max(day) FROM namesrv_settings WHERE day < $day)"""
_UNREAD = """
    SELECT epoch_us(min(seen.event_time)) AS from_us, epoch_us(min(ends.event_time)) AS until_us
    FROM quarantine AS seen LEFT JOIN channel_events AS ends USING (channel_id)
    WHERE seen.namesrv_id = $id AND seen.reason = $reason GROUP BY channel_id ORDER BY from_us"""
# Brokers of other addresses as a cause are found by comparing name servers, not by asking a registry.
_PUBLISHED = """
    WITH elsewhere AS (
        SELECT namesrv_id, day, code, count(*) AS answers FROM route_mismatches
        WHERE classification = 'other_address' GROUP BY ALL
    )
    SELECT c.* REPLACE (
        c.unknown_past - coalesce(e.answers, 0) AS unknown_past, c.mismatched + coalesce(e.answers, 0) AS mismatched
    )
    FROM answer_checks AS c LEFT JOIN elsewhere AS e USING (namesrv_id, day, code)"""


def published(answers: Answers) -> Checks:
    """Return the published comparison of answers; `other_address` counts as mismatched."""
    return _checks(answers.table(_PUBLISHED))


def asked_again(answers: Answers, share: Callable[[int, int], None] = nobody) -> Checks:
    """Return the comparison of all recorded answers with the published tables; `other_address` counts as mismatched.

    `share` gets the number of finished days of name servers, and of all.
    """
    days = list(answers.ask("SELECT DISTINCT namesrv_id, day FROM namesrv_settings ORDER BY ALL").rows)
    found: dict[tuple[str, dt.date, int], Mapping[str, int]] = {}
    for number, (namesrv_id, day) in enumerate(days):
        share(number, len(days))
        found.update(_checks(verdicts(_given(answers, namesrv_id, day))[gold.ANSWER_CHECKS.name]))
    return found


def answers_differing(again: Checks, known: Checks) -> list[str]:
    """Return a sentence for each name server, day and request code whose comparison differs from the published one."""

    def words(counts: Mapping[str, int] | None) -> str:
        return "none" if counts is None else ", ".join(f"{count} {name}" for name, count in counts.items())

    return [
        f"answers of {key[0]} to {key[2]} on {key[1]}: published are {words(known.get(key))}, "
        f"asked of the published tables {words(again.get(key))}"
        for key in sorted({*again, *known})
        if again.get(key) != known.get(key)
    ]


def summed(checks: Checks) -> dict[str, int]:
    """Return the sums of all counts."""
    return {name: sum(counts[name] for counts in checks.values()) for name in COUNTS}


def _given(answers: Answers, namesrv_id: str, day: dt.date) -> VerifyInput:
    """Return one name server's day from the published tables."""

    def rows(table: Table, sql: str, **values: Any) -> pa.Table:
        return conformed(answers.table(sql.format(table=table.name), id=namesrv_id, **values), table)

    def of_day(table: Table) -> pa.Table:
        return rows(table, "SELECT * FROM {table} WHERE namesrv_id = $id AND day = $day", day=day)

    span = {"since": day_start_seq(day), "until": day_start_seq(day + dt.timedelta(days=1))}
    replayed = {table.name: of_day(table) for table in _OF_DAY}
    replayed |= {table.name: rows(table, _ALIVE, **span) for table in gold.HISTORY_TABLES}
    beats = {table.name: of_day(table) for table in BEATS}
    unread = [*answers.ask(_UNREAD, id=namesrv_id, reason=Reason.TLS.value).rows]

    def raw_beats(kind: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        found = beats[kind] if where is None else beats[kind].filter(where)
        return found if columns is None else found.select(columns)

    return VerifyInput(
        namesrv_id,
        day,
        namesrv_of(settings_of(replayed[gold.NAMESRV_SETTINGS.name]), span["since"]),
        {
            table.name: of_day(table)
            for table in (bronze.ROUTE_OBSERVATIONS, bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)
        },
        raw_beats,
        replayed,
        unread,
        rows(gold.MAP_CAPACITIES, _CAPACITIES, day=day),
    )


def _checks(rows: pa.Table) -> Checks:
    return {
        (row["namesrv_id"], row["day"], row["code"]): {name: row[name] for name in COUNTS}
        for row in rows_of(conformed(rows, gold.ANSWER_CHECKS))
    }


# -- a night from the recorded events alone --------------------------------------------------------------------------

Files = dict[str, dict[str, str]]
"""SHA-256 of the bytes, by bronze table and path below the warehouse."""


def linked(warehouse: Warehouse, run_id: str, folder: Path, share: Callable[[int, int], None] = nobody) -> Files:
    """Make in `folder` the bronze tables that a published run has pinned, as links; return their files.

    `share` gets the number of finished tables, and of all. Raises TamperedError if a table is not as in the ledger.
    """
    run = warehouse.published_run(run_id)
    holder, files = Holder(warehouse, run), Files()
    # Rows count as read if the run that wrote them has noted its files.
    read_by = read_files(warehouse.path, bronze.SOURCES, warehouse.files_of(run, bronze.SOURCES), ["ingest_run"])
    again = Warehouse(str(folder), warehouse.conf, read_by["ingest_run"][0].as_py(), warehouse.started)
    for number, table in enumerate(bronze.TABLES):
        share(number, len(bronze.TABLES))
        holder.hold(table.name)
        pinned = warehouse.files_of(run, table)
        for file in pinned:
            source = Path(table_path(warehouse.path, table), file.path).resolve()
            link = Path(table_path(again.path, table), file.path)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)
            files.setdefault(table.name, {})[f"{table.layer}/{table.name}/{file.path}"] = sha256_of_file(str(source))
        if pinned:
            again.change(table, pinned)
    again.commit()
    return files


def rerun(conf: PipelineConf, folder: Path, console: Shows) -> Answers:
    """Run the night over the `linked` tables, and return its publication. Raises TamperedError if the gate refuses it."""
    warehouse = Warehouse(str(folder), conf, "audit", dt.datetime.now(dt.timezone.utc))
    summary = nightly.run(warehouse, InProcess(), Asked(), console)
    if summary.status == "refused":
        raise TamperedError(f"a run from the recorded events alone is refused: {summary.gate}")
    return Answers(str(folder), is_closed=False)  # its bronze files are links out of the folder


def given(answers: Answers) -> list[dict[str, Any]]:
    """Return the name server settings that the published run was given, in a file or as options: the audit trusts these."""
    names = ("namesrv_id", "setting", "value")
    rows = f"SELECT DISTINCT {', '.join(names)} FROM namesrv_settings WHERE source = 'given' ORDER BY ALL"  # noqa: S608  names of ours
    return [row for row in answers.ask(rows).dicts() if row["setting"] != ADDRESSES]


def configured(answers: Answers, conf: PipelineConf) -> PipelineConf:
    """Return `conf` with the settings that the published run was given."""
    namesrvs = dict(conf.namesrvs)
    for one in given(answers):
        known, name, text = namesrvs.get(one["namesrv_id"], NamesrvConf()), one["setting"], one["value"]
        changed: dict[str, Any] = {"version": text}
        if name != VERSION:
            changed = {"settings": {**known.settings, name: value_of(name, text)}}
        namesrvs[one["namesrv_id"]] = dataclasses.replace(known, **changed)
    return dataclasses.replace(conf, namesrvs=namesrvs, join_addresses=False)


def contents_differing(published: Answers, again: Answers) -> list[Difference]:
    """Return the differences of each published gold table (left) from that of the night from the events alone (right)."""
    return [
        compare_tables(table.name, *(of.table(f"SELECT * FROM {table.name}") for of in (published, again)))  # noqa: S608  names of ours
        for table in DATA_TABLES
    ]
