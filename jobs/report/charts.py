"""The charts of a report: rows in, positions of marks and labels out, in pixels. The page's templates make SVG of them.

Colours are CSS variables of the page, so that a chart is dark where the page is. What strangers sent is in texts alone, which
the templates make printable and escape.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.errors import shortened

Row = Mapping[str, Any]
Domain = tuple[dt.datetime, dt.datetime]

WIDE, NARROW = 860, 230
"""Widths of charts in pixels: for a screen or paper, and for a phone."""
LEFT_BY: Final = {
    "namesrv_stopped": "stopped with its name server",
    "scan": "lease ended",
    "channel_idle": "silent connection closed",
    "channel_close": "connection lost",
    "channel_exception": "connection lost",
    "unregister_broker": "unregistered",
}
"""How a broker left, in words, by operation."""
# Paths of marks, relative to their position, by their signs in legends.
_PATHS = {
    "●": "m-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0",
    "✚": "m-4.5,-1.5h3v-3h3v3h3v3h-3v3h-3v-3h-3z",
    "◆": "m0,-5l4.5,5l-4.5,5l-4.5,-5z",
    "▲": "m0,-5l5,9h-10z",
    "■": "m-4,-4h8v8h-8z",
    "▂": "m-4.5,-1h9v2h-9z",
}
LEFT: Final = {
    "stopped with its name server": ("▂", "var(--quiet)"),
    "lease ended": ("✚", "var(--critical)"),
    "silent connection closed": ("◆", "var(--critical)"),
    "connection lost": ("▲", "var(--warning)"),
    "unregistered": ("■", "var(--accent)"),
    "otherwise": ("●", "var(--quiet)"),
}
"""Sign and colour of a departure's mark, by operation."""
ENDS: Final = {
    "beat": ("a heartbeat came", "●", "var(--accent)"),
    "scan": ("removed by a scan", "✚", "var(--critical)"),
    "idle_channel": ("removed with its connection", "◆", "var(--warning)"),
}
"""Words, sign and colour of a silence's mark, by how the silence ended."""
CHANGES: Final = {
    "appeared": "var(--live)",
    "changed": "var(--accent)",
    "vanished": "var(--critical)",
    "learned": "var(--quiet)",
}
PERMS: Final = {
    "read and write": "var(--live)",
    "read only": "var(--warning)",
    "write only": "var(--accent)",
    "neither": "var(--critical)",
}
_PERMITTED = {6: "read and write", 4: "read only", 2: "write only"}
_BUCKETS = 72
_ROW_PX, _BAR_PX, _PANEL_PX, _SILENCE_PX = 18, 9, 90, 240
# Margins: above, to the right, and below for the times.
_ABOVE, _RIGHT, _BELOW = 8, 6, 24
# Estimated width of a letter in the reader's font; longer labels are cut.
_LETTER_PX = 7
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)


class Mark(NamedTuple):
    """The mark of an occurrence: its path, its colour, and its text."""

    path: str
    colour: str
    say: str


class Label(NamedTuple):
    """A text and its position; `anchor`: the part of the text at that position, start, middle or end."""

    x: float
    y: float
    anchor: str
    text: str


class Drawing(NamedTuple):
    """A chart of `width` by `height`. Positions are relative to `left` and `top`; `grid` and `limit` are paths of lines."""

    width: int
    height: int
    left: int
    top: int
    grid: str
    labels: list[Label]
    marks: list[Mark]
    limit: str = ""


Draw = Callable[[Sequence[Row], Domain, int], Drawing]
"""Draws rows of a time range into a width."""


def timeline(lives: Iterable[Row], stays: Sequence[Row], domain: Domain, width: int) -> Drawing:
    """Return the brokers' stays in one name server's tables, a row each, below the life of its process."""
    places = {name: place for place, name in enumerate(["name server", *dict.fromkeys(map(_broker, stays))])}
    marks = [_bar(0, "name server: process", run, "var(--quiet)", domain, width) for run in _processes(lives, domain)]
    marks += [
        _bar(places[name], f"{name}: live", row, "var(--live)", domain, width)
        for name, row in zip(map(_broker, stays), stays, strict=True)
    ]
    for row in stays:
        at = row["to_time"]
        if at is not None and at <= domain[1]:
            why = LEFT_BY.get(row["left_by"] or "", "otherwise")
            sign, colour = LEFT[why]
            place = f"M{_x(at, domain, width)},{(places[_broker(row)] + 0.5) * _ROW_PX:g}"
            marks.append(Mark(f"{place}{_PATHS[sign]}", colour, f"{_broker(row)}: {why} at {_clock(at)}"))
    return _in_rows(list(places), marks, domain, width)


