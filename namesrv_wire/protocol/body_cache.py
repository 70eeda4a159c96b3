"""Registration bodies decoded once per content: brokers send the same topic table every 30 s."""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from typing import NamedTuple

from namesrv_wire.codes import V3_0_11, V5_0_0
from namesrv_wire.limits import BODY_CACHE_BYTES, BODY_CACHE_ENTRIES
from namesrv_wire.protocol.bodies import RegisterBody, data_version_of, decode_register_body

_NUMBER = rb"(?:0|-?[1-9]\d{0,17})"
_DATA_VERSION = re.compile(
    rb'("(?:mappingD|d)ataVersion":)'
    rb'(\{"counter":' + _NUMBER + rb'(?:,"stateVersion":' + _NUMBER + rb')?,"timestamp":' + _NUMBER + rb"\})"
)
"""Data versions exactly as brokers write them. In any other form a body is decoded each time."""
_NAME = b'"dataVersion"'


class _Entry(NamedTuple):
    body: RegisterBody
    size: int


class BodyCache:
    """Decodes registration bodies; equal ones, and ones that differ only in their data versions, once.

    Bounded.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._bytes = 0
        self.hits = 0

    def decode(self, body: bytes, *, compressed: bool, version: int, now_ms: int) -> RegisterBody:
        """As `bodies.decode_register_body`."""
        versions = [found[2] for found in _DATA_VERSION.finditer(body) if found[1] == b'"dataVersion":']
        if compressed or len(versions) != 1 or body.count(_NAME) != 1 or b"\\u" in body:
            return decode_register_body(body, compressed=compressed, version=version, now_ms=now_ms)
        stripped = _DATA_VERSION.sub(rb"\1{}", body)
        form = bytes([version >= V3_0_11, version >= V5_0_0])
        key = hashlib.sha256(form + stripped).digest()
        entry = self._entries.get(key)
        if entry is None:
            decoded = decode_register_body(body, compressed=compressed, version=version, now_ms=now_ms)
            if decoded.data_version == data_version_of(json.loads(versions[0]), now_ms) != data_version_of({}, now_ms):
                self._remember(key, _Entry(decoded, len(body)))
            return decoded
        self._entries.move_to_end(key)
        self.hits += 1
        return entry.body._replace(data_version=data_version_of(json.loads(versions[0]), now_ms))

    def _remember(self, key: bytes, entry: _Entry) -> None:
        self._entries[key] = entry
        self._bytes += entry.size
        while len(self._entries) > BODY_CACHE_ENTRIES or (self._bytes > BODY_CACHE_BYTES and len(self._entries) > 1):
            self._bytes -= self._entries.popitem(last=False)[1].size
