"""Fails where the core's own tests cover less of it than they must: coverage's JSON report on standard input."""

from __future__ import annotations

import json
import sys

STATEMENTS, BRANCHES = 100.0, 98.0  # per cent


def main() -> None:
    """Print both figures; exit with 1 if one is below its bar."""
    totals = json.load(sys.stdin)["totals"]
    statements, branches = totals["percent_statements_covered"], totals["percent_branches_covered"]
    sys.stdout.write(
        f"namesrv_core: {statements:.2f} % of {totals['num_statements']} statements (bar: {STATEMENTS:.0f}), "
        f"{branches:.2f} % of {totals['num_branches']} branches (bar: {BRANCHES:.0f})\n"
    )
    sys.exit(statements < STATEMENTS or branches < BRANCHES)


if __name__ == "__main__":
    main()
