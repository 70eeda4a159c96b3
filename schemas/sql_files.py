"""Statements that have a file of their own in `schemas/sql`: all that are longer than a few lines.

One that readers meet, a view, a function or a saved query, begins with comments: what it shows, or asks; a line for each
parameter, `parameter NAME TYPE: what it is`, with `= default` behind the type if it need not be given; a line for each column,
`column NAME TYPE: what it is`, in its order, without the type where an engine finds that. Of usual ones the names alone stand
behind `parameters:` and `columns:`.

What several of them share is a file of `schemas/sql/shared`, in words that Spark and DuckDB both have: `{name(column, other)}` in a
statement stands for the file `name`, with these in place of the names in braces there, in the order in which it has them.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import NamedTuple

_SHARED, _PLACE = re.compile(r"\{(\w+)\(([\w., ]*)\)\}"), re.compile(r"\{\w+\}")
_SAID = re.compile(
    r"(?P<kind>parameter|column) (?P<name>\w+)(?: (?P<type>[A-Z]+(?:<.*?>(?=: ))?))?(?: = (?P<default>\S+))?: (?P<comment>.+)"
)


class Said(NamedTuple):
    """A parameter or column: its name, its type ("": that is not said), what it is.

    `default`: the value of a parameter where none is given, NULL for none; None: it must be given.
    """

    name: str
    type: str
    comment: str
    default: str | None = None

    @property
    def described(self) -> str:
        """Return the comment, with the default of what need not be given; NULL leaves nothing out."""
        if self.default is None:
            return self.comment
        return f"{self.comment} (default: {'all' if self.default == 'NULL' else self.default})"


class Headed(NamedTuple):
    """A statement with what its head says: in words what it shows or asks, its parameters and columns."""

    words: str
    parameters: tuple[Said, ...]
    columns: tuple[Said, ...]
    sql: str


@cache
def query(name: str) -> str:
    """Return the text of one file, by its path without `.sql`."""
    return with_shared((files("schemas") / "sql" / f"{name}.sql").read_text(encoding="utf-8"))


def with_shared(sql: str) -> str:
    """Return a statement with what it shares with others. Raises ValueError where it gives that too little or too much."""

    def shared(found: re.Match[str]) -> str:
        lines = query(f"shared/{found[1]}").splitlines()
        text = "\n".join(line for line in lines if not line.startswith("--") or _SAID.fullmatch(line[3:]))
        places = dict.fromkeys(_PLACE.findall(text))
        given = dict(zip(places, re.findall(r"[\w.]+", found[2]), strict=True))
        return _PLACE.sub(lambda place: given[place[0]], text)

    return _SHARED.sub(shared, sql)


def headed(text: str, *, in_capitals: bool = False) -> Headed:
    """Return a statement parted from its head; comments of usual ones begin `in_capitals`. Raises KeyError for one that is none."""
    lines = text.splitlines()
    head = [line[2:].strip() for line in takewhile(lambda line: line.startswith("--"), lines)]
    words = list[str]()
    said: dict[str, list[Said]] = {"parameter": [], "column": []}
    for line in head:
        kind, _, names = line.partition("s: ")
        if kind in said:
            usual = (_USUAL[kind, name] for name in names.split(", "))
            said[kind] += (
                of._replace(comment=of.comment[0].upper() + of.comment[1:]) if in_capitals else of for of in usual
            )
        elif found := _SAID.fullmatch(line):
            said[found["kind"]].append(_said(found))
        elif line:
            words.append(line)
    sql = "\n".join(lines[len(head) :]) + "\n"
    return Headed(" ".join(words), tuple(said["parameter"]), tuple(said["column"]), sql)


def _said(found: re.Match[str]) -> Said:
    return Said(found["name"], found["type"] or "", found["comment"], found["default"])


_USUAL = {
    (of["kind"], of["name"]): _said(of)
    for of in _SAID.finditer("""
        parameter broker STRING = NULL: only this broker name
        parameter since TIMESTAMP = NULL: start of the time range
        parameter until TIMESTAMP = NULL: end of the time range, exclusive
        parameter topic STRING: topic
        parameter t TIMESTAMP: instant; intervals are half open: what begins at t is in, what ends at t is out
        column namesrv_id STRING: name server
        column topic STRING: topic
        column broker_name STRING: broker name
        column broker_addr STRING: broker address
        column effect_time TIMESTAMP: when
        column from_time TIMESTAMP: start
        column to_time TIMESTAMP: end, exclusive; NULL = not over
        column lasted_ms BIGINT: milliseconds; NULL = not over
        column operation STRING: what that event was
        column outcome STRING: what became of it
        column event_id STRING: event that did it
        column closed_by STRING: event that ended it
        column source_file STRING: file in which it is recorded; NULL for a scan
        column source_offset BIGINT: packet or line in that file
        column known BOOLEAN: FALSE: the row is only believed
        column coverage STRING: what is known of the name server at t: in full, in part, or not recorded
        column day DATE: UTC date of effect_time
    """)
}
"""Parameters and columns that many have, by kind and name."""
