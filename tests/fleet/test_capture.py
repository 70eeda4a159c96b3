"""Captures of a simulated fleet: what is read back is what the fleet sends, and true but for what was planted."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from jobs.errors import FleetError, UsageError
from namesrv_day.arrow.rows import rows_of
from namesrv_wire import AnyRow, Transcript, read_capture
from namesrv_wire.rows import Values
from schemas import bronze, gold
from tests.fleet.fleets import DAY, NEXT, TROUBLED, beats_on, events_of, fleet_like
from tests.night.nights import night, rows
from tests.wire.forge import final
from tools.fleet.asking import Traffic
from tools.fleet.capture import Captured, capture
from tools.fleet.events import namesrv_events_from, namesrv_id
from tools.fleet.fleet import Fleet
from tools.fleet.plan import plan_of

FOUR = fleet_like(TROUBLED, shared_topics=True, churn=0.6, registrations=0.02, topics=40)
FIVE = fleet_like(TROUBLED, version="5.4.0", form="light", beats_per_minute=6, brokers=3, namesrvs=1, churn=0.6)
BUSY = Traffic(clients=4, asks=3, poll_s=120, loss=0.02, wrong_answers=4)
QUIET = Traffic(clients=1, asks=1, poll_s=3_600, loss=0.0)
BEATS = (bronze.HEARTBEATS, bronze.REGISTRATIONS)
# What a row says of where it was read, and what nobody knows of an answer that was not made.
_OF_THE_READING = {
    *(
        "seq",
        "event_id",
        "effect_time",
        "source_file",
        "source_offset",
        "ingest_run",
        "day",
        "body_bytes",
        "channel_id",
        "namesrv_addr",
    ),
    *("response_code", "response_remark", "response_fields", "response_body", "refusal"),
}


def captured(
    folder: Path, fleet: Fleet, traffic: Traffic, *days: dt.date, files: int = 2
) -> tuple[Captured, list[Path]]:
    """Write captures into a folder; return what was written and where."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.pcap" for number in range(files)]
    return capture(fleet, traffic, days or (DAY,), paths, folder / "truth.jsonl"), paths


def read_back(paths: list[Path]) -> list[AnyRow]:
    """Return the rows of captures, read one after the other."""
    transcript = Transcript()
    rows = [row for path in paths for segment in read_capture(path) for row in transcript.feed(segment, path.name)]
    assert transcript.counts.quarantined == {}
    return rows + transcript.finish()


def said(told: Iterable[Values]) -> list[str]:
    """Return what rows say of the fleet, in an order of their own."""
    kept = ({name: value for name, value in row.items() if name not in _OF_THE_READING} for row in told)
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in kept)


@pytest.mark.slow
@pytest.mark.parametrize("fleet", [FOUR, FIVE], ids=["4.9.7", "5.4.0"])
def test_reading_gives_the_events_of_the_fleet(tmp_path: Path, fleet: Fleet) -> None:
    """Each beat, with all that it says and when, is the row that `simulate` writes; so are stops and starts."""
    done, paths = captured(tmp_path, fleet, BUSY)
    found = final(read_back(paths))
    for table in BEATS:
        read = [values for (name, _), values in found.items() if name == table.name]
        expected = [events_of(fleet, DAY, n, [beats_on(fleet, DAY)])[table] for n in range(fleet.namesrvs)]
        assert said(read) == said([row for part in expected for row in rows_of(part)])
    lives = [values for (name, _), values in found.items() if name == "namesrv_events"]
    told = {
        (row["namesrv_id"], row["kind"], row["event_time"]) for row in lives if row["kind"] in ("started", "stopped")
    }
    planned = rows_of(namesrv_events_from(fleet, DAY, "run"))
    assert told == {
        (row["namesrv_id"], row["kind"], row["event_time"]) for row in planned if row["kind"] != "identified"
    }
    assert len(told) > 2 * fleet.namesrvs
    assert sum(name == "route_observations" for name, _ in found) > 0.9 * done.counts["questions"]


def test_connections_live_as_long_as_nothing_ends_them(tmp_path: Path) -> None:
    """Without holes a broker has one connection for two days, with the name that `simulate` gives it."""
    fleet = fleet_like(TROUBLED, outages=0, partitions=0, restarts=0, brokers=2, namesrvs=1)
    _, paths = captured(tmp_path, fleet, QUIET, DAY, NEXT)
    found = final(read_back(paths))
    channels = {values["channel_id"] for (name, _), values in found.items() if name == "heartbeats"}
    expected = events_of(fleet, DAY, 0, [beats_on(fleet, DAY)])[bronze.HEARTBEATS]
    assert channels == {row["channel_id"] for row in rows_of(expected)}
    assert len(channels) == 2


@pytest.mark.slow
def test_equal_options_give_equal_bytes(tmp_path: Path) -> None:
    """In however many files, compressed or not; another seed gives others."""
    fleet = fleet_like(TROUBLED, brokers=2, namesrvs=1)
    digests = []
    for number, (files, seed) in enumerate([(1, 1), (3, 1), (1, 2)]):
        done, paths = captured(tmp_path / str(number), fleet_like(fleet, seed=seed), BUSY, files=files)
        content = b"".join(path.read_bytes()[24:] for path in paths)
        digests.append(hashlib.sha256(content).hexdigest())
        assert sum(done.packets.values()) == sum(sum(1 for _ in RawPcapReader(str(path))) for path in paths)
    assert digests[0] == digests[1] != digests[2]
    zipped = [tmp_path / "one.pcap.gz", tmp_path / "two.pcap.gz"]
    for path in zipped:
        capture(fleet, BUSY, [DAY], [path], tmp_path / "truth.jsonl")
    assert zipped[0].read_bytes() == zipped[1].read_bytes()
    assert [*read_capture(zipped[0])] == [*read_capture(tmp_path / "0" / "0.pcap")]


