"""Situations as text: rows of tables, each by what made it, and what is to be found in them.

Blocks are separated by blank lines. The first line is `name: what it shows`, then come a row a line (its kind, values in
order, others by name), `? ` what is asked beside, and `= ` what is found. A value is a number, `true`, `false`, `-` (null), an
event with its time (`up@09:00`, `up@2026-02-28T09:00`), a time alone (`@09:00`), JSON, a name that the test gives, or text.
Lines that begin with # are for readers.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_TIME = re.compile(r"(.*)@((?:\d{4}-\d\d-\d\dT)?\d\d:\d\d(?::\d\d(?:\.\d+)?)?)")
_WORDS: dict[str, Any] = {"-": None, "true": True, "false": False}


class Situation(NamedTuple):
    """A block: its rows by table, what is asked, and what is found."""

    name: str
    shows: str
    rows: dict[Any, list[Any]]
    asked: list[str]
    found: list[str]


def title(story: list[Situation]) -> str:
    """Return the name of a test's case."""
    return f"{story[0].name}: {story[0].shows}"


class Language(NamedTuple):
    """What a test's words mean. `kinds`: the table of a row, and what makes one, or some, of its values; all times are UTC."""

    kinds: Mapping[str, tuple[Any, Callable[..., Any]]]
    names: Mapping[str, object]
    day: dt.date

    def read(self, path: Path) -> Iterator[Situation]:
        """Yield the situations of a file; lines that begin with # are for its readers."""
        lines = [line for line in path.read_text(encoding="utf-8").split("\n") if not line.startswith("#")]
        for block in filter(None, "\n".join(lines).strip().split("\n\n")):
            first, *told = block.strip().splitlines()
            name, _, shows = first.partition(": ")
            found = Situation(name, shows, {}, [], [])
            for line in told:
                if line.startswith(("? ", "= ")):
                    (found.asked if line[0] == "?" else found.found).append(line[2:])
                    continue
                kind, *words = shlex.split(line)
                table, make = self.kinds[kind]
                made = self.made(make, words)
                found.rows.setdefault(table, []).extend(made if isinstance(made, list) else [made])
            yield found

    def stories(self, path: Path) -> list[list[Situation]]:
        """Return situations that are told day by day: those named `then`, `or` and `again` belong to the one before."""
        told: list[list[Situation]] = []
        for situation in self.read(path):
            if situation.name not in ("then", "or", "again"):
                told.append([])
            told[-1].append(situation)
        return told

    def made(self, make: Callable[..., Any], words: list[str]) -> Any:
        """Return what is made of values in order, and of those that are named."""
        named = dict(word.split("=", 1) for word in words if re.match(r"\w+=", word))
        values = [self.value(word) for word in words if not re.match(r"\w+=", word)]
        return make(*values, **{name: self.value(word) for name, word in named.items()})

    def value(self, word: str) -> Any:
        """Return what a word stands for."""
        if word in self.names or word in _WORDS:
            return {**_WORDS, **self.names}[word]
        if at := _TIME.fullmatch(word):
            clock = at[2] if "T" in at[2] else f"{self.day}T{at[2]}"
            instant = dt.datetime.fromisoformat(clock).replace(tzinfo=dt.timezone.utc)
            return (at[1], instant) if at[1] else instant
        if re.fullmatch(r"-?\d+(\.\d+)?", word) or word[:1] in "[{":
            return json.loads(word)
        return word
