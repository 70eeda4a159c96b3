"""Intervals: half-open, at most one open for a row, and nothing that was never there to see."""

from __future__ import annotations

import pytest

from namesrv_core.history.intervals import Histories, Interval, Member, Position, Reported, restored, timeline_of
from namesrv_core.machine.profile import V4_9_7, V5_4_0
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.tables import BrokerData, BrokerLiveInfo, DataVersion, LiveKey, QueueData

KEY = ("T", "broker-a")
OLD, NEW = QueueData(4, 4, 6, 0), QueueData(8, 8, 6, 0)


def put(value: object | None, key: tuple[str | None, ...] = KEY) -> Change:
    return Change("topic_queue_table", key, value)


def group(*members: tuple[int, str | None], acting: bool = False) -> Change:
    return Change("broker_addr_table", ("broker-a",), BrokerData("C", members, acting))


def record(histories: Histories, seq: int, *changes: Change) -> list[Interval]:
    return list(histories.record(changes, seq=seq, event_id=f"e{seq}", at_us=seq * 1_000))


def opened(histories: Histories) -> dict[tuple[object, ...], object]:
    return {interval.key: interval.value for interval in histories.open_intervals()}


def test_interval_ends_where_the_next_begins() -> None:
    """Half-open: the event that replaces a row ends the old interval and opens the new one at one instant."""
    histories = Histories()
    assert record(histories, 1, put(OLD)) == []
    (closed,) = record(histories, 2, put(NEW))
    assert (closed.valid_from_us, closed.valid_to_us, closed.opened_by, closed.closed_by) == (1_000, 2_000, "e1", "e2")
    (left,) = histories.open_intervals()
    assert (left.valid_from_us, left.valid_to_us, left.value) == (2_000, None, NEW)


def test_what_one_event_puts_and_takes_back_is_no_interval() -> None:
    """Nobody could have seen it; what it replaced was there until then."""
    histories = Histories()
    assert record(histories, 1, put(OLD), put(None)) == []
    assert opened(histories) == {}
    record(histories, 2, put(OLD))
    (closed,) = record(histories, 3, put(NEW), put(None))
    assert (closed.value, closed.closed_at) == (OLD, Position(3, 0))


def test_removing_what_is_not_there_closes_nothing() -> None:
    """A change of a table without history is passed over, too."""
    assert record(Histories(), 1, put(None), Change("scan_halted", (), True)) == []


def test_group_has_one_interval_for_each_member() -> None:
    """A new member opens one; the others go on."""
    histories = Histories()
    record(histories, 1, group((0, "a:1")))
    assert record(histories, 2, group((0, "a:1"), (1, "a:2"))) == []
    (closed,) = record(histories, 3, group((1, "a:2")))
    assert (closed.key, closed.value) == (("broker-a", 0), Member("a:1", "C", False, None))
    assert list(opened(histories)) == [("broker-a", 1)]


def test_group_without_member_is_a_row_of_its_own() -> None:
    """5.4.0's empty group: id and address None.

    It gives way to the first member, and the name keeps its place.
    """
    histories = Histories()
    record(histories, 1, group())
    assert opened(histories) == {("broker-a", None): Member(None, "C", False, None)}
    (closed,) = record(histories, 2, group((0, "a:1")))
    assert closed.key == ("broker-a", None)
    assert next(histories.open_intervals()).outer_entered_at == Position(1, 0)


def test_flag_of_a_group_changes_all_its_members() -> None:
    """EnableActingMaster belongs to the group, and so to each row of it."""
    histories = Histories()
    record(histories, 1, group((0, "a:1"), (1, "a:2")))
    closed = record(histories, 2, group((0, "a:1"), (1, "a:2"), acting=True))
    assert [interval.key for interval in closed] == [("broker-a", 0), ("broker-a", 1)]


def test_refresh_moves_the_last_update_only() -> None:
    """A renewed lease is no change; an unknown address is nothing.

    Where a clock stepped back before an entry was removed, its last update is not later than that.
    """
    histories, key = Histories(), LiveKey(None, "a:1")
    histories.refreshed(key, 1)
    assert list(histories.open_intervals()) == []
    record(histories, 1, Change("broker_live_table", key, BrokerLiveInfo(None, 120_000, None, None)))
    (live,) = histories.open_intervals()
    assert (live.first_update_ms, live.last_update_ms) == (1, 1)
    histories.refreshed(key, 77)
    histories.refreshed(LiveKey(None, "unknown"), 78)
    (live,) = histories.open_intervals()
    assert (live.first_update_ms, live.last_update_ms, live.valid_from_us) == (1, 77, 1_000)
    (closed,) = record(histories, 5, Change("broker_live_table", key, None))
    assert (closed.last_update_ms, closed.valid_to_us) == (5, 5_000)


def test_reported_versions_know_what_came_before() -> None:
    """A version that goes back is a regression; the same version again is nothing; null is a version too."""
    histories, key = Histories(), ("C", "broker-a", "a:1")

    def report(seq: int, version: DataVersion | None) -> Interval | None:
        return histories.report_version(key, version, seq=seq, event_id=f"e{seq}", at_us=seq)

    one, two = DataVersion(0, 1, 1), DataVersion(0, 1, 2)
    assert report(1, two) is None
    assert report(2, two) is None
    (first,) = histories.open_intervals()
    assert (first.opened_by, first.valid_from_us, first.opened_at) == ("e1", 1, Position(1, 0))
    closed = report(3, one)
    assert closed is not None
    assert closed.value == Reported(two, None, is_regression=False)
    closed = report(4, None)
    assert closed is not None
    assert closed.value == Reported(one, two, is_regression=True)
    closed = report(5, one)
    assert closed is not None
    assert closed.value == Reported(None, one, is_regression=False)


