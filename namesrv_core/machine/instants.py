"""Units of time: a position (`seq`) is in nanoseconds since the epoch, an instant in micro- or milliseconds (`_us`, `_ms`)."""

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
US_PER_MS = 1_000
EVER = (1 << 63) - 1
"""A position after all others."""
