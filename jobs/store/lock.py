"""The lock on a warehouse: one run at a time writes."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.errors import WarehouseBusyError
from jobs.store.files import local_path, require_store


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
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lease").open("a+", encoding="utf-8") as file:
        file.seek(0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = file.read().strip() or "another run"
            raise WarehouseBusyError(f"{warehouse}: {holder} is writing to this warehouse") from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
