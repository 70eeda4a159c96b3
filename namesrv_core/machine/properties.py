"""Java properties: what a text sets."""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties_in(text: str) -> dict[str, str] | None:
    """Return the values that a properties text sets, by name; None if Java refuses it (an unfinished unicode escape).

    The server reads the bytes of the text as Latin-1, whatever they are.

    Source: java.util.Properties.load; RocketMQ 4.9.7 and 5.4.0 MixAll.string2Properties.
    """
    found = {}
    for line in _logical_lines(text.encode("utf-8", "replace").decode("latin-1")):
        if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})", line):
            return None
        key = _KEY.match(line)
        name = key[0] if key else ""
        value = _SEPARATOR.sub("", line[len(name) :], count=1)
        found[_plain(name)] = _plain(value)
    return found


def _logical_lines(text: str) -> list[str]:
    """Return the lines that set something: without comments, leading blanks, and breaks behind a backslash."""
    lines: list[str] = []
    continued = False
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if continues else line
        if continued:
            lines[-1] += part
        else:
            lines.append(part)
        continued = continues
    return lines


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: _unescaped(found[1]), text)


def _unescaped(escape: str) -> str:
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _CHARACTERS.get(escape, escape)
