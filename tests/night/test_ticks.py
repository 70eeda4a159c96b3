"""Ticks and expiries of two real name servers, held against the servers' own logs: scanners knock all the time."""

from __future__ import annotations

import datetime as dt
import gzip
import re
import socket
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from jobs.night.nightly import Summary
from schemas import gold
from tests import pcap
from tests.night.nights import night, rows
from tests.night.test_captures import FILES
from tests.pcap import Record, records
from tests.places import recorded

pytestmark = pytest.mark.slow

SERVER = "10.77.1.2:9876"
_FRAMES = {
    socket.inet_pton(socket.AF_INET6, "fd77:1::2"): socket.inet_aton("10.77.1.2"),
    socket.inet_pton(socket.AF_INET6, "fd77:2::2"): socket.inet_aton("10.77.2.99"),
}
_EXPIRED = re.compile(r"^(\S+ \S+) .*The broker channel expired, .*clusterName=(\S+), brokerAddr=(\S+)\]", re.MULTILINE)
_TICK = re.compile(r"^(\S+ \S+) .*start scanNotActiveBroker", re.MULTILINE)


def over_ipv4(capture: Path, out: Path) -> Path:
    """Write `capture` (classic pcap, Ethernet) with the packets of one process's IPv6 address under its IPv4 address."""
    data, changed = gzip.decompress(capture.read_bytes()), []
    for packet in records(data):
        frame = packet.frame
        ends = frame[22:38], frame[38:54]
        if frame[12:14] == b"\x86\xdd" and frame[20] == 6 and all(end in _FRAMES for end in ends):
            size = 20 + struct.unpack_from(">H", frame, 18)[0]
            ip = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0x4000, 64, 6, 0) + _FRAMES[ends[0]] + _FRAMES[ends[1]]
            changed.append(Record(packet.time_us, frame[:12] + b"\x08\x00" + ip + frame[54:], packet.length - 20))
        else:
            changed.append(packet)
    out.write_bytes(pcap.capture(data, changed))
    return out


def at_us(text: str) -> int:
    at = dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)


class Whole(NamedTuple):
    """The capture, what a night has said of it, and its warehouse."""

    capture: Path
    said: Summary
    warehouse: Path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("ticks")
    capture = over_ipv4(recorded(FILES["network"]), folder / "host.pcap")
    return Whole(capture, night(folder / "w", capture), folder / "w")


def test_scans_run_when_the_servers_log_says_so(whole: Whole) -> None:
    """Each scan with effect is a tick of the log, each expiry stands there, and none is missing; all answers match."""
    said = whole.said
    assert (said.verify["answers"], said.verify["same_bytes"], said.verify["explained"]) == (8_051, 8_051, {})
    log = gzip.decompress(recorded("network/namesrv-9876.log.gz").read_bytes()).decode()
    ticks = [at_us(text) for text in _TICK.findall(log)]
    found = rows(whole.warehouse, gold.EVENT_OUTCOMES)
    scans = [row["effect_time"] for row in found if row["operation"] == "scan"]
    assert scans
    assert all(any(0 <= scan - tick < 8_000 for tick in ticks) for scan in scans), "within some ms of its line"
    until = max(row["effect_time"] for row in found)
    logged = {(at_us(at) // 100_000, addr) for at, _, addr in _EXPIRED.findall(log) if at_us(at) <= until}
    expired = [row for row in rows(whole.warehouse, gold.EXPIRED_BROKERS) if row["cause"] == "scan"]
    told = {(row["removed_time"] // 100_000, row["broker_addr"]) for row in expired}
    assert told <= logged
    # Of a live entry whose address is in no group nothing is removed, and each scan meets it again.
    assert {addr for _, addr in logged - told} == {"10.77.2.12:11121"}
    (phase,) = (row for row in rows(whole.warehouse, gold.NAMESRV_SETTINGS) if row["setting"] == "scan_phase_us")
    assert abs(int(phase["value"]) - ticks[0] % 5_000_000) < 3_000
    assert (phase["namesrv_id"], phase["answers_against"]) == (SERVER, 0)


def without(capture: Path, out: Path, since_us: dict[str, int]) -> None:
    """Write `capture` without the packets of connections since an instant, by the address of the client."""
    data = capture.read_bytes()

    def is_kept(packet: Record) -> bool:
        frame = packet.frame
        ends = {
            f"{socket.inet_ntoa(frame[at : at + 4])}:{int.from_bytes(frame[port : port + 2], 'big')}"
            for at, port in _ENDS
        }
        return all(packet.time_us <= since_us[end] for end in ends & since_us.keys())

    out.write_bytes(pcap.capture(data, filter(is_kept, records(data))))


_ENDS = ((26, 34), (30, 36))
"""Address and port of the sender and of the receiver in an Ethernet frame, in IPv4 without options."""


def test_answers_tell_when_scans_run_where_no_packet_does(whole: Whole, tmp_path: Path) -> None:
    """What was said on connections of brokers whose leases ended is lost since their last beats: all answers still match."""
    lives = {(row["closed_by"], row["broker_addr"]): row for row in rows(whole.warehouse, gold.BROKER_LIVE_HISTORY)}
    expired = [row for row in rows(whole.warehouse, gold.EXPIRED_BROKERS) if row["cause"] == "scan"]
    channels = [lives[row["removed_by"], row["broker_addr"]]["channel_id"] for row in expired]
    since = {
        channel.partition("#")[0]: row["last_beat_time"] + 1_000 for channel, row in zip(channels, expired, strict=True)
    }
    without(whole.capture, tmp_path / "lost.pcap", since)
    said = night(tmp_path / "w", tmp_path / "lost.pcap")
    assert (said.verify["answers"], said.verify["same_bytes"], said.verify["explained"]) == (8_051, 8_051, {})
    told, shown = (
        next(row for row in rows(path, gold.NAMESRV_SETTINGS) if row["setting"] == "scan_phase_us")
        for path in (tmp_path / "w", whole.warehouse)
    )
    assert told["answers_for"] > shown["answers_for"], "answers, and not closes"
    again = [row for row in rows(tmp_path / "w", gold.EXPIRED_BROKERS) if row["cause"] == "scan"]
    pairs = zip(again, expired, strict=True)
    assert all(abs(one["removed_time"] - other["removed_time"]) < 10_000 for one, other in pairs)
