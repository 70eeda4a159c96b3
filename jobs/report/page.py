"""The report of a time range as one HTML page, made of `Facts`; pure."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from jobs import __version__
from jobs.errors import printable, shortened
from jobs.report import charts
from jobs.report.facts import MOST_BEATS, MOST_STATES, Facts, Row

T = TypeVar("T")
MOST_ROWS = 250
"""Number of rows of a table that a page shows; it says how many more there are."""
_HERE = Path(__file__).parent
_LONGEST = 300


class Cell(NamedTuple):
    """A cell: its HTML, its class, and its sort key if that is not its text."""

    html: Markup
    kind: str = ""
    sort: str | None = None


def text(value: object) -> Markup:
    """Return a value as HTML: escaped, isolated in its direction, cut if it is very long; a dash for None."""
    return Markup("-") if value is None else Markup("<bdi>{}</bdi>").format(shortened(str(value), _LONGEST))


def code(value: object) -> Markup:
    """Return a value as HTML in a fixed-width font."""
    return Markup("<code>{}</code>").format(text(value))


def event(value: object) -> Markup:
    """Return an event's id as HTML; the page shows the recorded event for it."""
    if value is None:
        return text(value)
    return Markup('<button type="button" class="event-id" data-event="{0}">{0}</button>').format(printable(str(value)))


def some(names: Sequence[str], count: int) -> Markup:
    """Return names as HTML, and how many more there are of `count`."""
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    return Markup(", ").join(map(text, names)) + more


def address(value: object) -> Cell:
    """Return a host and port as a cell, on one line unless it is longer than a usual address."""
    return Cell(text(value), "address")


def time(instant: dt.datetime | None, *, day: dt.date | None = None, otherwise: str = "-") -> Cell:
    """Return an instant as a cell, without its date if that is `day`."""
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
    """Return the rows with the greatest weight, as many as a table shows, in their original order."""
    places = sorted(range(len(rows)), key=lambda place: weight(rows[place]), reverse=True)[:MOST_ROWS]
    return [rows[place] for place in sorted(places)]


PAGES = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def plural(many: int) -> str:
    """Return the plural ending of a word behind a number."""
    return "" if many == 1 else "s"


PAGES.filters |= {"text": text, "code": code, "event": event, "printable": printable}
PAGES.globals |= {"time": time, "some": some, "plural": plural, "most_rows": MOST_ROWS}


def page(template: str, title: str, **values: Any) -> str:
    """Return a whole page; nothing in it needs another file. `title`: as `text` takes it."""
    style, script = (Markup((_HERE / name).read_text(encoding="utf-8")) for name in ("report.css", "report.js"))  # noqa: S704  files of ours
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shared = {"title": title, "style": style, "script": script, "script_digest": digest}
    return PAGES.get_template(template).render(shared, **values)


_MOST_IN_CHART = 60
_MOST_INCIDENTS = 100
# Shorter disagreements are left out: a registration needs that long to reach all name servers.
_LONG_ENOUGH = dt.timedelta(seconds=1)
_STAY_LEGEND = {"in the table": ("▬", "var(--live)"), **charts.LEFT, "name server runs": ("▬", "var(--quiet)")}
_GAP_LEGEND = {word: (sign, colour) for word, sign, colour in charts.ENDS.values()} | {
    "the lease": ("┅", "var(--critical)")
}
Table = dict[str, Any]
"""The arguments of the template's `table`."""


class Chart(NamedTuple):
    """A chart, for a screen and for a phone, with its legend: by word a sign and a colour of the page."""

    wide: charts.Drawing
    narrow: charts.Drawing
    label: str
    legend: dict[str, tuple[str, str]]


class Section(NamedTuple):
    """A part of the page; `empty`: why there is nothing to show."""

    name: str
    heading: str
    empty: str = ""
    chart: Chart | None = None
    note: Markup = Markup()
    table: Table | None = None
    incidents: Sequence[Row] = ()
    namesrvs: Sequence[dict[str, Any]] = ()
    states: Markup = Markup()


