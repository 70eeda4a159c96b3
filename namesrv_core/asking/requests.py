"""Header fields of requests, read as the server's processors read them.

A missing or unreadable field is null; the server logs that and continues.

Source: RocketMQ 4.9.7 and 5.4.0 RemotingCommand.decodeCommandCustomHeader and the request headers of the name server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Fields = Mapping[str, str | None]

_INT = (-(1 << 31), (1 << 31) - 1)
_LONG = (-(1 << 63), (1 << 63) - 1)
_MAX_DIGITS = 4_000
_ZONE_MODE, _ZONE_NAME = "__ZONE_MODE", "__ZONE_NAME"


class BrokerHeader(NamedTuple):
    """Header fields that identify a broker."""

    cluster_name: str | None
    broker_addr: str | None
    broker_name: str | None
    broker_id: int | None


class RegisterHeader(NamedTuple):
    """Header fields of REGISTER_BROKER beside the broker's."""

    ha_server_addr: str | None
    enable_acting_master: bool | None
    heartbeat_timeout_ms: int | None
    zone_name: str | None
    compressed: bool
    body_crc32: int


def broker_header(fields: Fields) -> BrokerHeader:
    """Return the header fields that identify a broker."""
    return BrokerHeader(
        fields.get("clusterName"), fields.get("brokerAddr"), fields.get("brokerName"), java_long(fields.get("brokerId"))
    )


def register_header(fields: Fields) -> RegisterHeader:
    """Return the remaining header fields of a registration."""
    return RegisterHeader(
        fields.get("haServerAddr"),
        java_boolean(fields.get("enableActingMaster")),
        java_long(fields.get("heartbeatTimeoutMillis")),
        fields.get(_ZONE_NAME),
        bool(java_boolean(fields.get("compressed"))),
        java_int(fields.get("bodyCrc32")) or 0,
    )


def crc32_matches(header: RegisterHeader, body_crc32: int | None) -> bool:
    """Return whether a registration's checksum fits its body. The header's 0 fits any body; no body counts as 0.

    Source: RocketMQ 4.9.7 and 5.4.0 DefaultRequestProcessor.checksum.
    """
    return header.body_crc32 in (0, body_crc32 or 0)


def zone_of(fields: Fields) -> str | None:
    """Return the zone to which a client restricts a route; None: no restriction.

    Source: RocketMQ 5.4.0 ZoneRouteRPCHook.
    """
    zone = fields.get(_ZONE_NAME)
    return zone if java_boolean(fields.get(_ZONE_MODE)) and zone is not None and zone.strip() else None


def java_long(text: str | None) -> int | None:
    """Return the number that `Long.parseLong` reads, an optional sign and decimal digits of any script.

    None if it would throw.
    """
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isdecimal() or len(digits) > _MAX_DIGITS or max(digits) > "\uffff":
        return None
    value = int(text)
    return value if _LONG[0] <= value <= _LONG[1] else None


def java_int(text: str | None) -> int | None:
    """Return the number that `Integer.parseInt` reads; None if it would throw."""
    value = java_long(text)
    return value if value is not None and _INT[0] <= value <= _INT[1] else None


def java_boolean(text: str | None) -> bool | None:
    """Return the value that `Boolean.parseBoolean` reads; None for a missing field."""
    return None if text is None else text.lower() == "true"
