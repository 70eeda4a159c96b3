"""Where things lie: on a local disk, or in a store that is reached by its URL."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from jobs.errors import UsageError, first_line
from jobs.store.published import delta_uri, path_of
from schemas.table import Table


def table_path(root: str, table: Table) -> str:
    """Return where `table` lies: `<root>/<layer>/<name>`."""
    return path_of(root, table.layer, table.name)


def local_path(path: str) -> Path | None:
    """Return where `path` lies on a local disk; None for a remote file system."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if "://" in path else Path(path)


def filesystem_of(path: str) -> tuple[Any, str]:
    """Return the file system (pyarrow's) on which `path` lies, and the path there. Raises UsageError for a strange URL."""
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


def require_store(path: str) -> None:
    """Raise UsageError if the store on which a remote `path` lies does not answer, or has no such bucket."""
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
    """Return the file system of a store, and its root there: finding it out costs a request."""
    found: tuple[Any, str] = pafs.FileSystem.from_uri(store)
    return found


def read_text(path: str) -> str | None:
    """Return the text of a small file, wherever it lies; None if it is not there."""
    system, place = filesystem_of(path)
    try:
        with system.open_input_stream(place) as stream:
            return str(stream.read(), "utf-8", "replace")
    except FileNotFoundError:
        return None


def write_text(path: str, text: str) -> None:
    """Write a small file: whoever reads it, whenever a process dies, finds the old text or the new one."""
    local = local_path(path)
    system, place = filesystem_of(path if local is None else f"{local}.part")
    with system.open_output_stream(place) as stream:
        stream.write(text.encode())
    if local is not None:
        Path(place).replace(local)
