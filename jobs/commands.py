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
from pathlib import Path

from jobs import night, nightly, report
from jobs.conf import DEFAULT_CONF, ConfError, load_conf
from jobs.console import Console
from jobs.ingest import ClockError, ingest
from jobs.night import GateError, Warehouse, WarehouseBusyError
from jobs.session import CHECKOUT, spark_session
from jobs.views import NothingPublishedError
from namesrv_core.snapshot import SnapshotError, snapshot_of
from schemas import bronze

EXIT_OK, EXIT_USAGE, EXIT_INPUT, EXIT_GATE, EXIT_BUSY, EXIT_UNPUBLISHED = 0, 2, 3, 4, 5, 6
EXIT_CLOCK = 11
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
    except (ConfError, FileNotFoundError, _UsageError) as error:
        return _say(error, EXIT_USAGE)
    except GateError as error:
        return _say(f"the quality gate refused: {error}. Nothing was published.", EXIT_GATE)
    except WarehouseBusyError as error:
        return _say(error, EXIT_BUSY)
    except NothingPublishedError as error:
        return _say(error, EXIT_UNPUBLISHED)
    except ClockError as error:
        return _say(error, EXIT_CLOCK)


class _UsageError(ValueError):
    """An argument that cannot be."""


def _say(what: object, code: int) -> int:
    sys.stderr.write(f"namesrv-history: {what}\n")
    return code


def _warehouse(arguments: argparse.Namespace) -> Warehouse:
    """Check the arguments, then start the session: a typing mistake should not cost a JVM."""
    for name in getattr(arguments, "input", []):
        if not Path(name).exists():
            raise FileNotFoundError(f"input {name}: no such file or folder")
    for name in getattr(arguments, "snapshot", None) or []:
        _check_snapshot(Path(name))
    for name in ("first", "last"):
        if getattr(arguments, name, None):
            setattr(arguments, name, _day(getattr(arguments, name)))
    conf = load_conf(Path(getattr(arguments, "conf_file", None) or DEFAULT_CONF), getattr(arguments, "namesrv", []))
    path = arguments.warehouse or str(DEMO_WAREHOUSE)
    if "://" not in path:
        path = str(Path(path).resolve())
    if arguments.job == "demo" and arguments.warehouse is None:
        shutil.rmtree(path, ignore_errors=True)
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


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise _UsageError(f"day {text!r}: expected YYYY-MM-DD") from error


def _nightly(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    summary = nightly.run(house, arguments.input, console, getattr(arguments, "snapshot", None) or ())
    if arguments.summary:
        summary.write(Path(arguments.summary))
    report.show_run(summary, console)
    return EXIT_INPUT if summary.errors else EXIT_OK


def _demo(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    arguments.input = [str(DEMO_CAPTURE)]
    code = _nightly(house, arguments, console)
    report.show_questions(house, console)
    return code


def _ingest(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    with night.lease(house.path):
        ingested = ingest(
            house.spark, house.path, arguments.input, house.conf, house.run_id, house.started, arguments.snapshot
        )
    report.show_ingested(ingested, console)
    return EXIT_INPUT if ingested.errors else EXIT_OK


def _validate(house: Warehouse, _: argparse.Namespace, console: Console) -> int:
    with night.lease(house.path):
        warnings = night.validate_all(house)
    report.show_warnings(warnings, house.docs_dir, console)
    return EXIT_OK


def _days_step(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    steps = {"replay": night.replay, "flag": night.flag_days, "verify": night.verify_days}
    with night.lease(house.path):
        if getattr(arguments, "snapshot", None):
            ingest(house.spark, house.path, [], house.conf, house.run_id, house.started, arguments.snapshot)
            house.forget(*bronze.TABLES)
        days = night.days_of(night.recorded(house), arguments.first, arguments.last)
        days = steps[arguments.job](house, days) or days
    console.line(f"{arguments.job}: {len(days)} day(s)" + (f", {days[0]} to {days[-1]}" if days else ""))
    if arguments.job == "verify":
        report.show_verify(nightly.verify_numbers(house.data()), console)
    return EXIT_OK


def _publish(house: Warehouse, _: argparse.Namespace, console: Console) -> int:
    with night.lease(house.path):
        read = night.recorded(house)
        ingest_runs, first = night.uncovered(house, read)
        days = night.days_of(read, first) if first else []
        published = night.publish(house, days, ingest_runs, {}, {})
    report.show_warnings(published.warnings, house.docs_dir, console)
    console.counts("Published tables (rows)", published.tables)
    return EXIT_OK


def _sql(house: Warehouse, arguments: argparse.Namespace, console: Console) -> int:
    text = arguments.query if arguments.query is not None else sys.stdin.read()
    statements = statements_of(text)
    if not statements:
        raise _UsageError("no SQL: give a statement as an argument or on standard input")
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


_COMMANDS = {
    "demo": _demo,
    "nightly": _nightly,
    "ingest": _ingest,
    "validate": _validate,
    "replay": _days_step,
    "flag": _days_step,
    "verify": _days_step,
    "publish": _publish,
    "sql": _sql,
    "export": _export,
    "snapshot": _snapshot,
}
