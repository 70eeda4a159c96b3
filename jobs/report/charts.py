"""The charts of a report: rows in, Vega-Lite specifications and then SVG out. No chart asks anything of the network.

Colours are CSS variables of the page, so that a chart is dark where the page is. What strangers sent comes in as data only,
never as part of a specification.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jobs.printable import printable

Row = Mapping[str, Any]
Spec = dict[str, Any]
Domain = tuple[dt.datetime, dt.datetime]

WIDE, NARROW = 860, 230
"""Widths in pixels of what is drawn into: of a screen or paper, and of a phone."""
LEFT_BY: Final = {
    "namesrv_stopped": "stopped with its name server",
    "scan": "lease ended",
    "channel_idle": "silent connection closed",
    "channel_close": "connection lost",
    "channel_exception": "connection lost",
    "unregister_broker": "unregistered",
}
"""How a broker went, in words, by operation."""
_SHAPES = {
    "stopped with its name server": ("stroke", "var(--quiet)"),
    "lease ended": ("cross", "var(--critical)"),
    "silent connection closed": ("diamond", "var(--critical)"),
    "connection lost": ("triangle-up", "var(--warning)"),
    "unregistered": ("square", "var(--accent)"),
    "otherwise": ("circle", "var(--quiet)"),
}
_BUCKETS = 72
CHANGES: Final = {
    "appeared": "var(--live)",
    "changed": "var(--accent)",
    "vanished": "var(--critical)",
    "learned": "var(--quiet)",
}
_ENDS = {
    "beat": ("circle", "var(--accent)"),
    "scan": ("cross", "var(--critical)"),
    "idle_channel": ("diamond", "var(--warning)"),
}
PERMS: Final = {
    "read and write": "var(--live)",
    "read only": "var(--warning)",
    "write only": "var(--accent)",
    "neither": "var(--critical)",
}
_PERMITTED = {6: "read and write", 4: "read only", 2: "write only"}


def drawn(spec: Spec, name: str) -> str:
    """Return a specification as SVG. `name`: its own in the page; ids within it begin so."""
    import vl_convert  # noqa: PLC0415  only who draws waits for its engine

    # Of a control character in a text the engine makes SVG that it cannot read itself, and ends the process.
    svg: str = vl_convert.vegalite_to_svg(_printable(spec), vl_version="5.20")
    svg = re.sub(r'(id="|url\(#)(clip|gradient)', rf"\g<1>{name}-\g<2>", svg)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r' (role|aria-roledescription)="graphics-symbol"| aria-roledescription="[^"]*"', "", svg)
    # A tenth of a pixel is enough, of paths: what looks like a number elsewhere may be an address.
    return re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0]), svg)


def timeline(stays: Sequence[Row], lives: Iterable[Row], domain: Domain, width: int) -> Spec:
    """Return the brokers' stays in one name server's tables, a row each, below the life of its process."""
    labels = list(dict.fromkeys(_broker(row) for row in stays))
    bars = [_bar("name server", run, "process", domain) for run in _processes(lives, domain)]
    bars += [_bar(_broker(row), row, "live", domain) for row in stays]
    ends = []
    for row in stays:
        if row["to_time"] is not None and row["to_time"] <= domain[1]:
            why = LEFT_BY.get(row["left_by"] or "", "otherwise")
            say = f"{_broker(row)}: {why} at {_clock(row['to_time'])}"
            ends.append({"row": _broker(row), "at": _ms(row["to_time"]), "why": why, "say": say})
    lasting = _bars(bars, {"process": "var(--quiet)", "live": "var(--live)"})
    return _layered([lasting, _points(ends, _SHAPES)], domain, width, ["name server", *labels])


def topic_timeline(queues: Sequence[Row], domain: Domain, width: int) -> Spec:
    """Return who offered a topic when, a row for each name server and broker, by what was permitted."""
    rows = []
    for row in queues:
        permitted = _PERMITTED.get(row["perm"] & 6, "neither")
        more = f", {row['read_queues']} queues to read, {row['write_queues']} to write"
        rows.append(_bar(_on(row), row, permitted, domain, more))
    return _layered([_bars(rows, PERMS)], domain, width, sorted({row["row"] for row in rows}))


def divergence(intervals: Sequence[Row], domain: Domain, width: int) -> Spec:
    """Return the intervals in which name servers disagreed about a broker's topics, a row each broker."""
    rows = [
        _bar(printable(str(row["broker_name"])), row, "disagree", domain, f", {row['topic_count']} topics")
        for row in intervals
    ]
    return _layered([_bars(rows, {"disagree": "var(--warning)"})], domain, width, sorted({row["row"] for row in rows}))


