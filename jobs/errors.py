"""Every failure that is known: its message is one sentence for a person, its exit code is for whoever started the run."""

from __future__ import annotations

from typing import Final

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INPUT, EXIT_GATE, EXIT_BUSY, EXIT_UNPUBLISHED = 0, 1, 2, 3, 4, 5, 6
EXIT_MISSING_DAY, EXIT_TAMPERED, EXIT_LAYOUT, EXIT_DISK_FULL, EXIT_CLOCK, EXIT_ONGOING = 7, 8, 9, 10, 11, 12
EXIT_NO_INPUT, EXIT_MISMATCHED = 13, 14
FROM_BACKUP: Final = "Bring the table's folder back from a backup"


class JobError(Exception):
    """A known failure."""

    exit_code: int = EXIT_FAILED

    @property
    def sentence(self) -> str:
        """Return what the user is told."""
        return str(self)


class UsageError(JobError):
    """An argument that cannot be."""

    exit_code = EXIT_USAGE


class ConfError(UsageError):
    """A configuration that says something unknown or impossible."""


class SnapshotUnknownError(UsageError):
    """The tables do not say what the name server held at the instant."""


class GateError(JobError):
    """Critical rules are broken; nothing was published. `is_of_files`: what some file says may be why."""

    exit_code = EXIT_GATE

    def __init__(self, said: str, *, is_of_files: bool = False) -> None:
        super().__init__(said)
        self.is_of_files = is_of_files

    @property
    def sentence(self) -> str:
        """Return what the user is told."""
        return f"the quality gate refused: {self}. Nothing was published."


class PublishedError(JobError):
    """What could not be done behind a run that is published."""

    def __init__(self, said: str, exit_code: int) -> None:
        super().__init__(said)
        self.exit_code = exit_code


class WarehouseBusyError(JobError):
    """Another run is writing to the same warehouse."""

    exit_code = EXIT_BUSY


class NothingPublishedError(JobError):
    """There is no published run to read from."""

    exit_code = EXIT_UNPUBLISHED


class NoLongerReadableError(JobError):
    """Maintenance has deleted what a run had pinned."""

    exit_code = EXIT_UNPUBLISHED


class MissingDayError(JobError):
    """A day was asked for on which nothing is recorded."""

    exit_code = EXIT_MISSING_DAY


class NotRecordedError(MissingDayError):
    """An instant was asked for of which nothing is recorded."""


class TamperedError(JobError):
    """Rows on disk are not those that a published run read or wrote, or cannot be read.

    `said`: what is wrong, and where; `remedy`: what brings it back.
    """

    exit_code = EXIT_TAMPERED

    def __init__(self, said: str, remedy: str = FROM_BACKUP) -> None:
        super().__init__(said)
        self.said, self.remedy = said, remedy

    def __str__(self) -> str:
        return f"{self.said}. {self.remedy}"


class BrokenLogError(TamperedError):
    """A Delta log lacks a commit that it must have, or has one that cannot be read."""


class TableFeatureError(TamperedError):
    """Somebody gave a table a feature with which it is more than its files, or that nobody but him can write."""


class LedgerBehindError(TamperedError):
    """The ledger lacks a run that was published, or says something else of it than was noted outside the ledger."""


class CompactionError(TamperedError):
    """Compaction has changed rows."""


class LayoutError(JobError):
    """The warehouse was written by a version of this software that lays it out otherwise."""

    exit_code = EXIT_LAYOUT


class ClockError(JobError):
    """A source's clock goes back by more than it may, and there was nothing else to read."""

    exit_code = EXIT_CLOCK


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
