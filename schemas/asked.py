"""Readers' SQL in DuckDB's dialect, from a cache; this module imports nothing slow.

Translating takes seconds, so the output of `schemas.translate` is cached beside its sources until one of them changes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

KEPT = "translated.json"
_WORD = re.compile(r"\w+")


class Stored(NamedTuple):
    """A stored table: its name, layer, columns with their DuckDB types, and partition columns (`cut`).

    `key`: the columns that identify a row; `ends`: for a table of intervals, the column of a row's end.
    """

    table: str
    layer: str
    columns: Mapping[str, str]
    cut: tuple[str, ...]
    key: tuple[str, ...]
    ends: str
    has_intervals: bool


@cache
def _kept() -> Mapping[str, Mapping[str, str]]:
    """Return the statements by name, with their digest, from the cache or made now.

    In an archive on a cluster, and when installed, the cache is used unchecked.
    """
    folder = Path(__file__).parent
    state = _state_of(folder)
    loader = __spec__.loader  # in an archive there is no file to open
    with suppress(OSError, ValueError, LookupError):
        kept: dict[str, Mapping[str, str]] = json.loads(loader.get_data(str(folder / KEPT)))  # type: ignore[union-attr]  # both kinds have it
        if state in (None, kept["made"]["state"]) and kept["made"]["digest"]:
            return kept
    import hashlib  # noqa: PLC0415  as below

    from schemas.translate import texts  # noqa: PLC0415  slow to import

    made = dict(texts())
    digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]
    kept = {"made": {"state": state or "", "digest": digest}, "texts": made}
    with suppress(OSError):  # the folder may be read-only
        part = folder / f"{KEPT}.{os.getpid()}"
        part.write_text(json.dumps(kept), encoding="utf-8")
        part.replace(folder / KEPT)
    return kept


def _texts() -> Mapping[str, str]:
    return _kept()["texts"]


def _state_of(folder: Path) -> str | None:
    """Return a text that changes when a source changes; None where none can: in an archive, and installed by pip."""
    if not folder.is_dir() or __package__ != "schemas":
        return None
    lock = folder.parent / "requirements.lock"  # it pins the translator's version
    found, folders = [(str(lock), lock.stat())] if lock.is_file() else [], [str(folder)]
    while folders:
        for entry in os.scandir(folders.pop()):
            if entry.is_dir():
                folders.append(entry.path)
            elif entry.name.endswith((".py", ".sql")):
                found.append((entry.name, entry.stat()))
    return repr(sorted((name, of.st_mtime_ns, of.st_size) for name, of in found))


def digest() -> str:
    """Return the digest of all texts."""
    return _kept()["made"]["digest"]


def kept_file(suffix: str) -> Path:
    """Return the path of a cache file for results made of these texts; files made of older texts are removed."""
    import tempfile  # noqa: PLC0415  as above

    folder = Path(__file__).parent if Path(__file__).parent.is_dir() else Path(tempfile.gettempdir())
    path = folder / f"translated-{digest()}{suffix}"
    if not path.is_file():
        if not os.access(folder, os.W_OK):  # the folder may be read-only
            return Path(tempfile.gettempdir(), path.name)
        for other in folder.glob(f"translated-*{suffix}"):
            other.unlink(missing_ok=True)
    return path


@cache
def stored() -> dict[str, Stored]:
    """Return the published tables by the name under which statements read them."""
    found = json.loads(_texts()["tables"])
    return {
        name: Stored(**{**table, "cut": tuple(table["cut"]), "key": tuple(table["key"])})
        for name, table in found.items()
    }


@cache
def statement(name: str) -> str | None:
    """Return the statement that creates a view or function; None for another name."""
    return _texts().get(name)


@cache
def derived(table: str, column: str) -> str:
    """Return the SQL expression of a derived column."""
    return _texts()[f"column.{table}.{column}"]


@cache
def names() -> frozenset[str]:
    """Return the names of all views, functions and tables."""
    return (frozenset(_texts()) - {"tables"}) | frozenset(stored())


def needed(text: str, known: Iterable[str], made_by: Callable[[str], str]) -> list[str]:
    """Return the names in `known` that a statement may read, dependencies first; `made_by` returns the text that makes a name.

    Every word of a text counts as a name: a column named like a view only costs time.
    """
    wanted, seen, found = frozenset(known), set[str](), list[str]()

    def visit(words: Iterable[str]) -> None:
        for name in words:
            if name in wanted and name not in seen:
                seen.add(name)
                visit(sorted(words_of(made_by(name))))
                found.append(name)

    visit(sorted(words_of(text)))
    return found


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case."""
    return frozenset(word.lower() for word in _WORD.findall(text))
