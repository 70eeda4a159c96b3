"""Parts of a page. Whatever strangers sent becomes text in here, and nothing else: no element, no script, no mark of direction."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jobs.printable import printable

T = TypeVar("T")
MOST_ROWS = 250
"""So many rows of a table a page shows; then it says how many more there are."""
_HERE = Path(__file__).parent
_LONGEST = 300


class Cell(NamedTuple):
    """A cell: its HTML, its class, and by what it is sorted if not by its text."""

    html: str
    kind: str = ""
    value: str | None = None


def text(value: object) -> str:
    """Return a value as HTML: escaped, isolated in its direction, cut if it is very long; a dash for None."""
    if value is None:
        return "-"
    shown = printable(str(value))
    if len(shown) > _LONGEST:
        shown = shown[: _LONGEST - 1] + "…"
    return f"<bdi>{escape(shown)}</bdi>"


def code(value: object) -> str:
    """Return a value as HTML in a fixed-width font."""
    return f"<code>{text(value)}</code>"


def address(value: object) -> Cell:
    """Return a host and port as a cell, in which it stands on one line unless it is longer than those are."""
    return Cell(text(value), "address")


def time(instant: dt.datetime | None, *, day: dt.date | None = None, otherwise: str = "-") -> Cell:
    """Return an instant as a cell, without its date where that is `day`."""
    if instant is None:
        return Cell(otherwise, "time", "~")
    utc = instant.astimezone(dt.timezone.utc)
    shown = utc.isoformat(sep=" ", timespec="milliseconds")[: -len("+00:00")]
    if utc.date() == day:
        shown = shown[len("YYYY-MM-DD ") :]
    iso = utc.isoformat().replace("+00:00", "Z")
    return Cell(f'<time datetime="{iso}">{shown}</time>', "time", iso)


def number(value: float) -> Cell:
    """Return a number as a cell."""
    return Cell(f"{value:,}", "number", str(value))


def weightiest(rows: Sequence[T], weight: Callable[[T], Any]) -> list[T]:
    """Return as many rows as a table shows, those with the greatest weight, in their order."""
    places = sorted(range(len(rows)), key=lambda place: weight(rows[place]), reverse=True)[:MOST_ROWS]
    return [rows[place] for place in sorted(places)]


def table(name: str, caption: str, heads: Sequence[str], rows: Iterable[Sequence[Cell | str]], of: int = 0) -> str:
    """Return a table that can be filtered and sorted; on a phone each row is a card. `name`: its id in the page.

    `of`: how many rows there are, where `rows` are the weightiest of them.
    """
    all_rows = list(rows)
    if not all_rows:
        return ""
    head = "".join(f'<th scope="col"><button type="button">{escape(one)}</button></th>' for one in heads)
    body = "".join(
        "<tr>" + "".join(_td(cell, one) for cell, one in zip(row, heads, strict=True)) + "</tr>"
        for row in all_rows[:MOST_ROWS]
    )
    more = max(of, len(all_rows)) - min(len(all_rows), MOST_ROWS)
    left = f"<p class=soft>{more:,} more rows are not shown.</p>" if more > 0 else ""
    box = (
        f'<input type="search" data-filters="{name}" aria-label="Filter: {escape(caption)}" placeholder="Filter" hidden>'
        if len(all_rows) > 8
        else ""
    )
    return (
        f'{box}<div class="scroll"><table class="cards" id="{name}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{left}"
    )


def _td(cell: Cell | str, name: str) -> str:
    of = cell if isinstance(cell, Cell) else Cell(cell)
    kind = f' class="{of.kind}"' if of.kind else ""
    value = f' data-value="{escape(of.value)}"' if of.value is not None else ""
    return f'<td{kind}{value} data-name="{escape(name)}">{of.html}</td>'


def figure(wide: str, narrow: str, label: str, legend: Mapping[str, tuple[str, str]]) -> str:
    """Return a chart in two widths with its legend: by word a sign and a colour of the page. Arrow keys go through its marks."""
    signs = "".join(
        f'<li><span aria-hidden="true" style="color:{colour}">{sign}</span>{escape(word)}</li>'
        for word, (sign, colour) in legend.items()
    )
    charts = "".join(
        f'<div class="chart {width}" tabindex="0" role="group" aria-label="{escape(label)}: arrow keys go through it">{svg}</div>'
        for width, svg in (("wide", wide), ("narrow", narrow))
    )
    return f'<figure><ul class="legend">{signs}</ul>{charts}<output aria-live="polite"></output></figure>'


def page(title: str, body: str) -> str:
    """Return a whole page: one file, which loads nothing and lets nothing but its own script run. `title`: as `text` takes it."""
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(printable(title))}</title><style>{style}</style></head>\n"
        f'<body><a class="skip" href="#content">To the content</a>{body}<script>{script}</script></body></html>\n'
    )
