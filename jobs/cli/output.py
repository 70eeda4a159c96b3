"""Output of commands: printable text, progress, and rows as a table, JSON lines or CSV.

All that a command prints or logs goes through `Guarded`, so that no recorded text can send control sequences to a terminal. Files
get texts unchanged.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from jobs.errors import UsageError, nobody, printable, shortened, time_left
from jobs.processes import meanwhile

FORMS = ("table", "json", "csv", "spreadsheet")
# The beginning of a cell that a spreadsheet takes for a formula; it ignores leading blanks.
_FORMULA = re.compile(r"\s*[=+\-@]")
_CELL_CHARS, _FOLDED_CHARS = 60, 2_000
# A column is not folded below its longest word, unless that is longer than an event's id.
_NARROWEST = 32
_TABLE_ROWS = 1_000
_EVERY_S, _PATIENCE_S, _LOOKED_EVERY_S = 60, 2, 0.2


class Guarded(io.TextIOBase):
    """A stream that makes text `printable`, except line ends and tabs. An error of it names it: `<stdout>`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        with self._named():
            self.stream.write(printable(text, keep="\n\t"))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with self._named():
            self.stream.flush()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self.stream.fileno()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = self.stream.name
            raise


class Console:
    """Writes progress to `err` and results to `out`."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self._shown_at = self._began = time.monotonic()
        self._terminal = self.err.stream if isinstance(self.err, Guarded) else self.err
        self._erased = "\r\033[K" if self.err.isatty() else ""

    def begin(self, step: str) -> None:
        """Show on a terminal that a step has begun."""
        self._began = time.monotonic()
        if self._erased:
            self._show(f"{step} ...")

    def share(self, done: float, of: int = 1) -> None:
        """Show the share of the step that is done, in equal parts, and the time left, once the step has taken two seconds.

        A log gets a line once a minute.
        """
        now = time.monotonic()
        took = now - self._began
        if took < _PATIENCE_S:
            return
        text = f"{done / of:.0%} done, {time_left(took * (of - done) / done)}" if done else f"{took:.0f} s so far"
        if self._erased:
            self._show(text)
        elif done and now - self._shown_at >= _EVERY_S:
            self._shown_at = now
            self._show(f"{text}\n")

    def erase(self) -> None:
        """Erase the progress from a terminal."""
        if time.monotonic() - self._began >= _PATIENCE_S:
            self._show("")

    def end(self, step: str, seconds: float) -> None:
        """Write a step with its seconds."""
        self._show(f"{step:<10} {seconds:6.1f} s\n")

    def _show(self, text: str) -> None:
        self._terminal.write(f"{self._erased}{text}")
        self._terminal.flush()

    def line(self, text: str = "") -> None:
        """Write one line of result."""
        self.out.write(printable(text) + "\n")

    def show(self, template: str, **values: Any) -> None:
        """Write a template of `jobs/cli/templates`; values are made printable, on one line; the filter `n` formats numbers."""
        from jinja2 import Environment, FileSystemLoader  # noqa: PLC0415  slow to import

        shown = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=False,  # noqa: S701  no HTML
            finalize=lambda value: printable(str(value)),
            keep_trailing_newline=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        shown.filters["n"] = "{:,}".format
        self.out.write(shown.get_template(template).render(values))


@contextmanager
def waiting(
    share: Callable[[], float | None] | None = None, err: TextIO | None = None
) -> Iterator[Callable[[float, int], None]]:
    """Show the progress of some work and the time left on a terminal, after two seconds.

    The progress comes from `share`, 0 to 1 (None: not known). Without `share`, the work calls the yielded function with the
    number of parts done, and of how many.
    """
    console = Console(err=err)
    if not console.err.isatty():
        yield nobody
        return
    try:
        if share is None:
            yield console.share
        else:
            with meanwhile(_LOOKED_EVERY_S, lambda: console.share(share() or 0)):
                yield nobody
    finally:
        console.erase()


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a text file, compressed if it ends in .gz; unless it is a link, it appears whole or not at all. Raises UsageError."""
    is_regular = not path.is_symlink() and (path.is_file() or not path.exists())  # never in place of /dev/stdout
    part = path.with_name(f".{path.name}.{os.getpid()}") if is_regular else path
    try:
        import gzip  # noqa: PLC0415  most answers are shown, not written

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


def width_of(out: TextIO) -> int | None:
    """Return the width of a terminal in columns; None: not a terminal, lines are not folded."""
    if not out.isatty():
        return None
    from rich.console import Console as Screen  # noqa: PLC0415  only for a terminal

    return Screen(file=out).width


def write_lines(out: TextIO, lines: Iterable[str], indent: int) -> None:
    """Write lines; a line too long for a terminal is folded and continues behind `indent` blanks; its first `indent` are ASCII."""
    width = width_of(out)
    if width is None:
        out.writelines(f"{line}\n" for line in lines)
        return
    from rich.cells import cell_len  # noqa: PLC0415  as above
    from rich.console import Console as Screen  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    screen = Screen(file=out)
    for line in map(printable, lines):
        if cell_len(line) <= width:
            out.write(f"{line}\n")
            continue
        before = line[:indent]
        for part in Text(line[indent:]).wrap(screen, max(1, width - indent), overflow="fold"):
            out.write(f"{before}{part.plain.rstrip()}\n")
            before = " " * indent


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

        def of(value: object) -> str:
            """Return the text of a value, such that a spreadsheet takes it for no formula."""
            is_formula = form == "spreadsheet" and isinstance(value, str) and _FORMULA.match(value)
            return f"'{_text(value)}" if is_formula else _text(value)

        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([None if value is None else of(value) for value in row] for row in shown)
    else:
        some = list(shown)
        if out.isatty():
            _folded(out, names, some)
        else:
            write_table(out, names, some)
        is_cut = next(left, None) is not None
        out.write(f"  ({len(some)} row(s){', more not shown' if is_cut else ''})\n")
        return is_cut
    return next(left, None) is not None


def write_table(out: TextIO, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows under their header, columns aligned, one row a line, for scripts."""
    cells = [[_cell(value, _CELL_CHARS) for value in row] for row in [names, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    out.writelines("  " + "  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in cells)


def _folded(out: TextIO, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows for a terminal: what is too long for its width is folded; one row, or rows too wide, are written as lists."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  only for a terminal
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.console import Console as Screen  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cells = [[_cell(value, _FOLDED_CHARS) for value in row] for row in [names, *rows]]
    screen = Screen(
        file=out, color_system=None
    )  # through `Guarded`, to which a colour is an escape sequence like others
    columns = list(zip(*cells, strict=True))
    least = [min(_NARROWEST, max(cell_len(word) for cell in of for word in cell.split() or [""])) for of in columns]
    spare = screen.width - sum(least) - 3 * len(least) - 1  # beside what is between columns
    is_upright = len(rows) == 1 or spare < 0
    more = [max(map(cell_len, of)) - width for of, width in zip(columns, least, strict=True)]
    share = min(1, spare / max(1, sum(more)))
    widths = [width + int(of * share) for width, of in zip(least, more, strict=True)]
    for row in cells[1:] if is_upright else [None]:
        shown = Table(box=None if row else SIMPLE_HEAD, padding=(0, 2, 0, 0), show_header=row is None, pad_edge=False)
        for name, width in [("", None), ("", None)] if row else zip(cells[0], widths, strict=True):
            shown.add_column(Text(name), overflow="fold", width=width, no_wrap=bool(row) and not shown.columns)
        for line in zip(cells[0], row, strict=True) if row else cells[1:]:
            shown.add_row(*map(Text, line))
        screen.print(shown, soft_wrap=False)
        if is_upright and len(rows) > 1:
            out.write("\n")


def _cell(value: object, most: int) -> str:
    return shortened("NULL" if value is None else _text(value), most)


def _text(value: object) -> str:
    found = plain(value)
    return found if isinstance(found, str) else _json(found)


def _json(value: object) -> str:
    return printable(json.dumps(plain(value), ensure_ascii=False))


def plain(value: object) -> object:
    """Return a value as JSON knows it."""
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
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
    return str(value)
