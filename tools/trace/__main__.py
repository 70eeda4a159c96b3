"""Replay a trace of events from standard input: events in, results and states out, one JSON object a line; no Spark."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from io import TextIOBase
from typing import TextIO

from jobs.cli.output import Guarded
from tools.trace.trace import TraceError, replayed

Out = TextIO | TextIOBase
EXIT_OK, EXIT_USAGE = 0, 2


def run_trace(lines: Iterable[bytes], out: Out, err: Out, profile: str | None, states: str) -> int:
    """Write the result of each line; a malformed line ends the run with its number and exit code 2."""
    try:
        records = replayed(lines, profile, states=states == "full")
        out.writelines(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)
    except TraceError as error:
        out.flush()
        err.write(f"namesrv-history: {error}\n")
        return EXIT_USAGE
    return EXIT_OK


def main() -> int:
    """Replay standard input and return the exit code."""
    parser = argparse.ArgumentParser(prog="spark-submit.sh trace", description=__doc__)
    parser.add_argument("--profile", choices=("4.9.7", "5.4.0"), help="generation (default: what the first line says)")
    parser.add_argument(
        "--states", choices=("full", "hash"), default="full", help="write whole states, or their hashes only"
    )
    given = parser.parse_args()
    sys.stdout, sys.stderr = Guarded(sys.stdout), Guarded(sys.stderr)
    return run_trace(sys.stdin.buffer, sys.stdout, sys.stderr, given.profile, given.states)


if __name__ == "__main__":
    sys.exit(main())
