"""How much of anything is read, kept or believed.

Nothing is ever allocated because a number in the input says so.
"""

from __future__ import annotations

MIB = 1024 * 1024

# Frames.
MAX_FRAME_BYTES = 16 * MIB
"""Source: both generations `NettyDecoder`, `com.rocketmq.remoting.frameMaxLength`."""
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
"""Inflated bytes per compressed byte, judged once more than `INFLATE_FREE_BYTES` came out."""
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