@pytest.mark.slow
def test_a_later_day_is_the_end_of_a_longer_capture(tmp_path: Path) -> None:
    """A capture that begins in mid-life has the packets of one from the fleet's first day on."""
    fleet = fleet_like(TROUBLED, brokers=2, namesrvs=1, form="register")
    _, both = captured(tmp_path / "both", fleet, BUSY, DAY, NEXT)
    _, one = captured(tmp_path / "one", fleet, BUSY, NEXT, files=1)
    later = [segment[1:] for segment in read_capture(one[0])]
    longer = [segment[1:] for path in both for segment in read_capture(path)]
    assert later == longer[-len(later) :]
    assert later[0][0] >= 1_000_000_000 * 86_400 * (NEXT - dt.date(1970, 1, 1)).days


@pytest.mark.slow
def test_the_truth_names_what_was_planted(tmp_path: Path) -> None:
    """A hole a line, as in the plan; and of each wrong answer the packet that holds its end."""
    done, paths = captured(tmp_path, fleet_like(FOUR, topics=2), BUSY)
    facts = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    holes = [fact for fact in facts if fact["truth"] == "holes"]
    assert len(holes) == done.counts["holes"]
    for n in range(FOUR.namesrvs):
        planned = plan_of(FOUR, n, DAY, range(24)).holes
        assert sum(fact["namesrv_id"] == namesrv_id(n) for fact in holes) >= int((planned.k_to > planned.k_from).sum())
    wrong = [fact for fact in facts if fact["truth"] == "wrong_answers"]
    assert len(wrong) == done.counts["wrong_answers"] > 0
    segments = {(path.name, segment.packet_no): segment for path in paths for segment in read_capture(path)}
    for fact in wrong:
        segment = segments[fact["file"], fact["packet"]]
        assert segment.payload.endswith(fact["body"].encode()[-100:])
        assert (segment.src, segment.dst) == (fact["namesrv_id"], fact["channel_id"].split("#")[0])
        assert fact["body"] != fact["true_body"]


@pytest.mark.slow
def test_packets_are_what_a_network_shows(tmp_path: Path) -> None:
    """MTU 1500, true checksums, handshakes, copies, late segments, keep-alives, resets: every kind is there."""
    _, paths = captured(tmp_path, FOUR, BUSY, files=1)
    largest, ends, kinds = 0, {}, set()
    for number, (data, _) in enumerate(RawPcapReader(str(paths[0]))):
        largest = max(largest, len(data))
        packet = Ether(data)
        tcp, size = packet[TCP], len(data) - 54
        way = (packet[IP].src, tcp.sport, packet[IP].dst, tcp.dport)
        kinds.add(str(tcp.flags))
        if "S" in tcp.flags:
            ends[way] = tcp.seq + 1
        elif size and way in ends:
            kinds |= {"keep-alive"} if size == 1 else {"copy"} if tcp.seq + size <= ends[way] else set()
            kinds |= {"late"} if tcp.seq > ends[way] else set()
            ends[way] = max(ends[way], tcp.seq + size)
        if number % 37 == 0:
            stated = packet[IP].chksum, tcp.chksum
            del packet[IP].chksum, tcp.chksum
            assert (Ether(bytes(packet))[IP].chksum, Ether(bytes(packet))[TCP].chksum) == stated
    assert largest == 1_514
    assert {"S", "SA", "A", "PA", "FA", "RA", "copy", "late", "keep-alive"} <= kinds


def test_what_cannot_be_captured_is_refused(tmp_path: Path) -> None:
    """Events that come late, no day, a file twice, shares that are none, a folder that is not there; no file is left."""
    path, truth = tmp_path / "a.pcap", tmp_path / "truth.jsonl"
    arguments: list[tuple[Any, ...]] = [
        (fleet_like(TROUBLED, late=0.1), QUIET, [DAY], [path], truth),
        (TROUBLED, QUIET, [], [path], truth),
        (TROUBLED, QUIET, [DAY], [path, path], truth),
        (TROUBLED, QUIET, [DAY - dt.timedelta(days=1)], [path], truth),
    ]
    for given in arguments:
        with pytest.raises(FleetError):
            capture(*given)
    with pytest.raises(FleetError, match="loss 2: a share"):
        Traffic(loss=2)
    with pytest.raises(UsageError, match="cannot be written"):
        capture(TROUBLED, QUIET, [DAY], [tmp_path / "no" / "a.pcap"], truth)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize("fleet", [FOUR, FIVE], ids=["4.9.7", "5.4.0"])
def test_a_night_finds_the_wrong_answers_and_no_other(tmp_path: Path, fleet: Fleet) -> None:
    """Restarts, partitions, lost segments and closed connections included: all other answers are right to the byte."""
    small = fleet_like(fleet, topics=3, brokers=3, namesrvs=1, outages=0.2)
    _, paths = captured(tmp_path, small, Traffic(clients=3, asks=2, poll_s=60, loss=0.02, wrong_answers=3))
    facts = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    planted = [(fact["file"], fact["packet"]) for fact in facts if fact["truth"] == "wrong_answers"]
    said = night(tmp_path / "w", *paths).verify
    assert said["answers"] - said["same_bytes"] == said["mismatched"] == len(planted) > 0
    found = {row["event_id"] for row in rows(tmp_path / "w", gold.ROUTE_MISMATCHES)}
    answers = [row for row in rows(tmp_path / "w", bronze.ROUTE_OBSERVATIONS) if row["event_id"] in found]
    assert sorted((row["source_file"], row["source_offset"]) for row in answers) == sorted(planted)