def topic_timeline(queues: Sequence[Row], domain: Domain, width: int) -> Drawing:
    """Return the times in which brokers offered a topic, a row for each name server and broker, coloured by permission."""
    names = sorted({_on(row) for row in queues})
    marks = []
    for row in queues:
        permitted = _PERMITTED.get(row["perm"] & 6, "neither")
        more = f", {row['read_queues']} queues to read, {row['write_queues']} to write"
        place, say = names.index(_on(row)), f"{_on(row)}: {permitted}"
        marks.append(_bar(place, say, row, PERMS[permitted], domain, width, more))
    return _in_rows(names, marks, domain, width)


def divergence(intervals: Sequence[Row], domain: Domain, width: int) -> Drawing:
    """Return the intervals in which name servers disagreed about a broker's topics, a row each broker."""
    names = sorted({str(row["broker_name"]) for row in intervals})
    marks = []
    for row in intervals:
        name, more = str(row["broker_name"]), f", {row['topic_count']} topics"
        marks.append(_bar(names.index(name), f"{name}: disagree", row, "var(--warning)", domain, width, more))
    return _in_rows(names, marks, domain, width)


def changes(rows: Iterable[Row], domain: Domain, width: int) -> Drawing:
    """Return the number of route changes over time, a panel for each name server."""
    start, step = domain[0], max((domain[1] - domain[0]) / _BUCKETS, dt.timedelta(seconds=1))
    counts: dict[tuple[str, int], dict[str, int]] = {}
    for row in rows:
        of = counts.setdefault((row["namesrv_id"], (row["effect_time"] - start) // step), dict.fromkeys(CHANGES, 0))
        for kind in CHANGES:
            of[kind] += row[kind]
    names = sorted({namesrv for namesrv, _ in counts})
    ticks = _ticks(max([1, *(sum(of.values()) for of in counts.values())]), 4)
    height, marks, labels, lines = 2 * _ROW_PX + _PANEL_PX, [], [], []
    for place, name in enumerate(names):
        bottom = (place + 1) * height - _ROW_PX
        labels.append(Label(0, bottom - _PANEL_PX - 6, "start", name))
        for tick in ticks:
            y = bottom - tick * _PANEL_PX / ticks[-1]
            labels.append(Label(-6, round(y + 4, 1), "end", f"{tick:,}"))
            lines.append(f"M0,{y:.1f}h{width}")
    for (namesrv, bucket), of_kind in sorted(counts.items()):
        since, low = start + step * bucket, float((names.index(namesrv) + 1) * height - _ROW_PX)
        left, right = _x(since, domain, width), _x(since + step, domain, width)
        for kind, count in of_kind.items():
            if count:
                high = round(low - count * _PANEL_PX / ticks[-1], 1)
                say = f"{namesrv}, from {_clock(since)}: {count} routes {kind}"
                marks.append(Mark(f"M{left},{low:g}H{right}V{high}H{left}z", CHANGES[kind], say))
                low = high
    return _complete(len(names) * height - _ROW_PX, "".join(lines), labels, marks, domain, width)


def silences(gaps: Sequence[Row], domain: Domain, width: int) -> Drawing:
    """Return long silences of brokers as shares of their leases, and the limit."""
    ticks = _ticks(max([120.0, *(100 * row["gap_ms"] / row["lease_ms"] for row in gaps)]), 6)

    def y(percent: float) -> float:
        return round(_SILENCE_PX * (1 - percent / ticks[-1]), 1)

    marks = []
    for row in gaps:
        _, sign, colour = ENDS[row["ended_by"]]
        say = (
            f"{_on(row)} ({row['namesrv_id']}): {row['gap_ms'] / 1000:.1f} s of {row['lease_ms'] / 1000:.0f} s silent "
            f"until {_clock(row['until_time'])}, ended by {row['ended_by']}"
        )
        place = f"M{_x(row['until_time'], domain, width)},{y(100 * row['gap_ms'] / row['lease_ms'])}"
        marks.append(Mark(f"{place}{_PATHS[sign]}", colour, say))
    labels = [Label(-6, y(tick) + 4, "end", f"{tick:,} %") for tick in ticks]
    lines = "".join(f"M0,{y(tick)}h{width}" for tick in ticks)
    return _complete(_SILENCE_PX, lines, labels, marks, domain, width)._replace(limit=f"M0,{y(100)}h{width}")


# -- parts ---------------------------------------------------------------------------------------------------------------


def _processes(lives: Iterable[Row], domain: Domain) -> list[Row]:
    """Return when the name server's processes ran; the start of a process before the first recorded start is unknown."""
    found: list[Row] = []
    since: dt.datetime | None = domain[0]
    for row in lives:
        if row["kind"] == "started":
            # No process may have run before the first recorded start.
            since = row["effect_time"]
        elif row["kind"] == "stopped" and since is not None:
            found.append({"from_time": since, "to_time": row["effect_time"]})
            since = None
    return [*found, {"from_time": since, "to_time": None}] if since is not None else found


def _broker(row: Row) -> str:
    return f"{row['broker_name']}  {row['broker_addr']}"


def _on(row: Row) -> str:
    return f"{row['ns']} {row['broker_name']}"


def _bar(place: int, say: str, row: Row, colour: str, domain: Domain, width: int, more: str = "") -> Mark:
    """Return a bar in a row of the chart, at least a pixel long, from its start to its end."""
    since, until = row["from_time"], row["to_time"]
    left, right = _x(since, domain, width), _x(until or domain[1], domain, width)
    top = place * _ROW_PX + (_ROW_PX - _BAR_PX) / 2
    ends = "until " + _clock(until) if until is not None and until <= domain[1] else "and on"
    path = f"M{left},{top:g}H{max(right, left + 1):g}v{_BAR_PX}H{left}z"
    return Mark(path, colour, f"{say} from {_clock(since)} {ends}{more}")


def _in_rows(names: Sequence[str], marks: list[Mark], domain: Domain, width: int) -> Drawing:
    """Return a chart of marks with one row for each name."""
    most = _room(width) // _LETTER_PX
    shown = (shortened(name, most) for name in names)
    labels = [Label(-6, (place + 0.5) * _ROW_PX + 4, "end", name) for place, name in enumerate(shown)]
    return _complete(_ROW_PX * max(len(names), 1), "", labels, marks, domain, width)


def _complete(height: int, lines: str, labels: list[Label], marks: list[Mark], domain: Domain, width: int) -> Drawing:
    """Return a chart of that height with a time axis below: round times, as many as labels fit."""
    most, span = max(width // 100, 3) + 1, (domain[1] - domain[0]).total_seconds()
    step = next((step for step in _STEPS_S if span <= step * most), round(span / most))
    shape = "%m-%d" if span > 2 * 86400 else "%H:%M" if span > 20 * 60 else "%H:%M:%S"
    first = -(-int(domain[0].timestamp()) // step) * step
    grid = f"M0,0V{height}H{width}{lines}"
    for seconds in range(first, int(domain[1].timestamp()) + 1, step):
        at = dt.datetime.fromtimestamp(seconds, dt.timezone.utc)
        x = _x(at, domain, width)
        anchor = "start" if x < _ROW_PX else "end" if x > width - _ROW_PX else "middle"
        labels.append(Label(x, height + 16, anchor, at.strftime(shape)))
        grid += f"M{x},0V{height + 5}"
    size = _room(width) + width + _RIGHT, _ABOVE + height + _BELOW
    return Drawing(*size, _room(width), _ABOVE, grid, labels, marks)


def _room(width: int) -> int:
    """Return the room left of every chart, equal for all charts so that their time axes align."""
    return 252 if width == WIDE else 144


def _x(at: dt.datetime, domain: Domain, width: int) -> float:
    return round(min(max((at - domain[0]) / (domain[1] - domain[0]), 0), 1) * width, 1)


def _ticks(greatest: float, count: int) -> list[int]:
    """Return about `count` round numbers from 0 on; the last is not below the greatest value."""
    step = next(of * 10**power for power in range(20) for of in (1, 2, 5) if of * 10**power * count >= greatest)
    return [step * number for number in range(-int(-greatest // step) + 1)]


def _clock(instant: dt.datetime) -> str:
    return instant.astimezone(dt.timezone.utc).strftime("%F %T")
