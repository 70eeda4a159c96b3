"""Packet captures and event logs of RocketMQ name servers, decoded into rows of the bronze tables.

No Spark.
"""

from __future__ import annotations

from namesrv_wire.errors import CaptureError, DecodeError, Reason, WireError
from namesrv_wire.packets.capture import Segment
from namesrv_wire.packets.columns import CaptureStats, read_capture
from namesrv_wire.rows import REVOKED, AnyRow, Row, Tally
from namesrv_wire.servers.transcript import Transcript

__all__ = [
    "REVOKED",
    "AnyRow",
    "CaptureError",
    "CaptureStats",
    "DecodeError",
    "Reason",
    "Row",
    "Segment",
    "Tally",
    "Transcript",
    "WireError",
    "read_capture",
]
