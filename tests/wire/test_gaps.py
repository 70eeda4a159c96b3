"""A capture with a hole in it, and one whose clock goes back."""

from __future__ import annotations

import pytest

from namesrv_wire.rows import AnyRow
from tests.wire.forge import (
    EPOCH_NS,
    MS_NS,
    REGISTER,
    SECOND_NS,
    Talk,
    facts,
    in_parts,
    merged,
    of_table,
    response,
    rows_of,
)


def broker(client: str = "10.0.0.2:40000", start_ns: int = EPOCH_NS) -> Talk:
    """Return a connection on which a broker has registered, and been answered."""
    return Talk(client=client, start_ns=start_ns).open().ask(REGISTER).answer(response(3))


@pytest.mark.parametrize("cut", [False, True], ids=["one file", "two files"])
def test_silence_of_everybody_is_a_gap_of_the_recording(cut: bool) -> None:  # noqa: FBT001
    """The server would have closed a dead broker's connection: nobody listened. No end of a connection is made up."""
    talk = broker().wait(200 * SECOND_NS).ask(REGISTER).answer(response(3))
    assert facts(rows_of(talk.segments[:-2]), "recording_gap") == []
    rows = in_parts(talk.segments, *([len(talk.segments) - 2] if cut else []))
    (gap,) = facts(rows, "recording_gap")
    begin_us, end_ms = talk.segments[-3].time_ns // 1_000, talk.segments[-2].time_ns // 1_000_000
    assert (gap["effect_time"], gap["properties"]) == (begin_us, f"until_ms={end_ms}")
    assert gap["evidence"] == "no packet for 200.001 s with 1 connections open"
    assert talk.segments[-3].time_ns < int(str(gap["seq"])) < talk.segments[-2].time_ns
    assert of_table(rows, "channel_events") == []
    assert facts(rows, "idle_limit_outlasted") == []


