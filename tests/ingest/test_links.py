"""Captures as clouds and hosts make them: the rows are those of the same traffic in a plain capture."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from threading import Thread

import pytest

from jobs.cli.commands import forget
from jobs.conf import PipelineConf, load_conf
from jobs.errors import ConfError
from jobs.ingest.ingest import ingest
from tests.ingest.given import BEAT, at, broker, content, packets, read_in, warehouse_at, write
from tests.pcap import Record, block, capture, records, section
from tests.pcap import interface as described
from tests.wire.wrapped import COMPRESSIONS, COOKED, WRAPPINGS, ethernet, vxlan

pytestmark = pytest.mark.slow

DATA = packets(0, 1_200)


_IP = {0: 4, 1: 14, 101: 0}[struct.unpack_from("<I", DATA, 20)[0]]
RECORDS = [(record.time_us, record.frame[_IP:]) for record in records(DATA)]
"""Times and IP packets of a piece of the bundled capture, which is of the loopback interface."""


def written(frames: list[tuple[int, bytes]], link_type: int) -> bytes:
    """Return a capture of frames with their times."""
    head = DATA[:16] + struct.pack("<II", 262_144, link_type)
    return capture(head, (Record(time_us, frame, len(frame)) for time_us, frame in frames))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return the events and answers of the plain capture."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "plain.pcap").write_bytes(DATA)
    assert read_in(folder / "w", folder / "plain.pcap").observations > 100
    return dict(content(folder / "w"))


@pytest.mark.parametrize("link", ["NFLOG", "PKTAP", "cooked, SNAP"])
def test_links_of_other_systems_give_the_same_rows(tmp_path: Path, plain: dict[str, object], link: str) -> None:
    """Netfilter's log, Apple's `-i any`, and 802.3 frames."""
    link_type, frame = (WRAPPINGS | COOKED)[link]
    (tmp_path / "other.pcap").write_bytes(written([(time, frame(ip)) for time, ip in RECORDS], link_type))
    assert read_in(tmp_path / "w", tmp_path / "other.pcap").errors == []
    assert content(tmp_path / "w") == plain


@pytest.mark.parametrize("first", ["direct", "mirrored"])
def test_a_packet_that_is_seen_inside_and_outside_of_a_tunnel_counts_once(
    tmp_path: Path, plain: dict[str, object], first: str
) -> None:
    """Directly, and mirrored in VXLAN, whichever comes first."""
    both = [ethernet, lambda ip: ethernet(vxlan(ethernet(ip)))]
    ways = both if first == "direct" else both[::-1]
    path = tmp_path / "both.pcap"
    path.write_bytes(written([(time, way(ip)) for time, ip in RECORDS for way in ways], 1))
    read = read_in(tmp_path / "w", path)
    assert (read.errors, read.packets) == ([], 2 * len(RECORDS))
    found = content(tmp_path / "w")
    assert found == plain


def hidden(folder: Path, port: int) -> Path:
    """Write a capture of which a half is in VXLAN to a port."""
    half = len(RECORDS) // 2
    frames = [
        (time, ethernet(ip) if n < half else ethernet(vxlan(ethernet(ip), port)))
        for n, (time, ip) in enumerate(RECORDS)
    ]
    path = folder / "hidden.pcap"
    path.write_bytes(written(frames, 1))
    return path


def test_what_may_be_a_name_server_and_is_not_read_is_an_error(tmp_path: Path, plain: dict[str, object]) -> None:
    """Named with tunnel and port, each night; with the port in conf/ everything is read, of a file that was forgotten too."""
    path = hidden(tmp_path, 14_789)
    read = read_in(tmp_path / "w", path)
    (error,) = read.errors
    half = len(RECORDS) - len(RECORDS) // 2
    assert f"{half:,} in VXLAN to UDP port 14789 (not in vxlan_ports), of which {half:,} of port " in error
    told = PipelineConf(vxlan_ports=frozenset({14_789}))
    assert read_in(tmp_path / "told", path, conf=told).errors == []
    assert content(tmp_path / "told") == plain
    # Until then each run says so.
    (again,) = read_in(tmp_path / "w", path).errors
    assert again.startswith(error)
    forget(warehouse_at(tmp_path / "w", "forgetting"), [path.name])
    assert ingest(warehouse_at(tmp_path / "w", "once-more", told), [str(path)]).errors == []
    assert content(tmp_path / "w") == plain


@pytest.mark.parametrize("said", ["[0]", "[70000]", '["4789"]', "4789", "[true]"])
def test_ports_of_conf_are_ports(tmp_path: Path, said: str) -> None:
    """Anything else is refused with what it is."""
    path = tmp_path / "a.toml"
    path.write_text(f"[ingest]\nvxlan_ports = {said}\n", encoding="utf-8")
    with pytest.raises(ConfError, match="vxlan_ports"):
        load_conf(path)
    path.write_text("[ingest]\nvxlan_ports = [4789, 6000]\n", encoding="utf-8")
    assert load_conf(path).vxlan_ports == {4789, 6000}


def test_blocks_without_a_time_are_not_read_and_that_is_said(tmp_path: Path) -> None:
    """A capture of nothing else has no packet of a name server."""
    path = tmp_path / "simple.pcapng"
    simple = (struct.pack("<I", len(ip)) + ip + bytes(-len(ip) % 4) for _, ip in RECORDS)
    path.write_bytes(section() + described() + b"".join(block("<", 3, body) for body in simple))
    read = read_in(tmp_path / "w", path)
    (error,) = read.errors
    assert error.endswith(f"{len(RECORDS):,} in pcapng simple packet blocks, which have no time")
    assert (read.packets, read.events, read.observations) == (0, 0, 0)


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("compression", ["plain", "zstd"])
def test_an_event_log_comes_through_a_pipe_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str, *, is_named: bool
) -> None:
    """Compressed or not, of standard input or as `<(COMMAND)` names it: its lines are those of the file."""
    path, pipe = write(tmp_path / "a.jsonl", [at(0, broker("a", "xyz", 1)), at(0.01, BEAT)]), tmp_path / "pipe"
    packed = COMPRESSIONS[compression](path.read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(packed), daemon=True)
    if is_named:
        writer.start()
    read = ingest(warehouse_at(tmp_path / "w", "run"), [str(pipe) if is_named else "-"])
    assert (read.sources, read.errors, read.events) == (["standard-input"], [], 2)
    assert read_in(tmp_path / "w2", path).errors == []
    assert content(tmp_path / "w") == content(tmp_path / "w2")


def test_an_empty_device_is_an_empty_pipe(tmp_path: Path) -> None:
    """Whoever gives /dev/null is told what is wrong with it, not that it is not there."""
    (error,) = ingest(warehouse_at(tmp_path / "w"), ["/dev/null"]).errors
    assert "not a capture: it starts with nothing" in error
