"""SQL statements in files of their own, below `schemas/sql`: all that are longer than a few lines.

A view, function or saved query begins with a head of comments: what it shows or asks; a line for each parameter,
`parameter NAME TYPE: what it is`, with `= default` behind the type of an optional one; a line for each column, in order,
`column NAME TYPE: what it is`. The type is left out where the engine finds it. Common parameters and columns are listed by
name alone, behind `parameters:` and `columns:`.

A part that several statements share is a file of `schemas/sql/shared`, in SQL that both Spark and DuckDB read. In a statement,
`{name(column, other)}` is replaced by that file; the arguments replace the file's names in braces, in order of appearance.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import NamedTuple

_SHARED, _PLACE = re.compile(r"\{(\w+)\(([\w., ]*)\)\}"), re.compile(r"\{\w+\}")
_FIELD = re.compile(
    r"(?P<kind>parameter|column) (?P<name>\w+)(?: (?P<type>[A-Z]+(?:<.*?>(?=: ))?))?(?: = (?P<default>\S+))?: (?P<comment>.+)"
)


class Field(NamedTuple):
    """A parameter or column: its name, its type ("": not stated), what it is.

    `default`: the value of an optional parameter, NULL for none; None: the parameter must be given.
    """

    name: str
    type: str
    comment: str
    default: str | None = None

    @property
    def described(self) -> str:
        """Return the comment, with the default of an optional parameter; the default NULL means all."""
        if self.default is None:
            return self.comment
        return f"{self.comment} (default: {'all' if self.default == 'NULL' else self.default})"


class Headed(NamedTuple):
    """A statement and its head: what it shows or asks in words, its parameters and columns."""

    words: str
    parameters: tuple[Field, ...]
    columns: tuple[Field, ...]
    sql: str


@cache
def query(name: str) -> str:
    """Return the text of a file, shared parts filled in; `name` is its path below `schemas/sql` without `.sql`."""
    return with_shared((files("schemas") / "sql" / f"{name}.sql").read_text(encoding="utf-8"))


def with_shared(sql: str) -> str:
    """Return a statement with its shared parts filled in. Raises ValueError for too few or too many arguments."""

    def shared(found: re.Match[str]) -> str:
        lines = query(f"shared/{found[1]}").splitlines()
        text = "\n".join(line for line in lines if not line.startswith("--") or _FIELD.fullmatch(line[3:]))
        places = dict.fromkeys(_PLACE.findall(text))
        given = dict(zip(places, re.findall(r"[\w.]+", found[2]), strict=True))
        return _PLACE.sub(lambda place: given[place[0]], text)

    return _SHARED.sub(shared, sql)


def headed(text: str, *, in_capitals: bool = False) -> Headed:
    """Return a statement and its parsed head; `in_capitals`: comments of common parameters and columns begin with a capital.

    Raises KeyError for a name that is not a common parameter or column.
    """
    lines = text.splitlines()
    head = [line[2:].strip() for line in takewhile(lambda line: line.startswith("--"), lines)]
    words = list[str]()
    fields: dict[str, list[Field]] = {"parameter": [], "column": []}
    for line in head:
        kind, _, names = line.partition("s: ")
        if kind in fields:
            usual = (_USUAL[kind, name] for name in names.split(", "))
            fields[kind] += (
                of._replace(comment=of.comment[0].upper() + of.comment[1:]) if in_capitals else of for of in usual
            )
        elif found := _FIELD.fullmatch(line):
            fields[found["kind"]].append(_field(found))
        elif line:
            words.append(line)
    sql = "\n".join(lines[len(head) :]) + "\n"
    return Headed(" ".join(words), tuple(fields["parameter"]), tuple(fields["column"]), sql)


def _field(found: re.Match[str]) -> Field:
    return Field(found["name"], found["type"] or "", found["comment"], found["default"])


_USUAL = {
    (of["kind"], of["name"]): _field(of)
    for of in _FIELD.finditer("""
        parameter broker STRING = NULL: only this broker name
        parameter since TIMESTAMP = NULL: start of the time range
        parameter until TIMESTAMP = NULL: end of the time range, exclusive
        parameter topic STRING: topic
        parameter t TIMESTAMP: instant; intervals are half open: a row that begins at t counts, one that ends at t does not
        column namesrv_id STRING: name server
        column topic STRING: topic
        column broker_name STRING: broker name
        column broker_addr STRING: broker address
        column effect_time TIMESTAMP: when it took effect
        column from_time TIMESTAMP: start
        column to_time TIMESTAMP: end, exclusive; NULL = not over
        column lasted_ms BIGINT: duration in milliseconds; NULL = not over
        column operation STRING: operation of the event
        column outcome STRING: outcome of the event
        column event_id STRING: event that caused it
        column closed_by STRING: event that ended it
        column source_file STRING: file in which the event is recorded; NULL for a scan
        column source_offset BIGINT: packet or line in that file
        column known BOOLEAN: FALSE: the row is only believed
        column coverage STRING: what is known of the name server at t: in full, in part, or not recorded
        column day DATE: UTC date of effect_time
    """)
}
"""Common parameters and columns, by kind and name."""
