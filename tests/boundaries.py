"""Where a run can be made to die, to prove that the next one makes good what it left: `step:before` and `step:after`.

Steps are the names of tables, of which each is committed in one step, `ledger`, the writing of the run's row, and
`history.duckdb`; of a night also those that it shows.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from jobs.store.published import HISTORY
from jobs.store.warehouse import Warehouse
from schemas.table import Table


class CrashError(BaseException):
    """Stands for the end of the process."""


def killed_at(point: str) -> None:
    """Have this process killed at a boundary, as a power cut would end it."""

    def passed(at: str) -> None:
        if at == point:
            os.kill(os.getpid(), signal.SIGKILL)

    at_commits(pytest.MonkeyPatch(), passed)


def at_commits(patched: pytest.MonkeyPatch, passed: Callable[[str], None]) -> None:
    """Call `passed` with each boundary of what warehouses commit."""
    committed, note_run, write_history = Warehouse._committed, Warehouse.note_run, Warehouse.write_history

    def around_table(warehouse: Warehouse, table: Table) -> int:
        with _around(table.name, passed):
            return committed(warehouse, table)

    def around_ledger(warehouse: Warehouse, *said: Any) -> None:
        with _around("ledger", passed):
            note_run(warehouse, *said)

    def around_history(warehouse: Warehouse) -> None:
        with _around(HISTORY, passed):
            write_history(warehouse)

    patched.setattr(Warehouse, "_committed", around_table)
    patched.setattr(Warehouse, "write_history", around_history)
    patched.setattr(Warehouse, "note_run", around_ledger)


def at_steps(patched: pytest.MonkeyPatch, passed: Callable[[str], None]) -> None:
    """Call `passed` with each boundary of the steps of nights, and of what they commit."""
    from jobs.night import nightly  # noqa: PLC0415  a store is tested without nights

    timed = nightly.timed

    @contextmanager
    def around_step(*given: Any) -> Iterator[None]:
        with timed(*given), _around(given[-1], passed):
            yield

    patched.setattr(nightly, "timed", around_step)
    at_commits(patched, passed)


@contextmanager
def _around(step: str, passed: Callable[[str], None]) -> Iterator[None]:
    passed(f"{step}:before")
    yield
    passed(f"{step}:after")


def nightly_killed_at(point: str, warehouse: Path, log: Path, *, is_whole: bool) -> None:
    """Run the command `nightly` in this process, without a word, and be killed at a boundary.

    Unless it is whole, Great Expectations judges nothing, and no pages are drawn.
    """
    from jobs.cli import pages  # noqa: PLC0415  a store is tested without commands
    from jobs.night import gate  # noqa: PLC0415  as above
    from tests.night.nights import counted, nightly  # noqa: PLC0415  as above

    killed_at(point)
    if not is_whole:
        patched = pytest.MonkeyPatch()
        patched.setattr(gate, "validate", counted)
        patched.setattr(pages, "write_pages", lambda *_, **__: None)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        sys.exit(nightly(warehouse, "--input", log))
