"""`sql` at a terminal: a session that stays open, with its history, the names of what there is, and how long answers took."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from jobs.cli import report
from jobs.cli.console import Console
from jobs.cli.views import Views
from jobs.errors import JobError

_PROMPT, _MORE = "sql> ", "...> "
_LEAVE = frozenset({"exit", "quit", r"\q"})
_HELP = "statements end with ;  TABLES lists the names, DESCRIBE one of them its columns, EXIT or Ctrl-D leaves"


def shell(
    views: Callable[[], Views], given: argparse.Namespace, console: Console, read: Callable[[str], str] = input
) -> None:
    """Read statements from a terminal and answer each; a mistake is told, and the next one may be asked.

    `views` gives the session when the first question needs it; `read` shows a prompt and returns a line.
    """
    console.line(_HELP)
    with _history():
        for text in _asked(read):
            began = time.monotonic()
            wanted = "SHOW TABLES" if text.strip(" ;").lower() == "tables" else text
            try:
                session = views()
                session.register(wanted)
                report.show_sql(session.spark, report.statements_of(wanted), session, given, console)
            except JobError as error:
                console.line(error.sentence)
            except KeyboardInterrupt:
                console.line("stopped")
            console.line(f"{time.monotonic() - began:.2f} s")


def _asked(read: Callable[[str], str]) -> Iterator[str]:
    """Yield what is asked, each as soon as a line ends its last statement."""
    text = ""
    while True:
        try:
            line = read(_MORE if text else _PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            text = ""
            continue
        word = line.strip(" ;").lower()
        if not text and word in _LEAVE:
            return
        text = f"{text}\n{line}" if text else line
        if word == "tables" or not report.is_open(text):
            if report.statements_of(text):
                yield text
            text = ""


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Have the lines of earlier sessions at hand, and keep those of this one, where there is a line editor."""
    try:
        import readline  # noqa: PLC0415  not on every system
    except ImportError:
        yield
        return
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "namesrv-history"
    file = folder / "sql_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_history_length(1_000)
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)
