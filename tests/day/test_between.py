"""Name servers compared: clocks far apart, and registries of which one lacks what others have."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from namesrv_day.findings import REFUSED, About, Compared, Span, Unsettled, across, compared, served, together
from schemas import gold
from schemas.findings import Thresholds
from schemas.times import instant_us
from tests.day.flag_rows import news, still_so, tables
from tests.rows import DAY, NS, Event, Row, clock, event, member, queues, version
from tests.situations import Language, Situation, title

OTHER_NS, THIRD_NS = "10.0.0.2:9876", "10.0.0.7:9876"
ADDR = "10.0.0.1:10911"
UP = event("up", "08:00")
IDENTITY = ("namesrv_id", "code", "subject", "from_time", "told_on")


def us(at: str, day: dt.date = DAY) -> int:
    return instant_us(clock(at, day))


def found_in(
    servers: dict[str, list[Row]],
    *,
    told: pa.Table | None = None,
    day: dt.date = DAY,
    spans: dict[str, list[Span]] | None = None,
    addrs: dict[str, str] | None = None,
) -> pa.Table:
    """Return what comparing name servers tells that begins or ends on a day.

    `servers`: rows of topic_queue_history; all have broker-a at one address. `told`: the same of days before.
    """
    before = tables({})["findings"] if told is None else still_so(told)
    slices = {
        name: tables(
            {
                gold.TOPIC_QUEUE_HISTORY: [{**row, "namesrv_id": name} for row in rows],
                gold.BROKER_ADDR_HISTORY: [member("broker-a", 0, (addrs or {}).get(name, ADDR), UP, namesrv_id=name)],
            }
        )
        for name, rows in servers.items()
    }
    all_day = [(us("08:00", day), us("20:00", day))]
    parts = [
        compared(
            of,
            before.filter(pc.field("namesrv_id") == name),
            (spans or {}).get(name, all_day),
            REFUSED.empty_table(),
            About(name, day),
        )
        for name, of in slices.items()
    ]

    def read(names: Any, brokers: Any) -> pa.Table:
        rows = pa.concat_tables([slices[name]["topic_queue_history"] for name in names])
        return rows.filter(pc.field("broker_name").isin(brokers))

    found = across(together(parts), read, day, Thresholds())
    stand = [*zip(*(before[name].to_pylist() for name in IDENTITY), strict=True)]
    there = [*zip(*(found[name].to_pylist() for name in IDENTITY), strict=True)]
    assert set(stand) <= set(there), "what stood when the day began is there, over or not"
    return news(found, day)


def routed(*servers: str) -> Callable[..., list[Row]]:
    """Return what makes rows of topics that these name servers route; of several names `T00..11` is the first and the last."""

    def rows(topic: str, name: str, *when: Event, **values: Any) -> list[Row]:
        of = [queues(t, b, *when, **values) for t in names(topic) for b in names(name)]
        return [{**row, "namesrv_id": server} for server in servers for row in of]

    return rows


def names(word: str) -> list[str]:
    many = re.fullmatch(r"(.*?)(\d\d)\.\.(\d\d)", word)
    return [word] if many is None else [f"{many[1]}{n:02}" for n in range(int(many[2]), int(many[3]) + 1)]


SERVERS = {"ours": NS, "theirs": OTHER_NS, "third": THIRD_NS}
LANGUAGE = Language(
    {
        **{word: ("routed", routed(server)) for word, server in SERVERS.items()},
        "both": ("routed", routed(NS, OTHER_NS)),
        "known": ("known", lambda server, *span: (server, tuple(map(instant_us, span)))),
        "addr": ("addr", lambda server, addr: (server, addr)),
    },
    SERVERS,
    DAY,
)


@pytest.mark.slow
@pytest.mark.parametrize("story", LANGUAGE.stories(Path(__file__).with_name("between.txt")), ids=title)
def test_what_one_name_server_lacks_is_told(story: list[Situation]) -> None:
    """Of the one that lacks it for longer than brokers take to beat: when it begins, and when it ends."""
    days: list[pa.Table] = []
    for situation in story:
        if situation.name == "or":
            days.pop()
        servers: dict[str, list[Row]] = {NS: [], OTHER_NS: []}
        for row in situation.rows["routed"]:
            servers.setdefault(row["namesrv_id"], []).append(row)
        known: dict[str, list[Span]] = {}
        spans: list[Any] = situation.rows.get("known", [])
        for server, span in spans:
            known.setdefault(server, []).extend([span] if span else [])
        addrs: list[Any] = situation.rows.get("addr", [])
        day = dt.date.fromisoformat(situation.shows) if days else DAY
        told = pa.concat_tables(days) if days else None
        found = found_in(servers, told=told, day=day, spans=known, addrs=dict(addrs))
        rows = sorted(found.to_pylist(), key=lambda row: (row["namesrv_id"], row["from_time"], row["subject"]))
        for row, line in zip(rows, situation.found, strict=True):
            server, subject, begin, end, evidence, *more = line.split(" | ")
            columns = ("code", "namesrv_id", "subject", "from_time", "to_time")
            wanted = (story[0].name, SERVERS[server], subject, LANGUAGE.value(begin), LANGUAGE.value(end))
            assert tuple(row[name] for name in columns) == wanted
            assert row["evidence"] == evidence.split(", ")
            for name, _, value in (word.partition("=") for word in more):
                shown = ",".join(row[name]) if isinstance(row[name], list) else str(row[name])
                assert shown.startswith(value) if name == "detail" else shown == value
        days.append(found)


def test_a_registry_is_compared_while_it_was_there_and_known() -> None:
    """Between the first and the last instant recorded: not before a start, from a stop on, in a gap, or unsettled."""

    def mark(kind: str, at: str, until: str | None = None) -> Row:
        return {"kind": kind, "at": clock(at), "until": None if until is None else clock(until)}

    def spans(*marks: Row, unsettled: Unsettled | None = None) -> list[tuple[str, str]]:
        day = {"namesrv_id": NS, "day": DAY, "first_time": clock("08:00"), "last_time": clock("20:00"), "marks": marks}
        found = served([day], unsettled)
        return [tuple(f"{dt.datetime.fromtimestamp(at / 1e6, dt.timezone.utc):%H:%M}" for at in span) for span in found]  # type: ignore[misc]

    assert served([], None) == []
    assert spans() == [("08:00", "20:00")]
    assert spans(mark("observed_from", "08:00"), mark("started", "09:00")) == [("09:00", "20:00")]
    assert spans(mark("stopped", "09:00")) == [("08:00", "09:00")]
    assert spans(mark("stopped", "09:00"), mark("started", "10:00"), mark("gap", "11:00", "12:00")) == [
        ("08:00", "09:00"),
        ("10:00", "11:00"),
        ("12:00", "20:00"),
    ]
    assert spans(mark("doubt", "11:00"), unsettled=Unsettled(us("08:00"), us("08:02"))) == [("08:02", "11:00")]


def test_name_servers_that_were_told_versions_at_times_far_apart_disagree() -> None:
    """Three versions by a median of more than five seconds; two say nothing, nor does what was told on days before."""

    def versions(namesrv_id: str, delays_s: tuple[int, ...], day: dt.date = DAY) -> Compared:
        rows = [
            {
                **version(event(f"{namesrv_id}-{number}", f"0{number}:00:{late:02}", day), number, clock("00:00")),
                "namesrv_id": namesrv_id,
            }
            for number, late in enumerate(delays_s, start=3)
        ]
        of_day = tables({gold.DATA_VERSION_HISTORY: rows})
        return compared(of_day, of_day["findings"], [], REFUSED.empty_table(), About(namesrv_id, DAY))

    def apart(*parts: Compared) -> list[tuple[Any, ...]]:
        found = across(together(parts), lambda *_: tables({})["topic_queue_history"], DAY, Thresholds())
        columns = ("namesrv_id", "code", "subject", "from_time", "to_time", "detail")
        return [tuple(row[name] for name in columns) for row in found.to_pylist()]

    # the first of the two is the smaller name
    assert apart(versions(NS, (0, 0, 0)), versions(OTHER_NS, (6, 7, 40))) == [
        (
            *(OTHER_NS, "CLOCK_SKEW", f"{OTHER_NS} {NS}", clock("03:00:06"), clock("05:00:40")),
            "the second recorded the same 3 data versions by -7.0 s later (the median)",
        )
    ]
    assert apart(versions(NS, (0, 0)), versions(OTHER_NS, (6, 7))) == []
    assert versions(NS, (0, 0, 0), dt.date(2026, 2, 28)).versions.num_rows == 0
