"""Failures that are known, and what is said of them: a disk that is full, or a file that may not be written, among others."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from jobs.errors import EXIT_DISK_FULL, EXIT_USAGE, JobError

_SAYS_SO = "No space left on device"
_NOT_ALLOWED = ("Permission denied", "Read-only file system", "Operation not permitted")


NOTHING_PUBLISHED = "Nothing was published"
PUBLISHED = "The run is published all the same, and readers see it; the next one makes up for what is missing"


def known_failure(
    error: BaseException, warehouse: str | None, outcome: str = NOTHING_PUBLISHED
) -> tuple[str, int] | None:
    """Return what a person is told of a failure, and its exit code; None if it is not known. `outcome`: what came of the run."""
    if isinstance(error, JobError):
        return error.sentence, error.exit_code
    if isinstance(error, FileNotFoundError):
        return str(error), EXIT_USAGE
    if full := full_disk(error, warehouse, outcome):
        return full, EXIT_DISK_FULL
    refused = not_allowed(error, outcome)
    return None if refused is None else (refused, EXIT_USAGE)


def full_disk(error: BaseException, warehouse: str | None, outcome: str = NOTHING_PUBLISHED) -> str | None:
    """Return a sentence that names the disk, if `error` comes from a full one; None if it does not."""
    said = [text for text in _said(error) if _SAYS_SO in text]
    if not said:
        return None
    import tempfile  # noqa: PLC0415  who asks a question does not wait for it

    temporary = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
    folders = [str(Path(folder).resolve()) for folder in (warehouse, temporary) if folder]
    named = [folder for folder in folders if any(folder in text for text in said)]
    # Of a folder within another one the inner is meant.
    named = [folder for folder in named if not any(other.startswith(f"{folder}/") for other in named)]
    shown = " or ".join(f"{folder} ({_free_mib(folder)} MiB free)" for folder in named or folders)
    return f"the disk of {shown} is full. {outcome}; make room and run the same again"


def not_allowed(error: BaseException, outcome: str = NOTHING_PUBLISHED) -> str | None:
    """Return a sentence if `error` says that a file may not be read or written; None if it does not."""
    said = next((text for text in _said(error) if any(word in text for word in _NOT_ALLOWED)), None)
    return None if said is None else f"{said.strip().splitlines()[0]}. {outcome}"


def _free_mib(folder: str) -> int:
    """Return what is free now; a run that fails gives its temporary files back."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize >> 20


def _said(error: BaseException | None) -> Iterator[str]:
    """Yield what an exception and its causes say; those of the JVM, and of its tasks, are in the text that PySpark makes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            yield f"{_SAYS_SO}: {error.filename or ''}"
        yield str(error)
        yield str(getattr(error, "_stackTrace", ""))
        error = error.__cause__ or error.__context__
