"""From segments to rows: matching, order, closes, lives of name servers, carrying on."""

from __future__ import annotations

import pytest

from namesrv_wire.protocol.frames import ONE_WAY
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers import server, transcript
from namesrv_wire.servers.transcript import Transcript
from schemas.bronze import TABLES
from tests.wire.forge import (
    BROKER,
    CLIENT,
    EPOCH_NS,
    MS_NS,
    NAMESRV,
    REGISTER,
    SECOND_NS,
    Talk,
    facts,
    final,
    merged,
    of_table,
    request,
    response,
    rows_of,
)


def kinds(rows: list[AnyRow]) -> list[tuple[str, str]]:
    return [(str(v["kind"]), str(v["closed_by"])) for v in of_table(rows, "channel_events")]


def test_a_request_takes_effect_with_its_answer() -> None:
    """Event time is the request's packet, effect time and seq are the answer's."""
    talk = Talk().open().ask(REGISTER).wait(5 * MS_NS).answer(response(3, 0, remark="ok"))
    (row,) = of_table(rows_of(talk.segments), "registrations")
    asked, answered = talk.segments[2].time_ns, talk.segments[3].time_ns
    assert (row["event_time"], row["effect_time"]) == (asked // 1000, answered // 1000)
    assert answered < row["seq"] < answered + 100
    assert (row["response_code"], row["response_remark"], row["broker_name"]) == (0, "ok", "broker-a")
    assert row["channel_id"] == f"{CLIENT}#{talk.segments[1].time_ns}"


def test_rows_have_exactly_the_columns_of_their_tables() -> None:
    """Every column is there, but for `ingest_run`, `day`, `namesrv_addr` and what is left of positions: these come later."""
    talk = Talk().refused().open().ask(REGISTER).answer(response(3)).exchange(104, BROKER).exchange(322, BROKER)
    talk.exchange(105, {"topic": "T"}).exchange(100, {"namespace": "n", "key": "k", "value": "v"})
    talk.ask(b"\x00\x00\x00\x06\x07\x00\x00\x00ab").client_rst()
    rows = rows_of(talk.segments)
    later = {"ingest_run", "day", "namesrv_addr", "seq_rest", "request_rest"}
    expected = {table.name: set(table.column_names) - later for table in TABLES}
    assert {row.table for row in rows} == set(expected) - {"sources", "open_streams", "addresses", "watermarks"}
    for row in rows:
        assert set(row.values) == expected[row.table], row.table


def test_an_unanswered_request_takes_effect_just_before_its_connection_closes() -> None:
    """It is placed directly before the name server's own FIN, in the order of arrival."""
    talk = Talk().open().ask(REGISTER).ask(request(104, BROKER, opaque=4)).client_fin().wait(SECOND_NS).server_fin()
    rows = rows_of(talk.segments)
    register, leave = of_table(rows, "registrations")[0], of_table(rows, "unregistrations")[0]
    (close,) = of_table(rows, "channel_events")
    assert register["seq"] < leave["seq"] < close["seq"]
    assert register["effect_time"] == close["effect_time"] == talk.segments[-1].time_ns // 1000
    assert register["response_code"] is None
    assert close["pending_requests"] == 2


def test_an_unanswered_request_of_an_open_connection_takes_effect_on_arrival() -> None:
    """At the end of the capture it is given with its arrival. The same event replaces it when the answer comes."""
    talk = Talk().open().ask(REGISTER)
    first = Transcript(namesrv=[NAMESRV])
    (early,) = of_table(rows_of(talk.segments, first), "registrations")
    assert early["effect_time"] == early["event_time"]
    talk.answer(response(3))
    second = Transcript(namesrv=[NAMESRV], carry=first.carry())
    (late,) = of_table(rows_of(talk.segments[-1:], second), "registrations")
    assert late["event_id"] == early["event_id"]
    assert late["response_code"] == 0


def test_answers_to_questions_are_observations() -> None:
    """A route answer carries its question's subject and position, and its body as text."""
    ask = request(105, {"topic": "T", "acceptStandardJsonOnly": "true"}, opaque=9, version=493)
    talk = Talk().open().ask(ask).answer(response(9, 0, b'{"a":1}', version=493))
    transcript = Transcript()
    (row,) = of_table(rows_of(talk.segments, transcript), "route_observations")
    assert (row["code"], row["subject"], row["standard_json"], row["language"]) == (105, "T", True, "JAVA")
    assert (row["response_code"], row["response_version"], row["body"]) == (0, 493, '{"a":1}')
    assert row["request_seq"] < row["seq"]
    assert transcript.counts.ignored == {"request:105": 1}


def alive_beside(seconds: int) -> Talk:
    """Return another connection, on which the name server answers every ten seconds."""
    alive = Talk(client="10.0.0.3:1", start_ns=EPOCH_NS + MS_NS // 2).open()
    for opaque in range(seconds // 10):
        alive.wait(10 * SECOND_NS).exchange(105, {"topic": "T"}, opaque=opaque)
    return alive


def test_the_name_servers_own_words_about_its_settings_are_kept() -> None:
    """Of a GET_NAMESRV_CONFIG answer numbers and switches, digests of all others; one that failed tells nothing of settings."""
    body = b"orderMessageEnable=true\nrocketmqHome=/opt/mq\nsecretKey=geheim\nlistenPort=9876\n"
    talk = Talk().open().ask(request(319, opaque=1)).answer(response(1, 0, body))
    talk.ask(request(319, opaque=2)).answer(response(2, 1, body))
    talk.ask(request(318, opaque=3, body=b"secretKey = geheim\nlistenPort=0x1\norderMessageEnable:TRUE\n"))
    rows = rows_of(talk.answer(response(3)).segments)
    (fact,) = facts(rows, "configured")
    shown, failed = of_table(rows, "route_observations")
    (told,) = of_table(rows, "admin_events")
    kept = "orderMessageEnable=true\nrocketmqHome=#df171e77\nsecretKey=#6c9a11cd\nlistenPort=9876"
    assert fact["properties"] == shown["body"] == failed["body"] == kept
    assert (shown["code"], shown["response_code"], failed["response_code"]) == (319, 0, 1)
    assert shown["seq"] < fact["seq"]
    assert told["config_value"] == "secretKey=#6c9a11cd\nlistenPort=#e2e60697\norderMessageEnable=true"
    assert "geheim" not in str(rows)


def test_seq_is_unique_and_increasing_for_packets_of_one_nanosecond() -> None:
    """Events of one instant, and of a clock that steps back, keep distinct positions."""
    talk = Talk(gap_ns=0).open()
    for opaque in range(40):
        talk.ask(request(904, BROKER, flag=ONE_WAY, opaque=opaque))
    segments = [*talk.segments[:20], *(s._replace(time_ns=s.time_ns - SECOND_NS) for s in talk.segments[20:])]
    seqs = [row["seq"] for row in of_table(rows_of(segments), "heartbeats")]
    assert len(seqs) == 40
    assert seqs == sorted(set(seqs), key=int)


@pytest.mark.parametrize("cut", [None, 0, 7])
def test_what_comes_again_in_a_microsecond_that_was_there_is_another_event(cut: int | None) -> None:
    """Behind a clock that was set back heartbeats and answers have ids of their own, in the next file (from `cut` on), too."""
    talk = Talk(gap_ns=10 * MS_NS).open()
    begin = len(talk.segments)
    for opaque in range(20):
        talk.ask(request(904, BROKER, flag=ONE_WAY, opaque=opaque)).exchange(105, {"topic": "T"}, opaque=opaque)
    middle = begin + (len(talk.segments) - begin) // 2
    back_ns = talk.segments[middle].time_ns - talk.segments[begin].time_ns
    segments = [*talk.segments[:middle], *(s._replace(time_ns=s.time_ns - back_ns) for s in talk.segments[middle:])]
    at, first = len(segments) if cut is None else middle + cut, Transcript()
    rows = rows_of(segments[:at], first)
    rows += rows_of(segments[at:], Transcript(carry=first.carry()))
    for table, time in (("heartbeats", "event_time"), ("route_observations", "effect_time")):
        found = of_table(rows, table)
        assert (len(found), len({row[time] for row in found})) == (20, 10)
        assert len({row["event_id"] for row in found}) == 20


def life(rows: list[AnyRow]) -> list[str]:
    return [str(v["kind"]) for v in of_table(rows, "namesrv_events")]


def test_a_flood_of_strangers_drops_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many connections, the oldest that is no broker's is forgotten."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    broker = Talk().open().ask(REGISTER).answer(response(3))
    flood = [Talk(client=f"10.0.0.9:{n}", start_ns=EPOCH_NS + (n + 1) * SECOND_NS).open() for n in range(9)]
    beat = Talk(start_ns=EPOCH_NS + 20 * SECOND_NS, client_seq=broker.client_seq, server_seq=broker.server_seq)
    rows = rows_of(merged(broker, *flood, beat.exchange(322, BROKER)))
    channels = {row["channel_id"] for table in ("registrations", "heartbeats") for row in of_table(rows, table)}
    assert len(channels) == 1


def test_a_scan_of_ports_drops_no_candidate_that_somebody_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints that were only knocked at are forgotten before one that is not yet known to be a name server."""
    monkeypatch.setattr(transcript, "MAX_CANDIDATES", 3)
    broker = Talk().open()
    knocks = [
        Talk(server=f"10.0.0.1:{n}", client=f"10.0.0.9:{n}", start_ns=EPOCH_NS + n * MS_NS).refused()
        for n in range(5, 15)
    ]
    beat = Talk(start_ns=EPOCH_NS + SECOND_NS, client_seq=broker.client_seq, server_seq=broker.server_seq)
    found = rows_of(merged(broker, *knocks, beat.ask(REGISTER).answer(response(3))), Transcript())
    (row,) = of_table(found, "registrations")
    assert str(row["channel_id"]).endswith(f"#{EPOCH_NS + MS_NS}")


def test_a_capture_that_begins_in_the_middle() -> None:
    """Without a SYN the stream starts at the next frame. The name server is observed from its first packet."""
    talk = Talk().ask(REGISTER[50:]).exchange(105, {"topic": "T"}).ask(REGISTER).answer(response(3))
    rows = rows_of(talk.segments)
    assert life(rows) == ["observed_from", "identified"]
    assert len(of_table(rows, "registrations")) == 1
    assert of_table(rows, "namesrv_events")[0]["effect_time"] == EPOCH_NS // 1000


def test_an_accepted_connection_without_refusals_is_an_observation_only() -> None:
    """Nothing says when such a name server started."""
    assert life(rows_of(Talk().open().exchange(105, {"topic": "T"}).segments))[0] == "observed_from"


def test_two_name_servers_in_one_capture() -> None:
    """Rows are told apart by port, each on its own scale."""
    other = "10.0.0.1:9877"
    one, two = Talk().open().exchange(105, {"topic": "T"}), Talk(server=other).open().exchange(106)
    transcript = Transcript()
    rows = rows_of(merged(one, two), transcript)
    assert {row["namesrv_id"] for row in of_table(rows, "route_observations")} == {NAMESRV, other}
    assert {name: server.counts.frames for name, server in transcript._servers.items()} == {NAMESRV: 2, other: 2}


def test_foreign_traffic_gives_no_rows() -> None:
    """An endpoint that refuses registry requests, or speaks something else, is no name server."""
    broker = Talk(server="10.0.0.9:10911").open().ask(request(105, {}, opaque=1)).answer(response(1, 3))
    web = Talk(server="10.0.0.9:80").open().ask(b"GET / HTTP/1.1\r\n\r\n").answer(b"HTTP/1.1 200 OK\r\n\r\n")
    transcript = Transcript()
    assert rows_of(merged(broker, web), transcript) == []
    assert transcript.counts.frames == 0


def test_rows_before_the_confirmation_are_held_and_released() -> None:
    """The first answer shows the name server; what happened before it is then told in order."""
    talk = Talk().refused().open().ask(request(904, BROKER, flag=ONE_WAY)).exchange(105, {"topic": "T"})
    transcript = Transcript()
    early = rows_of(talk.segments[:-1], transcript, finish=False)
    assert early == []
    assert [row.table for row in rows_of(talk.segments[-1:], transcript)] == [
        "namesrv_events", "heartbeats", "namesrv_events", "route_observations",
    ]  # fmt: skip


def test_late_copies_of_an_ended_connection_change_nothing() -> None:
    """Retransmissions behind the last FIN are copies, not a new connection."""
    talk = Talk().open().ask(REGISTER).answer(response(3)).client_fin().server_fin()
    copies = [s._replace(time_ns=s.time_ns + SECOND_NS) for s in talk.segments[2:]]
    transcript = Transcript(namesrv=[NAMESRV])
    assert final(rows_of(talk.segments + copies, transcript)) == final(rows_of(talk.segments))
    assert transcript.counts.frames == 2


def test_the_server_sends_requests_too() -> None:
    """NOTIFY_MIN_BROKER_ID_CHANGE and its answer are counted by code; that it was sent shows a setting."""
    talk = Talk().open().answer(request(905, {}, opaque=5)).ask(response(5)).exchange(105, {"topic": "T"})
    transcript = Transcript(namesrv=[NAMESRV])
    facts = of_table(rows_of(talk.segments, transcript), "namesrv_events")
    assert transcript.counts.ignored == {"request:905": 1, "response:905": 1, "request:105": 1}
    assert "min_broker_id_notified" in [fact["kind"] for fact in facts]
