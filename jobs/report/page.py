"""The report of a stretch of time as one page: pure, of what `facts` has read."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape

from jobs import __version__
from jobs.report import charts
from jobs.report.facts import MOST_BEATS, Facts, Row, Scope
from jobs.report.markup import Cell, address, code, figure, number, page, table, text, time, weightiest

_MOST_IN_CHART = 60
_MOST_INCIDENTS = 100
# What name servers tell each other apart for as long as a registration is on its way to all of them is no disagreement.
_APART = dt.timedelta(seconds=1)
_STAY_LEGEND = {
    "in the table": ("▬", "var(--live)"),
    "lease ended": ("✚", "var(--critical)"),
    "silent connection closed": ("◆", "var(--critical)"),
    "connection lost": ("▲", "var(--warning)"),
    "unregistered": ("■", "var(--accent)"),
    "name server runs": ("▬", "var(--quiet)"),
}
_CHANGE_LEGEND = {word: ("■", colour) for word, colour in charts.CHANGES.items()}
_GAP_LEGEND = {
    "a heartbeat came": ("●", "var(--accent)"),
    "removed by a scan": ("✚", "var(--critical)"),
    "removed with its silent connection": ("◆", "var(--warning)"),
    "the lease": ("┅", "var(--critical)"),
}
_PERM_LEGEND = {word: ("▬", colour) for word, colour in charts.PERMS.items()}


def report(facts: Facts) -> str:
    """Return the page."""
    sections = [(name, heading, build(facts)) for name, heading, build in _sections(facts)]
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{heading}</h2>{html}</section>'
        for name, heading, html in sections
    )
    title = _title(facts.scope)
    head = (
        f'<header><h1>{text(title)}</h1><p class="soft">{_span(facts.scope)}. All times are UTC. '
        f"As run {code(facts.known['run_id'])} published it.</p>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>'
        '<p><button type="button" id="theme" class="tool" hidden>Theme</button></p></header>'
    )
    return page(title, f'{head}<main id="content">{_tiles(facts)}{body}</main>')


def _sections(facts: Facts) -> Iterator[tuple[str, str, Callable[[Facts], str]]]:
    if facts.scope.topic is not None:
        yield "topic", "Who offered the topic", _topic
    yield "brokers", "Brokers in each name server", _brokers
    yield "incidents", "Incidents", _incidents
    yield "routes", "Route changes and their causes", _routes
    if facts.scope.namesrv is None:
        yield "divergence", "Where name servers disagreed", _divergence
    yield "heartbeats", "Heartbeats against their limit", _heartbeats
    yield "source", "Sources", _source


def _title(scope: Scope) -> str:
    about = [
        f"topic {scope.topic}" if scope.topic is not None else "",
        f"broker {scope.broker}" if scope.broker is not None else "",
        f"name server {scope.namesrv}" if scope.namesrv is not None else "",
        f"incident {scope.incident[:8]}" if scope.incident is not None else "",
    ]
    return f"Name servers: {', '.join(one for one in about if one) or 'everything'}, {scope.start:%F}"


def _span(scope: Scope) -> str:
    start, end = (time(one).html for one in (scope.start, scope.end))
    return f"{start} to {end}"


def _tiles(facts: Facts) -> str:
    ongoing = sum(row["state"] == "ongoing" for row in facts.incidents)
    critical = sum(row["severity"] == "critical" for row in facts.incidents)
    brokers = {(row["broker_name"], row["broker_addr"]) for row in facts.stays}
    changed = sum(row["appeared"] + row["changed"] + row["vanished"] for row in facts.changes)
    tiles = [
        (len(facts.incidents), f"incidents, {critical} critical, {ongoing} ongoing"),
        (len(brokers), "broker addresses seen"),
        (changed, f"route changes by {len(facts.changes):,} events"),
        (len(_apart(facts)), "disagreements of a second and more"),
        (sum(row["gap_ms"] > row["lease_ms"] for row in facts.gaps), "silences longer than the lease"),
    ]
    return f'<ul class="tiles">{"".join(f"<li><b>{count:,}</b>{what}</li>" for count, what in tiles)}</ul>'


# -- sections ------------------------------------------------------------------------------------------------------------


def _incidents(facts: Facts) -> str:
    if not facts.incidents:
        return _empty("No finding lies in this time.")
    cards = "".join(map(_incident, facts.incidents[:_MOST_INCIDENTS]))
    more = len(facts.incidents) - _MOST_INCIDENTS
    return cards + (f"<p>{more:,} more: <code>ask incidents</code> lists them.</p>" if more > 0 else "")


def _incident(row: Row) -> str:
    severity = row["severity"] if row["severity"] in ("critical", "warning") else "info"
    until = "ongoing" if row["last_time"] is None else f"to {time(row['last_time']).html}"
    servers = ", ".join(text(one) for one in row["namesrv_ids"])
    return (
        f'<details class="incident {severity}"><summary><span class="badge {severity}">{severity}</span> '
        f"<b>{text(row['code'])}: {text(row['subject'])}</b> <span class=soft>{time(row['first_time']).html} {until}, on {servers}"
        f"</span></summary><p>{text(row['detail'])}</p>{_touched(row)}<p>{text(row['remedy'])}.</p>"
        f'<p class="soft">Incident {code(row["incident_id"][:8])}, began with event {code(row["root_event"])}</p></details>'
    )


def _touched(row: Row) -> str:
    """Return what an incident touches, the first few of each, and the other codes that it was reported under."""
    others = [code for code in row["codes"] if code != row["code"]]
    parts = [f"Also reported as {text(', '.join(others))}."] if others else []
    for what in ("broker", "topic"):
        number, names = row[f"{what}s"], row[f"{what}_names"]
        if number:
            more = f" and {number - len(names):,} more" if number > len(names) else ""
            parts.append(f"{number:,} {what}{'' if number == 1 else 's'}: {', '.join(map(text, names))}{more}.")
    return f"<p>{' '.join(parts)}</p>" if parts else ""


def _brokers(facts: Facts) -> str:
    if not facts.stays:
        return _empty("No broker was in a table in this time.")
    return "".join(_brokers_of(facts, row, place) for place, row in enumerate(facts.namesrvs))


def _brokers_of(facts: Facts, namesrv: Row, place: int) -> str:
    own, lives = (
        [row for row in rows if row["namesrv_id"] == namesrv["namesrv_id"]] for rows in (facts.stays, facts.lives)
    )
    shown, left = _eventful(own, facts)
    all_of_them = f"{len(left)} more broker(s) were there all the time: " if left else ""
    names = ", ".join(text(f"{row['broker_name']} {row['broker_addr']}") for row in left[:200])
    rest = f"<details><summary>{all_of_them}</summary><p>{names}</p></details>" if left else ""
    cut = len({_key(row) for row in own}) - len({_key(row) for row in shown}) - len(left)
    rest += f'<p class="soft">{cut:,} more brokers came or went: the table below has them.</p>' if cut > 0 else ""
    label = f"Brokers in {namesrv['namesrv_id']}"
    chart = _drawn(
        lambda width: charts.timeline(shown, lives, (facts.start, facts.end), width),
        f"stays{place}",
        label,
        _STAY_LEGEND,
    )
    day = _one_day(facts)
    gone = [row for row in own if row["to_time"] is not None and row["to_time"] <= facts.end]
    rows = [
        (
            time(row["to_time"], day=day),
            text(row["broker_name"]),
            address(row["broker_addr"]),
            text(charts.LEFT_BY.get(row["left_by"] or "", row["left_by"])),
            time(row["from_time"], day=day),
            Cell(code(row["closed_by"]), "event"),
        )
        for row in weightiest(sorted(gone, key=_when), lambda row: row["left_by"] != "namesrv_stopped")
    ]
    told = table(f"gone{place}", f"Departures from {namesrv['namesrv_id']}", _GONE, rows, len(gone))
    told = f"<details><summary>{len(gone):,} departures</summary>{told}</details>" if rows else ""
    return f"<h3>{text(namesrv['namesrv_id'])} ({text(namesrv['version'])})</h3>{chart}{rest}{told}"


def _when(row: Row) -> tuple[dt.datetime, str]:
    return row["to_time"], str(row["broker_addr"])


_GONE = ("Left", "Broker", "Address", "How", "Registered", "Event")


def _eventful(stays: Sequence[Row], facts: Facts) -> tuple[list[Row], list[Row]]:
    """Return the stays that are drawn, those of brokers that came or went first, and brokers that were there all the time."""
    came = {_key(row) for row in stays if row["from_time"] > facts.start or (row["to_time"] or facts.end) < facts.end}
    brokers = list(dict.fromkeys(_key(row) for row in stays))
    if len(brokers) <= _MOST_IN_CHART:
        return list(stays), []
    # A restart of the name server says little of a broker.
    count = Counter(_key(row) for row in stays if row["left_by"] not in (None, "namesrv_stopped"))
    drawn = set(sorted(came, key=lambda key: -count[key])[:_MOST_IN_CHART])
    quiet = {_key(row): row for row in stays if _key(row) not in came}
    return [row for row in stays if _key(row) in drawn], list(quiet.values())


def _key(row: Row) -> tuple[str | None, str | None]:
    return row["broker_name"], row["broker_addr"]


def _routes(facts: Facts) -> str:
    if not facts.changes:
        return _empty("No route changed in this time.")
    domain = facts.start, facts.end
    chart = _drawn(
        lambda width: charts.changes(facts.changes, domain, width), "changes", "Route changes", _CHANGE_LEGEND
    )
    day = _one_day(facts)
    rows = [
        (
            time(row["effect_time"], day=day),
            address(row["namesrv_id"]),
            Cell(_cause(row), "cause"),
            _effect(row),
            Cell(_recorded(row), "event"),
        )
        for row in weightiest(facts.changes, lambda row: (row["vanished"], row["appeared"] + row["changed"]))
    ]
    return chart + table(
        "changed",
        "Events that changed routes",
        ("Time", "Name server", "Cause", "Routes", "Recorded in"),
        rows,
        len(facts.changes),
    )


def _cause(row: Row) -> str:
    who = " ".join(str(row[name]) for name in ("broker_name", "broker_addr") if row[name] is not None)
    return f"{text(row['operation'] or 'an answer or a snapshot')}{f' by {text(who)}' if who else ''}"


def _effect(row: Row) -> str:
    parts = [f"{row[kind]:,} {kind}" for kind in ("appeared", "changed", "vanished", "learned") if row[kind]]
    names = ", ".join(text(topic) for topic in row["topics"])
    more = row["topic_count"] - len(row["topics"])
    return f"{', '.join(parts)}: {names}{f' and {more:,} more' if more > 0 else ''}"


def _recorded(row: Row) -> str:
    if row["source_file"] is None:
        return f"nowhere: {code(row['event_id'])}"
    return f"{text(row['source_file'])}, {row['source_offset']:,}: {code(row['event_id'])}"


def _topic(facts: Facts) -> str:
    if not facts.queues:
        return _empty("Nobody offered it in this time.")
    domain = facts.start, facts.end
    return _drawn(
        lambda width: charts.topic_timeline(facts.queues, domain, width),
        "topics",
        "Who offered the topic",
        _PERM_LEGEND,
    )


def _apart(facts: Facts) -> list[Row]:
    return [
        row
        for row in facts.divergence
        if min(row["to_time"] or facts.end, facts.end) - max(row["from_time"], facts.start) >= _APART
    ]


def _divergence(facts: Facts) -> str:
    if len(facts.namesrvs) < 2:
        return _empty("Only one name server is recorded.")
    apart, domain, day = _apart(facts), (facts.start, facts.end), _one_day(facts)
    short = len(facts.divergence) - len(apart)
    said = (
        f'<p class="soft">{short:,} shorter ones, while a change was on its way to all of them, are left out.</p>'
        if short
        else ""
    )
    if not apart:
        return _empty("They agreed, but for less than a second at a time.") + said

    def length(row: Row) -> float:
        apart_for: dt.timedelta = min(row["to_time"] or facts.end, facts.end) - max(row["from_time"], facts.start)
        return apart_for.total_seconds()

    longest = sorted(apart, key=length, reverse=True)
    among = {row["broker_name"] for row in longest[:_MOST_IN_CHART]}
    drawn = [row for row in apart if row["broker_name"] in among]
    legend = {"some had its topics, some did not": ("▬", "var(--warning)")}
    chart = _drawn(
        lambda width: charts.divergence(drawn, domain, width), "apart", "Disagreement of name servers", legend
    )
    rows = [
        (
            time(row["from_time"], day=day),
            time(row["to_time"], day=day, otherwise="not over"),
            text(row["broker_name"]),
            _some(row["topics"], row["topic_count"]),
            ", ".join(text(one) for one in row["known_to"]),
            Cell(code(row["event_id"]), "event"),
        )
        for row in weightiest(apart, length)
    ]
    return (
        chart
        + said
        + table("apart", "Intervals", ("From", "To", "Broker", "Topics", "Known to", "Began with"), rows, len(apart))
    )


def _some(names: Sequence[str], count: int) -> str:
    more = count - len(names)
    return ", ".join(text(name) for name in names) + (f" and {more:,} more" if more > 0 else "")


def _heartbeats(facts: Facts) -> str:
    if facts.beats > MOST_BEATS:
        return _empty(
            f"{facts.beats:,} heartbeats are too many for one page: narrow it with --namesrv or --from and --to."
        )
    if not facts.gaps:
        return _empty("No broker was silent for more than half of its lease.")
    domain, day = (facts.start, facts.end), _one_day(facts)
    chart = _drawn(
        lambda width: charts.silences(facts.gaps, domain, width), "gaps", "Silences as shares of the lease", _GAP_LEGEND
    )
    rows = [
        (
            Cell(f"{100 * row['gap_ms'] / row['lease_ms']:.0f} %", "number"),
            text(row["broker_name"]),
            address(row["broker_addr"]),
            address(row["namesrv_id"]),
            Cell(f"{row['gap_ms'] / 1000:,.1f} s", "number"),
            time(row["after_time"], day=day),
            text(
                {"beat": "a heartbeat came", "scan": "removed by a scan"}.get(
                    row["ended_by"], "removed with its connection"
                )
            ),
        )
        for row in facts.gaps
    ]
    heads = ("Of the lease", "Broker", "Address", "Name server", "Silent for", "Since", "Ended")
    return chart + table("silent", "Silences of more than half the lease, longest first", heads, rows)


def _source(facts: Facts) -> str:
    checked = {row["namesrv_id"]: row for row in facts.checks}
    rows: list[tuple[Cell | str, ...]] = []
    for namesrv in facts.namesrvs:
        answers = checked.get(namesrv["namesrv_id"])
        counts = [number(int(answers[name])) if answers else number(0) for name in ("answers", "matched", "mismatched")]
        rows.append((address(namesrv["namesrv_id"]), text(namesrv["version"]), *counts))
    heads = ("Name server", "Version", "Answers recorded", "Matched", "Mismatched")
    when = time(facts.known["finished_time"]).html
    return (
        f"<p>Run {code(facts.known['run_id'])}, published {when}; {facts.beats:,} heartbeats on these days; "
        f"namesrv-history {escape(__version__)}. An event's packet: <code>ask explain TOPIC TIME --capture FILE</code>; "
        "proof of an instant: <code>audit --at TIME --namesrv ADDR</code>.</p>"
        + table("checks", "Answers that the name servers gave, checked against the tables", heads, rows)
    )


# -- parts ---------------------------------------------------------------------------------------------------------------


def _drawn(spec: Callable[[int], charts.Spec], name: str, label: str, legend: dict[str, tuple[str, str]]) -> str:
    wide, narrow = (charts.drawn(spec(width), f"{name}-{width}") for width in (charts.WIDE, charts.NARROW))
    return figure(wide, narrow, label, legend)


def _empty(said: str) -> str:
    return f'<p class="empty">{said}</p>'


def _one_day(facts: Facts) -> dt.date | None:
    last = facts.end - dt.timedelta(seconds=1)
    return facts.start.date() if facts.start.date() == last.date() else None
