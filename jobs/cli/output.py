"""What leaves a command: text in which nothing steers a terminal, its progress, and rows as a table, JSON lines or CSV.

`Guarded` is the one place through which all that a command prints or logs goes. Files get what is so.
"""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from jobs.errors import UsageError
from jobs.printable import printable

FORMS = ("table", "json", "csv", "spreadsheet")
# What a cell begins with that a spreadsheet takes for a formula, whatever blanks it leaves out before.
_FORMULA = re.compile(r"\s*[=+\-@]")
_CELL_CHARS = 60
_TABLE_ROWS = 1_000
_EVERY_S = 60


class Guarded(io.TextIOBase):
    """A stream to which text is written with `printable`, line ends and tabs as they are."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        self.stream.write(printable(text, keep="\n\t"))
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        self.stream.flush()

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self.stream.fileno()


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


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a file for text, compressed if its name ends in .gz; it is there whole or not at all. Raises UsageError."""
    is_regular = path.is_file() or not path.exists()
    part = path.with_name(f".{path.name}.{os.getpid()}") if is_regular else path
    try:
        import gzip  # noqa: PLC0415  a question, whose answer is mostly shown, does not wait for it

        compressed = path.suffix == ".gz"
        file = (gzip.open if compressed else open)(part, "wt", encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as error:
        raise UsageError(f"output {path}: cannot be written: {error.strerror or error}") from error
    try:
        with file:
            yield file
        if is_regular:
            part.replace(path)
    except BaseException:
        if is_regular:
            part.unlink(missing_ok=True)
        raise


# -- rows ------------------------------------------------------------------------------------------------------------


def write_rows(
    out: TextIO, form: str, names: Sequence[str], rows: Iterable[Sequence[object]], limit: int | None = None
) -> bool:
    """Write rows, at most `limit`, in one of `FORMS`; return whether there were more.

    A table shows 1,000 unless `limit` says otherwise, the other forms all. `spreadsheet` is CSV in which a text that could be a
    formula has an apostrophe before it; CSV gives each as it is. Values are those of Spark or of DuckDB: instants,
    UTC if they have no zone, become ISO 8601 with Z; what is nested becomes JSON.
    """
    most = _TABLE_ROWS if limit is None and form == "table" else limit
    left = iter(rows)
    shown = itertools.islice(left, most)
    if form == "json":
        out.writelines(_json(dict(zip(names, row, strict=True))) + "\n" for row in shown)
    elif form in ("csv", "spreadsheet"):
        import csv  # noqa: PLC0415  likewise

        of = _text if form == "csv" else _harmless
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([None if value is None else of(value) for value in row] for row in shown)
    else:
        some = list(shown)
        write_table(out, names, some)
        is_cut = next(left, None) is not None
        out.write(f"  ({len(some)} row(s){', more not shown' if is_cut else ''})\n")
        return is_cut
    return next(left, None) is not None


def write_table(out: TextIO, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows under their header, columns aligned."""
    cells = [[_cell(value) for value in row] for row in [names, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    for number, row in enumerate(cells):
        out.write("  " + "  ".join(map(str.ljust, row, widths)).rstrip() + "\n")
        if number == 0:
            out.write("  " + "  ".join("-" * width for width in widths) + "\n")


def _cell(value: object) -> str:
    text = printable("NULL" if value is None else _text(value))
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"


def _text(value: object) -> str:
    found = plain(value)
    return found if isinstance(found, str) else _json(found)


def _harmless(value: object) -> str:
    """Return the text of a value; a spreadsheet takes it for no formula."""
    text = _text(value)
    return f"'{text}" if isinstance(value, str) and _FORMULA.match(text) else text


def _json(value: object) -> str:
    return printable(json.dumps(plain(value), ensure_ascii=False))


def plain(value: object) -> object:
    """Return a value as JSON knows it."""
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
        return f"{aware.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat()}Z"
    if isinstance(value, tuple) and hasattr(value, "asDict"):  # a struct of Spark
        value = value.asDict()
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else _text(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
