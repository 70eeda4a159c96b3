"""Command line of the jobs.

Exit codes: 0 done; 1 unexpected failure; 2 usage or configuration; 3 some input could not be read (everything else was published);
4 the quality gate refused, nothing was published; 5 another run is writing to the warehouse; 6 nothing has been published yet.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:
    # Run as a script, Python searches this folder first, where `jobs/tables.py` and others would hide packages of that name.
    _here = Path(__file__).resolve().parent
    sys.path[:] = [str(_here.parent), *(p for p in sys.path if Path(p).resolve() != _here)]

from jobs import __version__

EXIT_USAGE = 2
_STEPS = {
    "ingest": "read captures and event logs into the bronze tables",
    "validate": "judge all tables by their rules and write the Data Docs",
    "replay": "replay recorded days into the history tables",
    "flag": "find expired brokers, orphaned topics and the rest",
    "verify": "hold every recorded answer against the replayed tables",
}


def parser() -> argparse.ArgumentParser:
    """Return the command line: one sub-command per job."""
    top = argparse.ArgumentParser(
        prog="spark-submit.sh",
        description="The history of a RocketMQ name server's registry, from recorded traffic.",
        epilog="Options of spark-submit (--master, --conf, --driver-memory, ...) may stand anywhere. "
        "Also: test [pytest options], oracle [--help], fuzz [--help], bench-core [--help], lint, coverage, mutate [module], setup. "
        "Exit codes: 0 done, 1 unexpected failure, 2 usage or configuration, 3 some input could not be read (the rest was "
        "published), 4 quality gate refused (nothing published), 5 warehouse busy, 6 nothing published yet.",
    )
    top.add_argument("--version", action="version", version=f"namesrv-history {__version__}")
    jobs = top.add_subparsers(dest="job", metavar="JOB", required=True)
    demo = jobs.add_parser("demo", help="run the nightly job on the bundled capture and show what comes of it")
    demo.add_argument(
        "--warehouse", help="folder for the tables (default: warehouse/demo in the checkout, emptied first)"
    )
    demo.add_argument("--summary", metavar="FILE", help="write the run's numbers as JSON")
    nightly = jobs.add_parser("nightly", help="all steps in one session, published at the end")
    _input_options(nightly)
    _warehouse_options(nightly)
    nightly.add_argument("--summary", metavar="FILE", help="write the run's numbers as JSON")
    _snapshot_option(nightly)
    for step, text in _STEPS.items():
        job = jobs.add_parser(step, help=text)
        if step == "ingest":
            _input_options(job)
        if step in ("ingest", "replay"):
            _snapshot_option(job)
        _warehouse_options(job)
        if step in ("replay", "flag", "verify"):
            job.add_argument(
                "--from",
                dest="first",
                metavar="DAY",
                help="first day, YYYY-MM-DD (default: the first recorded)",
            )
            job.add_argument("--to", dest="last", metavar="DAY", help="last day (default: the last recorded)")
    publish = jobs.add_parser("publish", help="judge the gold tables and publish them, after steps that were run alone")
    _warehouse_options(publish)
    care = jobs.add_parser("maintain", help="compact files, and delete what no readable run needs")
    _warehouse_options(care)
    care.add_argument(
        "--retain-days",
        type=_days,
        default=400,
        metavar="N",
        help="what runs of the last N days published stays readable; what the last run published always does (default: 400)",
    )
    care.add_argument("--dry-run", action="store_true", help="change nothing, only say what would be deleted")
    sql = jobs.add_parser("sql", help="run SQL with the views and functions in place")
    sql.add_argument(
        "query", nargs="?", metavar="SQL", help="one statement (default: read statements from standard input)"
    )
    _warehouse_options(sql)
    sql.add_argument("--format", choices=("table", "json"), default="table", help="output (default: table)")
    sql.add_argument("--limit", type=int, default=1_000, help="rows shown at most (default: 1000)")
    export = jobs.add_parser("export", help="write the recorded events as a JSON-lines event log")
    _warehouse_options(export)
    export.add_argument("--output", required=True, metavar="FILE", help="file to write; .gz compresses")
    snapshot = jobs.add_parser("snapshot", help="write the state of a name server at an instant as a snapshot file")
    snapshot.add_argument("of", metavar="NAMESRV_ID", help="name server, ip:port")
    snapshot.add_argument("--at", required=True, metavar="TIME", help="instant, ISO 8601, UTC unless it says otherwise")
    snapshot.add_argument("--output", required=True, metavar="FILE", help="file to write")
    _warehouse_options(snapshot)
    pack = jobs.add_parser("pack", help="pack the Python environment for the machines of a cluster, without Spark")
    pack.add_argument("--output", required=True, metavar="FILE", help="archive to write, .tar.gz")
    trace = jobs.add_parser("trace", help="replay a trace of events from standard input, without Spark")
    trace.add_argument("--profile", choices=("4.9.7", "5.4.0"), help="generation (default: what the first line says)")
    trace.add_argument(
        "--states", choices=("full", "hash"), default="full", help="write whole states, or their hashes only"
    )
    return top


def _input_options(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--input", nargs="+", required=True, metavar="PATH", help="captures or event logs, files or folders"
    )


def _snapshot_option(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--snapshot",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="states to start from where a recording begins in the middle of a name server's life",
    )


def _warehouse_options(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--warehouse", metavar="DIR", default="warehouse", help="folder of the tables (default: ./warehouse)"
    )
    job.add_argument(
        "--namesrv",
        nargs="+",
        action="extend",
        default=[],
        metavar="ADDR=VERSION",
        help="name servers and their versions, e.g. 127.0.0.1:9876=4.9.7 (default: found in the traffic)",
    )
    job.add_argument("--conf-file", metavar="FILE", help="settings (default: conf/namesrv-history.toml)")


def _days(text: str) -> int:
    days = int(text)
    if days < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return days


def main(argv: Sequence[str] | None = None) -> int:
    """Run one job and return its exit code."""
    arguments = parser().parse_args(argv)
    if arguments.job == "trace":
        from jobs.trace import run_trace  # noqa: PLC0415  needs neither Spark nor its start-up time

        return run_trace(sys.stdin.buffer, sys.stdout, sys.stderr, arguments.profile, arguments.states)
    if arguments.job == "pack":
        from jobs.pack import run_pack  # noqa: PLC0415  as above

        return run_pack(Path(arguments.output), sys.stdout)
    from jobs.commands import run_command  # noqa: PLC0415  --help must not wait for Spark

    return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main())
