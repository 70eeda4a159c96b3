"""Compare the core with the real name server: `./spark-submit.sh oracle --events 1000000 --seed 7`.

Needs Java, and a network the first time. Exit codes: 0 no difference; 1 a difference, shown with the shortest sequence of
events that leads to it; 2 usage, or the real name server could not be had.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from namesrv_core.machine.profile import COMPARED
from tests.oracle.jvm import JvmUnavailableError
from tests.oracle.lockstep import compare, explained
from tests.oracle.oracle import VERSIONS, Oracle

EXIT_OK, EXIT_DIFFERENCE, EXIT_USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Compare and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="spark-submit.sh oracle", description="Compare the core with RocketMQ's own classes, event by event."
    )
    parser.add_argument("--events", type=int, default=200_000, help="events for each generation (default: 200000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same events (default: 1)")
    parser.add_argument("--profile", choices=COMPARED, metavar="RELEASE", help="release (default: 4.9.7 and 5.4.0)")
    arguments = parser.parse_args(argv)
    versions = VERSIONS if arguments.profile is None else (arguments.profile,)
    try:
        different = [version for version in versions if not _is_equal(version, arguments.events, arguments.seed)]
    except JvmUnavailableError as error:
        print(f"namesrv-history: {error}", file=sys.stderr)
        return EXIT_USAGE
    return EXIT_DIFFERENCE if different else EXIT_OK


def _is_equal(version: str, events: int, seed: int) -> bool:
    with closing(Oracle(version)) as oracle:
        began = time.monotonic()
        compared = compare(oracle, events, seed)
        rate = compared.events / (time.monotonic() - began)
        found = compared.difference
        verdict = "no difference" if found is None else "a difference"
        print(
            f"RocketMQ {version}, seed {seed}: result and state hash after each of {compared.events:,} events "
            f"({rate:,.0f}/s): {verdict}"
        )
        if found is not None:
            print(explained(oracle, found))
    return found is None


if __name__ == "__main__":
    sys.exit(main())
