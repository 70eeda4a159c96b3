"""A disk that is full, told from other failures."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

_SAYS_SO = "No space left on device"


def full_disk(error: BaseException, warehouse: str | None) -> str | None:
    """Return a sentence that names the disk, if `error` comes from a full one; None if it does not."""
    said = list(_said(error))
    if not any(_SAYS_SO in text for text in said):
        return None
    folders = [str(Path(folder).resolve()) for folder in (warehouse, *_temporary_folders()) if folder]
    named = [folder for folder in folders if any(folder in text for text in said if _SAYS_SO in text)]
    # Of a folder within another one the inner is meant.
    named = [folder for folder in named if not any(other.startswith(f"{folder}/") for other in named)]
    shown = " or ".join(f"{folder} ({_free_mib(folder)} MiB free)" for folder in named or folders)
    return f"the disk of {shown} is full. Nothing was published; make room and run the same again"


def _temporary_folders() -> list[str]:
    return [os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]]


def _free_mib(folder: str) -> int:
    """Return what is free now; a run that fails gives its temporary files back."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize >> 20


def _said(error: BaseException | None) -> Iterator[str]:
    """Yield what an exception and its causes say, Java's too."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            yield f"{_SAYS_SO}: {error.filename or ''}"
        yield str(error)
        # PySpark's own exceptions keep Java's causes as the text of their stack trace.
        yield str(getattr(error, "_stackTrace", ""))
        if isinstance(error, Py4JJavaError):
            yield from _said_by_java(error.java_exception)
        error = error.__cause__ or error.__context__


def _said_by_java(thrown: Any) -> Iterator[str]:
    while thrown is not None:
        yield str(thrown.toString())
        thrown = thrown.getCause()
