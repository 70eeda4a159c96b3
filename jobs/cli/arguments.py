"""The options of every command: standard library only, so that help needs no environment."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from jobs import __version__
from jobs.cli.output import FORMS

if TYPE_CHECKING:
    Jobs = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  it has no public name
# What is asked without a JVM, in words, and its arguments.
_QUESTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "route-at": (
        "the route of a topic at an instant on every name server, as mqadmin topicRoute -l",
        ("topic", "time"),
    ),
    "table-at": ("one of the name servers' tables at an instant", ("table", "time")),
    "why": (
        "why a topic was routed, or was not, at an instant: the event, who sent it, where it is recorded",
        ("topic", "time"),
    ),
    "diff": ("what differs between the routes at two instants, and the event that changed it", ("t1", "t2")),
    "findings": ("problems worth an operator's attention, one row per root cause", ()),
    "incidents": ("findings of one cause on several name servers as one row, with what to do", ()),
    "prometheus": ("ongoing incidents, and how far is known, as a Prometheus text file", ()),
    "history": ("every change of a topic's route, and its cause", ("topic",)),
    "explain": ("a topic's route at an instant, the event behind it, and its recorded bytes", ("topic", "time")),
    "restated": (
        "how a table at an instant differs between an earlier run (--as-known-at) and now, and the late events that changed it",
        ("table", "time"),
    ),
    "query": ("a saved query by its name; `queries` lists them", ("name",)),
    "sql": ("questions in Spark's SQL, over the views and functions that `sql` has", ("query",)),
}
_MOST, _MOST_DAYS, _MOST_MIB = 2**31 - 1, 100_000, 1 << 20
_INPUT = "captures or event logs, files, folders or URLs (s3://); - is standard input"
_SNAPSHOT = "states to start from where a recording begins in the middle of a name server's life"
_NAMESRVS = (
    "addresses and versions of name servers, where the traffic does not show them, e.g. "
    "10.0.0.1:9876,10.0.0.9:9876=5.4.0 is one process; 10.0.0.1:9876/10.0.0.2:9876 are two"
)
_PARAM = "a parameter of the saved query"
_SUMMARY = "write the run's numbers as JSON"
_WHEN = "instant: ISO 8601, UTC unless followed by an offset or a time zone's name"
_ASKED_FOR = {
    "topic": "topic",
    "table": "topicQueueTable, brokerAddrTable, clusterAddrTable, brokerLiveTable, filterServerTable or kvConfigTable",
    "query": "one or more SELECTs, separated by ; (default: read them from standard input)",
    "name": "name of the query",
}


def parser() -> argparse.ArgumentParser:
    """Return the command line: one sub-command per job."""
    top = argparse.ArgumentParser(
        prog="spark-submit.sh",
        description="The history of a RocketMQ name server's registry, from recorded traffic.",
        epilog="Options of spark-submit (--master, --conf, --driver-memory, ...) may stand anywhere. "
        "Also: setup, shell-env, and for those who work on this software test [pytest options], lint, coverage, mutate [module], "
        "oracle, trace, simulate, fuzz, bench, bench-core (each has --help). "
        "Exit codes: 0 done, 1 unexpected failure, 2 usage or configuration, 3 some input could not be read (the rest was "
        "published), 4 quality gate refused (nothing published), 5 warehouse busy, 6 nothing published yet, 7 a day that was asked "
        "for is not recorded, 8 rows on disk were changed after they were published, 9 warehouse of another layout, 10 disk full, "
        "11 the captures' clocks jump back too far, 12 an incident is ongoing (ask incidents --fail-on), 13 an "
        "input folder without a file (the rest was published), 14 published, but more answers do not match than [verify] allows.",
    )
    top.add_argument("--version", action="version", version=f"namesrv-history {__version__}")
    jobs = top.add_subparsers(dest="job", metavar="JOB", required=True)
    for add in (_add_nights, _add_record, _add_care, _add_readers, _add_without_recordings):
        add(jobs)
    return top


def _add_nights(jobs: Jobs) -> None:
    """Add a run, and reading alone."""
    demo = jobs.add_parser("demo", help="run on the bundled capture, and show three questions with their answers")
    demo.add_argument(
        "--warehouse", help="folder for the tables (default: warehouse/demo in the checkout, emptied first)"
    )
    demo.add_argument("--summary", metavar="FILE", help=_SUMMARY)
    _engine_option(demo)
    demo.set_defaults(snapshot=(), first=None, last=None)
    nightly = jobs.add_parser(
        "nightly", help="read what is new, recompute the days that it touches, check them, publish"
    )
    _several(nightly, "--input", "PATH", _INPUT)
    _days_options(nightly, "day to recompute even without new input", "")
    _warehouse_options(nightly)
    _namesrv_options(nightly)
    _series_option(nightly)
    nightly.add_argument(
        "--join-addresses",
        action="store_true",
        help="in this run, treat name servers that SAME_PROCESS_SUSPECTED reports as one, as if conf/ said so",
    )
    _engine_option(nightly)
    nightly.add_argument("--summary", metavar="FILE", help=_SUMMARY)
    _several(nightly, "--snapshot", "FILE", _SNAPSHOT)
    ingest = jobs.add_parser(
        "ingest", help="read captures and event logs into the bronze tables; `nightly` goes on from there"
    )
    _several(ingest, "--input", "PATH", _INPUT, required=True)
    _series_option(ingest)
    _several(ingest, "--snapshot", "FILE", _SNAPSHOT)
    _warehouse_options(ingest)
    _namesrv_options(ingest)


def _add_care(jobs: Jobs) -> None:
    """Add what checks and maintains a warehouse."""
    check = jobs.add_parser(
        "check", help="compare every partition of the last published run with its digest in the ledger"
    )
    _warehouse_options(check)
    refused = jobs.add_parser(
        "refused", help="list the files that were refused, or mostly unreadable, and why; forget them"
    )
    _warehouse_options(refused)
    _several(
        refused,
        "--forget",
        "FILE",
        "forget files, by name or the first digits of their digests: they may be given again",
    )
    refused.add_argument(
        "--unpublished",
        action="store_true",
        help="take back all that was read since the last published run: it may be given again",
    )
    care = jobs.add_parser("maintain", help="compact files, and delete what no readable run needs")
    _warehouse_options(care)
    care.add_argument(
        "--retain-days",
        type=_days,
        default=400,
        metavar="N",
        help="keep runs of the last N days readable; the last published run always stays (default: 400)",
    )
    care.add_argument("--dry-run", action="store_true", help="change nothing, only print what would be deleted")


def _add_readers(jobs: Jobs) -> None:
    """Add what reads a warehouse."""
    sql = jobs.add_parser("sql", help="run SQL with the views and functions in place")
    sql.add_argument(
        "query",
        nargs="?",
        metavar="SQL",
        help="statements, separated by ; (default: a shell at a terminal, else standard input)",
    )
    sql.add_argument("--file", metavar="FILE", help="read the statements from a file; - is standard input")
    sql.add_argument("--query", dest="saved", metavar="NAME", help="a saved query; `ask queries` lists them")
    _several(sql, "--param", "NAME=VALUE", _PARAM)
    _warehouse_options(sql)
    _answer_options(sql)
    names = jobs.add_parser(
        "register", help="add the views and functions to your metastore, as of the last run; repeat after each run"
    )
    names.add_argument("--database", required=True, metavar="NAME", help="database to put them in; made if need be")
    _warehouse_options(names)
    _add_ask(jobs.add_parser("ask", help="ask the published tables, without Spark and Java"))
    _add_audit(
        jobs.add_parser("audit", help="prove what is published from what was recorded, and attest tables at an instant")
    )
    _add_report(
        jobs.add_parser("report", help="write what happened between two instants as one HTML file, without Java")
    )
    export = jobs.add_parser("export", help="write the recorded events as a JSON-lines event log")
    _warehouse_options(export)
    export.add_argument("--output", required=True, metavar="FILE", help="file to write; .gz compresses")
    snapshot = jobs.add_parser("snapshot", help="write the state of a name server at an instant as a snapshot file")
    snapshot.add_argument("of", metavar="NAMESRV_ID", help="name server, ip:port")
    snapshot.add_argument("--at", required=True, metavar="TIME", help="instant, ISO 8601, UTC unless it says otherwise")
    snapshot.add_argument("--output", required=True, metavar="FILE", help="file to write")
    _warehouse_options(snapshot)


def _add_audit(audit: argparse.ArgumentParser) -> None:
    """Add the options of an attestation."""
    audit.add_argument("--at", metavar="TIME", help=f"attest a name server's tables at an {_WHEN}")
    audit.add_argument("--namesrv", dest="of", metavar="ADDR", help="that name server, ip:port")
    audit.add_argument("--table", default="all", metavar="TABLE", help=f"{_ASKED_FOR['table']}, or all (default: all)")
    audit.add_argument("--check", metavar="FILE", help="verify an attestation: the same again, and the same result")
    _warehouse_options(audit)
    _conf_option(audit)
    audit.add_argument("--as-known-at", metavar="RUN|TIME", help="of an earlier run: its id, or an instant")
    audit.add_argument(
        "--output", metavar="FILE", help="write the attestation to a file; .gz compresses (default: standard output)"
    )


def _add_report(report: argparse.ArgumentParser) -> None:
    """Add the options of a report."""
    of_time = f"{{}}; a day, or an {_WHEN} (default: {{}})"
    report.add_argument(
        "--from", dest="first", metavar="TIME", help=of_time.format("start", "the last day's, or the incident's")
    )
    report.add_argument(
        "--to", dest="last", metavar="TIME", help=of_time.format("end; a day is meant whole", "a day later")
    )
    report.add_argument("--topic", metavar="NAME", help="only what concerns a topic")
    report.add_argument("--broker", metavar="NAME", help="only what concerns a broker, by its name")
    report.add_argument("--namesrv", metavar="ADDR", help="only one name server, ip:port")
    report.add_argument("--incident", metavar="ID", help="only one incident, by its id or the first digits of it")
    report.add_argument("--output", required=True, metavar="FILE", help="file to write, .html")
    report.add_argument("--as-known-at", metavar="RUN|TIME", help="as an earlier run did: its id, or an instant")
    _warehouse_options(report)


def _add_ask(ask: argparse.ArgumentParser) -> None:
    """Add the questions that are answered without a JVM."""
    questions = ask.add_subparsers(dest="question", metavar="QUESTION", required=True)
    questions.add_parser("queries", help="list the saved queries: what they answer, and their parameters")
    for name, (text, arguments) in _QUESTIONS.items():
        question = questions.add_parser(name, help=text, description=text)
        for argument in arguments:
            many = "?" if argument == "query" else None
            question.add_argument(argument, nargs=many, metavar=argument.upper(), help=_ASKED_FOR.get(argument, _WHEN))
        _warehouse_options(question)
        _answer_options(question)
        if name == "query":
            _several(question, "--param", "NAME=VALUE", _PARAM)
        if name == "sql":
            question.add_argument(
                "--unsafe",
                action="store_true",
                help="let statements read and write any file of this machine that you may (default: the warehouse's files alone)",
            )
            question.add_argument(
                "--memory", type=_mebibytes, default=2048, metavar="MIB", help="memory at most, in MiB (default: 2048)"
            )
        if name == "diff":
            question.add_argument(
                "--tables", action="store_true", help="of all tables of the name servers, not of routes"
            )
        if name == "incidents":
            question.add_argument(
                "--fail-on", choices=("critical", "warning", "info"), help="exit code 12 if one as severe is ongoing"
            )
        if name == "explain":
            _several(question, "--capture", "FILE", "recordings at hand")


def _answer_options(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--as-known-at",
        metavar="RUN|TIME",
        help="answer as an earlier run did: its id, or an instant, ISO 8601, for the last run published by then",
    )
    job.add_argument(
        "--verified",
        action="store_true",
        help="first compare the tables that the question reads with their digests in the ledger",
    )
    job.add_argument(
        "--format",
        choices=FORMS,
        default="table",
        help="output; json: an object a line; spreadsheet: CSV in which no name is a formula (default: table)",
    )
    job.add_argument("--output", metavar="FILE", help="write to a file; .gz compresses (default: standard output)")
    job.add_argument("--limit", type=_count, help="rows at most (default: 1000 in a table, all otherwise)")


def _add_without_recordings(jobs: Jobs) -> None:
    """Add what needs no warehouse."""
    jobs.add_parser("reference", help="print every table, view and function, column by column, as Markdown")
    pack = jobs.add_parser("pack", help="pack the Python environment for the machines of a cluster, without Spark")
    pack.add_argument("--output", required=True, metavar="FILE", help="archive to write, .tar.gz")


def _add_record(jobs: Jobs) -> None:
    """Add what writes recordings."""
    record = jobs.add_parser(
        "record", help="ask name servers again and again, and write their answers as event logs, which `nightly` reads"
    )
    told = "name server to ask, host:port; may be given again"
    record.add_argument("--poll", action="append", type=_address, required=True, metavar="NAMESRV", help=told)
    record.add_argument("--output", required=True, metavar="DIR", help="folder for the event logs; made if need be")
    for option, dest, default, text in (
        ("--every", "every", "5s", "time from one round of questions to the next (default: 5s)"),
        ("--rotate", "rotate", "1h", "begin a new file after this time (default: 1h)"),
        ("--for", "for_s", None, "end after this time (default: on SIGINT or SIGTERM)"),
    ):
        record.add_argument(option, dest=dest, type=_duration, default=default, metavar="TIME", help=text)
    record.add_argument(
        "--rate", type=_rate, default=20.0, metavar="N", help="questions a second to each at most (default: 20)"
    )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text}: host:port expected")
    return host.strip("[]"), int(port)


def _duration(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h)?", text, re.ASCII)
    seconds = float(found[1]) * {"ms": 0.001, "m": 60, "h": 3_600}.get(found[2], 1) if found else 0
    if not 0.1 <= seconds <= _MOST_DAYS * 86_400:
        raise argparse.ArgumentTypeError(f"{text}: a time such as 500ms, 5s, 10m or 1h expected, 100ms at least")
    return seconds


def _rate(text: str) -> float:
    rate = float(text)
    if not 0.1 <= rate <= 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 10,000")
    return rate


def _several(
    job: argparse._ActionsContainer,
    option: str,
    metavar: str,
    text: str,
    *,
    required: bool = False,
) -> None:
    """Add an option that takes several values, also by being given again."""
    job.add_argument(option, nargs="+", action="extend", default=[], metavar=metavar, help=text, required=required)


def _days_options(job: argparse.ArgumentParser, what: str, default: str) -> None:
    for option, to, which in (("--from", "first", "first"), ("--to", "last", "last")):
        text = f"{which} {what}, YYYY-MM-DD{default.format(which)}"
        job.add_argument(option, dest=to, metavar="DAY", help=text)


def _warehouse_options(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--warehouse", metavar="DIR", default="warehouse", help="folder of the tables (default: ./warehouse)"
    )


def _namesrv_options(job: argparse.ArgumentParser) -> None:
    """Add the settings; look-ups use none."""
    _several(job, "--namesrv", "ADDR[,ADDR][=VERSION][/ADDR...]", _NAMESRVS)
    _conf_option(job)


def _conf_option(job: argparse.ArgumentParser) -> None:
    job.add_argument("--conf-file", metavar="FILE", help="settings (default: conf/namesrv-history.toml)")


def _series_option(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--series",
        metavar="PATTERN",
        help="regular expression: captures of one folder in whose names it finds different texts are of different recording points",
    )


def _engine_option(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--in-process", action="store_true", help="work in this process, without Spark and Java: for little input"
    )


def _count(text: str) -> int:
    count = int(text)
    if not 0 <= count <= _MOST:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {_MOST:,}")
    return count


def _days(text: str) -> int:
    days = int(text)
    if not 0 <= days <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {_MOST_DAYS:,} days")
    return days


def _mebibytes(text: str) -> int:
    size = int(text)
    if not 0 < size <= _MOST_MIB:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_MOST_MIB:,} MiB")
    return size
