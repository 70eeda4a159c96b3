"""Nights in a row in one process: none takes more memory, files or time than those before. The seeds are the nights, from 0."""

from __future__ import annotations

import datetime as dt
import os
import resource
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from jobs.store.check import check
from jobs.store.maintain import maintain
from tests.ingest.given import warehouse_at
from tests.night.nights import night
from tests.night.three_days import MONTH_MS, beat, registration, write_log

FIRST = dt.date(2025, 1, 1)
WARM, CARE = 6, 3
"""Nights after which all that is read once is in memory; nights from one maintenance to the next, of which so many are compared."""


class Taken(NamedTuple):
    """What a night has taken: memory and open files after it, files that it left in the warehouse, seconds of CPU."""

    mib: float
    open_files: int
    files: int
    seconds: float


@cache
def place() -> tuple[Path, list[Taken]]:
    """Return the warehouse of all nights, and what they have taken."""
    return Path(mkdtemp(prefix="namesrv-soak-")), []


def soak(seed: int, _: Path) -> tuple[str, str]:
    """Run the next night, on a day of its own; the least of what the last ones took is compared with that of some before."""
    path, taken = place()
    day = FIRST + dt.timedelta(days=seed)
    hours = [f"{hour:02}:00:00" for hour in range(1, 24)]
    lines = [registration(f"broker-{name}", f"00:30:0{n}", f"T{name}", MONTH_MS) for n, name in enumerate("abc")]
    lines += [beat(at) for at in hours]
    if not seed:
        lines.insert(0, {"kind": "namesrv", "time": "00:00:01", "event": "started"})
    log = write_log(path, day, lines)
    before, began = _files(path / "w"), time.process_time()
    said = night(path / "w", log)
    seconds = time.process_time() - began
    log.unlink()
    if said.status != "published":
        return "silent", f"night {seed}: {said.status}: {said.errors}"
    taken.append(Taken(_mib(), sum(1 for _ in Path("/proc/self/fd").iterdir()), _files(path / "w") - before, seconds))
    if seed % CARE == CARE - 1:
        maintain(warehouse_at(path / "w", f"care-{seed}"), retain_days=0)
        if wrong := check(warehouse_at(path / "w")).wrong:
            return "silent", f"night {seed}: {wrong}"
    if len(taken) < WARM + CARE:
        return "survived", f"{taken[-1]}"
    first, last = (Taken(*map(min, zip(*of, strict=True))) for of in (taken[WARM - CARE : WARM], taken[-CARE:]))
    grown = {
        "memory": last.mib > 1.1 * first.mib + 16,
        "open files": last.open_files > first.open_files,
        "files": last.files > 1.1 * first.files + 2,
        "time": last.seconds > 1.5 * first.seconds,
    }
    more = [what for what, is_more in grown.items() if is_more]
    return ("silent" if more else "survived"), f"night {seed}: more {', '.join(more)}: {first} -> {last}"


def _mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def _files(path: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(path))
