"""The trace job: events in, results and states out, one JSON object a line; no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TextIO

from namesrv_core.trace.trace import TraceError, replayed

EXIT_OK, EXIT_USAGE = 0, 2


def run_trace(lines: Iterable[bytes], out: TextIO, err: TextIO, profile: str | None, states: str) -> int:
    """Write the result of each line; a malformed line ends the run with its number and exit code 2."""
    try:
        records = replayed(lines, profile, states=states == "full")
        out.writelines(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)
    except TraceError as error:
        out.flush()
        err.write(f"namesrv-history: {error}\n")
        return EXIT_USAGE
    return EXIT_OK
