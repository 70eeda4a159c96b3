"""What is fuzzed: each target takes arbitrary bytes, and may raise nothing but the package's documented errors."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from namesrv_wire.errors import DecodeError, WireError
from namesrv_wire.logs.event_log import line_of
from namesrv_wire.packets.segments import OUTGOING, Segment, read_segments
from namesrv_wire.protocol.bodies import decode_data_version, decode_queue_datas, decode_register_body
from namesrv_wire.protocol.frames import Frame, decode_frame
from namesrv_wire.protocol.requests import KnownFrames
from namesrv_wire.secrets import blot
from namesrv_wire.servers.transcript import Transcript
from namesrv_wire.streams.cutting import FrameCutter
from tests.wire.counted import accounted, read_capture, read_event_log
from tests.wire.forge import NAMESRV, Talk, rows_of
from tests.wire.openings import OPENINGS
from tests.wire.seeds import forged_frames, pcap_of, real_frames, register_bodies

_OTHER_BODIES: dict[bytes, Callable[[bytes], object]] = {
    b"\xfe": lambda body: decode_data_version(body, 1),
    b"\xff": decode_queue_datas,
}
_FRAMES = KnownFrames()
_FOLDER = tempfile.TemporaryDirectory(prefix="namesrv-fuzz-")  # gone with the process
_SCRATCH = Path(_FOLDER.name)


@dataclass(frozen=True)
class Target:
    """One entry point: what to call, what to begin with, its longest input, its share of all inputs."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    longest: int
    share: int


def frames(data: bytes) -> None:
    """Decode what stands behind a right length field, directly and with what is known of others; blot its secrets."""
    whole = struct.pack(">i", len(data)) + data
    direct = _outcome(lambda: decode_frame(whole))
    known = _outcome(lambda: _known(whole))
    assert direct == known, (direct, known)
    assert len(blot(data)) == len(data)


def bodies(data: bytes) -> None:
    """Decode as a registration body: the first byte chooses layout and version."""
    mode, body = data[:1], data[1:]
    if mode in _OTHER_BODIES:
        with suppress(WireError):
            _OTHER_BODIES[mode](body)
        return
    version = (-1, 3, 36, 407, 493, 10_000)[(mode or b"\0")[0] % 6]
    compressed = bool(mode and mode[0] & 0x80)
    _outcome(lambda: decode_register_body(body, compressed=compressed, version=version, now_ms=1))


def _known(data: bytes) -> Frame:
    known, opaque = _FRAMES.decode(data)
    return known.frame._replace(opaque=opaque)


def _outcome(decode: Callable[[], object]) -> object:
    try:
        return decode()
    except DecodeError as error:
        return error.reason


def streams(data: bytes) -> None:
    """Cut into chunks of one direction: frames, holes, bytes that were not kept, and resynchronisation."""
    cutter = FrameCutter(synced=data[:1] != b"\x01")
    at = 1
    while at < len(data):
        size = data[at]
        missing = cutter.gap if size > 252 else cutter.cut_off
        cuts = missing(size) if size > 250 else cutter.feed(data[at + 1 : at + 1 + size])
        for cut in cuts:
            if cut.error is None:
                with suppress(WireError):
                    decode_frame(cut.data)
        at += 1 + size
    cutter.end()
    assert len(cutter.buffer) == cutter.skip == 0


def segments(data: bytes) -> None:
    """Feed a transcript with segments of a conversation: order, flags, holes, lost bytes, addresses, interfaces from the input."""
    transcript = Transcript(namesrv=[NAMESRV])
    made: list[Segment] = []
    at, time_ns = 0, 1_700_000_000_000_000_000
    while at + 8 <= len(data) and len(made) < 200:
        shape, flags, seq, lost, wait, size = struct.unpack_from(">BBHBBH", data, at)
        payload = data[at + 8 : at + 8 + size % 1_024]
        time_ns += wait * (1 if shape & 2 else 1_000_000_000)
        client = "192.0.2.1:50000" if shape & 8 else "10.0.0.2:40000"
        ends = (NAMESRV, client) if shape & 1 else (client, NAMESRV)
        lost_bytes = lost if shape & 4 else 0
        seen = (0, 3, 7, OUTGOING)[shape >> 4 & 3]
        made.append(Segment(len(made) + 1, time_ns, *ends, seq, seq + 1, flags, payload, lost_bytes, seen))
        at += 8 + len(payload)
    rows_of(made, transcript)
    carried = Transcript(namesrv=[NAMESRV], carry=transcript.carry())
    rows_of(made, carried)
    for counts in (transcript.counts, carried.counts):
        assert accounted(counts) == counts.frames + counts.pieces, counts


