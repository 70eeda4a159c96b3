"""The lock on a warehouse: one run at a time writes."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from jobs.errors import UsageError, WarehouseBusyError
from jobs.store.places import local_path, require_store

_FILE = ".lease"


@contextmanager
def locked(warehouse: str) -> Iterator[None]:
    """Hold the warehouse for writing. Raises WarehouseBusyError, which names the holder, if another run holds it.

    Delta's commits on a plain file system are not safe between processes, so one run at a time writes. The system takes
    the lock back when its holder dies, however it dies. On a remote file system the scheduler must see to it; a commit on
    a table that somebody else has changed is refused there, too. Raises UsageError if the store does not answer.
    """
    path = local_path(warehouse)
    if path is None:
        require_store(warehouse)
        yield
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
        opened = (path / _FILE).open("a+", encoding="utf-8")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise UsageError(f"{warehouse}: cannot be written: {error.strerror}") from error
    with opened as file:
        _take(file, fcntl.LOCK_EX, warehouse)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


@contextmanager
def read_locked(warehouse: str) -> Iterator[None]:
    """Keep runs from writing while the warehouse is read, also where it cannot be written to. Raises WarehouseBusyError."""
    path = local_path(warehouse)
    if path is None:
        require_store(warehouse)
    if path is None or not (path / _FILE).is_file():
        yield
        return
    with (path / _FILE).open(encoding="utf-8") as file:
        _take(file, fcntl.LOCK_SH, warehouse)
        yield


def _take(file: TextIO, kind: int, warehouse: str) -> None:
    file.seek(0)
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise WarehouseBusyError(f"{warehouse}: {_held(file.read())} this warehouse") from error


def _held(said: str) -> str:
    """Return who holds the lock; what a process has said that is dead by now is not believed."""
    found = re.fullmatch(r"process (\d+) on (.+)\n", said)
    if found is None or (found[2] == socket.gethostname() and not _is_alive(int(found[1]))):
        return "another run, or a check, is at work on"
    return f"{said.strip()} is writing to"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
