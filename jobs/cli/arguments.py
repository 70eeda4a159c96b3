"""The options of every command: standard library only, so that help needs no environment."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache

from jobs import IS_INSTALLED, PROGRAM, __version__
from jobs.cli.output import FORMS

QUESTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "route-at": (
        "the route of a topic at an instant on every name server, as mqadmin topicRoute -l",
        ("topic", "time"),
    ),
    "table-at": ("one of the name servers' tables at an instant", ("table", "time")),
    "why": (
        "why a topic was routed, or was not, at an instant: the event, its sender, where it is recorded",
        ("topic", "time"),
    ),
    "diff": ("what differs between the routes at two instants, and the event that changed it", ("t1", "t2")),
    "findings": ("problems worth an operator's attention, one row per root cause", ()),
    "incidents": ("findings of one cause on several name servers as one row, with what to do", ()),
    "prometheus": ("ongoing incidents, and the end of what is known, as a Prometheus text file", ()),
    "history": ("every change of a topic's route, and its cause", ("topic",)),
    "explain": ("a topic's route at an instant, the event behind it, and its recorded bytes", ("topic", "time")),
    "changes": (
        "what later runs have changed since a run: intervals and findings that began, ended or differ now",
        (),
    ),
    "query": ("a saved query by its name; `queries` lists them", ("name",)),
    "sql": ("queries in Spark's SQL, over the same views and functions as the job `sql`", ("query",)),
}
"""The questions of `ask`: what each answers, and its arguments."""
_NAMESRVS = (
    "addresses and versions of name servers, where the traffic does not show them, e.g. "
    "10.0.0.1:9876,10.0.0.9:9876=5.4.0 is one process; 10.0.0.1:9876/10.0.0.2:9876 are two"
)
_WHEN = "instant: ISO 8601, UTC unless followed by an offset or a time zone's name"
_ASKED_FOR = {
    "topic": "topic",
    "table": "topicQueueTable, brokerAddrTable, clusterAddrTable, brokerLiveTable, filterServerTable or kvConfigTable",
    "query": "one or more SELECTs, separated by ; (default: read them from standard input)",
    "name": "name of the query",
}


_DEVELOPERS = (
    "Also: setup, shell-env, and for developers test [pytest options], lint, coverage, mutate [module], "
    "oracle, trace, simulate, fuzz, torture, dependencies, bench (each has --help). "
)


class _Options(argparse.ArgumentParser):
    """A command's options, with methods for options that several commands share."""

    formatter: type[argparse.HelpFormatter] = argparse.HelpFormatter

    def _get_formatter(self) -> argparse.HelpFormatter:
        # argparse calls it for each option, and would measure the terminal each time.
        return self.formatter(self.prog, width=_columns() - 2)

    def several(self, option: str, metavar: str, text: str, *, required: bool = False) -> None:
        """Add an option that takes several values and may be repeated."""
        self.add_argument(option, nargs="+", action="extend", default=[], metavar=metavar, help=text, required=required)

    def file(self, option: str, text: str, *, required: bool = False) -> None:
        """Add an option that takes the name of a file."""
        self.add_argument(option, metavar="FILE", help=text, required=required)

    def flag(self, option: str, text: str) -> None:
        """Add a switch."""
        self.add_argument(option, action="store_true", help=text)

    def warehouse(self) -> None:
        """Add the option of the folder of tables."""
        self.add_argument(
            "--warehouse", metavar="DIR", default="warehouse", help="folder of the tables (default: ./warehouse)"
        )

    def conf(self) -> None:
        """Add the option of the settings file, for commands that read recordings; questions use no settings."""
        self.file("--conf-file", "settings (default: conf/namesrv-history.toml)")

    def recorded(self, *, required: bool) -> None:
        """Add the options of `nightly` and `ingest` about their input."""
        inputs = "captures, event logs or namesrv.log: files, folders or URLs (s3://); - is standard input"
        self.several("--input", "PATH", inputs, required=required)
        self.several("--namesrv", "ADDR[,ADDR][=VERSION][/ADDR...]", _NAMESRVS)
        series = "regular expression: captures of one folder in whose names it matches different texts are of different"
        self.add_argument("--series", metavar="PATTERN", help=f"{series} recording points")
        zone = "time zone of the lines in name servers' own logs, which do not say it: GMT+8, Europe/Berlin ..."
        self.add_argument("--log-zone", metavar="ZONE", help=zone)
        self.add_argument("--log-namesrv", metavar="ADDR", help="name server that wrote these logs, ip:port")
        self.conf()
        self.warehouse()

    def run(self) -> None:
        """Add the options about where a run works and writes its numbers."""
        self.flag("--in-process", "work in this process, without Spark and Java: for little input")
        self.file("--summary", "write the run's numbers as JSON")

    def answer(self) -> None:
        """Add the options about the run to ask as of, and about the output."""
        known = "answer as an earlier run did: its id, or an instant, ISO 8601, for the last run published by then"
        self.add_argument("--as-known-at", metavar="RUN|TIME", help=known)
        self.flag("--verified", "first compare the tables that the question reads with their digests in the ledger")
        forms = "output; json: an object a line; spreadsheet: CSV in which no name is a formula (default: table)"
        self.add_argument("--format", choices=FORMS, default="table", help=forms)
        self.file("--output", "write to a file; .gz compresses (default: standard output)")
        most = "rows at most (default: 1000 in a table, all otherwise)"
        self.add_argument("--limit", type=_between(0, 2**31 - 1), help=most)


