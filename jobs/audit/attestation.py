"""The attestation: what was rebuilt, from which bytes, by which code, and what differs. Made, and verified later."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from jobs import __version__
from jobs.ask.engine import Answers
from jobs.audit.rebuilt import Rebuilt, rebuild
from jobs.errors import TamperedError, UsageError
from jobs.store.published import sha256_of_file
from namesrv_core.history.snapshot import Snapshot, SnapshotError, snapshot_of
from namesrv_day.audit.attested import SHOWN_DIFFERENCES, Rows, only_in, sha256_of

FORMAT: Final = "namesrv-attestation/1"
_CODE = ("namesrv_core", "namesrv_wire", "namesrv_day", "schemas", "jobs")
_SUFFIXES = frozenset({".py", ".sql", ".json"})
_CHECKOUT = Path(__file__).resolve().parents[2]
_ITSELF = "sha256"
# What is to be the same when an attestation is verified.
_SAME = ("asked", "run", "sources", "settings", "events", "wrong")
_BY_TABLE = ("inputs", "tables")

Json = dict[str, Any]


def attest(
    answers: Answers, namesrv_id: str, at: dt.datetime, tables: Sequence[str], snapshot: Path | None = None
) -> Json:
    """Rebuild tables of a name server at an instant and return the attestation.

    `tables`: names of `jobs.ask.tables.FUNCTIONS`; `snapshot`: a file to start from instead of the first event. Raises as
    `rebuild`.
    """
    read = None if snapshot is None else _snapshot(snapshot)
    rebuilt = rebuild(answers, namesrv_id, at, tables, read)
    start = {"from": "the first event"} if read is None else {"from": f"snapshot {sha256_of_file(str(snapshot))}"}
    at_text = at.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")
    body = {
        "format": FORMAT,
        "asked": {"namesrv_id": namesrv_id, "at": at_text, "tables": list(tables), **start},
        "made_at": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "code": {"version": __version__, "sha256": code_sha256(), "python": sys.version.partition(" ")[0]},
        "run": {"run_id": answers.known.run_id, "finished_time": f"{answers.known.finished_time.isoformat()}"},
        "inputs": _inputs(answers, rebuilt),
        "sources": rebuilt.sources,
        "settings": _settings(rebuilt),
        "events": _events(rebuilt),
        "tables": {name: _compared(rebuilt.replayed[name], rebuilt.published[name]) for name in tables},
        "wrong": _wrong(rebuilt),
    }
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


@cache
def code_sha256() -> str:
    """Return the SHA-256 over the names and bytes of all that this code is made of."""
    found = (path for package in _CODE for path in (_CHECKOUT / package).rglob("*") if path.suffix in _SUFFIXES)
    return sha256_of((str(path.relative_to(_CHECKOUT)), path.read_bytes().hex()) for path in sorted(found))


def _snapshot(path: Path) -> Snapshot:
    try:
        return snapshot_of(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SnapshotError) as error:
        raise UsageError(f"snapshot {path}: {error}") from error


def _inputs(answers: Answers, rebuilt: Rebuilt) -> Json:
    """Return what was read, by table: its version, digests of slices, and SHA-256 of the files."""
    found: dict[str, Json] = {}
    for name, paths in sorted(rebuilt.files.items()):
        found[name] = {"version": answers.known.versions.get(name), "slices": {}, "files": dict(sorted(paths.items()))}
    for cut, digest in sorted(rebuilt.read.items(), key=lambda one: str(one[0].day)):
        found[cut.table]["slices"][str(cut.day)] = str(digest)
    return found


def _settings(rebuilt: Rebuilt) -> list[Json]:
    return [
        {name: row[name] for name in ("setting", "value", "source", "from_seq")}
        for row in sorted(rebuilt.settings, key=lambda row: (row["from_seq"], row["setting"]))
    ]


def _events(rebuilt: Rebuilt) -> Json:
    sequence = rebuilt.sequence
    ends = {
        name: None if timed is None else {"event_id": timed.event_id, "seq": timed.seq}
        for name, timed in (("first", sequence.first), ("last", sequence.last))
    }
    decided = [{"decision_id": name, "chosen": chosen} for name, chosen in sequence.decisions.items()]
    by_operation = dict(sorted(sequence.applied.items()))
    return {"applied": sum(by_operation.values()), "by_operation": by_operation, **ends, "order_decisions": decided}


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


def _wrong(rebuilt: Rebuilt) -> list[str]:
    """Return a sentence for each input that is not as published, and each table that is not as replayed."""
    found = [
        f"{cut.table} of {cut.day}: its rows have digest {digest}, the ledger says {rebuilt.expected[cut]}"
        for cut, digest in sorted(rebuilt.read.items(), key=lambda one: (one[0].day, one[0].table))
        if digest != rebuilt.expected[cut]
    ]
    if rebuilt.published_decisions is not None and rebuilt.published_decisions != rebuilt.sequence.decisions:
        found.append("order_decisions: other orders than published")
    for name, replayed in rebuilt.replayed.items():
        published = rebuilt.published[name]
        if replayed.sha256 != published.sha256:
            sides = len(only_in(replayed.rows, published.rows)), len(only_in(published.rows, replayed.rows))
            found.append(
                f"{name}: {sides[0]} row(s) follow from the events and are not published, {sides[1]} the other way"
            )
    return found