def report(facts: Facts) -> str:
    """Return the page."""
    scope = facts.scope
    about = [f"{what} {name}" for what, name in (("topic", scope.topic), ("broker", scope.broker)) if name is not None]
    about += [f"name server {scope.namesrv}"] if scope.namesrv is not None else []
    about += [f"incident {scope.incident[:8]}"] if scope.incident is not None else []
    title = f"Name servers: {', '.join(about) or 'everything'}, {scope.start:%F}"
    ongoing = sum(row["state"] == "ongoing" for row in facts.incidents)
    critical = sum(row["severity"] == "critical" for row in facts.incidents)
    changed = sum(row["appeared"] + row["changed"] + row["vanished"] for row in facts.changes)
    seen, silent = len({_key(row) for row in facts.stays}), sum(row["gap_ms"] > row["lease_ms"] for row in facts.gaps)
    events, disagreements = len(facts.changes), len(_disagreements(facts))
    tiles = [
        (len(facts.incidents), f"incident{plural(len(facts.incidents))}, {critical} critical, {ongoing} ongoing"),
        (seen, f"broker address{'' if seen == 1 else 'es'} seen"),
        (changed, f"route change{plural(changed)} by {events:,} event{plural(events)}"),
        (disagreements, f"disagreement{plural(disagreements)} of a second and more"),
        (silent, f"silence{plural(silent)} longer than the lease"),
    ]
    sections = list(_sections(facts))
    values = {"facts": facts, "tiles": tiles, "sections": sections, "most_incidents": _MOST_INCIDENTS}
    texts: dict[str, int] = {}  # the page's script has each text once, and refers to it by number
    packets = {
        name: [texts.setdefault(part, len(texts)) for pair in fields for part in pair]
        for name, fields in facts.packets.items()
    }
    return page("report.html", title, **values, packets=_json({"texts": list(texts), "events": packets}))


def _sections(facts: Facts) -> Iterator[Section]:
    if facts.scope.topic is not None:
        name, heading, nobody = "topic", "Who offered the topic", "Nobody offered it in this time."
        legend = {word: ("▬", colour) for word, colour in charts.PERMS.items()}
        chart = _drawn(facts, charts.topic_timeline, facts.queues, heading, legend) if facts.queues else None
        yield Section(name, heading, "" if facts.queues else nobody, chart=chart)
    servers = [_brokers_of(facts, row, place) for place, row in enumerate(facts.namesrvs)] if facts.stays else []
    nobody = "" if facts.stays else "No broker was in a table in this time."
    yield Section("brokers", "Brokers in each name server", nobody, namesrvs=servers)
    none = "" if facts.incidents else "No finding lies in this time."
    yield Section("incidents", "Incidents", none, incidents=facts.incidents)
    yield _states(facts)
    yield _routes(facts)
    if facts.scope.namesrv is None:
        yield _divergence(facts)
    yield _heartbeats(facts)
    yield _source(facts)


def _json(value: Table) -> Markup:
    """Return JSON that contains no HTML tag."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704  see above


def _states(facts: Facts) -> Section:
    """Return the rows from which the page's script shows tables at any instant: each text once, referred to by number."""
    name, heading, many = "instant", "The tables at an instant", len(facts.registry) > MOST_STATES
    if many or not facts.registry:
        why = (
            "Too many rows for one page: narrow it with --topic, --broker or --namesrv." if many else "They were empty."
        )
        return Section(name, heading, why)
    texts: dict[str, int] = {}

    def at(value: str | None) -> int:
        return texts.setdefault(shortened(str(value), _LONGEST), len(texts))

    columns = ("namesrv_id", "table_name", "row_key", "value", "opened_by")
    rows = [[*(at(row[column]) for column in columns), row["begun"], row["ended"]] for row in facts.registry]
    covered = [
        [at(row["namesrv_id"]), row["begun"], row["ended"], row["is_covered"], at(row["coverage"])]
        for row in facts.covered
    ]
    span = [int(instant.timestamp() * 1_000_000) for instant in (facts.start, facts.end)]
    return Section(name, heading, states=_json({"texts": list(texts), "rows": rows, "covered": covered, "span": span}))