def captures(data: bytes) -> None:
    """Read as a capture file, and the segments in it as conversations: one by one, and many at a time."""
    path = _SCRATCH / "capture"
    path.write_bytes(data)
    said: list[tuple[object, ...]] = []
    for transcript in (Transcript(), Transcript()):
        with suppress(WireError):
            if not said:
                for segment in read_capture(path):
                    transcript.feed([segment], "capture")
            else:
                for segments in read_segments(path):
                    transcript.feed(segments, "capture")
        transcript.finish()
        said.append((transcript.carry(), transcript.counts))
    assert said[0] == said[1], said


def event_logs(data: bytes) -> None:
    """Read as an event log; what was read can be written."""
    path = _SCRATCH / "events"
    path.write_bytes(data)
    with suppress(WireError):
        for row in read_event_log(path):
            if row.table not in ("quarantine", "topic_configs"):
                line_of(row)


def _body_seeds() -> Iterable[bytes]:
    modes = {3: 1, 36: 2, 407: 3, 493: 4}
    for version, compressed, body in register_bodies():
        yield bytes([modes.get(version, 3) + (0x80 - 0x80 % 6 + 6 if compressed else 0)]) + body
    yield b'\xfe{"counter":3,"stateVersion":2,"timestamp":1}'
    yield b'\xff{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'


def _stream_seeds() -> Iterable[bytes]:
    for first in b"\x00\x01":
        chunks = b"".join(
            bytes([len(piece)]) + piece
            for frame in (*real_frames(), *forged_frames())[::4]
            for piece in (frame[at : at + 200] for at in range(0, len(frame), 200))
        )
        yield bytes([first]) + chunks
        yield bytes([first, 251]) + chunks[:900]
        yield bytes([first, 253]) + chunks[:900]
        for opening in OPENINGS:
            yield bytes([first, len(opening)]) + opening + chunks[:900]


def _segment_seeds() -> Iterable[bytes]:
    for data in real_frames()[::3]:
        talk = Talk().open().ask(data).answer(data).client_fin().server_fin()
        yield b"".join(
            struct.pack(">BBHBBH", segment.src == NAMESRV, segment.flags, segment.seq & 0xFFFF, 0, 0, len(part)) + part
            for segment in talk.segments
            for part in (segment.payload[:1_000],)
        )


def _capture_seeds() -> Iterable[bytes]:
    for data in (*real_frames()[::5], *forged_frames()[:2]):
        talk = Talk().open().ask(data).answer(data).client_fin().server_fin()
        yield from pcap_of(talk.segments)


def _event_seeds() -> Iterable[bytes]:
    talk = Talk().open()
    for data in real_frames():
        talk.ask(data)
    lines = [
        line_of(row).encode() for row in rows_of(talk.segments) if row.table not in ("quarantine", "topic_configs")
    ]
    yield from lines
    yield b"\n".join(lines)


def _frame_seeds() -> Iterable[bytes]:
    return [data[4:] for data in (*real_frames(), *forged_frames())]


TARGETS = {
    "frames": Target(frames, _frame_seeds, 1_024, 45),
    "bodies": Target(bodies, _body_seeds, 1_024, 25),
    "streams": Target(streams, _stream_seeds, 2_048, 12),
    "segments": Target(segments, _segment_seeds, 2_048, 8),
    "captures": Target(captures, _capture_seeds, 2_048, 4),
    "event-logs": Target(event_logs, _event_seeds, 2_048, 6),
}
