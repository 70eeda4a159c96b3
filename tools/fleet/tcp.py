"""TCP connections to a simulated name server: what each end sends, what is lost on the way and comes again.

Source: RFC 9293; times as Linux has them.
"""

from __future__ import annotations

import zlib
from typing import Final

from namesrv_core.machine.instants import NS_PER_MS, NS_PER_US
from namesrv_wire.packets.capture import ACK, FIN, RST, SYN
from tools.fleet.packets import MSS_OPTION, SEGMENT_BYTES, Fact, Packet, way_of

_PUSH: Final = 8
_ROUND_TRIP_NS, _DELAYED_ACK_NS, _RETRANSMISSION_NS = 200 * NS_PER_US, 40 * NS_PER_MS, 205 * NS_PER_MS
_BETWEEN_SEGMENTS_NS = 12 * NS_PER_US
# A segment is late only if the connection was quiet for so long: nothing else waits behind it.
_QUIET_NS = 2 * _RETRANSMISSION_NS
_MASK = 0xFFFFFFFF


class Connection:
    """One TCP connection from `client` to `server`, both ip:port: its packets go to `out`.

    `luck` of a call is a number drawn for it, in millionths; below `trouble_ppm`, for each segment, something happens to one.
    """

    __slots__ = ("_down", "_out", "_trouble_ppm", "_up", "asked", "channel_id", "client", "last_ns", "opaque", "said")

    def __init__(self, client: str, server: str, out: list[Packet], trouble_ppm: int) -> None:
        self._up, self._down = way_of(client, server), way_of(server, client)
        self._out, self._trouble_ppm = out, trouble_ppm
        self.client = self.channel_id = client
        self.asked = self.said = 0
        """Sequence numbers of what the client, and the name server, will send next."""
        self.last_ns = 0
        """When its last byte went."""
        self.opaque = -1

    def open(self, at_ns: int, took_ns: int) -> None:
        """Shake hands; the name server has accepted at `at_ns`, `took_ns` after it was asked to."""
        self.asked, self.said = (zlib.crc32(f"{end} {at_ns}".encode()) for end in (self.client, "server"))
        self._up_packet(at_ns - took_ns, SYN, MSS_OPTION)
        self.asked = self.asked + 1 & _MASK
        self._down_packet(at_ns, SYN | ACK, MSS_OPTION)
        self.said = self.said + 1 & _MASK
        self._up_packet(at_ns + took_ns, ACK)
        self.channel_id, self.last_ns = f"{self.client}#{at_ns}", at_ns

    def refuse(self, at_ns: int) -> None:
        """Have an attempt to connect answered by RST."""
        self.asked = zlib.crc32(f"{self.client} {at_ns}".encode())
        self._up_packet(at_ns, SYN, MSS_OPTION)
        self.asked = self.asked + 1 & _MASK
        self._down_packet(at_ns + _BETWEEN_SEGMENTS_NS, RST | ACK)

    def ask(self, at_ns: int, frame: bytes, luck: int) -> None:
        """Send a frame to the name server, whose last byte comes at `at_ns`."""
        size = len(frame)
        if size > SEGMENT_BYTES:
            self._ask_in_segments(at_ns, frame, luck)
        else:
            self._up_packet(at_ns, _PUSH | ACK, frame)
            if luck < self._trouble_ppm:  # its acknowledgement was lost on the way back
                again_ns = at_ns + _RETRANSMISSION_NS
                self._up_packet(again_ns, _PUSH | ACK, frame)
                ack = self.asked + size & _MASK
                self._out.append(Packet(again_ns + NS_PER_US, self._down, self.said, ack, ACK, b"", None))
        self.asked = self.asked + size & _MASK
        self.last_ns = at_ns

    def _ask_in_segments(self, at_ns: int, frame: bytes, luck: int) -> None:
        """Send segments; with bad luck one is lost before it is recorded and comes again, or two change places."""
        starts = range(0, len(frame), SEGMENT_BYTES)
        times = [at_ns - (len(starts) - 1 - number) * _BETWEEN_SEGMENTS_NS for number in range(len(starts))]
        if luck < self._trouble_ppm * len(starts):
            if luck % 3 and at_ns - self.last_ns > _QUIET_NS:
                times = [time_ns - _RETRANSMISSION_NS for time_ns in times]
                times[luck % len(starts)] = at_ns
            else:
                times[-1], times[-2] = times[-2], times[-1]
        for start, time_ns in zip(starts, times, strict=True):
            flags = ACK if start < starts[-1] else _PUSH | ACK
            piece = frame[start : start + SEGMENT_BYTES]
            self._out.append(Packet(time_ns, self._up, self.asked + start & _MASK, self.said, flags, piece, None))

    def answer(self, at_ns: int, frame: bytes, luck: int, told: Fact | None = None) -> None:
        """Send a frame to the client; with bad luck a segment is lost after it was recorded, and comes again."""
        starts = range(0, len(frame), SEGMENT_BYTES)
        lost = starts[luck % len(starts)] if luck < self._trouble_ppm * len(starts) else None
        for number, start in enumerate(starts):
            is_last, at = start == starts[-1], self.said + start & _MASK
            flags, piece = _PUSH | ACK if is_last else ACK, frame[start : start + SEGMENT_BYTES]
            time_ns = at_ns - (len(starts) - 1 - number) * NS_PER_US
            fact = told if is_last else None
            self._out.append(Packet(time_ns, self._down, at, self.asked, flags, piece, fact))
            if start == lost:
                self._out.append(Packet(time_ns + _RETRANSMISSION_NS, self._down, at, self.asked, flags, piece, None))
            elif number % 2 and not is_last:
                ack = at + len(piece) & _MASK
                self._out.append(Packet(time_ns + _ROUND_TRIP_NS, self._up, self.asked, ack, ACK, b"", None))
        self.said = self.said + len(frame) & _MASK
        self._up_packet(at_ns + _DELAYED_ACK_NS + (0 if lost is None else _RETRANSMISSION_NS), ACK)
        self.last_ns = at_ns

    def acknowledge(self, at_ns: int) -> None:
        """Have the name server acknowledge what needs no answer."""
        self._down_packet(at_ns + _DELAYED_ACK_NS, ACK)

    def keep_alive(self, at_ns: int) -> None:
        """Have the client's host ask whether the other end is there: a byte that was acknowledged before, no news."""
        self._out.append(Packet(at_ns, self._up, self.asked - 1 & _MASK, self.said, ACK, b"\0", None))
        self._down_packet(at_ns + _BETWEEN_SEGMENTS_NS, ACK)

    def close(self, at_ns: int, *, by_client: bool, is_answered: bool = True) -> None:
        """Have the name server's FIN go at `at_ns`: of its own accord, or because the client's came before.

        Not `is_answered`: nothing comes back, and the FIN goes out again and again.
        """
        if by_client:
            self._up_packet(at_ns - _ROUND_TRIP_NS, FIN | ACK)
            self.asked = self.asked + 1 & _MASK
        self._down_packet(at_ns, FIN | ACK)
        if not is_answered:
            for tries in range(1, 5):
                self._down_packet(at_ns + _RETRANSMISSION_NS * (2**tries - 1), FIN | ACK)
            return
        self.said = self.said + 1 & _MASK
        if by_client:
            self._up_packet(at_ns + _ROUND_TRIP_NS, ACK)
        else:
            self._up_packet(at_ns + _ROUND_TRIP_NS, FIN | ACK)
            self.asked = self.asked + 1 & _MASK
            self._down_packet(at_ns + _ROUND_TRIP_NS + NS_PER_US, ACK)

    def _up_packet(self, at_ns: int, flags: int, data: bytes = b"") -> None:
        ack = self.said if flags & ACK else 0
        self._out.append(Packet(at_ns, self._up, self.asked, ack, flags, data, None))

    def _down_packet(self, at_ns: int, flags: int, data: bytes = b"") -> None:
        self._out.append(Packet(at_ns, self._down, self.said, self.asked, flags, data, None))
