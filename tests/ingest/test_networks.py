"""Captures as networks give them, whole files through ingest: seen twice, cut, of something else."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from jobs.conf import DEFAULT_CONF, load_conf
from namesrv_wire.packets.segments import Segment
from tests.ingest.given import Content, content, read_in, stored
from tests.pcap import pcap
from tests.wire.forge import BROKER, EPOCH_NS, MS_NS, REGISTER, SECOND_NS, Talk, ip_packet, request, response
from tests.wire.test_sightings import INNER, OUTER, brokers, by_router, numbered

pytestmark = pytest.mark.slow


def written(path: Path, segments: list[Segment], kept: int | None = None) -> Path:
    """Write segments as `-i any` does, or, where no interface is told, as raw IP; `kept` bytes of a packet at most."""
    out = b""
    for segment in segments:
        packet = ip_packet(segment)
        if segment.interface:
            packet = struct.pack(">HHIHBB8s", 0x0800, 0, segment.interface, 1, 0, 6, bytes(8)) + packet
        seconds, nanos = divmod(segment.time_ns, SECOND_NS)
        out += struct.pack("<IIII", seconds, nanos, len(packet[:kept]), len(packet)) + packet[:kept]
    head = pcap([], 276 if segments[0].interface else 101, magic=0xA1B23C4D, stated_snap=kept or 65_535)
    path.write_bytes(head + out)
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """Give what one capture of all the brokers' connections leaves."""
    folder = tmp_path_factory.mktemp("alone")
    read_in(folder / "w", written(folder / "whole.pcap", brokers()))
    return content(folder / "w")


@pytest.mark.parametrize(("beat", "is_one_run"), [(1, True), (2, False)], ids=["one run", "two runs"])
def test_rotated_captures_of_a_router_take_one_side(tmp_path: Path, beat: int, is_one_run: bool) -> None:  # noqa: FBT001
    """The name server's interface is known in the next file: all is there at the instants at which one capture has it."""
    seen = by_router(brokers(), numbered)
    read_in(tmp_path / "whole", written(tmp_path / "whole.pcap", seen))
    # The next file begins with a beat as it was seen first, on the other side.
    beats = [at for at, each in enumerate(seen) if each.src == "10.0.0.3:40000" and b"904" in each.payload]
    cut = beats[2 * beat]
    paths = [written(tmp_path / "a.pcap", seen[:cut]), written(tmp_path / "b.pcap", seen[cut:])]
    for some in [paths] if is_one_run else [[path] for path in paths]:
        read_in(tmp_path / "w", *some)
    assert content(tmp_path / "w") == content(tmp_path / "whole")


def test_captures_of_other_clients_at_the_same_time_are_all_taken(tmp_path: Path, alone: Content) -> None:
    """One for each interface, or each client: that one shows more of them than another makes it no better."""
    seen = brokers()
    parts = [[one for one in seen if ("10.0.0.3:40000" in (one.src, one.dst)) == is_own] for is_own in (True, False)]
    (tmp_path / "lo").mkdir()
    files = [written(tmp_path / name, part) for name, part in zip(("lo/lo.pcap", "eth0.pcap"), parts, strict=True)]
    read = read_in(tmp_path / "w", *files)
    found, wanted = (
        {table: [(event_id, time) for event_id, _, time in rows] for table, rows in of.items()}
        for of in (content(tmp_path / "w"), alone)
    )
    assert found == wanted
    assert (read.sightings, read.errors, read.left_out) == (0, [], [])


def test_other_connections_of_the_same_hosts_are_no_copy(tmp_path: Path) -> None:
    """A capture is left out for the packets that another one has, not for its hosts: queues of a network card share these."""
    own = Talk(client="10.0.0.3:40001", start_ns=EPOCH_NS + 2 * SECOND_NS, client_seq=70_000, server_seq=80_000).open()
    own.exchange(105, {"topic": "T"})
    (tmp_path / "queue-1").mkdir()
    files = written(tmp_path / "queue-0.pcap", brokers()), written(tmp_path / "queue-1" / "own.pcap", own.segments)
    read = read_in(tmp_path / "w", *files)
    assert (read.observations, read.left_out) == (11, [])


