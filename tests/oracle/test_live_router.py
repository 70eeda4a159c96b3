"""The soak's router does to packets what a router does, held against packets that scapy makes."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from tests.oracle.live.rewriting import Link, Masquerade, Packet

_HOST, _OWN = "02:00:00:00:00:01", "02:00:00:00:00:02"
_LINK = Link(("10.77.1.0/24", "fd77:1::/64"), *(bytes.fromhex(one.replace(":", "")) for one in (_OWN, _HOST)))
_OUTSIDE, _SERVER = "10.77.1.1", "10.77.1.2"


def sent(
    source: str, target: str, sport: int = 4_711, dport: int = 9_876, ttl: int = 64, said: bytes = b"odd"
) -> bytes:
    """Return a frame on the link behind the router, padded to what Ethernet asks for."""
    ip = IPv6(src=source, dst=target, hlim=ttl) if ":" in source else IP(src=source, dst=target, ttl=ttl)
    frame = bytes(Ether(src=_OWN, dst=_HOST) / ip / TCP(sport=sport, dport=dport, seq=7, ack=8, flags="PA") / said)
    return frame.ljust(60, b"\0")


def passed(masquerade: Masquerade, frame: bytes) -> bytes:
    """Return a frame, which came with other hardware addresses, as it leaves the router."""
    packet = Packet(bytes(12) + frame[12:])
    masquerade.translate(packet)
    return packet.passed_on(_LINK)


@pytest.mark.parametrize("said", [b"", b"odd", b"even", bytes(3), b"\xff" * 1_460])
@pytest.mark.parametrize("source", ["10.77.2.11", "fd77:2::2"])
def test_a_packet_that_passes_has_true_checksums(source: str, said: bytes) -> None:
    """One hop less to live, the hardware addresses of the next link, all else as it was, over IPv4 and IPv6."""
    target = "fd77:1::2" if ":" in source else _SERVER
    out = passed(Masquerade("10.77.3.0/24", _OUTSIDE), sent(source, target, said=said))
    assert out == sent(source, target, ttl=63, said=said)


def test_a_masqueraded_connection_is_seen_by_the_routers_address_and_its_answers_find_back() -> None:
    """The port is kept where nobody has it; a second one from the same port gets another; each answer finds its own."""
    masquerade, ports = Masquerade("10.77.3.0/24", _OUTSIDE), []
    for inside in ("10.77.3.11", "10.77.3.12"):
        for _ in range(2):
            out = passed(masquerade, sent(inside, _SERVER))
            port = Packet(out).source[1]
            assert out == sent(_OUTSIDE, _SERVER, sport=port, ttl=63)
        ports.append(port)
        back = passed(masquerade, sent(_SERVER, _OUTSIDE, sport=9_876, dport=port))
        assert back == sent(_SERVER, inside, sport=9_876, dport=4_711, ttl=63)
    assert ports[0] == 4_711
    assert ports[1] not in ports[:1]


def test_what_no_connection_from_inside_has_asked_for_is_left_alone() -> None:
    """A segment to the router's address on another port, and neighbours of the subnet among themselves."""
    masquerade = Masquerade("10.77.3.0/24", _OUTSIDE)
    for source, target in ((_SERVER, _OUTSIDE), ("10.77.3.11", "10.77.3.12"), ("10.77.2.11", _SERVER)):
        assert passed(masquerade, sent(source, target)) == sent(source, target, ttl=63)
