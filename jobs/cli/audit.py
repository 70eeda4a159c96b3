"""`audit`: an attestation made, or one verified."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path

from jobs.ask.instants import instant
from jobs.ask.tables import FUNCTIONS
from jobs.audit.attestation import Json, attest, code_sha256, differing, read_attestation
from jobs.cli.ask import answers_of, table_named
from jobs.cli.output import opened
from jobs.errors import EXIT_OK, TamperedError, UsageError


def audit(given: argparse.Namespace) -> int:
    """Make an attestation, or verify one; return the exit code.

    Raises TamperedError where what is published does not follow from the events, or is not what was attested.
    """
    if "://" in given.warehouse:
        raise UsageError(f"{given.warehouse}: `audit` reads local folders")
    if given.check is not None:
        return _check(given)
    if given.at is None or given.namesrv is None:
        raise UsageError("audit: give --at TIME and --namesrv ADDR, or --check FILE")
    tables = list(FUNCTIONS) if given.table == "all" else [table_named(given.table)]
    made = attest(answers_of(given, given.as_known_at), given.namesrv, instant(given.at), tables, _path(given.snapshot))
    with opened(Path(given.output)) if given.output else nullcontext(sys.stdout) as out:
        out.write(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    if given.output:
        sys.stdout.writelines(f"{line}\n" for line in _told(made))
    if made["wrong"]:
        raise TamperedError(f"{given.namesrv} at {given.at}: {'; '.join(made['wrong'])}")
    return EXIT_OK


def _check(given: argparse.Namespace) -> int:
    told = read_attestation(Path(given.check))
    asked = told["asked"]
    if asked["from"] != "the first event" and given.snapshot is None:
        raise UsageError(f"attestation {given.check}: starts from {asked['from']}: give that file with --snapshot")
    answers = answers_of(given, told["run"]["run_id"])
    again = attest(answers, asked["namesrv_id"], instant(asked["at"]), asked["tables"], _path(given.snapshot))
    sys.stdout.writelines(f"{line}\n" for line in _told(told))
    if told["code"]["sha256"] != code_sha256():
        sys.stdout.write(f"  other code    attested by {told['code']['version']} ({told['code']['sha256'][:16]})\n")
    wrong = differing(told, again)
    if wrong:
        raise TamperedError(f"attestation {given.check}: {'; '.join(wrong)}")
    sys.stdout.write("  verified      the same inputs give the same tables\n")
    return EXIT_OK


def _told(made: Json) -> list[str]:
    """Return an attestation in a few lines, for a person."""
    asked, events = made["asked"], made["events"]
    lines = [f"{asked['namesrv_id']} at {asked['at']}, as run {made['run']['run_id']} published it"]
    lines.append(f"  replayed      {events['applied']:,} events from {asked['from']} on, one after the other")
    lines += [f"  recorded in   {one['source_file']}, SHA-256 {one['content_sha256']}" for one in made["sources"]]
    for name, table in made["tables"].items():
        differs = f"{table['only_replayed']} only replayed, {table['only_published']} only published"
        verdict = "as published" if table["sha256"] == table["published_sha256"] else differs
        lines.append(f"  {name:<17} {len(table['rows']):,} rows, {verdict}, SHA-256 {table['sha256']}")
    return lines


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)
