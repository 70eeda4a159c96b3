"""Inflation with a ceiling, and the length-prefixed parts of a compressed registration body."""

from __future__ import annotations

import zlib

from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.limits import (
    INFLATE_FREE_BYTES,
    INFLATE_STEP_BYTES,
    MAX_INFLATE_RATIO,
    MAX_INFLATED_BYTES,
    MAX_TOPICS,
)

_CHUNK_BYTES = 4_096


class Inflated:
    """Reads a zlib stream part by part and inflates no further than it is asked for.

    Java's stream does the same, so what stands behind the last part is never looked at.
    """

    def __init__(self, packed: bytes) -> None:
        self._inflater = zlib.decompressobj()
        self._packed = packed
        self._at = 0
        """How much of `packed` was handed to the inflater."""
        self._pending = b""
        """What the inflater has not looked at yet of that."""
        self._total = 0

    def block(self) -> bytes:
        """Return the next part: a four-byte length and that many bytes. Raises `DecodeError`."""
        size = self._int()
        if size < 0:
            raise DecodeError(Reason.BAD_BODY, f"a part of {size} bytes")
        return self._take(size)

    def count(self, what: str) -> int:
        """Return the next number, a count of `what`. Raises `DecodeError` above the limit."""
        number = self._int()
        if number > MAX_TOPICS:
            for _ in range(MAX_TOPICS):  # a count that is a lie is refused by the server as well
                self._take(max(self._int(), 0))
            raise DecodeError(Reason.TOO_MANY_TOPICS, f"{number} {what}, at most {MAX_TOPICS}")
        return number

    def _int(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def _take(self, size: int) -> bytes:
        """Return the next `size` bytes. The stream is inflated to their end: damage behind it does no harm."""
        whole = bytearray()
        while len(whole) < size:
            more = self._some(min(size - len(whole), INFLATE_STEP_BYTES))
            if not more:
                raise DecodeError(Reason.BAD_BODY, f"the inflated body ends before a part of {size} bytes")
            whole += more
        return bytes(whole)

    def _some(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end of the stream."""
        more = b""
        while size and not more and not self._inflater.eof:
            if not self._pending:
                self._pending = self._packed[self._at : self._at + _CHUNK_BYTES]
                self._at += len(self._pending)
            at_end = not self._pending
            try:
                more = self._inflater.decompress(self._pending, size)
            except zlib.error as error:
                raise DecodeError(Reason.BAD_BODY, f"no zlib stream ({str(error)[:80]})") from None
            self._pending = self._inflater.unconsumed_tail
            if at_end and not more:
                break
        self._total += len(more)
        self._require_ceiling()
        return more

    def _require_ceiling(self) -> None:
        used = self._at - len(self._pending)
        if self._total > MAX_INFLATED_BYTES or (
            self._total > INFLATE_FREE_BYTES and self._total > MAX_INFLATE_RATIO * max(used, 1)
        ):
            raise DecodeError(Reason.INFLATED_TOO_BIG, f"{used} bytes inflate to more than {self._total}")
