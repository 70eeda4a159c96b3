"""Paths: on a local disk, or in an object store that has a URL."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.fs as pafs

from jobs.errors import UsageError, WarehouseBusyError, first_line
from jobs.store.published import delta_uri, path_of
from schemas.table import Table


def table_path(root: str, table: Table) -> str:
    """Return the path of `table`: `<root>/<layer>/<name>`."""
    return path_of(root, table.layer, table.name)


def local_path(path: str) -> Path | None:
    """Return `path` as a path on a local disk; None for a remote file system."""
    return None if "://" in path else Path(path)


def filesystem_of(path: str) -> tuple[Any, str]:
    """Return pyarrow's file system for `path`, and the path there. Raises UsageError for an unknown kind of URL."""
    local = local_path(path)
    if local is not None:
        return pafs.LocalFileSystem(), str(local)
    scheme, _, rest = delta_uri(path).partition("://")
    authority, _, place = rest.partition("/")
    try:
        system, root = _remote(f"{scheme}://{authority}")
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{scheme}://{authority}: cannot be reached: {first_line(error)}") from error
    return system, f"{root}/{place}" if place else root


_CHUNK = 8 << 20
_NEW_S = 60


class Stored(PosixPath):
    """An object of a store, readable like a file. Its path is its URL, `s3://bucket/key`; it is never on a local disk."""

    @classmethod
    def at(cls, url: str) -> Stored:
        """Return the object of a URL."""
        return cls(url)

    def __str__(self) -> str:
        """Return its URL: a path has no two slashes behind each other."""
        return super().__str__().replace(":/", "://", 1)

    def _place(self) -> tuple[Any, str]:
        return filesystem_of(str(self))

    def open(self, *_: Any, **__: Any) -> Any:
        """Return a stream that reads bytes on demand. Raises OSError."""
        system, place = self._place()
        return io.BufferedReader(system.open_input_file(place), _CHUNK)

    def stat(self, **_: Any) -> os.stat_result:
        """Return size and time of modification. Raises OSError."""
        system, place = self._place()
        found = system.get_file_info(place)
        if not found.is_file:
            raise FileNotFoundError(errno.ENOENT, "no such object", str(self))
        ns = found.mtime_ns or 0
        return os.stat_result((0, 0, 0, 0, 0, 0, found.size, 0, ns // 10**9, 0), {"st_mtime_ns": ns})

    def exists(self, **_: Any) -> bool:
        """Return whether there is such an object. Raises OSError if the store does not answer."""
        system, place = self._place()
        return bool(system.get_file_info(place).is_file)


def require_store(path: str) -> None:
    """Raise UsageError if the store of a remote `path` does not answer, or does not have the bucket."""
    system, place = filesystem_of(path)
    bucket = place.partition("/")[0]
    try:
        found = system.get_file_info(bucket)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be reached: {first_line(error)}") from error
    if found.type == pafs.FileType.NotFound:
        raise UsageError(f"{path}: there is no bucket {bucket}")


@lru_cache
def _remote(store: str) -> tuple[Any, str]:
    """Return the file system of a store, and its root there; cached, since it costs a request."""
    found: tuple[Any, str] = pafs.FileSystem.from_uri(store)
    return found


def read_text(path: str) -> str | None:
    """Return the text of a small file on any file system; None if it is not there."""
    system, place = filesystem_of(path)
    try:
        with system.open_input_stream(place) as stream:
            return str(stream.read(), "utf-8", "replace")
    except FileNotFoundError:
        return None


def write_text(path: str, text: str) -> None:
    """Write a small file in one step: a reader finds the old or the new text whole, even if this process dies."""
    local = local_path(path)
    system, place = filesystem_of(path if local is None else f"{local}.part")
    with system.open_output_stream(place) as stream:
        stream.write(text.encode())
    if local is not None:
        Path(place).replace(local)


def unnamed(folder: str, name: str) -> tuple[str, Any]:
    """Return the path and the stream of a new file below a folder; no other attempt at the same task has this name."""
    path = f"{folder}/{name}-{uuid.uuid4().hex[:12]}.arrow"
    system, place = filesystem_of(path)
    return path, system.open_output_stream(place)


_FILE = ".lease"


@contextmanager
def locked(warehouse: str) -> Iterator[None]:
    """Hold the warehouse for writing. Raises WarehouseBusyError, which names the holder, if another run holds it.

    Delta's commits on a plain file system are not safe between processes, so one run at a time writes. The system releases
    the lock when its holder dies, however it dies. On a remote file system there is no lock: the scheduler must start one run at
    a time; a commit on a table that somebody else has changed is refused there, too. Raises UsageError if it does not answer.
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
    """Keep runs from writing while the warehouse is read; works without write permission. Raises WarehouseBusyError."""
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
        holder = re.fullmatch(r"(process (\d+) on (.+))\n", file.read())
        held = "another run, or a check, is at work on"
        if holder and (holder[3] != socket.gethostname() or _is_alive(int(holder[2]))):
            held = f"{holder[1]} is writing to"
        raise WarehouseBusyError(f"{warehouse}: {held} this warehouse") from error


@contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """Yield a temporary folder, which is removed at the end; first, those of its kind that killed processes have left are.

    Each process holds a lock on its own, which the system releases when it dies.
    """
    prefix = f"namesrv-{kind}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError), _held(folder, fcntl.LOCK_NB):
            if time.time() - folder.stat().st_mtime > _NEW_S:  # a new one may not be held yet
                shutil.rmtree(folder)
    with tempfile.TemporaryDirectory(prefix=prefix) as made, _held(Path(made), 0):
        yield Path(made)


@contextmanager
def _held(folder: Path, patience: int) -> Iterator[None]:
    opened = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | patience)
        yield
    finally:
        os.close(opened)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
