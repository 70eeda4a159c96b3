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
    # Lines that set something: without comments, leading blanks, and breaks after a backslash.
    lines: list[str] = []
    continued = False
    for natural in _LINE_END.split(text.encode("utf-8", "replace").decode("latin-1")):
        line = natural.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        begun = lines.pop() if continued else ""
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        lines.append(begun + (line[:-1] if continued else line))

    found = {}
    for line in lines:
        if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})", line):
            return None
        key = _KEY.match(line)
        name = key[0] if key else ""
        found[_plain(name)] = _plain(_SEPARATOR.sub("", line[len(name) :], count=1))
    return found


def _plain(text: str) -> str:
    """Return a text without its escapes."""

    def unescaped(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _CHARACTERS.get(escape, escape)

    return _ESCAPE.sub(unescaped, text)
