"""The errors that leave `namesrv_wire`, the reasons for which input is refused, and how much of anything is read, kept or believed.

Nothing is ever allocated because a number in the input says so.
"""

from __future__ import annotations

from enum import Enum
from os import PathLike

MIB = 1024 * 1024

# Frames.
MAX_FRAME_BYTES = 16 * MIB
MAX_LENGTH = MAX_FRAME_BYTES - 4
"""The most that a frame's first four bytes may say: they count too. Source: both generations `NettyDecoder`,
`com.rocketmq.remoting.frameMaxLength`."""
MAX_HEADER_BYTES = MIB
MAX_EXT_FIELDS = 1_024
MIN_BINARY_HEADER_BYTES = 21

# Bodies.
MAX_JSON_DEPTH = 64
MAX_JSON_NODES = 1_000_000
"""Objects and arrays in one JSON text."""
MAX_JSON_ITEMS = 4_000_000
"""Commas in one JSON text."""
MAX_INFLATED_BYTES = 256 * MIB
MAX_INFLATE_RATIO = 200
"""Inflated bytes per compressed byte, checked once more than `INFLATE_FREE_BYTES` came out."""
INFLATE_FREE_BYTES = MIB
INFLATE_STEP_BYTES = MIB
MAX_TOPICS = 200_000

KNOWN_FRAMES_BYTES = 64 * MIB
MAX_KNOWN_FRAME_BYTES = 4 * MIB
"""Frames kept decoded, and the largest of them, with what they take as objects."""

MAX_NAME_CHARS = 1_024
"""Characters of a name: of a cluster, broker, address, zone, topic, or of a KV namespace or key. RocketMQ's own limits are 127
for topics and 255 for groups (`TopicValidator`, `Validators`), a DNS name has 253, and the key of a binary header field 32,767."""

# Times.
FIRST_NS = 946_684_800_000_000_000
"""2000-01-01T00:00:00Z: no name server was recorded earlier. Epoch seconds, read as milliseconds, lie before it."""
END_NS = 9_214_646_400_000_000_000
"""2262-01-01T00:00:00Z: every time lies before it, so that a position, which is nanoseconds in 64 bits, may move a little."""

# Captures.
MAX_PACKET_BYTES = MIB
MAX_PCAPNG_BLOCK_BYTES = 4 * MIB
MAX_INTERFACES = 4_096
MAX_SECTIONS = 4_096
MAX_NESTED = 8
"""IP headers of a packet, one inside the other: a tunnel in a tunnel."""
MAX_HEADERS = 40
"""Headers of a packet in front of TCP: tags, labels, extensions, those of tunnels."""
MAX_LEFT_OUT = 16_384
"""Kinds and ports by which packets that were left out are counted."""
MAX_FRAGMENT_BYTES = 8 * MIB
MAX_FRAGMENTED = 1_024
MAX_FRAGMENT_PARTS = 64
"""Fragments that wait for others: their bytes, how many packets they are of, and how many one packet may be cut into."""
FRAGMENT_NS = 60_000_000_000
"""Fragments wait no longer. Source: RFC 8200, 4.5."""

# TCP.
MAX_REORDER_BYTES = 4 * MIB
"""Bytes kept behind a hole of one direction before the hole is given up."""
MAX_REORDER_CHUNKS = 4_096
MAX_WINDOW_BYTES = 4 * MIB
"""How far ahead of what its receiver has acknowledged a segment may lie: further ahead nobody's socket takes it."""
MAX_LOST_BEFORE_RST = 64 * 1024
"""How far ahead of what is known a RST may lie: the capture may have lost what was sent just before it."""
GAP_ACKED_NS = 20_000_000
"""A hole whose other side acknowledged it was lost by the capture: given up after this time. What waits behind it has no time of
its own; packets have been put in order of their times before."""
GAP_NS = 60_000_000_000
"""A hole that nobody filled is given up after this time."""
MAX_RESYNC_BYTES = 2 * MIB
"""Bytes kept while looking for the start of a frame."""
MAX_RESYNC_HEADER_BYTES = 8 * 1024
"""Longest header that is tried as the start of a frame: bounds the work that hostile bytes can cause."""

