"""How a ratio is measured: both sides in one process, by turns, answers compared before a time counts.

Pure Python: what the sides do is not its business.
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
    """A ratio that was measured: what each side took in each round, in `unit`; the ratio is that of `over` to `under`.

    `bar`: at most, or with `at_least` at least. Further sides were taken in the same rounds and are judged by no bar.
    `answers`: how many things all sides agree on.
    """

    name: str
    over: str
    under: str
    values: dict[str, list[float]]
    bar: float
    at_least: bool = False
    unit: str = "s"
    answers: int | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Return the ratio of the medians."""
        return statistics.median(self.values[self.over]) / statistics.median(self.values[self.under])

    @property
    def best(self) -> float:
        """Return the ratio of the least times: what noise on the machine cannot have made."""
        return min(self.values[self.over]) / min(self.values[self.under])

    @property
    def is_met(self) -> bool:
        """Return whether the median meets the bar."""
        return self.median >= self.bar if self.at_least else self.median <= self.bar


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A ratio that could not be measured here, and why."""

    name: str
    why: str


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


def by_once(once: Side, side: Side, rounds: int) -> tuple[dict[str, list[float]], Answer]:
    """Return the seconds of both sides, and their answer; `once` is long enough for one round without one that does not count.

    Raises AnswersDifferError.
    """
    long, said = timed([once], 1, warm_up=False)
    seconds, again = timed([side], rounds)
    return {**long, **seconds}, _answers_of([(once.name, said), (side.name, again)])


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


def measured(
    name: str, sides: Sequence[Side], rounds: int, bar: float, *, at_least: bool = False, **notes: Any
) -> Ratio:
    """Measure the first side by the second; further sides are timed beside them."""
    seconds, answer = timed(sides, rounds)
    count = len(answer) if isinstance(answer, frozenset) else None
    return Ratio(name, sides[0].name, sides[1].name, seconds, bar, at_least, answers=count, notes=notes)


def machine() -> dict[str, Any]:
    """Return what the figures depend on: processor, cores, memory, versions, and how busy the machine is."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()  # noqa: S607
    packages = ("pyspark", "delta-spark", "pyarrow", "pandas", "great-expectations", "duckdb")
    return {
        "cpu": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": java[0] if java else "unknown",
        "load_average": [round(load, 1) for load in os.getloadavg()],
        **{package: _version_of(package) for package in packages},
    }


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def markdown(results: Sequence[Ratio | NotMeasured], about: Mapping[str, Any]) -> str:
    """Return the results as a document: a table of ratios, then the seconds of every side."""
    lines = ["# Benchmarks", "", *(f"- {key}: {value}" for key, value in about.items()), ""]
    lines += ["| ratio | bar | median | of least times | |", "|---|---|---|---|---|"]
    for result in results:
        if isinstance(result, NotMeasured):
            lines.append(f"| {result.name} | | | | not measured: {result.why} |")
        else:
            bar = f"{'≥' if result.at_least else '≤'} {result.bar:g}"
            met = "met" if result.is_met else "**not met**"
            lines.append(f"| {result.name} | {bar} | {result.median:.2f} | {result.best:.2f} | {met} |")
    lines += ["", "| ratio | side | median | least | | rounds |", "|---|---|---|---|---|---|"]
    for result in results:
        if isinstance(result, Ratio):
            for side, took in result.values.items():
                row = (
                    result.name,
                    side,
                    f"{statistics.median(took):.3f}",
                    f"{min(took):.3f}",
                    result.unit,
                    str(len(took)),
                )
                lines.append("| " + " | ".join(row) + " |")
    for result in results:
        if isinstance(result, Ratio) and result.notes:
            lines += ["", f"{result.name}: " + ", ".join(f"{key} {value}" for key, value in result.notes.items())]
    return "\n".join(lines) + "\n"


def as_json(results: Sequence[Ratio | NotMeasured], about: Mapping[str, Any]) -> str:
    """Return the results as JSON."""
    rows = [
        {**asdict(r), "median": r.median, "best": r.best, "is_met": r.is_met} if isinstance(r, Ratio) else asdict(r)
        for r in results
    ]
    return json.dumps({"about": dict(about), "results": rows}, indent=2, ensure_ascii=False, default=str) + "\n"
