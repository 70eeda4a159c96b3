"""When a name server stood still, as requests that waited and silence of the server tell."""

from __future__ import annotations

from namesrv_core.machine.schedule import Stall
from namesrv_day.settle.settle import settle
from namesrv_day.settle.stalls import stalls
from tests.day.settle_given import Given, Row, answered, asked_to, ended, life, registered, seq_at


def stood(rows: dict[str, list[Row]]) -> list[tuple[float, float]]:
    """Return the stalls of a day, in milliseconds."""
    return [tuple((seq - seq_at(0)) / 1_000_000 for seq in stall) for stall in stalls(Given(rows).input)]  # type: ignore[misc]


def waiting(ms: float, since_ms: float) -> Row:
    return {**answered(ms, f"w{ms}", 105, "T", None), "request_seq": seq_at(since_ms)}


def test_a_request_waits_and_nothing_leaves() -> None:
    """From its arrival, or from the last thing that the server sent, to the first thing that it sends again."""
    before, after = answered(9_000, "before", 105, "T", None), answered(40_000, "after", 105, "T", None)
    beat = registered(39_002, "r", received_ms=20_000)
    rows = {"route_observations": [before, waiting(39_000, 12_000), after], "registrations": [beat]}
    assert stood(rows) == [(12_000, 39_000)]
    assert stood({"registrations": [beat]}) == [(20_000, 39_002)]
    rows = {"admin_events": [asked_to(39_000, "a", 205, received_ms=12_000)], "registrations": [beat]}
    assert stood(rows) == [(12_000, 39_000)]


def test_who_is_slow_to_take_his_answers_proves_nothing() -> None:
    """Nobody else asked meanwhile: the server was quiet, and its timer went on."""
    quick = registered(30_000, "r", received_ms=29_999)
    rows = {"route_observations": [waiting(39_000, 12_000), waiting(39_001, 13_000)], "registrations": [quick]}
    assert stood(rows) == []


def test_the_close_of_a_scan_may_be_the_first_that_leaves() -> None:
    """Then the stall ends with it."""
    beat = registered(39_000, "r", received_ms=12_000)
    rows = {"registrations": [beat], "channel_events": [ended(38_990, "c", "close", "namesrv")]}
    assert stood(rows) == [(12_000, 38_990)]


def test_who_ends_a_connection_that_a_client_ended_does_not_stand_still() -> None:
    """That is a packet of the server's; where the client reset the connection nothing is sent."""
    beat = registered(39_000, "r", received_ms=12_000)
    ends = [ended(38_500, "c", "close", "client", channel_id="e#1")]
    assert stood({"registrations": [beat], "channel_events": ends}) == [(12_000, 38_500)]
    ends.append(ended(38_499, "d", "exception", "client", channel_id="e#1"))
    assert stood({"registrations": [beat], "channel_events": ends}) == [(12_000, 39_000)]


def test_who_answers_others_meanwhile_does_not_stand_still() -> None:
    """A slow request by itself is none; a server that sends something within a second is not frozen."""
    others = [answered(ms, f"o{ms}", 105, "T", None) for ms in range(12_500, 39_500, 900)]
    beat = registered(39_000, "r", received_ms=12_000)
    assert stood({"registrations": [beat], "route_observations": others}) == []
    assert stood({"route_observations": [answered(39_000, "quick", 105, "T", None)]}) == []
    assert stood({}) == []


def test_ticks_of_a_stall_are_made_at_its_end() -> None:
    """What they close says nothing of the timer: it keeps its phase."""
    other: Row = {"broker_name": "b", "broker_addr": "10.0.0.3:10911", "channel_id": "d#1"}
    beats = [
        registered(2_000, "r", heartbeat_timeout_ms=10_000),
        registered(39_000, "s", received_ms=13_000, **other),
    ]
    rows = {
        "registrations": beats,
        "channel_events": [ended(39_001, "c", "close", "namesrv")],
        "namesrv_events": [life(1_000, "start", "started"), life(1_001, "v", "identified", version=493)],
    }
    settled = settle(Given(rows).input)
    assert "scan_phase_us" not in settled.settings["setting"].to_pylist()
    ticks = settled.context.schedule
    assert ticks.first_tick(seq_at(12_500), seq_at(12_000) // 1_000_000) == seq_at(39_001) - 1  # the first close
    assert ticks.first_tick(seq_at(39_001) - 1, 0) == seq_at(40_500)
    assert stalls(Given(rows).input) == [Stall(seq_at(13_000), seq_at(39_000))]
