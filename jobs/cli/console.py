"""What a person sees: progress that moves on a terminal and is plain lines elsewhere, and tables of text."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from jobs.cli.output import Guarded, write_table
from jobs.printable import printable

_EVERY_S = 60


class Console:
    """Writes progress to `err` and results to `out`."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self._moves = self.err.isatty()
        self._told = time.monotonic()
        self._terminal = self.err.stream if isinstance(self.err, Guarded) else self.err

    def begin(self, step: str) -> None:
        """Say that a step has begun."""
        if self._moves:
            self._terminal.write(f"\r\033[K{step} ...")
        self._terminal.flush()

    def progress(self, text: str) -> None:
        """Say how far the step is; where nothing moves, once a minute."""
        now = time.monotonic()
        if self._moves:
            self._terminal.write(f"\r\033[K{text}")
        elif now - self._told >= _EVERY_S:
            self._told = now
            self._terminal.write(f"{text}\n")
        self._terminal.flush()

    def end(self, step: str, seconds: float) -> None:
        """Say that a step has ended."""
        start = "\r\033[K" if self._moves else ""
        self._terminal.write(f"{start}{step:<10} {seconds:6.1f} s\n")
        self._terminal.flush()

    def line(self, text: str = "") -> None:
        """Write one line of result."""
        self.out.write(printable(text) + "\n")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Write rows under their header, columns aligned."""
        write_table(self.out, header, rows)

    def counts(self, title: str, counts: Mapping[str, int]) -> None:
        """Write a title and the counts under it."""
        self.line(title)
        width = max((len(name) for name in counts), default=0)
        for name, count in counts.items():
            self.line(f"  {name.ljust(width)}  {count:>9,}")
