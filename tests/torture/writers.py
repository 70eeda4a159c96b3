"""Several writers of one warehouse, some stopped or killed while they hold it, and readers meanwhile: each reader sees one run.

A writer publishes, for each of its nights, what was published and its own row, in two tables: so a night that is lost, or doubled,
or half seen, is told by the rows.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from jobs.errors import WarehouseBusyError
from jobs.store.check import check
from jobs.store.lock import locked
from schemas import gold
from tests.store.tiny import DAY, EXPIRED, ONE, publish, put, removal, warehouse_at

_COLUMNS = {EXPIRED: "broker_name", gold.ROUTE_CHANGES: "topic"}


def writers(seed: int, folder: Path, count: int = 4, nights: int = 10) -> tuple[str, str]:
    """Have `count` writers publish so many nights each, and two readers look all the time; stop some writers, and kill one."""
    dice, path = random.Random(seed), folder / "w"
    assert list(write(path, "first", 1)) == ["first-0"]
    command = [sys.executable, "-m", "tests.torture.writers", str(path)]
    started = [subprocess.Popen([*command, f"w{number}", str(nights)], text=True, stdout=-1) for number in range(count)]
    readers = [subprocess.Popen(command, text=True, stdout=-1, stderr=-1) for _ in range(2)]
    doomed = dice.choice(started)
    while any(writer.poll() is None for writer in started):
        time.sleep(dice.uniform(0.05, 0.5))
        one = dice.choice(started)
        with contextlib.suppress(ProcessLookupError):
            if one is doomed and dice.random() < 0.2:
                one.kill()
            elif one.poll() is None:
                one.send_signal(signal.SIGSTOP)
                time.sleep(dice.uniform(0.05, 0.3))
                one.send_signal(signal.SIGCONT)
    told = [(writer.communicate()[0].split(), writer.returncode) for writer in started]
    for reader in readers:
        reader.terminate()
    looked = [reader.communicate() for reader in readers]
    said = {name for names, _ in told for name in names}
    found = seen(path)
    wrong = [f"a writer ended with {code}" for _, code in told if code not in (0, -signal.SIGKILL)]
    wrong += [error for _, error in looked if error]
    # Whoever is killed may have published a night and not have said it.
    unsaid = set(found) - said - {"first-0"}
    if said - set(found) or len(unsaid) > 1 or len(found) != len(set(found)):
        wrong.append(f"lost: {sorted(said - set(found))}; not said: {sorted(unsaid)}; {len(found)} rows")
    wrong += check(warehouse_at(path)).wrong
    looks = sum(len(output.split()) for output, _ in looked)
    return ("silent" if wrong else "survived"), f"{len(found)} nights, {looks} looks {' | '.join(wrong)}"


def write(path: Path, name: str, nights: int) -> Iterator[str]:
    """Publish so many nights, each when nobody else writes, and yield which."""
    for number in range(nights):
        row = f"{name}-{number}"
        while True:
            with contextlib.suppress(WarehouseBusyError), locked(str(path)):
                warehouse = warehouse_at(path, row)
                warehouse.start_from_published()
                names = [*warehouse.rows(EXPIRED)["broker_name"].to_pylist(), row]
                put(warehouse, EXPIRED, DAY, *(removal(one) for one in names))
                put(warehouse, gold.ROUTE_CHANGES, DAY, *({"namesrv_id": ONE, "topic": one} for one in names))
                warehouse.commit()
                publish(warehouse, [DAY])
                break
            time.sleep(random.uniform(0.01, 0.1))
        yield row


def seen(path: Path) -> list[str]:
    """Return the nights that a reader sees. Raises AssertionError if two tables tell of different ones."""
    warehouse = warehouse_at(path)
    found = [sorted(warehouse.published_rows(table)[name].to_pylist()) for table, name in _COLUMNS.items()]
    assert found[0] == found[1], f"one table is of {len(found[0])} nights, the other one of {len(found[1])}"
    return found[0]


def look(path: Path) -> None:
    """Look again and again, until this process is ended: each time there is what there was before, and perhaps more."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    before: set[str] = set()
    while True:
        now = set(seen(path))
        assert before <= now, f"gone: {before - now}"
        before = now
        print(len(now), flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    if sys.argv[2:]:
        for published in write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])):
            print(published, flush=True)
    else:
        look(Path(sys.argv[1]))
