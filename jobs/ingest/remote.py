"""Inputs of an object store, and standard input: readers want files that lie on a disk, so they are copied there.

The copies go when they have been read.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.fs as pafs

from jobs.errors import UsageError, first_line
from jobs.ingest import STANDARD_INPUT
from jobs.store.places import filesystem_of, local_path

_CHUNK = 8 << 20


@contextmanager
def at_hand(inputs: Sequence[str]) -> Iterator[list[str]]:
    """Give `inputs` with copies of those that are URLs, as files and folders of the same names, in their places.

    `-` is standard input, up to its end, as a file of that name.

    The copies lie where temporary files do. Raises FileNotFoundError, and UsageError for a store that does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="namesrv-inputs-") as folder:
        yield [
            _piped(Path(folder, str(number)))
            if name == STANDARD_INPUT
            else name
            if local_path(name)
            else str(_copied(name, Path(folder, str(number))))
            for number, name in enumerate(inputs)
        ]


def _piped(folder: Path) -> str:
    folder.mkdir()
    with (folder / "standard-input").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, _CHUNK)
    return file.name


def _copied(url: str, folder: Path) -> Path:
    system, place = filesystem_of(url.rstrip("/"))
    try:
        kind = system.get_file_info(place).type
        if kind == pafs.FileType.File:
            return _fetched(system, place, folder / PurePosixPath(place).name)
        found = system.get_file_info(pafs.FileSelector(place, recursive=True, allow_not_found=True))
        for info in found:
            if info.is_file and not info.base_name.startswith("."):
                _fetched(system, info.path, folder / PurePosixPath(info.path).relative_to(place))
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"input {url}: cannot be read: {first_line(error)}") from error
    if not found:
        raise FileNotFoundError(f"input {url}: no such object, and nothing below it")
    return folder


def _fetched(system: pafs.FileSystem, place: str, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with system.open_input_stream(place) as remote, path.open("wb") as file:
        shutil.copyfileobj(remote, file, _CHUNK)
    return path