def test_what_comes_behind_a_gap_is_of_its_own_time() -> None:
    """Bytes that were lost in it never come: the first answer behind it does not wait for them until its client asks again."""
    talk = broker().exchange(105, {"topic": "T"}, opaque=7).wait(200 * SECOND_NS)
    begin = len(talk.segments)
    talk.exchange(105, {"topic": "T"}, opaque=8).wait(10 * SECOND_NS)
    behind = len(talk.segments)
    talk.exchange(105, {"topic": "T"}, opaque=9).wait(40 * SECOND_NS).exchange(105, {"topic": "T"}, opaque=10)
    hole = range(begin, behind)
    segments = [one for number, one in enumerate(talk.segments) if number not in hole]
    rows = rows_of(segments)
    asked = {one.time_ns // 1_000 for one in segments[begin:] if one.payload}
    assert len(facts(rows, "recording_gap")) == 1
    assert {row["effect_time"] for row in of_table(rows, "route_observations")[1:]} <= asked
    assert len(of_table(rows, "route_observations")) == 3


def missing(talk: Talk, silent_s: int = 30) -> tuple[list[AnyRow], int, int]:
    """Return the rows of a capture that lacks a beat and its answer in a silence, and when (ns) that began and ended."""
    talk.wait(silent_s * SECOND_NS // 2)
    begin = len(talk.segments)
    talk.ask(REGISTER).answer(response(3)).wait(silent_s * SECOND_NS // 2)
    behind = len(talk.segments)
    for _ in range(3):
        talk.ask(REGISTER).answer(response(3)).wait(2 * SECOND_NS)
    segments = [*talk.segments[:begin], *talk.segments[behind:]]
    return rows_of(segments), segments[begin - 1].time_ns, segments[begin].time_ns


@pytest.mark.parametrize("silent_s", [4, 30, 170])
def test_a_short_silence_is_a_gap_if_a_connection_goes_on_behind_what_nobody_saw(silent_s: int) -> None:
    """A request and its answer are missing; what comes next is read at once, at its own time, and no end is made up."""
    rows, begin_ns, end_ns = missing(broker(), silent_s)
    (gap,) = facts(rows, "recording_gap")
    assert (gap["effect_time"], gap["properties"]) == (begin_ns // 1_000, f"until_ms={end_ns // 1_000_000}")
    assert begin_ns < int(str(gap["seq"])) < end_ns
    beats = [row for row in of_table(rows, "registrations") if row["event_time"] >= end_ns // 1_000]
    assert [row["event_time"] - end_ns // 1_000 for row in beats] == [0, 2_002_000, 4_004_000]
    assert of_table(rows, "channel_events") == []


def test_a_silence_is_told_across_files() -> None:
    """The file may end between the silence and the packet that shows what it was."""
    talk = broker().wait(20 * SECOND_NS)
    begin = len(talk.segments)
    talk.ask(REGISTER).answer(response(3)).wait(20 * SECOND_NS)
    behind = len(talk.segments)
    talk.ask(REGISTER).answer(response(3)).wait(SECOND_NS)
    other = Talk(client="10.0.0.7:40000", start_ns=talk.segments[behind].time_ns - 2 * MS_NS).open()
    segments = merged(other, talk)
    hole = {(one.time_ns, one.seq) for one in talk.segments[begin:behind]}
    kept = [one for one in segments if (one.time_ns, one.seq) not in hole]
    at = next(n for n, one in enumerate(kept) if one.src == "10.0.0.7:40000") + 1
    assert facts(rows_of(kept[:at]), "recording_gap") == []
    assert len(facts(in_parts(kept, at), "recording_gap")) == 1


def test_a_packet_lost_behind_a_silence_is_no_gap() -> None:
    """Bytes of one side alone are missing: nothing says that it was in the silence, or that anything else was lost."""
    talk = broker().wait(20 * SECOND_NS)
    talk.ask(REGISTER)
    lost = len(talk.segments) - 1
    talk.answer(response(3)).wait(2 * SECOND_NS).ask(REGISTER).answer(response(3))
    rows = rows_of([one for number, one in enumerate(talk.segments) if number != lost])
    assert facts(rows, "recording_gap") == []


def begun_in_silence(*, alone_s: int, seen: int, silent_s: int = 20) -> list[AnyRow]:
    """Return the rows of a capture with a silence in which a connection began, read as two files that part there.

    `alone_s`: after how many seconds; `seen`: so many packets of its handshake are recorded.
    """
    first = broker()
    for _ in range(alone_s):
        first.wait(SECOND_NS // 2).ask(REGISTER).answer(response(3)).wait(SECOND_NS // 2)
    end_ns = first.segments[-1].time_ns
    begun = broker("10.0.0.3:40000", end_ns + silent_s * SECOND_NS)
    begun.wait(SECOND_NS).ask(REGISTER).answer(response(3)).wait(SECOND_NS).ask(REGISTER).answer(response(3))
    return in_parts([*first.segments, *begun.segments[:seen], *begun.segments[3:]], len(first.segments))


def test_a_silence_is_a_gap_if_a_connection_is_used_that_nobody_saw_begin() -> None:
    """It was not open before: the idle limit would have closed it, or it would have been used."""
    rows = begun_in_silence(alone_s=125, seen=0)
    (gap,) = facts(rows, "recording_gap")
    assert str(gap["evidence"]).startswith("no packet for 20.")
    assert str(gap["properties"]).startswith("until_ms=")


@pytest.mark.parametrize(("alone_s", "seen"), [(100, 0), (125, 1), (125, 3)])
def test_a_connection_that_was_open_before_or_was_seen_to_begin_makes_no_gap(alone_s: int, seen: int) -> None:
    """Within the idle limit from the first packet on it may just not have been used; its SYN shows that it began later."""
    assert facts(begun_in_silence(alone_s=alone_s, seen=seen), "recording_gap") == []


def test_who_had_stopped_before_a_silence_and_answers_behind_it_started_in_it() -> None:
    """Nobody saw the start: from where it was silent it is known to run, and nothing else."""
    first = broker()
    for _ in range(125):
        first.wait(SECOND_NS // 2).ask(REGISTER).answer(response(3)).wait(SECOND_NS // 2)
    first.server_fin().client_fin()
    end_ns = first.segments[-1].time_ns
    refused = Talk(client="10.0.0.4:40000", start_ns=end_ns + SECOND_NS).refused()
    begun = broker("10.0.0.3:40000", end_ns + 22 * SECOND_NS).wait(SECOND_NS).ask(REGISTER).answer(response(3))
    rows = rows_of([*first.segments, *refused.segments, *begun.segments[3:]])
    (stopped,), (started,), (gap,) = (facts(rows, kind) for kind in ("stopped", "started", "recording_gap"))
    seqs = [int(str(fact["seq"])) for fact in (stopped, started, gap)]
    assert seqs == sorted(seqs)
    assert seqs[-1] < end_ns + 2 * SECOND_NS


def test_who_does_not_come_back_after_a_gap_is_closed_by_the_idle_limit_from_its_end() -> None:
    """Its silence counts from then on: whether it was there before is not known."""
    alive = broker().wait(200 * SECOND_NS)
    for _ in range(6):
        alive.ask(REGISTER).answer(response(3)).wait(30 * SECOND_NS)
    gone = broker("10.0.0.3:40000", EPOCH_NS + MS_NS // 2)
    rows = rows_of(merged(alive, gone))
    idle, close = of_table(rows, "channel_events")
    assert [(row["kind"], row["closed_by"], row["channel_id"]) for row in (idle, close)] == [
        (kind, "timer", f"10.0.0.3:40000#{EPOCH_NS + MS_NS // 2 + MS_NS}") for kind in ("idle", "close")
    ]
    (gap,) = facts(rows, "recording_gap")
    assert idle["effect_time"] // 1_000 == int(str(gap["properties"]).removeprefix("until_ms=")) + 120_000


@pytest.mark.parametrize(
    "talk",
    [
        broker().wait(170 * SECOND_NS).ask(REGISTER),
        Talk().open().exchange(105, {"topic": "T"}).wait(300 * SECOND_NS).exchange(105, {"topic": "T"}, opaque=2),
    ],
    ids=["within idle limit and a minute", "no broker"],
)
def test_other_silence_is_none(talk: Talk) -> None:
    """A client may ask rarely; and the packet with which the server closed may have been lost."""
    assert facts(rows_of(talk.segments), "recording_gap") == []


@pytest.mark.parametrize(("back_s", "noted"), [(5, 0), (6, 1)])
def test_a_clock_that_goes_back_is_noted_once(back_s: int, noted: int) -> None:
    """Where it goes back, not at every packet until it has caught up."""
    talk = broker().wait(60 * SECOND_NS).ask(REGISTER).wait(-back_s * SECOND_NS).answer(response(3)).ask(REGISTER)
    found = facts(rows_of(talk.segments), "clock_went_back")
    assert len(found) == noted
    assert all("back by 5.999 s" in str(fact["evidence"]) for fact in found)
