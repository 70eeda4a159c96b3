"""Compressed files, by their content and never by their name: gzip, Zstandard, xz, bzip2, LZ4.

What is unpacked comes in pieces of a bounded size, and no more memory is given to a decompressor than `MAX_WINDOW_BYTES`, whatever
a file says that it needs.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from typing import Any, Final

from backports import zstd
from lz4.frame import LZ4FrameDecompressor

_PIECE: Final = 1 << 16
"""Bytes that are unpacked at once."""
_READ: Final = 1 << 16
_LINES: Final = 1 << 14
"""Bytes that are unpacked at once for who reads lines: more of them are not lost in front of damage."""
MAX_WINDOW_BYTES: Final = 128 << 20
_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)
"""How a frame begins that Zstandard and LZ4 pass over: Zstandard's library does."""
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


_OPTIONS: Final = {int(zstd.DecompressionParameter.window_log_max): MAX_WINDOW_BYTES.bit_length() - 1}
_KINDS: Final[dict[bytes, Callable[[], Any]]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(31),
    _ZSTD: lambda: zstd.ZstdDecompressor(options=_OPTIONS),
    b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_WINDOW_BYTES),
    b"BZh": bz2.BZ2Decompressor,
    b"\x04\x22\x4d\x18": LZ4FrameDecompressor,
}
_MAGIC: Final = max(map(len, _KINDS))
_ERRORS: Final = (EOFError, OSError, RuntimeError, ValueError, zlib.error, lzma.LZMAError, zstd.ZstdError)


def is_packed(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is compressed."""
    return _kind(head) is not None


def unpacked(file: BufferedReader) -> BufferedReader:
    """Return what a file holds from its beginning: unpacked, if it is compressed."""
    head = file.read(_MAGIC)
    file.seek(0)
    return BufferedReader(_Unpacked(file), _LINES) if is_packed(head) else file


def _kind(head: bytes) -> Callable[[], Any] | None:
    magic = _ZSTD if int.from_bytes(head[:4], "little") in _SKIPPABLE else head
    return next((kind for begins, kind in _KINDS.items() if magic.startswith(begins)), None)


class _Unpacked(RawIOBase):
    """What is in the members, or frames, of a compressed file, one behind the other.

    What was unpacked in front of damage is given out before the error, an OSError.
    """

    def __init__(self, file: BufferedReader) -> None:
        super().__init__()
        self._file = file
        self._now: Any = None
        self._packed = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            found = self._read(min(len(buffer), _PIECE))
        except _ERRORS as error:
            why = str(error) or type(error).__name__
            is_large = "memory" in why.lower()  # as xz and Zstandard say it
            what = f"takes more than {MAX_WINDOW_BYTES >> 20} MiB to unpack" if is_large else "is damaged or ends early"
            raise OSError(f"the compressed data {what} ({why})") from error
        buffer[: len(found)] = found
        return len(found)

    def _read(self, size: int) -> bytes:
        while True:
            if self._now is None and not self._begins():
                return b""
            if not self._packed and getattr(self._now, "needs_input", True):
                self._packed = self._file.read(_READ)
                if not self._packed and (rest := self._now.decompress(b"", size)):
                    return bytes(rest)
                if not self._packed:
                    raise EOFError("it ends before its end-of-stream marker")
            found: bytes = self._now.decompress(self._packed, size)
            self._packed = getattr(self._now, "unconsumed_tail", b"")  # zlib gives back what others keep
            if self._now.eof:
                self._packed, self._now = bytes(self._now.unused_data or b""), None
            if found:
                return found

    def _begins(self) -> bool:
        """Begin the next member; return whether there is one. Zeros behind the last are padding."""
        while True:
            self._packed = self._packed.lstrip(b"\x00")
            if len(self._packed) < _MAGIC:
                more = self._file.read(_READ)
                self._packed += more
                if not self._packed:
                    return False
                if more:
                    continue
            kind = _kind(self._packed)
            if kind is None:
                raise EOFError("behind compressed data there is something else")
            self._now = kind()
            return True
