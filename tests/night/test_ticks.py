"""Ticks and expiries of two real name servers, held against the servers' own logs: scanners knock all the time."""

from __future__ import annotations

import datetime as dt
import gzip
import re
import socket
from pathlib import Path

import pytest

from schemas import gold
from tests import pcap
from tests.night.nights import JOINED, Capture, night, rows
from tests.pcap import Record, records
from tests.places import recorded

pytestmark = pytest.mark.slow

SERVER = "10.77.1.2:9876"
_EXPIRED = re.compile(r"^(\S+ \S+) .*The broker channel expired, .*clusterName=(\S+), brokerAddr=(\S+)\]", re.MULTILINE)
_TICK = re.compile(r"^(\S+ \S+) .*start scanNotActiveBroker", re.MULTILINE)


def at_us(text: str) -> int:
    at = dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)


def test_scans_run_when_the_servers_log_says_so(network: Capture) -> None:
    """Each scan with effect is a tick of the log, each expiry stands there, and none is missing; all answers match."""
    said = network.summary
    assert (said.verify["answers"], said.verify["same_bytes"], said.verify["explained"]) == (8_051, 8_051, {})
    log = gzip.decompress(recorded("network/namesrv-9876.log.gz").read_bytes()).decode()
    ticks = [at_us(text) for text in _TICK.findall(log)]
    found = rows(network.path, gold.EVENT_OUTCOMES)
    scans = [row["effect_time"] for row in found if row["operation"] == "scan"]
    assert scans
    assert all(any(0 <= scan - tick < 8_000 for tick in ticks) for scan in scans), "within some ms of its line"
    until = max(row["effect_time"] for row in found)
    logged = {(at_us(at) // 100_000, addr) for at, _, addr in _EXPIRED.findall(log) if at_us(at) <= until}
    expired = [row for row in rows(network.path, gold.EXPIRED_BROKERS) if row["cause"] == "scan"]
    told = {(row["removed_time"] // 100_000, row["broker_addr"]) for row in expired}
    assert told <= logged
    # Of a live entry whose address is in no group nothing is removed, and each scan meets it again.
    assert {addr for _, addr in logged - told} == {"10.77.2.12:11121"}
    (phase,) = (row for row in rows(network.path, gold.NAMESRV_SETTINGS) if row["setting"] == "scan_phase_us")
    assert abs(int(phase["value"]) - ticks[0] % 5_000_000) < 3_000
    assert (phase["namesrv_id"], phase["answers_against"]) == (SERVER, 0)


def without(since_us: dict[str, int], out: Path) -> None:
    """Write the capture without the packets of connections since an instant, by the address (of IPv4) of the client."""
    data = gzip.decompress(recorded("network/host.pcap.gz").read_bytes())

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


def test_answers_tell_when_scans_run_where_no_packet_does(network: Capture, tmp_path: Path) -> None:
    """What was said on connections of brokers whose leases ended is lost since their last beats: all answers still match."""
    lives = {(row["closed_by"], row["broker_addr"]): row for row in rows(network.path, gold.BROKER_LIVE_HISTORY)}
    expired = [row for row in rows(network.path, gold.EXPIRED_BROKERS) if row["cause"] == "scan"]
    channels = [lives[row["removed_by"], row["broker_addr"]]["channel_id"] for row in expired]
    since = {
        channel.partition("#")[0]: row["last_beat_time"] + 1_000 for channel, row in zip(channels, expired, strict=True)
    }
    without(since, tmp_path / "lost.pcap")
    said = night(tmp_path / "w", tmp_path / "lost.pcap", conf=JOINED)
    assert (said.verify["answers"], said.verify["same_bytes"], said.verify["explained"]) == (8_051, 8_051, {})
    told, shown = (
        next(row for row in rows(path, gold.NAMESRV_SETTINGS) if row["setting"] == "scan_phase_us")
        for path in (tmp_path / "w", network.path)
    )
    assert told["answers_for"] > shown["answers_for"], "answers, and not closes"
    again = [row for row in rows(tmp_path / "w", gold.EXPIRED_BROKERS) if row["cause"] == "scan"]
    pairs = zip(again, expired, strict=True)
    assert all(abs(one["removed_time"] - other["removed_time"]) < 10_000 for one, other in pairs)
