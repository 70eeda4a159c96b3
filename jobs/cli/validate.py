"""Validation of arguments before Spark starts, so that a typo fails at once."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
from pathlib import Path

from jobs.ask.instants import instant, known_at
from jobs.errors import UsageError
from jobs.ingest import STANDARD_INPUT


def validate(arguments: argparse.Namespace) -> None:
    """Replace the texts in `arguments` by values. Raises UsageError or FileNotFoundError for an invalid one."""
    given = vars(arguments)
    if given.get("input"):
        given["input"] = [_named(name) for name in given["input"]]
    for name in given.get("input") or []:
        if name != STANDARD_INPUT and "://" not in name and not Path(name).exists():
            raise FileNotFoundError(f"input {name}: no such file or folder")
    for name in (one for one in ("output", "summary") if given.get(one)):
        # A file that cannot be written is refused now, not after the work.
        path = Path(given[name])
        if not path.parent.is_dir():
            raise UsageError(f"{name} {path}: there is no folder {path.parent}")
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UsageError(f"{name} {path}: cannot be written")
    if given.get("warehouse"):
        given["warehouse"] = warehouse_at(given["warehouse"])
    for name, value_of in (("first", _day), ("last", _day), ("at", instant), ("as_known_at", known_at)):
        if given.get(name):
            given[name] = value_of(given[name])
    if (first := given.get("first")) and (last := given.get("last")) and first > last:
        raise UsageError(f"--from {first} lies after --to {last}: give the earlier day first")
    if given["job"] == "sql":
        _read_sql(arguments)
    series = given.get("series") or ""
    try:
        re.compile(series)
    except re.error as error:
        raise UsageError(f"--series {series}: is no regular expression: {error}") from error
    from jobs.conf import DEFAULT_CONF, load_conf  # noqa: PLC0415  slow to import

    conf_file, namesrvs = Path(given.get("conf_file") or DEFAULT_CONF), given.get("namesrv") or ()
    log, joins = {name: given.get(f"log_{name}") for name in ("zone", "namesrv")}, given.get("join_addresses", False)
    given["conf"] = load_conf(conf_file, namesrvs, join_addresses=joins, series=series, log=log)


def warehouse_at(name: str) -> str:
    """Return the absolute path of a warehouse. Raises UsageError for a file, or a path that Delta's readers take for another."""
    if "://" in (name := _named(name)):
        return name
    path = str(Path(name).resolve())
    if Path(path).is_file():
        raise UsageError(f"warehouse {path}: is a file, not a folder")
    if found := re.search(r"[%\\\x00-\x1f\x7f\ud800-\udfff]", path):
        raise UsageError(
            f"warehouse {path}: Delta cannot read below a folder with {found[0]!r} in its name; take another one"
        )
    return path


def _named(name: str) -> str:
    """Return the path that a `file:` URL names, or a name that is none. Raises UsageError for a URL without a place."""
    if re.fullmatch(r"\w+:/+", name):
        raise UsageError(f"{name}: names no bucket, folder or file")
    return f"/{name.removeprefix('file:').lstrip('/')}" if name.startswith("file:") else name


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"day {text!r}: expected YYYY-MM-DD") from error


def _read_sql(given: argparse.Namespace) -> None:
    """Set `query` from a saved query or the SQL file. Raises UsageError if there are several sources."""
    if sum(one is not None for one in (given.query, given.file, given.saved)) > 1:
        raise UsageError("SQL as an argument, --file and --query: one of them, please")
    if given.saved is not None:
        from jobs.ask.engine import query_named, texts_of, values_of  # noqa: PLC0415  as above

        saved = query_named(given.saved)
        given.query, given.values = saved.sql, values_of(saved, texts_of(saved, given.param))
    elif given.file not in (None, "-"):
        try:
            given.query = Path(given.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"SQL file {given.file}: cannot be read: {error}") from error
