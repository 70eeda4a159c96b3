"""Pages from templates. What strangers sent becomes text in here, and nothing else: no element, script or mark of direction."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from jobs.printable import printable

T = TypeVar("T")
MOST_ROWS = 250
"""So many rows of a table a page shows; then it says how many more there are."""
_HERE = Path(__file__).parent
_LONGEST = 300


class Cell(NamedTuple):
    """A cell: its HTML, its class, and by what it is sorted if not by its text."""

    html: Markup
    kind: str = ""
    sort: str | None = None


def shortened(value: str) -> str:
    """Return a text printable, and cut if it is very long."""
    shown = printable(value)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def text(value: object) -> Markup:
    """Return a value as HTML: escaped, isolated in its direction, cut if it is very long; a dash for None."""
    return Markup("-") if value is None else Markup("<bdi>{}</bdi>").format(shortened(str(value)))


def code(value: object) -> Markup:
    """Return a value as HTML in a fixed-width font."""
    return Markup("<code>{}</code>").format(text(value))


def event(value: object) -> Markup:
    """Return an event's id as HTML, which shows what is recorded of it."""
    if value is None:
        return text(value)
    return Markup('<button type="button" class="event-id" data-event="{0}">{0}</button>').format(printable(str(value)))


def some(names: Sequence[str], count: int) -> Markup:
    """Return names as HTML, and how many more there are of `count`."""
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    return Markup(", ").join(map(text, names)) + more


def address(value: object) -> Cell:
    """Return a host and port as a cell, in which it stands on one line unless it is longer than those are."""
    return Cell(text(value), "address")


def time(instant: dt.datetime | None, *, day: dt.date | None = None, otherwise: str = "-") -> Cell:
    """Return an instant as a cell, without its date where that is `day`."""
    if instant is None:
        return Cell(Markup("{}").format(otherwise), "time", "~")
    utc = instant.astimezone(dt.timezone.utc)
    shown = utc.isoformat(sep=" ", timespec="milliseconds")[: -len("+00:00")]
    if utc.date() == day:
        shown = shown[len("YYYY-MM-DD ") :]
    iso = utc.isoformat().replace("+00:00", "Z")
    return Cell(Markup('<time datetime="{}">{}</time>').format(iso, shown), "time", iso)


def number(value: int) -> Cell:
    """Return a number as a cell."""
    return Cell(Markup("{:,}").format(value), "number", str(value))


def weightiest(rows: Sequence[T], weight: Callable[[T], Any]) -> list[T]:
    """Return as many rows as a table shows, those with the greatest weight, in their order."""
    places = sorted(range(len(rows)), key=lambda place: weight(rows[place]), reverse=True)[:MOST_ROWS]
    return [rows[place] for place in sorted(places)]


PAGES = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGES.filters |= {"text": text, "code": code, "event": event, "printable": printable}
PAGES.globals |= {"time": time, "some": some, "most_rows": MOST_ROWS}


def page(template: str, title: str, **values: Any) -> str:
    """Return a whole page; nothing in it needs another file. `title`: as `text` takes it."""
    style, script = (Markup((_HERE / name).read_text(encoding="utf-8")) for name in ("report.css", "report.js"))  # noqa: S704  files of ours
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shared = {"title": title, "style": style, "script": script, "script_digest": digest}
    return PAGES.get_template(template).render(shared, **values)
