"""Prints what mutmut found, module by module, and names the survivors; reads what it left in mutants/."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SURVIVED = {0, 5, 33}  # exit codes of pytest and mutmut: all tests passed, or no test reaches the line


def main() -> None:
    """Print a line for each module, the total, and the survivors' names."""
    total: Counter[str] = Counter()
    survivors = []
    for path in sorted((ROOT / "mutants" / "namesrv_core").rglob("*.meta")):
        codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        run = {name: code for name, code in codes.items() if code is not None}
        alive = sorted(name for name, code in run.items() if code in SURVIVED)
        if run:
            report(path.name.removesuffix(".py.meta"), len(run), len(alive))
        total += Counter(mutants=len(run), alive=len(alive))
        survivors += alive
    report("total", total["mutants"], total["alive"])
    sys.stdout.writelines(f"survived: {name}\n" for name in survivors)


def report(module: str, mutants: int, alive: int) -> None:
    """Print one line of figures."""
    killed = mutants - alive
    sys.stdout.write(f"{module:<16}{killed:>5} of {mutants:>5} killed  {100 * killed / max(mutants, 1):6.1f} %\n")


if __name__ == "__main__":
    main()
