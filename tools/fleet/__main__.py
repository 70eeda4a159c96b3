"""Write the events of a simulated fleet into a warehouse's tables, and the truth about it."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from jobs.cli.judged import warehouse_at
from jobs.conf import DEFAULT_CONF, load_conf
from jobs.errors import JobError
from jobs.passes import InProcess
from jobs.store.places import locked
from jobs.store.warehouse import Warehouse
from tools.fleet.fleet import fleet_of
from tools.fleet.simulate import simulate

_MOST_DAYS = 100_000
_FLEET: dict[str, tuple[type, str]] = {
    "brokers": (int, "brokers (default: 12)"),
    "namesrvs": (int, "name servers; every broker sends heartbeats to each (default: 2)"),
    "topics": (int, "topics of each broker (default: 8)"),
    "beats-per-minute": (int, "heartbeats of a broker in a minute (default: 2)"),
    "jitter-ms": (
        int,
        "how much later than planned a heartbeat may come (default: so little that brokers keep their order)",
    ),
    "timeout-ms": (
        int,
        "lease that 5.x brokers ask for (default: 10000 with light heartbeats, or as long as four of them take, else none: 120 s)",
    ),
    "churn": (float, "share of the brokers whose topic configuration changes in a day (default: 0)"),
    "outages": (float, "share of broker-hours in which a broker is silent for a while (default: 0)"),
    "partitions": (float, "times a day that a name server loses a quarter of its brokers (default: 0)"),
    "restarts": (float, "times a day that a name server restarts (default: 0)"),
    "registrations": (float, "share of heartbeats that are registrations although nothing asks for it (default: 0)"),
    "late": (float, "share of events that are delivered with the next day's (default: 0)"),
    "duplicates": (float, "share of events that are delivered with the next day's once more (default: 0)"),
    "seed": (int, "what all chance depends on (default: 1)"),
}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    job = argparse.ArgumentParser(prog="spark-submit.sh simulate", description=__doc__)
    fleet = job.add_argument_group("the fleet (must be the same in every call for a warehouse)")
    fleet.add_argument(
        "--start", required=True, type=dt.date.fromisoformat, metavar="DAY", help="its first day, YYYY-MM-DD"
    )
    for name, (of, text) in _FLEET.items():
        fleet.add_argument(f"--{name}", type=of, default=argparse.SUPPRESS, metavar="N", help=text)
    fleet.add_argument(
        "--shared-topics",
        action="store_true",
        default=argparse.SUPPRESS,
        help="all brokers have the same topics (default: each its own)",
    )
    fleet.add_argument(
        "--version", default=argparse.SUPPRESS, help="release of name servers and brokers (default: 4.9.7)"
    )
    fleet.add_argument(
        "--form",
        choices=("register", "query", "light"),
        default=argparse.SUPPRESS,
        help="a heartbeat is a full registration, a data-version query, or 5.x's light heartbeat (default: query)",
    )
    fleet.add_argument(
        "--outage-s",
        nargs=2,
        type=int,
        default=argparse.SUPPRESS,
        metavar=("MIN", "MAX"),
        help="seconds that outages and partitions last (default: 30 900)",
    )
    job.add_argument(
        "--from",
        dest="first",
        type=dt.date.fromisoformat,
        metavar="DAY",
        help="first day to write (default: the fleet's first)",
    )
    job.add_argument("--days", type=_count, default=1, metavar="N", help="days to write (default: 1)")
    job.add_argument("--warehouse", metavar="DIR", default="warehouse", help="its folder (default: ./warehouse)")
    return job


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate what was asked for and return the exit code."""
    given = parser().parse_args(arguments)
    try:
        fleet = fleet_of({**vars(given), "start": given.start})
        first = given.first or fleet.start
        days = [first + dt.timedelta(days=n) for n in range(given.days)]
        started = dt.datetime.now(dt.timezone.utc)
        run_id = f"{started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        warehouse = Warehouse(warehouse_at(given.warehouse), load_conf(Path(DEFAULT_CONF), ()), run_id, started)
        with locked(warehouse.path):
            done = simulate(warehouse, InProcess(), fleet, days)
    except JobError as error:
        sys.stderr.write(f"namesrv-history: {error.sentence}\n")
        return error.exit_code
    known = [f"{day} already there" for day in done.known]
    events = ", ".join([*(f"{count:,} {what}" for what, count in done.events.items()), *known])
    sys.stdout.write(f"Simulated    {events}\n")
    return 0


def _count(text: str) -> int:
    count = int(text)
    if not 0 <= count <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text} is no number of days: 0 to {_MOST_DAYS:,}")
    return count


if __name__ == "__main__":
    sys.exit(main())
