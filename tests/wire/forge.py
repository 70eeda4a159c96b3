"""Builds frames, bodies and TCP conversations for the tests of `namesrv_wire`."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from namesrv_wire.packets.segments import ACK, FIN, RST, SYN, Segment
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript

NAMESRV = "10.0.0.1:9876"
CLIENT = "10.0.0.2:40000"
SECOND_NS = 1_000_000_000
MS_NS = 1_000_000
EPOCH_NS = 1_700_000_000 * SECOND_NS
BROKER = {"brokerName": "broker-a", "brokerAddr": "10.0.0.2:10911", "clusterName": "C", "brokerId": "0"}


def frame(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    """Return a frame around header bytes."""
    return struct.pack(">iI", 4 + len(header) + len(body), serialization << 24 | len(header)) + header + body


def request(
    code: int,
    ext: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 1,
    flag: int = 0,
    version: int = 407,
    remark: str | None = None,
) -> bytes:
    """Return a frame with a JSON header."""
    header = {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "version": version}
    if ext is not None:
        header["extFields"] = dict(ext)
    if remark is not None:
        header["remark"] = remark
    return frame(json.dumps(header, separators=(",", ":")).encode(), body)


def response(opaque: int = 1, code: int = 0, body: bytes = b"", version: int = 407, remark: str | None = None) -> bytes:
    """Return an answer."""
    return request(code, None, body, opaque=opaque, flag=1, version=version, remark=remark)


def short_string(text: bytes) -> bytes:
    """Return a key as the binary header writes it."""
    return struct.pack(">h", len(text)) + text


def long_string(text: bytes) -> bytes:
    """Return a value as the binary header writes it."""
    return struct.pack(">i", len(text)) + text


def binary_header(
    code: int, ext: Iterable[tuple[bytes, bytes]] = (), *, opaque: int = 1, flag: int = 0, version: int = 407
) -> bytes:
    """Return a binary header."""
    fields = b"".join(short_string(key) + long_string(value) for key, value in ext)
    fixed = struct.pack(">hbhii", code, 0, version, opaque, flag)
    return fixed + struct.pack(">i", 0) + struct.pack(">i", len(fields)) + fields


def register_json(topics: Mapping[str, int], **more: object) -> bytes:
    """Return a registration body: topics with their number of queues."""
    table = {
        name: {"topicName": name, "readQueueNums": n, "writeQueueNums": n, "perm": 6, "topicSysFlag": 0}
        for name, n in topics.items()
    }
    wrapper = {"dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 5}, "topicConfigTable": table, **more}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}, separators=(",", ":")).encode()


REGISTER = request(103, BROKER, register_json({"T": 4}), opaque=3)
"""A registration of one topic that any name server takes."""


def compressed_body(topics: Iterable[bytes], filters: bytes = b"[]", count: int | None = None) -> bytes:
    """Return a registration body in the compressed layout of 4.x."""
    texts = list(topics)
    parts = [long_string(b'{"counter":1,"timestamp":5}'), struct.pack(">i", len(texts) if count is None else count)]
    parts += [long_string(text) for text in texts]
    return zlib.compress(b"".join([*parts, long_string(filters)]), 9)


class Talk:
    """One TCP connection as a list of segments; each call adds one, `gap_ns` after the one before."""

    def __init__(
        self,
        start_ns: int = EPOCH_NS,
        client: str = CLIENT,
        server: str = NAMESRV,
        client_seq: int = 1_000,
        server_seq: int = 9_000,
        gap_ns: int = MS_NS,
    ) -> None:
        self.client, self.server, self.gap_ns = client, server, gap_ns
        self.at_ns = start_ns
        self.client_seq, self.server_seq = client_seq, server_seq
        self.segments: list[Segment] = []

    def add(
        self,
        from_server: bool,  # noqa: FBT001
        flags: int,
        payload: bytes = b"",
        lost: int = 0,
        seq: int | None = None,
    ) -> Talk:
        """Add a segment."""
        mine, other = (self.server_seq, self.client_seq) if from_server else (self.client_seq, self.server_seq)
        ends = (self.server, self.client) if from_server else (self.client, self.server)
        self.segments.append(
            Segment(
                len(self.segments) + 1, self.at_ns, *ends, (mine if seq is None else seq) & 0xFFFFFFFF, other,
                flags, payload, lost,
            )
        )  # fmt: skip
        self.at_ns += self.gap_ns
        if seq is None:
            taken = len(payload) + lost + bool(flags & (SYN | FIN))
            if from_server:
                self.server_seq = (self.server_seq + taken) & 0xFFFFFFFF
            else:
                self.client_seq = (self.client_seq + taken) & 0xFFFFFFFF
        return self

    def open(self) -> Talk:
        """Add SYN and SYN/ACK."""
        return self.add(False, SYN).add(True, SYN | ACK)

    def refused(self) -> Talk:
        """Add a SYN that is answered by RST."""
        return self.add(False, SYN).add(True, RST | ACK)

    def ask(self, payload: bytes, lost: int = 0) -> Talk:
        """Add bytes from the client."""
        return self.add(False, ACK, payload, lost)

    def answer(self, payload: bytes, lost: int = 0) -> Talk:
        """Add bytes from the name server."""
        return self.add(True, ACK, payload, lost)

    def client_fin(self) -> Talk:
        """Add the client's FIN."""
        return self.add(False, FIN | ACK)

    def server_fin(self) -> Talk:
        """Add the name server's FIN."""
        return self.add(True, FIN | ACK)

    def client_ack(self) -> Talk:
        """Add a packet of the client's that says nothing but what it has got."""
        return self.add(False, ACK)

    def client_rst(self) -> Talk:
        """Add the client's RST."""
        return self.add(False, RST)

    def server_rst(self) -> Talk:
        """Add the name server's RST."""
        return self.add(True, RST | ACK)

    def raw(self, from_server: bool, seq: int, payload: bytes, flags: int = ACK) -> Talk:  # noqa: FBT001
        """Add a segment with a sequence number of its own that moves nothing."""
        return self.add(from_server, flags, payload, seq=seq)

    def wait(self, duration_ns: int) -> Talk:
        """Let time pass."""
        self.at_ns += duration_ns
        return self

    def exchange(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", opaque: int = 1) -> Talk:
        """Add a request and its successful answer."""
        return self.ask(request(code, ext, body, opaque=opaque)).answer(response(opaque))


def merged(*talks: Talk) -> list[Segment]:
    """Return the segments of several connections in order of time, numbered anew."""
    segments = sorted((segment for talk in talks for segment in talk.segments), key=lambda segment: segment.time_ns)
    return [segment._replace(packet_no=number) for number, segment in enumerate(segments, 1)]


def ip_packet(segment: Segment) -> bytes:
    """Return a segment as an IPv4 packet."""
    ends = [end.partition(":") for end in (segment.src, segment.dst)]
    ports = [int(port) for _, _, port in ends]
    tcp = struct.pack(">HHIIBBHHH", *ports, segment.seq, segment.ack, 0x50, segment.flags, 8_192, 0, 0)
    addresses = b"".join(bytes(map(int, address.split("."))) for address, _, _ in ends)
    size = 40 + len(segment.payload)
    return struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 6, 0) + addresses + tcp + segment.payload