def test_a_version_has_been_reported_if_it_is_the_last_one() -> None:
    """Neither one reported before, nor another key's; nothing reported is not the same as null reported."""
    histories, key = Histories(), ("C", "broker-a", "a:1")
    one, two = DataVersion(0, 1, 1), DataVersion(0, 1, 2)
    assert not histories.has_reported(key, None)
    for seq, version in enumerate((one, two, None)):
        assert not histories.has_reported(key, version)
        histories.report_version(key, version, seq=seq, event_id=f"e{seq}", at_us=seq)
        assert histories.has_reported(key, version)
        assert not histories.has_reported(key, one if version is not one else two)
        assert not histories.has_reported(("C", "broker-a", "a:2"), version)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (DataVersion(0, 9, 9), DataVersion(1, 1, 1)),
        (DataVersion(0, 9, 1), DataVersion(0, 1, 2)),
        (DataVersion(0, 1, 1), DataVersion(0, 2, 1)),
        (DataVersion(0, 1, None), DataVersion(0, 1, 1)),
        (DataVersion(0, 1, 0), DataVersion(0, 2, None)),
    ],
)
def test_versions_go_by_state_counter_and_time(older: DataVersion, newer: DataVersion) -> None:
    """In this order; a null counter counts as 0."""
    assert older.is_before(newer)
    assert not newer.is_before(older)
    assert not newer.is_before(newer)


@pytest.mark.parametrize("order", [1, -1])
def test_outer_key_has_been_there_since_the_first_of_its_rows(order: int) -> None:
    """Rows may tell several times; in which order they come says nothing."""
    at = [Position(3, 0), Position(1, 0)]
    carried = [
        Interval("topic_queue", ("T", str(seq)), OLD, seq, "e", seq_at, seq_at, seq_at) for seq, seq_at in enumerate(at)
    ]
    histories = Histories(carried[::order])
    record(histories, 7, put(OLD, ("T", "another")))
    assert [i.outer_entered_at for i in histories.open_intervals() if i.opened_at.seq == 7] == [Position(1, 0)]


def test_a_topic_with_rows_that_are_not_carried_yet_has_been_there_since_the_first_of_them() -> None:
    """Another one enters with its first row."""
    histories = Histories()
    histories.begin_with(lambda topic: (Position(2, 0), 1) if topic == "T" else None)
    record(histories, 7, *(Change("topic_queue_table", (topic, "b"), QueueData(4, 4, 6, 0)) for topic in "TU"))
    entered = {interval.key[0]: interval.outer_entered_at for interval in histories.open_intervals()}
    assert entered == {"T": Position(2, 0), "U": Position(7, 1)}


def test_restored_group_may_have_no_name() -> None:
    """4.9.7 takes a registration without a broker name under null."""
    histories = Histories()
    record(histories, 1, Change("broker_addr_table", (None,), BrokerData("C", ((0, "a:1"),))))
    again = Registry(V4_9_7)
    restored(again, histories.open_intervals())
    assert dict(again.broker_addr_table) == {None: BrokerData("C", ((0, "a:1"),))}


def test_row_that_is_no_member_is_an_error() -> None:
    """A wrong value in a history is named, not guessed at."""
    wrong = Interval("broker_addr", ("broker-a", 0), OLD, 0, "e", Position(0, 0), Position(0, 0), None)
    with pytest.raises(TypeError, match="broker_addr interval of 'broker-a'"):
        restored(Registry(V5_4_0), [wrong])


def test_timeline_starts_from_what_was_open() -> None:
    """Intervals that opened before the start are known.

    A group changes as a whole at the position of its member.
    """
    histories = Histories()
    record(histories, 1, group((0, "a:1")), put(OLD))
    closed = record(histories, 5, group((0, "a:1"), (1, "a:2")), put(None))
    timeline = timeline_of([*closed, *histories.open_intervals()], 3, {5: 4})
    assert [(change.seq, change.arrival_seq) for change in timeline] == [(5, 4)]
    assert set(timeline[0].changes) == {put(None), group((0, "a:1"), (1, "a:2"))}


def test_timeline_begins_with_the_event_at_the_start() -> None:
    """A row that opens or closes at the very position of the start is a change; without an arrival it arrived there."""
    histories = Histories()
    record(histories, 1, put(OLD))
    closed = record(histories, 3, put(None), put(NEW, ("U", "broker-a")))
    timeline = timeline_of([*closed, *histories.open_intervals()], 3, {})
    assert [(change.seq, change.arrival_seq) for change in timeline] == [(3, 3)]
    assert timeline[0].changes == (put(None), put(NEW, ("U", "broker-a")))


def test_a_member_that_one_event_replaces_twice_keeps_its_place() -> None:
    """Its group changes first, its address then; a member that leaves and comes back is the last one."""
    two = ((0, "a:1"), (1, "a:2"))
    for first, then in (
        (group(*two, acting=True), ((0, "a:3"), (1, "a:2"))),
        (group((1, "a:2")), ((1, "a:2"), (0, "a:3"))),
    ):
        histories = Histories()
        record(histories, 1, group(*two))
        closed = record(histories, 2, first, group(*then, acting=True))
        timeline = timeline_of([*closed, *histories.open_intervals()], 2, {})
        assert [change.changes for change in timeline] == [(group(*then, acting=True),)]