def _brokers_of(facts: Facts, namesrv: Row, place: int) -> dict[str, Any]:
    """Return the template values of a name server: chart of stays, brokers present all the time, departures."""
    own, lives = (
        [row for row in rows if row["namesrv_id"] == namesrv["namesrv_id"]] for rows in (facts.stays, facts.lives)
    )
    shown, quiet = _eventful(own, facts)
    label, day = f"Brokers in {namesrv['namesrv_id']}", _one_day(facts)
    gone = [row for row in own if row["to_time"] is not None and row["to_time"] <= facts.end]
    gone.sort(key=lambda row: (row["to_time"], str(row["broker_addr"])))
    rows = [
        (
            time(row["to_time"], day=day),
            text(row["broker_name"]),
            address(row["broker_addr"]),
            text(charts.LEFT_BY.get(row["left_by"] or "", row["left_by"])),
            time(row["from_time"], day=day),
            Cell(event(row["closed_by"]), "event"),
        )
        for row in weightiest(gone, lambda row: row["left_by"] != "namesrv_stopped")
    ]
    heads = ("Left", "Broker", "Address", "How", "Registered", "Event")
    return {
        "id": f"{namesrv['ns']}: {namesrv['namesrv_id']}",
        "version": namesrv["version"],
        "chart": _drawn(facts, partial(charts.timeline, lives), shown, label, _STAY_LEGEND),
        "quiet": [f"{row['broker_name']} {row['broker_addr']}" for row in quiet],
        "cut": len({_key(row) for row in own}) - len({_key(row) for row in shown}) - len(quiet),
        "gone": _table(f"gone{place}", f"Departures from {namesrv['namesrv_id']}", heads, rows, len(gone)),
    }


def _eventful(stays: Sequence[Row], facts: Facts) -> tuple[list[Row], list[Row]]:
    """Return the stays to draw, brokers that came or left first, and the brokers present all the time."""
    came = {_key(row) for row in stays if row["from_time"] > facts.start or (row["to_time"] or facts.end) < facts.end}
    if len({_key(row) for row in stays}) <= _MOST_IN_CHART:
        return list(stays), []
    # A restart of the name server says little about a broker.
    count = Counter(_key(row) for row in stays if row["left_by"] not in (None, "namesrv_stopped"))
    drawn = set(sorted(came, key=lambda key: -count[key])[:_MOST_IN_CHART])
    quiet = {_key(row): row for row in stays if _key(row) not in came}
    return [row for row in stays if _key(row) in drawn], list(quiet.values())


def _key(row: Row) -> tuple[str | None, str | None]:
    return row["broker_name"], row["broker_addr"]


def _routes(facts: Facts) -> Section:
    name, heading = "routes", "Route changes and their causes"
    if not facts.changes:
        return Section(name, heading, "No route changed in this time.")
    day, rows = _one_day(facts), []
    for row in weightiest(facts.changes, lambda row: (row["vanished"], row["appeared"] + row["changed"])):
        who = " ".join(str(row[of]) for of in ("broker_name", "broker_addr") if row[of] is not None)
        cause = text(row["operation"] or "an answer")
        kinds = ", ".join(f"{row[kind]:,} {kind}" for kind in charts.CHANGES if row[kind])
        source = Markup("nowhere")
        if row["source_file"] is not None:
            source = Markup("{}, {:,}").format(text(row["source_file"]), row["source_offset"])
        rows.append(
            (
                time(row["effect_time"], day=day),
                address(row["namesrv_id"]),
                Cell(Markup("{}: {}").format(cause, text(who)) if who else cause, "cause"),
                Markup("{}: {}").format(kinds, some(row["topics"], row["topic_count"])),
                Cell(Markup("{}: {}").format(source, event(row["event_id"])), "event"),
            )
        )
    legend = {word: ("■", colour) for word, colour in charts.CHANGES.items()}
    chart = _drawn(facts, charts.changes, facts.changes, "Route changes", legend)
    heads = ("Time", "Name server", "Cause", "Routes", "Recorded in")
    table = _table("changed", "Events that changed routes", heads, rows, len(facts.changes))
    return Section(name, heading, chart=chart, table=table)


def _length(row: Row, facts: Facts) -> dt.timedelta:
    """Return how long name servers disagreed within the report's time range."""
    length: dt.timedelta = min(row["to_time"] or facts.end, facts.end) - max(row["from_time"], facts.start)
    return length


def _disagreements(facts: Facts) -> list[Row]:
    return [row for row in facts.divergence if _length(row, facts) >= _LONG_ENOUGH]


