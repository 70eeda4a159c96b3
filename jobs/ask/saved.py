"""Saved queries by name, and the values of their parameters."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence

from jobs.ask.engine import nearest
from jobs.ask.instants import instant
from jobs.errors import UsageError
from schemas.queries import Query, queries

Value = str | int | dt.datetime | None


def query_named(name: str) -> Query:
    """Return the query of that name. Raises UsageError with the nearest names."""
    found = queries().get(name)
    if found is None:
        near = nearest(name, queries(), cutoff=0.4)
        raise UsageError(f"no saved query {name!r}{near}. `ask queries` lists them")
    return found


def described(query: Query, how: str = "") -> str:
    """Return a saved query's question, parameters and columns, a line each. `how`: how parameters are given, such as by option."""
    lines = [query.question, "", *([f"parameters{how}:"] if query.parameters else [])]
    lines += [f"  {one.name} {one.type}: {one.described}" for one in query.parameters]
    lines += ["columns:", *(f"  {name}: {comment}" for name, comment in query.columns.items())]
    return "\n".join(lines)


def texts_of(query: Query, given: Sequence[str]) -> dict[str, str]:
    """Return the `NAME=VALUE` texts of a command line by name. Raises UsageError."""
    if unnamed := [text for text in given if "=" not in text]:
        raise UsageError(f"query {query.name}: {unnamed[0]!r}: expected NAME=VALUE")
    pairs = [text.partition("=")[::2] for text in given]
    if twice := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
        raise UsageError(f"query {query.name}: {twice[0]} is given more than once")
    return dict(pairs)


def values_of(query: Query, texts: Mapping[str, str]) -> dict[str, Value]:
    """Return the value of each parameter of a query, from the texts given. Raises UsageError."""
    known = {parameter.name for parameter in query.parameters}
    unknown = sorted(set(texts) - known)
    if unknown:
        of = f"has {', '.join(sorted(known))}" if known else "has none"
        raise UsageError(f"query {query.name}: no parameter {unknown[0]!r}; it {of}")
    missing = [one for one in query.parameters if one.default is None and one.name not in texts]
    if missing:
        raise UsageError(
            f"query {query.name}: needs --param {missing[0].name}=VALUE ({missing[0].type}: {missing[0].comment})"
        )
    values: dict[str, Value] = {}
    for one in query.parameters:
        text = texts.get(one.name, one.default)
        if text is None or (text == "NULL" and one.name not in texts):
            values[one.name] = None
        elif one.type == "TIMESTAMP":
            values[one.name] = instant(text)
        elif one.type == "INT":
            try:
                values[one.name] = int(text)
            except ValueError as error:
                raise UsageError(f"query {query.name}: {one.name} is a whole number, not {text!r}") from error
        else:
            values[one.name] = text
    for first, last in (("since", "until"), ("t1", "t2")):
        begin, end = values.get(first), values.get(last)
        if isinstance(begin, dt.datetime) and isinstance(end, dt.datetime) and begin > end:
            raise UsageError(f"query {query.name}: {first} {texts[first]} lies after {last} {texts[last]}")
    return values


def time_of(values: Mapping[str, Value]) -> tuple[dt.datetime | None, dt.datetime | None]:
    """Return the start and end of the time range in a query's values; None: no limit."""
    since, until = values.get("since"), values.get("until")
    return since if isinstance(since, dt.datetime) else None, until if isinstance(until, dt.datetime) else None
