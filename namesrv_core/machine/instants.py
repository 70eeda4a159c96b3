"""The scales of time: a position (`seq`) counts nanoseconds since the epoch, an instant micro- or milliseconds (`_us`, `_ms`)."""

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
US_PER_MS = 1_000
EVER = (1 << 63) - 1
"""A position behind all others."""
