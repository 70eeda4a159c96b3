"""Known failures: a message of one sentence for the user, and an exit code for the scheduler (docs/reference.md lists them).

A message, as any text for people, has nothing that steers who shows it: no escape sequence, no mark of direction.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\u00a1-\u00ac\u00ae-\u05ff]")


def printable(text: str, keep: str = "") -> str:
    r"""Return `text` with what is not printable (ESC, C1, marks of direction ...) as \uXXXX: JSON stays what it was."""

    def escaped(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep or found[0].isprintable() else json.dumps(found[0])[1:-1]

    return _UNPRINTABLE.sub(escaped, text)


def shortened(text: str, most: int) -> str:
    """Return a text printable, and cut where it is longer than `most`."""
    shown = printable(text[: most + 1])  # which no text becomes shorter by
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def time_left(seconds: float) -> str:
    """Return in words how long something will still take."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"about {seconds:.0f} s left"
    return f"about {minutes} min left" if minutes < 100 else f"about {minutes // 60} h {minutes % 60} min left"


def nobody(*_: object) -> None:
    """Tell nobody."""


EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INPUT, EXIT_GATE, EXIT_BUSY, EXIT_UNPUBLISHED = 0, 1, 2, 3, 4, 5, 6
EXIT_MISSING_DAY, EXIT_TAMPERED, EXIT_LAYOUT, EXIT_DISK_FULL, EXIT_CLOCK, EXIT_ONGOING = 7, 8, 9, 10, 11, 12
EXIT_NO_INPUT, EXIT_MISMATCHED, EXIT_UNTOLD = 13, 14, 15
EXIT_INTERRUPTED = 130  # as shells have it: 128 + SIGINT
FROM_BACKUP: Final = "Bring the table's folder back from a backup"
AS_KEPT: Final = "Take the one that was kept"


class JobError(Exception):
    """A known failure."""

    exit_code: int = EXIT_FAILED

    @property
    def sentence(self) -> str:
        """Return the message for the user."""
        return str(self)


class UsageError(JobError):
    """A wrong argument. `instead`: how the sentence goes on where commands can be typed, which is what else to type."""

    exit_code = EXIT_USAGE

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.instead = instead

    @property
    def sentence(self) -> str:
        """Return the message for the user."""
        return f"{self}{self.instead}"


class ConfError(UsageError):
    """An unknown key, or an impossible value, in the configuration."""


class GateError(JobError):
    """A critical rule is broken; nothing was published. `is_of_files`: the content of an input file may be the cause."""

    exit_code = EXIT_GATE

    def __init__(self, message: str, *, is_of_files: bool = False) -> None:
        super().__init__(message)
        self.is_of_files = is_of_files

    @property
    def sentence(self) -> str:
        """Return the message for the user."""
        return f"the quality gate refused: {self}. Nothing was published."


class PublishedError(JobError):
    """A step after publication failed; the run itself is published."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class WarehouseBusyError(JobError):
    """Another run is writing to the same warehouse."""

    exit_code = EXIT_BUSY


class NothingPublishedError(JobError):
    """There is no published run to read from."""

    exit_code = EXIT_UNPUBLISHED


class NoLongerReadableError(JobError):
    """Maintenance has deleted a version that a run had pinned."""

    exit_code = EXIT_UNPUBLISHED


class MissingDayError(JobError):
    """Nothing is recorded on the requested day."""

    exit_code = EXIT_MISSING_DAY


class NotRecordedError(MissingDayError):
    """Nothing is recorded at the requested instant."""


class TamperedError(JobError):
    """Rows on disk differ from those that a published run read or wrote, or cannot be read.

    `message`: what is wrong, and where; `remedy`: how to restore it.
    """

    exit_code = EXIT_TAMPERED

    def __init__(self, message: str, remedy: str = FROM_BACKUP) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}"


class BrokenLogError(TamperedError):
    """A Delta log lacks a commit, or has one that cannot be read."""


class TableFeatureError(TamperedError):
    """A table has a Delta feature, enabled by somebody else, that this software cannot read or write."""


class LedgerBehindError(TamperedError):
    """The ledger lacks a published run, or differs from `last_run.json`."""


class LayoutError(JobError):
    """The warehouse has the layout of another version of this software."""

    exit_code = EXIT_LAYOUT


class ClockError(JobError):
    """The clocks of all input captures jump back too far (`late.limit_days`)."""

    exit_code = EXIT_CLOCK


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


# -- known failures of the system: a full disk, a file without permission -----------------------------------------------

_NO_SPACE = "No space left on device"
_NOT_ALLOWED = ("Permission denied", "Read-only file system", "Operation not permitted")
NOTHING_PUBLISHED = "Nothing was published"
PUBLISHED = "The run is published all the same, and readers see it; the next one makes up for what is missing"


def known_failure(
    error: BaseException, warehouse: str | None, outcome: str = NOTHING_PUBLISHED
) -> tuple[str, int] | None:
    """Return the message for a failure and its exit code; None if it is not known. `outcome`: what became of the run."""
    if isinstance(error, JobError):
        return error.sentence, error.exit_code
    if isinstance(error, FileNotFoundError):
        return str(error), EXIT_USAGE
    if full := full_disk(error, warehouse, outcome):
        return full, EXIT_DISK_FULL
    refused = not_allowed(error, outcome)
    return None if refused is None else (refused, EXIT_USAGE)


def full_disk(error: BaseException, warehouse: str | None, outcome: str = NOTHING_PUBLISHED) -> str | None:
    """Return a sentence that names the disk, if a full one caused `error`; else None."""
    texts = [text for text in _texts_of(error) if _NO_SPACE in text]
    if not texts:
        return None
    import tempfile  # noqa: PLC0415  `ask` starts without this import

    temporary = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
    folders = [str(Path(folder).resolve()) for folder in (warehouse, temporary) if folder]
    named = [place for place in (*folders, "<stdout>", "<stderr>") if any(place in text for text in texts)]
    # If one folder lies within the other, name the inner one.
    named = [folder for folder in named if not any(other.startswith(f"{folder}/") for other in named)]
    shown = " or ".join(f"{folder} ({_free_mib(folder)} MiB free)" for folder in named or folders)
    return f"the disk of {shown} is full. {outcome}; make room and run the same again"


def not_allowed(error: BaseException, outcome: str = NOTHING_PUBLISHED) -> str | None:
    """Return a sentence if `error` says that a file may not be read or written; else None."""
    found = next((text for text in _texts_of(error) if any(word in text for word in _NOT_ALLOWED)), None)
    return None if found is None else f"{found.strip().splitlines()[0]}. {outcome}"


def _free_mib(folder: str) -> int:
    """Return the free space now; a failed run has already removed its temporary files."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize >> 20


def _texts_of(error: BaseException | None) -> Iterator[str]:
    """Yield the texts of an exception and its causes. PySpark's text contains those of the JVM and its tasks."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            yield f"{_NO_SPACE}: {error.filename or ''}"
        yield str(error)
        yield str(getattr(error, "_stackTrace", ""))
        error = error.__cause__ or error.__context__
