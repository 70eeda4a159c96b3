"""What a person sees: progress that moves on a terminal and is plain lines elsewhere, and tables of text."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

_CELL_CHARS = 60


class Console:
    """Writes progress to `err` and results to `out`."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self._moves = self.err.isatty()

    def begin(self, step: str) -> None:
        """Say that a step has begun."""
        if self._moves:
            self.err.write(f"\r\033[K{step} ...")
        self.err.flush()

    def end(self, step: str, seconds: float) -> None:
        """Say that a step has ended."""
        start = "\r\033[K" if self._moves else ""
        self.err.write(f"{start}{step:<10} {seconds:6.1f} s\n")
        self.err.flush()

    def line(self, text: str = "") -> None:
        """Write one line of result."""
        self.out.write(text + "\n")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Write rows under their header, columns aligned."""
        cells = [[_cell(value) for value in row] for row in [header, *rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
        for number, row in enumerate(cells):
            self.line("  " + "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip())
            if number == 0:
                self.line("  " + "  ".join("-" * width for width in widths))

    def counts(self, title: str, counts: Mapping[str, int]) -> None:
        """Write a title and the counts under it."""
        self.line(title)
        width = max((len(name) for name in counts), default=0)
        for name, count in counts.items():
            self.line(f"  {name.ljust(width)}  {count:>9,}")


def printable(text: str) -> str:
    """Return `text` with control characters escaped: a name from the wire must not steer a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _cell(value: object) -> str:
    text = printable("NULL" if value is None else str(value))
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"