def changes(rows: Iterable[Row], domain: Domain, width: int) -> Spec:
    """Return how many routes changed when, a panel for each name server."""
    start, step = domain[0], max((domain[1] - domain[0]) / _BUCKETS, dt.timedelta(seconds=1))
    counts: dict[tuple[str, int], dict[str, int]] = {}
    for row in rows:
        of = counts.setdefault((row["namesrv_id"], (row["effect_time"] - start) // step), dict.fromkeys(CHANGES, 0))
        for kind in CHANGES:
            of[kind] += row[kind]
    values = []
    for (namesrv, bucket), of_kind in sorted(counts.items()):
        since, low = start + step * bucket, 0
        for kind, count in of_kind.items():
            say = f"{namesrv}, from {_clock(since)}: {count} routes {kind}"
            place = {"from": _ms(since), "to": _ms(since + step), "low": low, "high": low + count}
            values += [{"namesrv": namesrv, "kind": kind, "say": say, **place}] * bool(count)
            low += count
    bars = {
        "mark": {"type": "rect", "stroke": None},
        "width": width,
        "height": 90,
        "encoding": {
            "x": _time("from", domain, width),
            "x2": {"field": "to"},
            "y": {
                "field": "low",
                "type": "quantitative",
                "axis": {**_AXIS, **_room(width), "title": None, "tickCount": 4},
            },
            "y2": {"field": "high"},
            "color": _colour("kind", CHANGES),
            "description": {"field": "say"},
        },
    }
    label = {"labelColor": "currentColor", "labelAnchor": "start", "labelAngle": 0, "labelOrient": "top"}
    panels = {"row": {"field": "namesrv", "header": {"title": None, **label}}}
    return _complete({"data": {"values": values}, "facet": panels, "spec": bars})


def silences(gaps: Sequence[Row], domain: Domain, width: int) -> Spec:
    """Return long silences of brokers as shares of their leases, and the limit."""
    values = [
        {
            "row": 100 * row["gap_ms"] / row["lease_ms"],
            "at": _ms(row["until_time"]),
            "why": row["ended_by"],
            "say": f"{_on(row)} ({row['namesrv_id']}): {row['gap_ms'] / 1000:.1f} s of "
            f"{row['lease_ms'] / 1000:.0f} s silent until {_clock(row['until_time'])}, ended by {row['ended_by']}",
        }
        for row in gaps
    ]
    points = _points(values, _ENDS)
    points["encoding"]["y"] = {
        "field": "row",
        "type": "quantitative",
        "axis": {**_AXIS, **_room(width), "title": "% of the lease", "titleColor": "currentColor", "titleX": -45},
        "scale": {"domain": [0, max([120.0, *(value["row"] for value in values)])], "clamp": True},
    }
    limit = {
        "data": {"values": [{"limit": 100}]},
        "mark": {"type": "rule", "color": "var(--critical)", "strokeDash": [5, 4], "aria": False},
        "encoding": {"y": {"field": "limit", "type": "quantitative"}},
    }
    points["encoding"]["x"] = _time("at", domain, width)
    return _complete({"width": width, "height": 240, "layer": [limit, points]})


def _printable(value: Any) -> Any:
    """Return a part of a specification, all texts of which are printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {name: _printable(of) for name, of in value.items()}
    return [_printable(of) for of in value] if isinstance(value, (list, tuple)) else value


# -- parts ---------------------------------------------------------------------------------------------------------------

_AXIS = {
    "labelColor": "currentColor",
    "tickColor": "var(--line)",
    "domainColor": "var(--line)",
    "gridColor": "var(--line)",
    "labelFontSize": 11,
}
_ROW_PX = 18


def _room(width: int) -> Spec:
    """Return the same room left of every chart: one time stands above the other, over all of the page.

    The reader's font may be wider than the one by which labels are measured here, and what does not fit is cut off.
    """
    limit = 210 if width == WIDE else 120
    return {"labelLimit": limit, "minExtent": limit * 6 // 5, "maxExtent": limit * 6 // 5}


def _processes(lives: Iterable[Row], domain: Domain) -> list[Row]:
    """Return when the name server's processes ran; one that ran before the first start is not known to have begun."""
    found: list[Row] = []
    since: dt.datetime | None = domain[0]
    for row in lives:
        if row["kind"] == "started":
            # Before the first that was seen there may have been none.
            since = row["effect_time"]
        elif row["kind"] == "stopped" and since is not None:
            found.append({"from_time": since, "to_time": row["effect_time"]})
            since = None
    return [*found, {"from_time": since, "to_time": None}] if since is not None else found


def _broker(row: Row) -> str:
    return printable(f"{row['broker_name']}  {row['broker_addr']}")


def _on(row: Row) -> str:
    return f"{row['ns']} {printable(str(row['broker_name']))}"


def _bar(label: str, row: Row, kind: str, domain: Domain, more: str = "") -> Row:
    since, until = row["from_time"], row["to_time"]
    ends = "until " + _clock(until) if until is not None and until <= domain[1] else "and on"
    return {
        "row": label,
        "from": _ms(max(since, domain[0])),
        "to": _ms(min(until or domain[1], domain[1])),
        "kind": kind,
        "say": f"{label}: {kind} from {_clock(since)} {ends}{more}",
    }


def _bars(values: Sequence[Row], colours: Mapping[str, str]) -> Spec:
    return {
        "data": {"values": list(values)},
        "mark": {"type": "bar", "height": 9, "minBandSize": 1, "cornerRadius": 2},
        "encoding": {"x2": {"field": "to"}, "color": _colour("kind", colours), "description": {"field": "say"}},
    }


def _points(values: Sequence[Row], marks: Mapping[str, tuple[str, str]]) -> Spec:
    """Return points of the shape and colour that their `why` has among `marks`."""
    shapes = {"domain": list(marks), "range": [shape for shape, _ in marks.values()]}
    return {
        "data": {"values": list(values)},
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
        "encoding": {
            "x": {"field": "at", "type": "temporal"},
            "color": _colour("why", {value: colour for value, (_, colour) in marks.items()}),
            "shape": {"field": "why", "type": "nominal", "scale": shapes, "legend": None},
            "description": {"field": "say"},
        },
    }


def _layered(layers: Sequence[Spec], domain: Domain, width: int, labels: Sequence[str]) -> Spec:
    """Return layers over common rows, one for each label."""
    rows = {
        "field": "row",
        "type": "nominal",
        "sort": None,
        "scale": {"domain": list(labels)},
        "axis": {**_AXIS, **_room(width), "title": None, "ticks": False, "grid": False},
    }
    for layer in layers:
        first = "from" if "x2" in layer["encoding"] else "at"
        layer["encoding"] |= {"x": _time(first, domain, width), "y": rows}
    resolve = {"scale": {"color": "independent", "shape": "independent"}}
    return _complete(
        {"width": width, "height": _ROW_PX * max(len(labels), 1), "layer": list(layers), "resolve": resolve}
    )


def _time(field: str, domain: Domain, width: int) -> Spec:
    days = domain[1] - domain[0] > dt.timedelta(days=2)
    shape = "%m-%d" if days else "%H:%M" if domain[1] - domain[0] > dt.timedelta(minutes=20) else "%H:%M:%S"
    return {
        "field": field,
        "type": "temporal",
        "scale": {"type": "utc", "domain": [_ms(domain[0]), _ms(domain[1])], "clamp": True},
        "axis": {
            **_AXIS,
            "title": None,
            "format": shape,
            "formatType": "time",
            "labelOverlap": "greedy",
            "labelSeparation": 10,  # the reader's font may be wider
            "tickCount": max(width // 100, 3),
        },
    }


def _colour(field: str, colours: Mapping[str, str]) -> Spec:
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None}


def _complete(spec: Spec) -> Spec:
    config = {"background": None, "view": {"stroke": None}, "font": "system-ui, sans-serif", "customFormatTypes": False}
    return {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", **spec, "config": config}


def _ms(instant: dt.datetime) -> int:
    return round(instant.timestamp() * 1000)


def _clock(instant: dt.datetime) -> str:
    return instant.astimezone(dt.timezone.utc).strftime("%F %T")
