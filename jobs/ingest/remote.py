"""Inputs of an object store, and standard input: readers want files that lie on a disk, so they are copied there.

The copies go when they have been read.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.fs as pafs

from jobs.errors import UsageError, first_line
from jobs.ingest import STANDARD_INPUT
from jobs.ingest.sources import fingerprint_of
from jobs.store.places import filesystem_of, local_path

_CHUNK = 8 << 20


@dataclass
class AtHand:
    """Inputs that lie on a disk; of copies the fingerprints of what they were made of, and the digests of what was not fetched."""

    inputs: list[str] = field(default_factory=list)
    fingerprints: dict[Path, str | None] = field(default_factory=dict)
    known: list[str] = field(default_factory=list)


@contextmanager
def at_hand(inputs: Sequence[str], known: Mapping[str, str]) -> Iterator[AtHand]:
    """Give `inputs` with copies of those that are URLs, as files and folders of the same names, in their places.

    `-` is standard input, up to its end, as a file of that name. What is `known` by its fingerprint is not fetched.

    The copies lie where temporary files do. Raises FileNotFoundError, and UsageError for a store that does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="namesrv-inputs-") as folder:
        here = AtHand()
        for number, name in enumerate(inputs):
            own = Path(folder, str(number))
            if name == STANDARD_INPUT:
                path = _piped(own)
                here.fingerprints[Path(path)] = None
                here.inputs.append(path)
            elif local_path(name):
                here.inputs.append(name)
            else:
                _copy(name, own, known, here)
        yield here


def _piped(folder: Path) -> str:
    folder.mkdir()
    with (folder / "standard-input").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, _CHUNK)
    return file.name


def _copy(url: str, folder: Path, known: Mapping[str, str], here: AtHand) -> None:
    """Fetch what a URL names but for what is known."""
    system, place = filesystem_of(url.rstrip("/"))
    try:
        named = system.get_file_info(place)
        is_file = named.type == pafs.FileType.File
        below = pafs.FileSelector(place, recursive=True, allow_not_found=True)
        infos = [named] if is_file else system.get_file_info(below)
        files = [info for info in infos if info.is_file and (is_file or not info.base_name.startswith("."))]
        fetched, above = list[Path](), PurePosixPath(place).parent
        for info in files:
            own = fingerprint_of(f"{url} {info.path}", info.size, info.mtime_ns or time.time_ns())
            if own is not None and own in known:
                here.known.append(known[own])
            else:
                fetched.append(_fetched(system, info.path, folder / PurePosixPath(info.path).relative_to(above)))
                here.fingerprints[fetched[-1]] = own
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"input {url}: cannot be read: {first_line(error)}") from error
    if not infos:
        raise FileNotFoundError(f"input {url}: no such object, and nothing below it")
    folder.mkdir(exist_ok=True)
    if fetched or not files:
        here.inputs += map(str, fetched if is_file else [folder])


def _fetched(system: pafs.FileSystem, place: str, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with system.open_input_stream(place) as remote, path.open("wb") as file:
        shutil.copyfileobj(remote, file, _CHUNK)
    return path