def parser(given: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser: one sub-command per job. `given`: the arguments to parse; if they are a question, only it is made."""
    top = _Options(
        prog=PROGRAM,
        description="The history of a RocketMQ name server's registry, from recorded traffic.",
        epilog="Options of spark-submit (--master, --conf, --driver-memory, ...) may stand anywhere. "
        + ("" if IS_INSTALLED else _DEVELOPERS)
        + "Exit codes: 0 done, 1 unexpected failure, 2 usage or configuration, 3 some input could not be read (the rest was "
        "published), 4 quality gate refused (nothing published), 5 warehouse busy, 6 nothing published yet, 7 a day that was asked "
        "for is not recorded, 8 rows on disk were changed after they were published, 9 warehouse of another layout, 10 disk full, "
        "11 the captures' clocks jump back too far, 12 an incident is ongoing (ask incidents --fail-on), 13 an "
        "input folder without a file (the rest was published), 14 published, but more answers do not match than [verify] allows, "
        "15 published, but --after-publish did not take the changes: the next run tells them again, 130 interrupted (Ctrl-C).",
    )
    top.add_argument("--version", action="version", version=f"namesrv-history {__version__}")
    # `prog` is given because argparse takes longer to find it than all of this.
    jobs = top.add_subparsers(dest="job", metavar="JOB", required=True, parser_class=_Options, prog=top.prog)
    if given[:1] == ["ask"]:
        _add_questions(jobs.add_parser, given[1:])
        return top
    _add_writers(jobs.add_parser)
    _add_record(jobs.add_parser)
    _add_readers(jobs.add_parser)
    _add_questions(jobs.add_parser, ())
    jobs.add_parser("reference", help="print every table, view and function, column by column, as Markdown")
    pack = jobs.add_parser("pack", help="pack the Python environment for the machines of a cluster, without Spark")
    pack.file("--output", "archive to write, .tar.gz", required=True)
    return top


def _add_writers(add: Callable[..., _Options]) -> None:
    """Add the commands that write, check and maintain a warehouse."""
    demo = add("demo", help="run on the bundled capture, and show three questions with their answers")
    demo.add_argument(
        "--warehouse", help="folder for the tables (default: warehouse/demo in the checkout, or here; emptied first)"
    )
    demo.run()
    demo.set_defaults(first=None, last=None)
    nightly = add("nightly", help="read what is new, recompute from the first day that it touches on, check, publish")
    nightly.recorded(required=False)
    for option, to, which in (("--from", "first", "first"), ("--to", "last", "last")):
        text = f"{which} day to recompute even without new input, YYYY-MM-DD"
        nightly.add_argument(option, dest=to, metavar="DAY", help=text)
    nightly.flag(
        "--join-addresses",
        "in this run, treat name servers that SAME_PROCESS_SUSPECTED reports as one, as if conf/ said so",
    )
    text = "command that gets the published changes on standard input, an object a line; '>> FILE' appends them"
    nightly.add_argument("--after-publish", metavar="COMMAND", help=text)
    nightly.run()
    ingest = add("ingest", help="read captures and event logs into the bronze tables, where `nightly` continues")
    ingest.recorded(required=True)
    check = add("check", help="compare every partition of the last published run with its digest in the ledger")
    check.warehouse()
    kept = "also prove that nothing published up to this checkpoint was rewritten: the line that a run printed, or a file with it"
    check.add_argument("--against", metavar="CHECKPOINT", help=kept)
    check.file(
        "--sign", "sign the checkpoint that is printed, with an Ed25519 key in PEM, which belongs outside the warehouse"
    )
    stamp = "have that line stamped by a time stamp service (RFC 3161), of which openssl proves when the line was there"
    check.add_argument("--timestamp", metavar="URL", help=stamp)
    proof = "only print the proof that rows were published, for a holder of a checkpoint (examples/verify_proof.py)"
    check.several("--prove", "TABLE COLUMN=VALUE", proof)
    refused = add("refused", help="list the files that were refused, or mostly unreadable, and why; forget them")
    refused.warehouse()
    forget = "forget files, by name or the first digits of their digests: they may be given again"
    refused.several("--forget", "FILE", forget)
    refused.flag("--unpublished", "take back all that was read since the last published run: it may be given again")
    care = add("maintain", help="compact files, and delete what no readable run needs")
    care.warehouse()
    kept = "keep runs of the last N days readable; the last published run always stays (default: 400)"
    care.add_argument("--retain-days", type=_between(0, 100_000, " days"), default=400, metavar="N", help=kept)
    care.flag("--dry-run", "change nothing, only print what would be deleted")


def _add_readers(add: Callable[..., _Options]) -> None:
    """Add the commands that read a warehouse."""
    sql = add("sql", help="run SQL with the views and functions in place")
    statements = "statements, separated by ; (default: a shell at a terminal, else standard input)"
    sql.add_argument("query", nargs="?", metavar="SQL", help=statements)
    sql.file("--file", "read the statements from a file; - is standard input")
    sql.add_argument("--query", dest="saved", metavar="NAME", help="a saved query; `ask queries` lists them")
    sql.several("--param", "NAME=VALUE", "a parameter of the saved query")
    sql.warehouse()
    sql.answer()
    names = add(
        "register", help="add the views and functions to your metastore, as of the last run; repeat after each run"
    )
    names.add_argument("--database", required=True, metavar="NAME", help="database to put them in; made if need be")
    names.warehouse()
    serve = (
        "answer questions of assistants by the Model Context Protocol, on standard input and output, until that ends"
    )
    add("mcp", help=serve).warehouse()
    audit = add("audit", help="prove what is published from what was recorded, and attest tables at an instant")
    audit.add_argument("--at", metavar="TIME", help=f"attest a name server's tables at an {_WHEN}")
    audit.add_argument("--namesrv", dest="of", metavar="ADDR", help="that name server, ip:port")
    audit.add_argument("--table", default="all", metavar="TABLE", help=f"{_ASKED_FOR['table']}, or all (default: all)")
    audit.file("--check", "verify an attestation: repeat it and compare the results")
    audit.warehouse()
    audit.conf()
    audit.add_argument("--as-known-at", metavar="RUN|TIME", help="of an earlier run: its id, or an instant")
    audit.file("--output", "write the attestation to a file; .gz compresses (default: standard output)")

    report = add("report", help="write what happened between two instants as one HTML file, without Java")
    since = f"start; a day, or an {_WHEN} (default: the last day's, or the incident's)"
    report.add_argument("--from", dest="first", metavar="TIME", help=since)
    until = f"end; a day is meant whole; a day, or an {_WHEN} (default: a day later)"
    report.add_argument("--to", dest="last", metavar="TIME", help=until)
    report.add_argument("--topic", metavar="NAME", help="only what concerns a topic")
    report.add_argument("--broker", metavar="NAME", help="only what concerns a broker, by its name")
    report.add_argument("--namesrv", metavar="ADDR", help="only one name server, ip:port")
    report.add_argument("--incident", metavar="ID", help="only one incident, by its id or the first digits of it")
    report.file("--output", "file to write, .html", required=True)
    report.add_argument("--as-known-at", metavar="RUN|TIME", help="as an earlier run did: its id, or an instant")
    report.warehouse()

    export = add("export", help="write the recorded events as a JSON-lines event log")
    export.warehouse()
    export.file("--output", "file to write; .gz compresses", required=True)


def _add_questions(add: Callable[..., _Options], given: Sequence[str]) -> None:
    """Add the questions of `ask`, or only the one that is given."""
    ask = add("ask", help="ask the published tables, without Spark and Java")
    questions = ask.add_subparsers(dest="question", metavar="QUESTION", required=True, prog=ask.prog)
    if given[:1] not in [[name] for name in QUESTIONS]:
        listed = questions.add_parser("queries", help="list the saved queries; `query NAME --help` tells of one")
        listed.add_argument("filter", nargs="?", metavar="WORD", help="only those with this word in name or question")
        given = ()
    for name, (text, arguments) in QUESTIONS.items():
        if given and name != given[0]:
            continue
        of: _Options = questions.add_parser(name, help=text, description=text)
        for argument in arguments:
            many = "?" if argument == "query" else None
            of.add_argument(argument, nargs=many, metavar=argument.upper(), help=_ASKED_FOR.get(argument, _WHEN))
        of.warehouse()
        of.answer()
        if name == "query":
            of.several("--param", "NAME=VALUE", "a parameter of the saved query")
            if {"-h", "--help"} & set(given):
                from jobs.ask.engine import described  # noqa: PLC0415  slow to import
                from schemas.queries import queries  # noqa: PLC0415  as above

                of.formatter = argparse.RawDescriptionHelpFormatter
                query = next((queries()[word] for word in given if word in queries()), None)
                of.description = text if query is None else described(query, " (--param NAME=VALUE)")
        elif name == "sql":
            files = (
                "let statements read and write any file of this machine that you may (default: only the warehouse's)"
            )
            of.flag("--unsafe", files)
            most = "memory at most, in MiB (default: 2048)"
            of.add_argument("--memory", type=_between(1, 1 << 20, " MiB"), default=2048, metavar="MIB", help=most)
        elif name == "changes":
            since = "cursor: a run's id, as the last answer named it, an instant, or none for all"
            of.add_argument("--since", required=True, metavar="RUN|TIME", help=since)
        elif name == "diff":
            of.flag("--tables", "compare all tables of the name servers, not routes")
        elif name == "incidents":
            severe = "exit code 12 if an incident of at least this severity is ongoing"
            of.add_argument("--fail-on", choices=("critical", "warning", "info"), help=severe)
        elif name in ("explain", "why"):
            of.several("--capture", "FILE", "recordings, to show the event's bytes")


@cache
def _columns() -> int:
    with suppress(ValueError, OSError):
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.__stdout__.fileno()).columns)  # type: ignore[union-attr]
    return 80


def _between(least: int, most: int, unit: str = "") -> Callable[[str], int]:
    """Return the type of an option: a whole number in a range."""

    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most:,}{unit}")
        return int(text)

    return number


def _add_record(add: Callable[..., _Options]) -> None:
    """Add the command that writes recordings."""
    record = add("record", help="be a name server, or poll some, and write event logs for `nightly`")
    text = "name server to ask, host:port; may be given again"
    way = record.add_mutually_exclusive_group(required=True)
    way.add_argument("--poll", action="append", type=_address, metavar="NAMESRV", help=text)
    way.add_argument("--listen", type=_address, metavar="ADDRESS", help="be a name server at host:port")
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
    alone = record.add_argument_group("with --listen")
    alone.add_argument("--profile", default="5.4.0", metavar="RELEASE", help="release to act as (default: 5.4.0)")
    alone.add_argument("--config", metavar="FILE", help="its namesrv.properties")
    alone.add_argument(
        "--name", type=_address, metavar="ADDRESS", help="address by which brokers know it (default: that of --listen)"
    )
    alone.add_argument(
        "--sync", type=_sync, default=1.0, metavar="event|TIME",
        help="sync events to disk before each answer leaves, or after this time (default: 1s)",
    )  # fmt: skip
    answers = "write every answer, or (default) an unchanged answer to the same question only once a minute"
    alone.add_argument("--answers", choices=("all", "changed"), default="changed", help=answers)
    alone.add_argument(
        "--connections", type=_between(1, 1 << 20), default=10_000, metavar="N", help="at most (default: 10000)"
    )
    alone.add_argument(
        "--memory", type=_between(32, 1 << 20, " MiB"), default=256, metavar="MIB",
        help="memory of waiting requests and answers (default: 256)",
    )  # fmt: skip


def _sync(text: str) -> float | None:
    return None if text == "event" else _duration(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text}: host:port expected")
    return host.strip("[]"), int(port)


def _duration(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h)?", text, re.ASCII)
    seconds = float(found[1]) * {"ms": 0.001, "m": 60, "h": 3_600}.get(found[2], 1) if found else 0
    if not 0.1 <= seconds <= 366 * 86_400:
        raise argparse.ArgumentTypeError(f"{text}: a time such as 500ms, 5s, 10m or 1h expected, 100ms at least")
    return seconds


def _rate(text: str) -> float:
    rate = float(text)
    if not 0.1 <= rate <= 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 10,000")
    return rate
