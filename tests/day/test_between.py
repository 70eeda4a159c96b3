"""Name servers compared: clocks far apart, and registries of which one lacks what others have."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from namesrv_day.flags.between import REFUSED, Compared, Span, across, compared, served, together
from namesrv_day.flags.findings import About, Unsettled
from schemas import gold
from schemas.findings import Thresholds
from schemas.times import instant_us
from tests.day.flag_rows import (
    DAY,
    NEXT_DAY,
    NS,
    Event,
    Row,
    alive,
    clock,
    event,
    member,
    news,
    queues,
    seq,
    still_so,
    tables,
)

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
    refused: dict[str, list[Row]] | None = None,
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
            pa.Table.from_pylist((refused or {}).get(name, []), schema=REFUSED),
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


def spans_of(found: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    """Return the divergences, in order of time."""
    rows = sorted(found.to_pylist(), key=lambda row: (row["namesrv_id"], row["from_time"], row["subject"]))
    return [tuple(row[name] for name in columns) for row in rows if row["code"] == "NS_DIVERGENCE"]


SPAN = ("namesrv_id", "subject", "from_time", "to_time", "topic_names", "evidence")


def test_what_one_name_server_lacks_for_longer_than_brokers_take_to_beat_is_told() -> None:
    """Of the one that lacks it, since the event that took it until that which brought it back; sixty seconds exactly count.

    A topic that came 59.999999 s later to one of them is none, nor is one that goes on with other queues.
    """
    wiped, back = event("wiped", "10:00"), event("back", "10:01")
    late, changed = event("late", "08:00:59.999999"), event("changed", "12:00")
    ours = [queues("T", "broker-a", UP), queues("U", "broker-a", UP), queues("V", "broker-a", UP)]
    theirs = [
        *(queues("T", "broker-a", UP, wiped), queues("T", "broker-a", back)),
        queues("U", "broker-a", late),
        *(queues("V", "broker-a", UP, changed), queues("V", "broker-a", changed, perm=4)),
    ]
    found = found_in({NS: ours, OTHER_NS: theirs})
    assert spans_of(found, *SPAN) == [(OTHER_NS, "broker-a", wiped[1], back[1], ["T"], ["wiped", "back"])]
    assert spans_of(found, "detail", "brokers", "topics") == [
        (f"1 topic that {NS} routed to broker-a and {OTHER_NS} did not: T", 1, 1)
    ]


def test_a_broker_that_never_came_to_one_of_three_is_told_with_all_of_its_topics() -> None:
    """Known to two of them; the event that is evidence is the one by which another knows it."""
    rows = [queues(f"T{n:02}", "broker-b", UP) for n in range(12)] + [queues("T", "broker-a", UP)]
    found = found_in({NS: rows, OTHER_NS: rows, THIRD_NS: rows[-1:]})
    ((name, subject, begin, end, topics, evidence),) = spans_of(found, *SPAN)
    assert (name, subject, begin, end, len(topics), evidence) == (THIRD_NS, "broker-b", UP[1], None, 10, ["up"])
    ((number, detail),) = spans_of(found, "topics", "detail")
    assert number == 12
    assert detail.startswith(f"12 topics that {OTHER_NS}, {NS} routed to broker-b and {THIRD_NS} did not: T00, T01, ")


def test_brokers_that_one_event_took_from_one_are_one_finding_if_all_come_back() -> None:
    """One for the stretch, with both brokers."""
    gone, back = event("gone", "10:00"), event("back", "10:20")
    names = ("broker-a", "broker-b")
    ours = [queues("T", name, UP) for name in names]
    theirs = [row for name in names for row in (queues("T", name, UP, gone), queues("T", name, back))]
    found = spans_of(found_in({NS: ours, OTHER_NS: theirs}), "subject", "brokers", "topics", "evidence")
    assert found == [("broker-a and 1 more", 2, 1, ["gone", "back"])]


@pytest.mark.slow
def test_what_lasts_over_midnight_is_told_when_it_begins_and_when_it_ends() -> None:
    """Once on the first day, not on a day on which nothing happens, and with its true beginning where it ends."""
    gone, third = event("gone", "10:00"), dt.date(2026, 3, 3)
    back = event("back", "09:00", third)
    ours = [queues("T", "broker-a", UP), queues("U", "broker-a", UP)]
    first = found_in({NS: ours, OTHER_NS: [queues("T", "broker-a", UP, gone), ours[1]]})
    assert spans_of(first, *SPAN) == [(OTHER_NS, "broker-a", gone[1], None, ["T"], ["gone"])]
    second = found_in({NS: ours, OTHER_NS: ours[1:]}, told=first, day=NEXT_DAY)
    assert second.num_rows == 0
    last = found_in({NS: ours, OTHER_NS: [queues("T", "broker-a", back), ours[1]]}, told=first, day=third)
    assert spans_of(last, *SPAN) == [(OTHER_NS, "broker-a", gone[1], back[1], ["T"], ["gone", "back"])]
    again = found_in({NS: ours, OTHER_NS: ours}, told=first, day=third)
    assert spans_of(again, "to_time") == [(clock("00:00", third),)], "what does not show any more was over at midnight"


@pytest.mark.slow
def test_brokers_that_one_event_took_are_one_finding_over_midnight() -> None:
    """Of twelve, of which ten are named: one row when it begins, none while the last is away, one when that is back."""
    gone, third, fourth = event("gone", "10:00"), dt.date(2026, 3, 3), dt.date(2026, 3, 4)
    names = [f"broker-{number:02}" for number in range(12)]
    kept = queues("T", "broker-a", UP)
    ours = [queues("T", name, UP) for name in names] + [kept]
    first = found_in({NS: ours, OTHER_NS: [queues("T", name, UP, gone) for name in names] + [kept]})
    assert spans_of(first, "subject", "brokers", "evidence") == [("broker-00 and 11 more", 12, ["gone"])]
    assert found_in({NS: ours, OTHER_NS: [kept]}, told=first, day=NEXT_DAY).num_rows == 0
    early, late = event("early", "09:00", third), event("late", "11:00", fourth)
    most = [queues("T", name, early) for name in names[:11]] + [kept]
    assert found_in({NS: ours, OTHER_NS: most}, told=first, day=third).num_rows == 0
    last = found_in({NS: ours, OTHER_NS: [*most, queues("T", names[11], late)]}, told=first, day=fourth)
    columns = ("subject", "brokers", "from_time", "to_time", "evidence")
    assert spans_of(last, *columns) == [("broker-00 and 11 more", 12, gone[1], late[1], ["gone", "late"])]


@pytest.mark.slow
def test_findings_of_two_events_over_midnight_end_each_with_its_brokers() -> None:
    """One is over on the second day; a broker of it that goes anew belongs to the event that took it then."""
    one, two, third = event("one", "10:00"), event("two", "11:00"), dt.date(2026, 3, 3)
    names = ("broker-b", "broker-c", "broker-d")
    kept = queues("T", "broker-a", UP)
    ours = [queues("T", name, UP) for name in names] + [kept]
    lost = [queues("T", name, UP, at) for name, at in zip(names, (one, one, two), strict=True)]
    first = found_in({NS: ours, OTHER_NS: [*lost, kept]})
    assert spans_of(first, "subject", "evidence") == [("broker-b and 1 more", ["one"]), ("broker-d", ["two"])]
    back, anew = event("back", "09:00", NEXT_DAY), event("anew", "12:00", NEXT_DAY)
    theirs = [queues("T", "broker-b", back, anew), queues("T", "broker-c", back), kept]
    second = found_in({NS: ours, OTHER_NS: theirs}, told=first, day=NEXT_DAY)
    assert spans_of(second, "subject", "from_time", "to_time", "evidence") == [
        ("broker-b and 1 more", one[1], back[1], ["one", "back"]),
        ("broker-b", anew[1], None, ["anew"]),
    ]
    end = event("end", "09:00", third)
    told = pa.concat_tables([first, second])
    theirs = [*(queues("T", name, end) for name in names[::2]), queues("T", "broker-c", back), kept]
    last = found_in({NS: ours, OTHER_NS: theirs}, told=told, day=third)
    assert spans_of(last, "subject", "from_time", "to_time", "evidence") == [
        ("broker-d", two[1], end[1], ["two", "end"]),
        ("broker-b", anew[1], end[1], ["anew", "end"]),
    ]


def test_only_what_was_there_and_known_is_compared() -> None:
    """Not while a name server was down, nor where nothing of it is recorded; and what comes later is counted from then on."""
    rows = [queues("T", "broker-a", UP)]
    down = event("down", "10:00")
    back = event("back", "10:30:20")
    theirs = [queues("T", "broker-a", UP, down), queues("T", "broker-a", back)]
    spans = {OTHER_NS: [(us("08:00"), us("10:00")), (us("10:30"), us("20:00"))]}
    assert spans_of(found_in({NS: rows, OTHER_NS: theirs}, spans=spans), "subject") == []
    spans = {OTHER_NS: [(us("08:00"), us("10:00")), (us("10:29"), us("20:00"))]}
    assert spans_of(found_in({NS: rows, OTHER_NS: theirs}, spans=spans), *SPAN[:4]) == [
        (OTHER_NS, "broker-a", clock("10:29"), back[1])
    ]
    assert spans_of(found_in({NS: rows, OTHER_NS: []}, spans={OTHER_NS: []}), "subject") == []


def test_name_servers_that_share_no_broker_are_not_compared() -> None:
    """A broker name is in every cluster: an address under it is what name servers share."""
    rows = [queues("T", "broker-a", UP)]
    assert spans_of(found_in({NS: rows, OTHER_NS: []}), "subject") == [("broker-a",)]
    assert spans_of(found_in({NS: rows, OTHER_NS: []}, addrs={OTHER_NS: "192.168.0.1:10911"}), "subject") == []


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


def told_version(at: Event, counter: int) -> Row:
    version = {"state_version": 0, "timestamp": seq(clock("00:00")) // 1_000_000, "counter": counter}
    broker: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "a:1", "is_regression": False}
    return alive(at, data_version=version, **broker)


def test_name_servers_that_were_told_versions_at_times_far_apart_disagree() -> None:
    """Three versions by a median of more than five seconds; two say nothing, nor does what was told on days before."""

    def versions(namesrv_id: str, delays_s: tuple[int, ...], day: dt.date = DAY) -> Compared:
        rows = [
            {
                **told_version(event(f"{namesrv_id}-{number}", f"0{number}:00:{late:02}", day), number),
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
