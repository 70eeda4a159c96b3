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


class Inflated:
    """Reads a zlib stream part by part and inflates no further than it is asked for.

    Java's stream does the same, so what stands behind the last part is never looked at.
    """

    def __init__(self, packed: bytes) -> None:
        self._inflater = zlib.decompressobj()
        self._packed = packed
        self._size = len(packed)
        self._ready = bytearray()
        self._at = 0
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
            self._require_bytes(4 * MAX_TOPICS + 4, what)
            raise DecodeError(Reason.TOO_MANY_TOPICS, f"{number} {what}, at most {MAX_TOPICS}")
        return number

    def _require_bytes(self, size: int, what: str) -> None:
        """Raise as the server does if the body cannot hold `size` more bytes: the count was a lie."""
        if not self._fill(size):
            raise DecodeError(Reason.BAD_BODY, f"the body ends inside its {what}")

    def _int(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def _take(self, size: int) -> bytes:
        if not self._fill(size):
            raise DecodeError(Reason.BAD_BODY, f"the inflated body ends before a part of {size} bytes")
        part = bytes(self._ready[self._at : self._at + size])
        self._at += size
        if self._at > INFLATE_STEP_BYTES:
            del self._ready[: self._at]
            self._at = 0
        return part

    def _fill(self, size: int) -> bool:
        """Inflate until `size` bytes are ready; False if the stream has no more."""
        while len(self._ready) - self._at < size:
            if self._inflater.eof:
                return False
            try:
                more = self._inflater.decompress(self._packed, INFLATE_STEP_BYTES)
            except zlib.error as error:
                raise DecodeError(Reason.BAD_BODY, f"no zlib stream ({str(error)[:80]})") from None
            self._packed = self._inflater.unconsumed_tail
            if not more and not self._packed:
                return False
            self._ready += more
            self._total += len(more)
            self._require_ceiling()
        return True

    def _require_ceiling(self) -> None:
        used = self._size - len(self._packed)
        if self._total > MAX_INFLATED_BYTES or (
            self._total > INFLATE_FREE_BYTES and self._total > MAX_INFLATE_RATIO * max(used, 1)
        ):
            raise DecodeError(Reason.INFLATED_TOO_BIG, f"{used} bytes inflate to more than {self._total}")