def rows_of(
    segments: Iterable[Segment],
    transcript: Transcript | None = None,
    finish: bool = True,  # noqa: FBT001, FBT002
) -> list[AnyRow]:
    """Return all rows of a list of segments."""
    transcript = Transcript(namesrv=[NAMESRV]) if transcript is None else transcript
    rows = transcript.feed(segments, "forged.pcap")
    return rows + (transcript.finish() if finish else [])


def of_table(rows: Iterable[AnyRow], table: str) -> list[dict[str, Any]]:
    """Return the values of one table's rows."""
    return [row.values for row in rows if row.table == table]


def in_parts(segments: Sequence[Segment], *cuts: int, namesrv: Sequence[str] = (NAMESRV,)) -> list[AnyRow]:
    """Return all rows of a capture that is read in parts, each with what the one before carries on."""
    rows: list[AnyRow] = []
    carry: dict[str, str] = {}
    for low, high in pairwise([0, *cuts, len(segments)]):
        transcript = Transcript(namesrv=namesrv, carry=carry)
        rows += rows_of(segments[low:high], transcript)
        carry = transcript.carry()
    return rows


def facts(rows: Iterable[AnyRow], *kinds: str) -> list[dict[str, Any]]:
    """Return the facts about a name server of these kinds."""
    return [row for row in of_table(rows, "namesrv_events") if row["kind"] in kinds]


def final(rows: Iterable[AnyRow]) -> dict[tuple[str, str], dict[str, object]]:
    """Return the rows that stand in the end: later ones replace, revoked ones go. Where they were read is left out."""
    standing: dict[tuple[str, str], dict[str, object]] = {}
    for row in rows:
        table, values = row.table, row.values
        if table == "revoked":
            standing.pop((str(values["table"]), str(values["event_id"])), None)
            continue
        key = values.get("event_id") or values.get("quarantine_id") or values["topic_config_digest"]
        if table == "topic_configs":
            standing[table, str(key)] = {}
        else:
            standing[table, str(key)] = {
                name: value for name, value in values.items() if name not in ("source_file", "source_offset")
            }
    return standing


def conversation() -> list[Segment]:
    """Return a capture with all kinds of rows, secrets, losses, a restart and silence."""
    secret = BROKER | {"AccessKey": 'abc\u00e9"\\def', "Signature": "123"}
    one = Talk().refused().open().ask(REGISTER).answer(response(3)).ask(request(104, secret, opaque=4))
    one.answer(response(4)).ask(b"\x00\x00\x00\x06\x00\x00\x00\x02{x").ask(REGISTER[:70]).ask(REGISTER[70:])
    one.wait(SECOND_NS).client_fin().wait(SECOND_NS).server_fin()
    two = Talk(client="10.0.0.3:1", start_ns=EPOCH_NS + 3 * MS_NS).open()
    for opaque in range(14):
        two.wait(10 * SECOND_NS).exchange(105, {"topic": "T", "Signature": "zz"}, opaque=opaque)
    two.wait(SECOND_NS).server_fin()
    three = Talk(client="10.0.0.4:1", start_ns=EPOCH_NS + 4 * MS_NS).open().ask(REGISTER).answer(response(3))
    four = Talk(client="10.0.0.5:1", start_ns=two.at_ns - SECOND_NS - MS_NS).open().exchange(106).server_fin()
    five = Talk(client="10.0.0.5:2", start_ns=two.at_ns + SECOND_NS).refused().open().ask(REGISTER)
    return merged(one, two, three, four, five)