def _divergence(facts: Facts) -> Section:
    name, heading = "divergence", "Where name servers disagreed"
    if len(facts.namesrvs) < 2:
        return Section(name, heading, "Only one name server is recorded.")
    disagreements, day, note = _disagreements(facts), _one_day(facts), Markup()
    if short := len(facts.divergence) - len(disagreements):
        why = "shorter ones, while a change was on its way to all of them, are left out."
        note = Markup('<p class="soft">{:,} {}</p>').format(short, why)
    if not disagreements:
        return Section(name, heading, "They agreed, but for less than a second at a time.", note=note)
    longest = sorted(disagreements, key=lambda row: _length(row, facts), reverse=True)
    among = {row["broker_name"] for row in longest[:_MOST_IN_CHART]}
    drawn = [row for row in disagreements if row["broker_name"] in among]
    legend = {"some had its topics, some did not": ("▬", "var(--warning)")}
    rows = [
        (
            time(row["from_time"], day=day),
            time(row["to_time"], day=day, otherwise="not over"),
            text(row["broker_name"]),
            some(row["topics"], row["topic_count"]),
            Markup(", ").join(map(text, row["known_to"])),
            Cell(event(row["event_id"]), "event"),
        )
        for row in weightiest(disagreements, lambda row: _length(row, facts))
    ]
    chart = _drawn(facts, charts.divergence, drawn, "Disagreement of name servers", legend)
    heads = ("From", "To", "Broker", "Topics", "Known to", "Began with")
    table = _table("apart", "Intervals", heads, rows, len(disagreements))
    return Section(name, heading, chart=chart, note=note, table=table)


def _heartbeats(facts: Facts) -> Section:
    name, heading = "heartbeats", "Heartbeats against their limit"
    if facts.beats > MOST_BEATS:
        many = f"{facts.beats:,} heartbeats are too many for one page: narrow it with --namesrv or --from and --to."
        return Section(name, heading, many)
    if not facts.gaps:
        return Section(name, heading, "No broker was silent for more than half of its lease.")
    rows = [
        (
            Cell(Markup("{:.0f} %").format(100 * row["gap_ms"] / row["lease_ms"]), "number"),
            text(row["broker_name"]),
            address(row["broker_addr"]),
            address(row["namesrv_id"]),
            Cell(Markup("{:,.1f} s").format(row["gap_ms"] / 1000), "number"),
            time(row["after_time"], day=_one_day(facts)),
            text(charts.ENDS[row["ended_by"]][0]),
        )
        for row in facts.gaps
    ]
    chart = _drawn(facts, charts.silences, facts.gaps, "Silences as shares of the lease", _GAP_LEGEND)
    heads = ("Of the lease", "Broker", "Address", "Name server", "Silent for", "Since", "Ended")
    table = _table("silent", "Silences of more than half the lease, longest first", heads, rows)
    return Section(name, heading, chart=chart, table=table)


def _source(facts: Facts) -> Section:
    checked = {row["namesrv_id"]: row for row in facts.checks}
    rows: list[tuple[Cell | Markup, ...]] = []
    for namesrv in facts.namesrvs:
        answers = checked.get(namesrv["namesrv_id"], {})
        counts = [number(int(answers.get(name, 0))) for name in ("answers", "matched", "mismatched")]
        rows.append((address(namesrv["namesrv_id"]), text(namesrv["version"]), *counts))
    heads = ("Name server", "Version", "Answers recorded", "Matched", "Mismatched")
    note = Markup(
        "<p>Run {}, published {}; {:,} heartbeats on these days; namesrv-history {}. An event's bytes: "
        "<code>ask explain TOPIC TIME --capture FILE</code>; "
        "proof of an instant: <code>audit --at TIME --namesrv ADDR</code>.</p>"
    ).format(code(facts.known["run_id"]), time(facts.known["finished_time"]).html, facts.beats, __version__)
    table = _table("checks", "Answers that the name servers gave, checked against the tables", heads, rows)
    return Section("source", "Sources", note=note, table=table)


def _table(name: str, caption: str, heads: Sequence[str], rows: Sequence[Any], of: int = 0) -> Table:
    return {"name": name, "caption": caption, "heads": heads, "rows": rows, "of": of}


def _drawn(
    facts: Facts, draw: charts.Draw, rows: Sequence[Row], label: str, legend: dict[str, tuple[str, str]]
) -> Chart:
    domain = facts.start, facts.end
    return Chart(draw(rows, domain, charts.WIDE), draw(rows, domain, charts.NARROW), label, legend)


def _one_day(facts: Facts) -> dt.date | None:
    last = facts.end - dt.timedelta(seconds=1)
    return facts.start.date() if facts.start.date() == last.date() else None
