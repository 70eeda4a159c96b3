"""Write the events of a simulated fleet into a warehouse's tables."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import uuid
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from jobs.cli.validate import warehouse_at
from jobs.conf import DEFAULT_CONF, load_conf
from jobs.errors import JobError
from jobs.store.places import locked
from jobs.store.warehouse import Warehouse
from tools.fleet.fleet import Fleet, fleet_of
from tools.fleet.simulate import simulate

_MOST_DAYS = 100_000


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    job = argparse.ArgumentParser(prog="spark-submit.sh simulate", description=__doc__)
    fleet = job.add_argument_group("the fleet (must be the same in every call for a warehouse)")
    fleet.add_argument(
        "--start", required=True, type=dt.date.fromisoformat, metavar="DAY", help="its first day, YYYY-MM-DD"
    )
    for of in fields(Fleet)[1:]:
        how: dict[str, Any] = {"default": of.default, **of.metadata}
        if "action" not in how:
            shown = {} if "choices" in how else {"metavar": "N"}
            how = {"type": type(of.default), **shown, **how, "help": f"{how['help']} (default: %(default)s)"}
        fleet.add_argument(f"--{of.name.replace('_', '-')}", **how)
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
            done = simulate(warehouse, fleet, days)
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
