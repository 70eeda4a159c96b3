"""How a figure is measured: all sides in one run, by turns, answers compared before a time counts.

What the sides do is not its business.
"""

from __future__ import annotations

import gc
import importlib.metadata
import itertools
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Answer = Any
"""What a side found; sides with equal answers are equal under `==`. None: the side has nothing to say (a mere scan)."""


class AnswersDifferError(RuntimeError):
    """Two sides of a ratio do not say the same: their times mean nothing."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a ratio. `run` does the work and returns its answer; `before` puts things back first, untimed."""

    name: str
    run: Callable[[], Answer]
    before: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class Ratio:
    """What was measured: what each side took in each round, in `unit`; the figure is the ratio of `over` to `under`.

    `under` may be a number that was measured elsewhere, 1 for a figure that is none. `bar`: at most, or with `at_least` at
    least.
    """

    name: str
    over: str
    under: str | float
    values: Mapping[str, Sequence[float]]
    bar: float
    at_least: bool = False
    unit: str = "s"
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Return the ratio of the medians."""
        return self._by(statistics.median)

    @property
    def best(self) -> float:
        """Return the ratio of the least values: what noise on the machine cannot have made."""
        return self._by(min)

    @property
    def is_met(self) -> bool:
        """Return whether the median meets the bar."""
        return self.median >= self.bar if self.at_least else self.median <= self.bar

    def _by(self, one: Callable[[Sequence[float]], float]) -> float:
        return one(self.values[self.over]) / (one(self.values[self.under]) if self.under in self.values else self.under)  # type: ignore[index, operator]  # a name or a number


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A figure that could not be measured here, and why."""

    name: str
    why: str


Measured = Ratio | NotMeasured


def timed(sides: Sequence[Side], rounds: int, *, warm_up: bool = True) -> tuple[dict[str, list[float]], Answer]:
    """Return the seconds of each side in `rounds` rounds, after one that does not count (`warm_up`), and the answer of all.

    The order turns round with every round. Raises AnswersDifferError before any time counts if two answers differ, and
    after any round in which one has changed.
    """
    answer = _answers_of([(side.name, _run(side)[1]) for side in sides]) if warm_up else None
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(rounds):
        found = [("the first round", answer)]
        for side in sides if number % 2 else reversed(sides):
            took, said = _run(side)
            seconds[side.name].append(took)
            found.append((side.name, said))
        answer = _answers_of(found)
    return seconds, answer


def _run(side: Side) -> tuple[float, Answer]:
    side.before()
    gc.collect()
    began = time.perf_counter()
    answer = side.run()
    return time.perf_counter() - began, answer


def _answers_of(found: Sequence[tuple[str, Answer]]) -> Answer:
    said = [(name, answer) for name, answer in found if answer is not None]
    for (one, first), (other, second) in itertools.pairwise(said):
        if first != second:
            raise AnswersDifferError(f"{one} and {other} differ: {_difference(first, second)}")
    return said[0][1] if said else None


def _difference(one: Answer, other: Answer) -> str:
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        only_one, only_other = sorted(one - other), sorted(other - one)
        return f"{len(only_one)} only in the first, as {only_one[:2]}; {len(only_other)} only in the second, as {only_other[:2]}"
    return f"{one!r:.200} and {other!r:.200}"


def machine() -> dict[str, Any]:
    """Return what the figures depend on: processor, cores, memory, versions, and how busy the machine is."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()  # noqa: S607
    packages = ("pyspark", "delta-spark", "deltalake", "pyarrow", "pandas", "great-expectations", "duckdb")
    return {
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": java[0] if java else "unknown",
        "load_average": [round(load, 1) for load in os.getloadavg()],
        **{package: importlib.metadata.version(package) for package in packages},
    }


def markdown(results: Sequence[Measured], about: Mapping[str, Any]) -> str:
    """Return the results as a document: a table of figures, then what every side took."""
    lines = ["# Benchmarks", "", *(f"- {key}: {value}" for key, value in about.items()), ""]
    lines += ["| figure | bar | median | of least | |", "|---|---|---|---|---|"]
    sides, notes = [], []
    for result in results:
        if isinstance(result, NotMeasured):
            lines.append(f"| {result.name} | | | | not measured: {result.why} |")
            continue
        bar = f"{'≥' if result.at_least else '≤'} {result.bar:g}"
        cells = (result.name, bar, f"{result.median:.3g}", f"{result.best:.3g}")
        lines.append(f"| {' | '.join(cells)} | {'met' if result.is_met else '**not met**'} |")
        sides += [
            f"| {result.name} | {side} | {statistics.median(took):.3f} | {min(took):.3f} | {result.unit} | {len(took)} |"
            for side, took in result.values.items()
        ]
        notes += [f"\n{result.name}: {', '.join(f'{key} {value}' for key, value in result.notes.items())}"] * bool(
            result.notes
        )
    lines += ["", "| figure | side | median | least | | rounds |", "|---|---|---|---|---|---|", *sides, *notes]
    return "\n".join(lines) + "\n"


def as_json(results: Sequence[Measured], about: Mapping[str, Any]) -> str:
    """Return the results as JSON."""
    rows = [
        {**asdict(r), "median": r.median, "best": r.best, "is_met": r.is_met} if isinstance(r, Ratio) else asdict(r)
        for r in results
    ]
    return json.dumps({"about": dict(about), "results": rows}, indent=2, ensure_ascii=False, default=str) + "\n"