# Connections and name servers.
MAX_CANDIDATES = 1_024
"""Endpoints watched because they might be name servers."""
MAX_HELD_ROWS = 200_000
"""Rows held back for endpoints that are not yet known to be name servers, per endpoint."""
MAX_CONNECTIONS = 200_000
MAX_PENDING = 65_536
"""Unanswered requests of one connection."""
RECORDING_GAP_NS = 60_000_000_000
"""Silence of a whole name server beyond its idle limit, with a broker connected: it was not recorded, since a broker beats
every 30 s, and the server itself would have closed the connections of dead ones."""
SILENCE_NS = 1_000_000_000
"""Silence of a whole name server behind which connections may show that it was not recorded: one goes on behind bytes of both
sides that nobody saw, which is more than a packet lost, or is in use though nobody saw it begin."""
BEAT_NS = 31_000_000_000
"""A broker that lives registers within this time, unless its configuration says otherwise (registerNameServerPeriod)."""
MISSED_WITHIN_NS = 60_000_000_000
"""They show it within this time, or what they lack was lost since."""
SMALL_HOLE_NS = 1_000_000
"""What a file does not show for so short a time holds no whole connection: the shortest on which something was asked took
1.8 ms. What else is lost shows in its connection, as a lost packet does. In a longer hole anything may have happened: it is a
gap."""
LINGER_NS = 120_000_000_000
"""How long an ended connection is remembered, to know its late copies."""
MAX_LINGERING = 8_192

# Event logs.
MAX_LINE_BYTES = 32 * MIB

FIRST_BYTES = 256
"""Bytes of a refused piece that a quarantine row shows."""


class WireError(ValueError):
    """Base of the errors of this package."""


class CaptureError(WireError):
    """A capture file is foreign, damaged or ends too early.

    `offset` is a byte position in the file; in the unpacked data if the file is compressed.
    """

    def __init__(self, file: str | PathLike[str], offset: int, what: str) -> None:
        super().__init__(f"{file} at byte {offset}: {what}")
        self.file = str(file)
        self.offset = offset
        self.what = what


class UnorderedError(CaptureError):
    """The clock of a capture goes back so far that its packets have no order. `offset` is the number of the packet."""

    def __init__(self, file: str | PathLike[str], packet_no: int, what: str) -> None:
        super().__init__(file, packet_no, what)
        self.args = (f"{file}, packet {packet_no}: {what}",)


class Reason(str, Enum):
    """Why a piece of input was put into quarantine; the value is what the row says."""

    BAD_FRAME_LENGTH = "bad_frame_length"
    FRAME_TOO_LONG = "frame_too_long"
    BAD_HEADER_LENGTH = "bad_header_length"
    HEADER_TOO_LONG = "header_too_long"
    UNKNOWN_SERIALIZATION = "unknown_serialization"
    BAD_HEADER = "bad_header"
    TOO_MANY_EXT_FIELDS = "too_many_ext_fields"
    JSON_TOO_DEEP = "json_too_deep"
    JSON_TOO_BIG = "json_too_big"
    BAD_JSON = "bad_json"
    AMBIGUOUS_JSON = "ambiguous_json"
    BAD_BODY = "undecodable_body"
    INFLATED_TOO_BIG = "inflated_too_big"
    TOO_MANY_TOPICS = "too_many_topics"
    LOST_SEGMENT = "lost_segment"
    TRUNCATED_PACKET = "truncated_packet"
    INCOMPLETE_FRAME = "incomplete_frame"
    TLS = "tls"
    HTTP = "http"
    ZEROS = "zeros"
    BAD_PROXY_PREAMBLE = "bad_proxy_preamble"
    HALF_FRAME = "half_frame"
    SILENT_CONNECTION = "silent_connection"
    NAME_TOO_LONG = "name_too_long"
    LINE_TOO_LONG = "line_too_long"
    BAD_LINE = "bad_line"
    TOO_LATE = "too_late"
    CLOCK_WENT_BACK = "clock_went_back"
    AHEAD_OF_CLOCK = "ahead_of_clock"
    SEQ_TAKEN = "seq_taken"


LIMITS = frozenset(
    {
        *(Reason.FRAME_TOO_LONG, Reason.HEADER_TOO_LONG, Reason.LINE_TOO_LONG, Reason.NAME_TOO_LONG),
        *(Reason.TOO_MANY_EXT_FIELDS, Reason.TOO_MANY_TOPICS, Reason.INFLATED_TOO_BIG),
        *(Reason.JSON_TOO_DEEP, Reason.JSON_TOO_BIG, Reason.AMBIGUOUS_JSON),
    }
)
"""Reasons that are limits of this reader: a real name server might have accepted the input."""


STRANGERS = frozenset({Reason.TLS, Reason.HTTP, Reason.ZEROS, Reason.BAD_PROXY_PREAMBLE})
"""Reasons that hold for a connection as a whole: nothing more of it is read, in either direction."""
PIECES = STRANGERS | {
    *(Reason.HALF_FRAME, Reason.SILENT_CONNECTION, Reason.INCOMPLETE_FRAME, Reason.LOST_SEGMENT),
    *(Reason.TRUNCATED_PACKET, Reason.BAD_FRAME_LENGTH, Reason.FRAME_TOO_LONG),
}
"""Reasons of what is no whole frame: how much of it there is says nothing of what was understood."""


class DecodeError(WireError):
    """A frame, header, body or line cannot be decoded. The only error that leaves the decoders."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail
