"""What each command does: settings and session in, exit code out."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import logging
import re
import shutil
import sys
import threading
import uuid
from dataclasses import replace
from pathlib import Path

from jobs import night, nightly, report, tables
from jobs.check import check
from jobs.conf import DEFAULT_CONF, ConfError, load_conf
from jobs.console import Console
from jobs.delta_files import BrokenLogError
from jobs.disk import full_disk
from jobs.fleet import FleetError, fleet_of
from jobs.gate import GateError, require_replayed, validate_all
from jobs.ingest import ClockError, ingest
from jobs.lease import WarehouseBusyError, lease
from jobs.ledger import LayoutError, TamperedError
from jobs.maintain import CompactionError, maintain
from jobs.numbers import verify_numbers
from jobs.plan import MissingDayError, asked_days, plan_of
from jobs.publish import publish
from jobs.restate import restate_days
from jobs.retention import NoLongerReadableError
from jobs.session import CHECKOUT, spark_session
from jobs.simulate import simulate
from jobs.views import NothingPublishedError
from jobs.warehouse import Warehouse
from namesrv_core.history.snapshot import SnapshotError, snapshot_of

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INPUT, EXIT_GATE, EXIT_BUSY, EXIT_UNPUBLISHED = 0, 1, 2, 3, 4, 5, 6
EXIT_MISSING_DAY, EXIT_TAMPERED, EXIT_LAYOUT, EXIT_DISK_FULL, EXIT_CLOCK = 7, 8, 9, 10, 11
_STATEMENT = re.compile(r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|[^;'"`])+""")
_MAX_SNAPSHOT_BYTES = 256 << 20
DEMO_CAPTURE = CHECKOUT / "examples" / "v4-lifecycle" / "capture.pcap.gz"
DEMO_WAREHOUSE = CHECKOUT / "warehouse" / "demo"


def run_command(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit code; known failures become one line on standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark logs every failed query with its whole stack beside raising it.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    console = Console()
    try:
        house = _warehouse(arguments)
        try:
            return _COMMANDS[arguments.job](house, arguments, console)
        finally:
            house.spark.stop()
    except Exception as error:
        code = _exit_code(error)
        if code != EXIT_FAILED:
            return _say(_sentence(error), code)
        full = full_disk(error, getattr(arguments, "warehouse", None))
        if full is None:
            raise
        return _say(full, EXIT_DISK_FULL)


class _UsageError(ValueError):
    """An argument that cannot be."""


_EXIT_CODES: dict[type[Exception], int] = {
    ConfError: EXIT_USAGE,
    FileNotFoundError: EXIT_USAGE,
    FleetError: EXIT_USAGE,
    _UsageError: EXIT_USAGE,
    GateError: EXIT_GATE,
    WarehouseBusyError: EXIT_BUSY,
    NothingPublishedError: EXIT_UNPUBLISHED,
    MissingDayError: EXIT_MISSING_DAY,
    TamperedError: EXIT_TAMPERED,
    LayoutError: EXIT_LAYOUT,
    NoLongerReadableError: EXIT_UNPUBLISHED,
    BrokenLogError: EXIT_TAMPERED,
    CompactionError: EXIT_TAMPERED,
    ClockError: EXIT_CLOCK,
}


def _exit_code(error: Exception) -> int:
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), EXIT_FAILED)


def _sentence(error: Exception) -> str:
    return f"the quality gate refused: {error}. Nothing was published." if isinstance(error, GateError) else str(error)


def _say(what: object, code: int) -> int:
    sys.stderr.write(f"namesrv-history: {what}\n")
    return code


def _warehouse(arguments: argparse.Namespace) -> Warehouse:
    """Check the arguments, then start the session: a typing mistake should not cost a JVM."""
    for name in getattr(arguments, "input", None) or []:
        if not Path(name).exists():
            raise FileNotFoundError(f"input {name}: no such file or folder")
    for name in getattr(arguments, "snapshot", None) or []:
        _check_snapshot(Path(name))
    for name in ("first", "last", "start"):
        if getattr(arguments, name, None):
            setattr(arguments, name, _day(getattr(arguments, name)))
    if arguments.job == "simulate":
        arguments.fleet = fleet_of(vars(arguments))
    conf = load_conf(Path(getattr(arguments, "conf_file", None) or DEFAULT_CONF), getattr(arguments, "namesrv", []))
    path = arguments.warehouse or str(DEMO_WAREHOUSE)
    if "://" not in path:
        path = str(Path(path).resolve())
    if arguments.job in ("demo", "nightly", "validate", "publish"):
        # Takes seconds of Python that would else be spent when everything else has been done.
        threading.Thread(target=importlib.import_module, args=("great_expectations.expectations",), daemon=True).start()
    started = dt.datetime.now(dt.timezone.utc)
    run_id = f"{started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
    return Warehouse(spark_session(f"namesrv-history {arguments.job}"), path, conf, run_id, started)


def _check_snapshot(path: Path) -> None:
    """Read a snapshot once before anything is started."""
    try:
        if path.stat().st_size > _MAX_SNAPSHOT_BYTES:
            raise _UsageError(f"snapshot {path}: longer than {_MAX_SNAPSHOT_BYTES >> 20} MiB")
        snapshot_of(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SnapshotError) as error:
        raise _UsageError(f"snapshot {path}: {error}") from error


def _instant(text: str) -> dt.datetime:
    try:
        at = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise _UsageError(f"instant {text!r}: expected ISO 8601, such as 2026-11-21T09:00:00Z") from error
    return at if at.tzinfo is not None else at.replace(tzinfo=dt.timezone.utc)


def _is_instant(text: str | None) -> bool:
    """Return whether a run is meant by when it was known: run ids begin like instants, but are none."""
    return text is not None and re.match(r"\d{4}-\d{2}-\d{2}", text) is not None


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise _UsageError(f"day {text!r}: expected YYYY-MM-DD") from error


def _nightly(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    snapshots = getattr(arguments, "snapshot", None) or ()
    days = {end: getattr(arguments, end, None) for end in ("first", "last")}
    summary = nightly.run(house, arguments.input, console, snapshots, **days)
    if arguments.summary:
        summary.write(Path(arguments.summary))
    report.show_run(summary, console)
    return EXIT_INPUT if summary.errors else EXIT_OK


def _demo(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    if arguments.warehouse is None:
        with lease(house.path):
            _empty(Path(house.path))
    arguments.input = [str(DEMO_CAPTURE)]
    code = _nightly(house, arguments, console)
    report.show_questions(house, console)
    return code


def _empty(folder: Path) -> None:
    """Remove what is in a folder, but not the lease that we hold on it."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def _ingest(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    with lease(house.path):
        house.ledger()  # another layout is refused before anything is written
        ingested = ingest(house, arguments.input, arguments.snapshot)
    report.show_ingested(ingested, console)
    return EXIT_INPUT if ingested.errors else EXIT_OK


def _validate(house: Warehouse, _: argparse.Namespace, console: Console) -> int:
    with lease(house.path):
        warnings = validate_all(house)
    report.show_warnings(warnings, house.docs_dir, console)
    return EXIT_OK


def _days_step(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    steps = {"replay": night.replay, "flag": night.flag_days, "verify": night.verify_days}
    with lease(house.path):
        house.ledger()  # as above
        # Without snapshots, too: a run that died may have left events that are not to be replayed.
        ingest(house, [], getattr(arguments, "snapshot", None) or ())
        days = steps[arguments.job](house, asked_days(house.recorded(), arguments.first, arguments.last))
    console.line(f"{arguments.job}: {len(days)} day(s), {days[0]} to {days[-1]}")
    if arguments.job == "verify":
        of_the_days = {name: tables.of_days(frame, days) for name, frame in house.data().items()}
        report.show_verify(verify_numbers(of_the_days), console)
    return EXIT_OK


def _publish(house: Warehouse, _: argparse.Namespace, console: Console) -> int:
    with lease(house.path):
        plan = plan_of(house)
        require_replayed(house, plan.days)
        # Steps that were run alone may have written to any day.
        days = asked_days(house.recorded(), None, None)
        restate_days(house, days)
        published = publish(house, replace(plan, touched=frozenset(days)), days, {}, {}, {})
    report.show_warnings(published.warnings, house.docs_dir, console)
    console.counts("Published tables (rows)", published.report["tables"])
    return EXIT_OK


def _check(house: Warehouse, _: argparse.Namespace, console: Console) -> int:
    with lease(house.path):
        checked = check(house)
    for sentence in checked.wrong:
        console.line(sentence)
    console.line(
        f"{checked.slices:,} slices of {checked.tables} tables checked, as run {checked.run_id} published them"
    )
    if checked.wrong:
        raise TamperedError(f"{house.path}: {len(checked.wrong)} slice(s) or table(s) are not what was published")
    return EXIT_OK


def _maintain(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    with lease(house.path):
        done = maintain(house.spark, house.path, house.started, arguments.retain_days, dry_run=arguments.dry_run)
    report.show_maintained(done, console, dry_run=arguments.dry_run)
    return EXIT_OK


def _sql(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    text = arguments.query if arguments.query is not None else sys.stdin.read()
    statements = statements_of(text)
    if not statements:
        raise _UsageError("no SQL: give a statement as an argument or on standard input")
    if _is_instant(arguments.as_known_at):
        arguments.as_known_at = _instant(arguments.as_known_at)
    house.spark.conf.unset(tables.USER_METADATA)  # what a statement writes is not a run's
    return report.show_sql(house, statements, arguments, console)


def statements_of(text: str) -> list[str]:
    """Return the statements of a text, split at semicolons that are not inside quotes."""
    return [part for part in _STATEMENT.findall(text) if part.strip()]


def _export(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    from jobs.export import export  # noqa: PLC0415  the one command that needs the event log's writer

    lines = export(house.bronze(), Path(arguments.output))
    console.line(f"{arguments.output}: {lines:,} lines")
    return EXIT_OK


def _snapshot(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    from jobs.snapshot import SnapshotUnknownError, snapshot_at  # noqa: PLC0415  the one command that needs it

    try:
        text = snapshot_at(house, arguments.of, _instant(arguments.at))
    except SnapshotUnknownError as error:
        raise _UsageError(str(error)) from error
    Path(arguments.output).write_text(text, encoding="utf-8")
    console.line(f"{arguments.output}: {arguments.of} at {arguments.at}")
    return EXIT_OK


def _simulate(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    first = arguments.first or arguments.fleet.start
    with lease(house.path):
        done = simulate(house, arguments.fleet, [first + dt.timedelta(days=n) for n in range(arguments.days)])
    console.counts("Simulated (events)", {**done.events, **{f"{day}, already there": 0 for day in done.known}})
    return EXIT_OK


_COMMANDS = {
    "demo": _demo,
    "nightly": _nightly,
    "ingest": _ingest,
    "validate": _validate,
    "replay": _days_step,
    "flag": _days_step,
    "verify": _days_step,
    "publish": _publish,
    "check": _check,
    "maintain": _maintain,
    "sql": _sql,
    "export": _export,
    "snapshot": _snapshot,
    "simulate": _simulate,
}
