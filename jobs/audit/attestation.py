"""The attestation: what is published, from which bytes, by which code, and what of it does not follow from what was recorded.

Two proofs: every recorded answer is asked of the published tables (`asked`), and a night from the recorded events alone is held
against them (`rerun`).
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from jobs import __version__
from jobs.ask.engine import FUNCTIONS, Answers
from jobs.audit import asked, rerun
from jobs.errors import TamperedError, UsageError
from jobs.night.nightly import Shows
from jobs.store.coverage import require_covered
from jobs.store.warehouse import Warehouse
from namesrv_day.audit.attested import SHOWN_DIFFERENCES, Rows, only_in, rows_of_table, sha256_of
from namesrv_day.audit.content import Difference

FORMAT: Final = "namesrv-attestation/2"
_CODE = ("namesrv_core", "namesrv_wire", "namesrv_day", "schemas", "jobs")
_SUFFIXES = frozenset({".py", ".sql", ".json"})
_CHECKOUT = Path(__file__).resolve().parents[2]
_ITSELF = "sha256"
# What is to be the same when an attestation is verified.
_SAME = ("asked", "run", "sources", "given", "answers", "wrong")
_BY_TABLE = ("inputs", "contents", "tables")
_RUN = "SELECT run_id, CAST(finished_time AS VARCHAR) AS finished_time, config_sha256, code_version FROM runs WHERE run_id = $run"
_SOURCES = "SELECT source_file, ingest_run, kind, content_sha256 FROM sources ORDER BY ALL"

Json = dict[str, Any]


def attest(
    answers: Answers,
    warehouse: Warehouse,
    at: tuple[str, dt.datetime] | None,
    tables: Sequence[str],
    console: Shows,
) -> Json:
    """Prove what is published and return the attestation.

    `answers`, `warehouse`: the warehouse as of a run, and with the settings that the night is to have; `at`: a name server and an
    instant of which `tables` (names of `jobs.ask.tables.FUNCTIONS`) are attested row by row. Raises NotRecordedError for an
    instant of which nothing is recorded, SnapshotUnknownError for an unknown name server, TamperedError where what was recorded
    is not what was read, or cannot be replayed.
    """
    if at is not None:
        require_covered(answers.coverage, *at)
    known, again = asked.published(answers), asked.asked_again(answers)
    (run,) = answers.ask(_RUN, run=answers.known.run_id).dicts()
    with tempfile.TemporaryDirectory(prefix="namesrv-audit-") as folder:
        files = rerun.linked(warehouse, answers.known.run_id, Path(folder))
        conf = rerun.configured(answers, warehouse.conf)
        made = rerun.rerun(conf, Path(folder), console)
        contents = rerun.differing(answers, made)
        rows = {} if at is None else {name: tuple(_rows(of, name, *at) for of in (made, answers)) for name in tables}
    differing = asked.differing(again, known)
    # Over the names and bytes of all that this code is made of.
    code = (path for package in _CODE for path in (_CHECKOUT / package).rglob("*") if path.suffix in _SUFFIXES)
    code_sha256 = sha256_of((str(path.relative_to(_CHECKOUT)), path.read_bytes().hex()) for path in sorted(code))
    body = {
        "format": FORMAT,
        "asked": None if at is None else {"namesrv_id": at[0], "at": _text(at[1]), "tables": list(tables)},
        "made_at": _text(dt.datetime.now(dt.timezone.utc).replace(microsecond=0)),
        "code": {"version": __version__, "sha256": code_sha256, "python": sys.version.partition(" ")[0]},
        "run": run,
        "config_sha256": conf.sha256,
        "given": rerun.given(answers),
        "inputs": {
            name: {"version": answers.known.versions.get(name), "files": dict(sorted(of.items()))}
            for name, of in sorted(files.items())
        },
        "sources": answers.ask(_SOURCES).dicts(),
        "answers": {**asked.summed(again), "differing": differing[:SHOWN_DIFFERENCES]},
        "contents": {
            of.table: {
                "same": of.both,
                "only_published": of.only_left,
                "only_replayed": of.only_right,
                "differences": [
                    {"key": of.key_of(left or right or {}), "published": left, "replayed": right}
                    for left, right in of.rows
                ],
            }
            for of in contents
        },
        "tables": {name: _compared(*of) for name, of in rows.items()},
        "wrong": [*differing, *(_sentence(one) for one in contents if not one.is_equal)],
    }
    body["contents"] = json.loads(json.dumps(body["contents"], default=str))
    return {**body, _ITSELF: sha256_of([body])}


def read_attestation(path: Path) -> Json:
    """Return an attestation as it was written. Raises UsageError for what is none, TamperedError if it was changed since."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"attestation {path}: cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UsageError(f"attestation {path}: is none of format {FORMAT}")
    body = {name: value for name, value in found.items() if name != _ITSELF}
    if sha256_of([body]) != found.get(_ITSELF):
        raise TamperedError(f"attestation {path}: was changed: its contents are not those of its own SHA-256")
    return found


def differing(told: Json, again: Json) -> list[str]:
    """Return what of an attestation does not come out again, a sentence for each part."""
    parts = {name: (told[name], again[name]) for name in _SAME}
    for name in _BY_TABLE:
        for table in sorted({*told[name], *again[name]}):
            parts[f"{name} of {table}"] = told[name].get(table), again[name].get(table)
    return [f"{name}: not as attested" for name, (one, other) in parts.items() if one != other]


def _text(at: dt.datetime) -> str:
    return at.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")


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


def _sentence(of: Difference) -> str:
    first = ", ".join(f"{name} {value}" for name, value in of.key_of(of.rows[0][0] or of.rows[0][1] or {}).items())
    return (
        f"{of.table}: {of.only_right} row(s) follow from the events and are not published, {of.only_left} the other way; "
        f"the first: {first}"
    )
