"""Connections that have ended, though the packet that said so was lost: what a client goes on to send there reaches nobody."""

from __future__ import annotations

import pytest

from namesrv_wire.packets.capture import ACK, RST, Segment
from namesrv_wire.protocol.frames import ONE_WAY
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from tests.wire.forge import BROKER, NAMESRV, REGISTER, SECOND_NS, Talk, final, of_table, request, response, rows_of

_ALIVE = Talk(client="10.0.0.9:7").open().exchange(105, {"topic": "T"}).segments


def told(talk: Talk) -> tuple[list[AnyRow], dict[str, int]]:
    """Return the rows of a connection behind a first one, and what was counted as ignored."""
    transcript = Transcript(namesrv=[NAMESRV])
    rows = rows_of([*_ALIVE, *talk.segments], transcript)
    assert is_accounted_for(transcript)
    return rows, transcript.counts.ignored


def is_accounted_for(transcript: Transcript) -> bool:
    """Return whether each frame is an event, an answer, or ignored by a rule."""
    counts = transcript.counts
    return counts.frames == sum(counts.events.values()) + counts.observations + sum(counts.ignored.values())


def kernels_rst(talk: Talk, off: int = 0) -> Talk:
    """Add a RST as a kernel answers what comes for no connection: no acknowledgement, and the number that was asked for."""
    return talk._add(True, RST, seq=talk.server_seq + off)


def over_files(segments: list[Segment]) -> list[dict[tuple[str, str], dict[str, object]]]:
    """Return what stands in the end where the recording is cut at each place."""
    found = []
    for cut in range(len(segments) + 1):
        first = Transcript(namesrv=[NAMESRV])
        rows = rows_of(segments[:cut], first)
        second = Transcript(namesrv=[NAMESRV], carry=first.carry())
        rows += rows_of(segments[cut:], second)
        assert is_accounted_for(first)
        assert is_accounted_for(second)
        found.append({key: {k: v for k, v in row.items() if k != "seq"} for key, row in final(rows).items()})
    return found


def test_what_comes_behind_the_servers_fin_is_only_counted() -> None:
    """Of the connection nothing is seen but a copy of that FIN; two requests sent again, and a heartbeat, change nothing."""
    talk = Talk(start_ns=_ALIVE[-1].time_ns + 1).server_fin().ask(REGISTER).ask(request(904, BROKER, flag=ONE_WAY))
    kernels_rst(talk)
    rows, ignored = told(talk)
    assert not of_table(rows, "registrations") + of_table(rows, "heartbeats") + of_table(rows, "channel_events")
    assert (ignored["request:103:after_close"], ignored["request:904:after_close"]) == (1, 1)
    stand = over_files([*_ALIVE, *talk.segments])
    assert all(each == stand[0] for each in stand)


def test_what_the_kernel_answers_with_a_reset_is_only_counted() -> None:
    """It knows of no such connection: the registration was not taken, and no connection has ended. Over files, too."""
    talk = kernels_rst(Talk(start_ns=_ALIVE[-1].time_ns + 1).ask(REGISTER))
    rows, ignored = told(talk)
    assert not of_table(rows, "registrations") + of_table(rows, "channel_events")
    assert ignored["request:103:after_close"] == 1
    stand = over_files([*_ALIVE, *talk.segments])
    keys = [{key for key in each if key[0] != "topic_configs"} for each in stand]
    assert all(each == keys[0] for each in keys)


@pytest.mark.parametrize("is_fin", [True, False])
def test_what_the_server_had_not_got_when_it_ended_a_connection_is_only_counted(*, is_fin: bool) -> None:
    """Its FIN does not acknowledge what the capture saw and a filter dropped, nor does its kernel's RST; silence counts on."""
    talk = Talk(start_ns=_ALIVE[-1].time_ns + 1).open().exchange(105, {"topic": "T"}).wait(31 * SECOND_NS)
    if is_fin:
        talk.ask(REGISTER).server_fin()
        talk.segments[-1] = talk.segments[-1]._replace(ack=talk.segments[-2].seq)
    else:
        kernels_rst(talk.ask(REGISTER))
    rows, ignored = told(talk)
    assert not of_table(rows, "registrations")
    (end,) = of_table(rows, "channel_events")
    assert (end["kind"], end["closed_by"], end["silent_ms"] // 1_000, end["pending_requests"]) == (
        "close",
        "namesrv",
        31,
        0,
    )
    assert ignored["request:103:after_close"] == 1
    segments = [*_ALIVE, *talk.segments]
    keys = [{key for key in each if key[0] != "topic_configs"} for each in over_files(segments)]
    assert all(each == keys[0] for each in keys)


def test_what_came_before_is_taken_though_it_has_no_answer() -> None:
    """A request is acknowledged, the next one is not: with the end, the first took effect, and only it."""
    talk = Talk(start_ns=_ALIVE[-1].time_ns + 1).open().ask(REGISTER)._add(True, ACK)
    talk.ask(request(104, BROKER, opaque=9))
    rows, ignored = told(kernels_rst(talk))
    assert (len(of_table(rows, "registrations")), len(of_table(rows, "unregistrations"))) == (1, 0)
    assert ignored["request:104:after_close"] == 1


@pytest.mark.parametrize("case", ["of the process", "another number", "taken before"])
def test_any_other_reset_ends_a_connection_whose_last_request_counts(case: str) -> None:
    """One with an acknowledgement, or for something else; and where the server took bytes."""
    talk = Talk(start_ns=_ALIVE[-1].time_ns + 1).ask(REGISTER)
    if case == "taken before":
        talk._add(True, ACK)
    if case == "of the process":
        talk.server_rst()
    else:
        kernels_rst(talk, off=1 if case == "another number" else 0)
    rows, ignored = told(talk)
    assert len(of_table(rows, "registrations")) == len(of_table(rows, "channel_events")) == 1
    assert "request:103:after_close" not in ignored


def test_a_port_is_free_again_behind_a_fin() -> None:
    """A new connection of the same port is one, and what comes on it counts."""
    left = Talk(start_ns=_ALIVE[-1].time_ns + 1).server_fin()
    again = Talk(start_ns=left.at_ns, client_seq=5_000_000, server_seq=7_000_000).open().ask(REGISTER)
    left.segments += again.answer(response(3)).segments
    assert len(of_table(told(left)[0], "registrations")) == 1