@pytest.mark.parametrize("ahead_ms", [-3_000, -4, 4])
@pytest.mark.parametrize("is_translated", [True, False], ids=["behind NAT", "plain"])
def test_what_a_broker_records_beside_the_name_server_is_there_once(
    tmp_path: Path,
    alone: Content,
    is_translated: bool,  # noqa: FBT001
    ahead_ms: int,
) -> None:
    """However its clock goes, which file is read first, and as whom the name server knows it: nothing twice, nothing lost."""
    seen = brokers()
    own, names = (OUTER, {OUTER: INNER}) if is_translated else ("10.0.0.3:40000", {})
    sighted = [
        one._replace(
            src=names.get(one.src, one.src), dst=names.get(one.dst, one.dst), time_ns=one.time_ns + ahead_ms * MS_NS
        )
        for one in seen
        if own in (one.src, one.dst)
    ]
    (tmp_path / "broker").mkdir()
    whole, beside = written(tmp_path / "whole.pcap", seen), written(tmp_path / "broker" / "own.pcap", sighted)
    read = read_in(tmp_path / "w", whole, beside)
    assert content(tmp_path / "w") == alone
    assert (read.sightings, read.errors, len(read.left_out)) == (len(sighted), [], 1)


@pytest.mark.parametrize("stated", [200, 262_144])
def test_a_cut_capture_says_what_would_have_been_enough(tmp_path: Path, stated: int) -> None:
    """It is an error of its file; ends of connections and what was short enough are stored. The file's header need not say it."""
    talk = Talk().open().exchange(105, {"topic": "T"}).ask(REGISTER).answer(response(3)).client_fin().server_fin()
    path = written(tmp_path / "cut.pcap", talk.segments, kept=200)
    data = path.read_bytes()
    path.write_bytes(data[:16] + struct.pack("<I", stated) + data[20:])
    read = read_in(tmp_path / "w", path)
    (error,) = read.errors
    longest = 40 + len(REGISTER)
    assert error.startswith("cut.pcap: 1 frame(s) were cut, since the capture kept at most 200 bytes of a packet")
    assert f"a snapshot length of {longest:,} would have been enough" in error
    assert read.reasons == {"truncated_packet": 1}
    assert (read.observations, read.quarantined, read.pieces) == (1, 1, 1)
    assert stored(tmp_path / "w", "channel_events", "kind") == [("close",)]
    assert stored(tmp_path / "w", "sources", "error") == [(error,)]


@pytest.mark.parametrize("kept", [None, 30])
def test_a_capture_without_a_name_server_is_no_success(tmp_path: Path, kept: int | None) -> None:
    """Packets of something else, or of which not even headers were kept, are named; no packet at all is an idle hour."""
    talk = Talk(server="10.0.0.9:80").open().ask(b"GET / HTTP/1.1\r\n\r\n").answer(b"HTTP/1.1 200 OK\r\n\r\n")
    path = written(tmp_path / "other.pcap", talk.segments, kept)
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(pcap([]))
    read = read_in(tmp_path / "w", path, empty)
    of_segments = (
        "; of its 4 TCP segments none show a request and its answer: is a direction missing, or in another file?"
    )
    others = ": 4 in damaged or cut headers" if kept else of_segments
    assert read.errors == [f"other.pcap: none of its 4 packets is of a name server{others}"]
    assert read.events + read.quarantined == 0


def test_what_is_named_describes_and_leaves_nothing_out(tmp_path: Path) -> None:
    """With a wrong address, or the right one of two, all name servers are read; one that nothing shows is told."""
    servers = ("10.0.0.1:9876", "10.0.0.2:19876")
    talks = [
        Talk(client=f"10.0.1.{n}:40000", server=of).open().ask(REGISTER).answer(response(3))
        for n, of in enumerate(servers)
    ]
    path = written(tmp_path / "two.pcap", [segment for talk in talks for segment in talk.segments])
    for options, never in ((["10.0.0.3:9876=4.9.7"], ["10.0.0.3:9876"]), ([servers[1]], []), ([], [])):
        warehouse = tmp_path / f"w{len(never)}{len(options)}"
        read = read_in(warehouse, path, conf=load_conf(DEFAULT_CONF, options))
        assert (read.never_met, read.errors) == (never, [])
        assert {name for (name,) in stored(warehouse, "registrations", "namesrv_id")} == set(servers)
        assert {name for (name,) in stored(warehouse, "open_streams", "namesrv_addr")} == set(servers)
    later = written(tmp_path / "later.pcap", Talk(talks[0].at_ns, "10.0.1.9:40000", servers[0]).open().segments)
    assert read_in(tmp_path / "w01", later, conf=load_conf(DEFAULT_CONF, [servers[1], "10.0.0.3:9876"])).never_met == [
        "10.0.0.3:9876"
    ]


