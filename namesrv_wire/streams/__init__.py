"""Connections: bytes in their order, frames cut out of them, packets that are seen twice, ends."""