def test_a_capture_of_which_nothing_was_used_may_be_given_again(tmp_path: Path) -> None:
    """Nobody answers in it, so no name server shows; once one is named, it is read, and then it is known."""
    path = written(tmp_path / "asked.pcap", Talk(server="10.0.0.9:19876").open().ask(REGISTER).segments)
    for _ in range(2):
        read = read_in(tmp_path / "w", path)
        assert (len(read.errors), read.known_sources) == (1, [])
    assert stored(tmp_path / "w", "sources", "source_file") == []
    named = load_conf(DEFAULT_CONF, ["10.0.0.9:19876"])
    assert read_in(tmp_path / "w", path, conf=named).errors == []
    assert len(stored(tmp_path / "w", "registrations", "namesrv_id")) == 1
    assert read_in(tmp_path / "w", path, conf=named).known_sources == ["asked.pcap"]


def test_what_quarantine_holds_is_what_was_counted(tmp_path: Path) -> None:
    """Strangers count by reason, once; none of them again if the capture comes again with more behind it; they hide nothing."""
    talk = Talk().open().exchange(105, {"topic": "T"}).wait(5 * SECOND_NS).client_fin().server_fin()
    knocks = [b"GET / HTTP/1.0\r\n\r\n", bytes(8), b"\x16\x03\x01\x00\x05hello", b""]
    for number, said in enumerate(knocks):
        knock = Talk(client=f"10.0.0.3:{50_000 + number}", start_ns=talk.at_ns).open()
        talk.segments += (knock.ask(said) if said else knock).client_fin().server_fin().segments
        talk.at_ns = knock.at_ns
    reasons = {"http": 1, "zeros": 1, "tls": 1, "silent_connection": 1}
    first = read_in(tmp_path / "w", written(tmp_path / "a.pcap", talk.segments))
    assert (first.reasons, first.quarantined, first.pieces, first.errors) == (reasons, 4, 4, [])
    more = talk.exchange(104, BROKER, opaque=9).segments
    again = read_in(tmp_path / "w", written(tmp_path / "b.pcap", more))
    assert (again.quarantined, again.pieces, again.sightings > 0) == (0, 0, True)
    assert len(stored(tmp_path / "w", "quarantine", "reason")) == 4


def test_a_capture_cut_twice_keeps_its_law(tmp_path: Path) -> None:
    """A connection of which frames were cut in two nights has one row, and every frame is accounted for in both."""
    talk = Talk().open().exchange(105, {"topic": "T"})
    for opaque in range(3, 9):
        talk.ask(request(103, BROKER, REGISTER, opaque=opaque)).answer(response(opaque)).wait(SECOND_NS)
    middle = len(talk.segments) // 2
    for name, part in (("a", talk.segments[:middle]), ("b", talk.segments[middle:])):
        read = read_in(tmp_path / "w", written(tmp_path / f"{name}.pcap", part, kept=200))
        assert read.ignored["cut_frame"] >= 1
    assert stored(tmp_path / "w", "quarantine", "reason") == [("truncated_packet",)]


@pytest.mark.parametrize("side", ["src", "dst"])
def test_a_missing_direction_is_asked_for(tmp_path: Path, side: str) -> None:
    """Of a mirror port that shows one way alone nothing can be read: which way is a name server's, requests and answers show."""
    talk = Talk().open().exchange(105, {"topic": "T"})
    server = talk.segments[0].dst
    half = [segment for segment in talk.segments if getattr(segment, side) == server]
    (error,) = read_in(tmp_path / "w", written(tmp_path / "half.pcap", half)).errors
    assert error.endswith("is a direction missing, or in another file?")


def test_two_directions_in_two_files_are_to_be_merged(tmp_path: Path) -> None:
    """As a tap records them: what has no place beside the other file is told so, and how both can be read."""
    talk = Talk().open().ask(request(103, BROKER, REGISTER, opaque=3)).answer(response(3))
    for opaque in range(20):
        talk.wait(10 * SECOND_NS).exchange(105, {"topic": "T"}, opaque=opaque)
    server = talk.segments[0].dst
    sides = [[each for each in talk.segments if getattr(each, side) == server] for side in ("dst", "src")]
    (error,) = read_in(
        tmp_path / "w", *(written(tmp_path / f"{number}.pcap", half) for number, half in enumerate(sides))
    ).errors
    assert error.startswith("1.pcap: ")
    assert error.endswith("both can be read merged (mergecap)")
