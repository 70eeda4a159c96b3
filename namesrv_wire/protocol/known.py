"""Frames decoded once: brokers and clients send the same bytes again and again, but for the number of the request.

A frame is known by its header without that number, and its body. Everything else is in the key, the length of the header
included, so that nobody can have a frame taken for another one.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from namesrv_core.asking.answers import question_of
from namesrv_wire.codes import EVENT_TABLES, OBSERVED
from namesrv_wire.errors import DecodeError
from namesrv_wire.limits import KNOWN_FRAMES_BYTES, MAX_KNOWN_FRAME_BYTES
from namesrv_wire.protocol.bodies import BodyCache, TopicTable
from namesrv_wire.protocol.frames import JSON, ROCKETMQ, Frame, decode_frame
from namesrv_wire.protocol.requests import (
    asks_standard_json,
    body_text,
    fields_json,
    request_columns,
    require_short_names,
    response_columns,
)
from namesrv_wire.rows import Values

_NAME: Final = b'"opaque":'  # of 9 bytes
_NUMBER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,9})(?=[,}])")
_MOST: Final = 0x7FFFFFFF
_LENGTHS: Final = Struct(">II")
_OPAQUE: Final = Struct(">i")
# What a frame takes as objects, beyond its bytes.
_OBJECT_BYTES: Final = 2_048
_HEADS_SHIFT: Final = 4
"""Headers take a sixteenth of what frames may."""


class KnownFrame:
    """A decoded frame, whatever its opaque, and what rows are made of it, made when it is asked for and once."""

    __slots__ = ("_answer", "_observed", "_question", "_request", "frame", "request_name", "size")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.size = 0
        """Bytes that it takes while it is kept; 0: it is not."""
        self.request_name = f"request:{frame.code}"
        """What a request is counted under that is no event."""
        self._question: Values | None = None
        self._request: tuple[Values, TopicTable | None] | None = None
        self._answer: Values | None = None
        self._observed: Values | None = None

    def request(self, event_ms: int, bodies: BodyCache) -> tuple[Values, TopicTable | None]:
        """As `requests.request_columns`."""
        if self._request is not None:
            return self._request
        found = request_columns(self.frame, event_ms, bodies)
        # What depends on the time of arrival (a data version without one) is another for each frame.
        if self.size and found == request_columns(self.frame, event_ms + 1, bodies):
            self._request = found
        return found

    def question(self) -> Values | None:
        """Return what a request adds to the row of its answer; None for one whose answers are not observed.

        Raises `DecodeError` for a name beyond our limits.
        """
        frame = self.frame
        if self._question is None and frame.code in OBSERVED:
            standard_json = asks_standard_json(frame)
            asked = question_of(frame.code, frame.ext, standard_json=standard_json)
            question = {
                "code": frame.code,
                "subject": asked.subject,
                "scope": asked.scope,
                "standard_json": standard_json,
                "request_version": frame.version,
                "language": frame.language,
            }
            require_short_names(question)
            self._question = question
        return self._question

    def answer(self) -> Values:
        """As `requests.response_columns`."""
        if self._answer is None:
            self._answer = response_columns(self.frame)
        return self._answer

    def observed(self) -> Values:
        """Return what an answer to a question adds to its row."""
        if self._observed is None:
            frame = self.frame
            self._observed = {
                "response_code": frame.code,
                "response_version": frame.version,
                "remark": frame.remark,
                "response_fields": fields_json(frame),
                "body": body_text(frame),
            }
        return self._observed


class KnownFrames:
    """Decodes frames; equal ones, and ones that differ only in their opaque, once. Bounded in bytes.

    Headers are known apart from bodies, since most answers have one of a few. What was asked for since half of the bound
    came in stays.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], KnownFrame] = {}
        self._before: dict[tuple[bytes, bytes], KnownFrame] = {}
        """Those that were not asked for of late: they go next."""
        self._bytes = self._bytes_before = 0
        self._heads: dict[bytes, Frame] = {}
        self._head_bytes = 0

    def decode(self, data: bytes) -> tuple[KnownFrame, int]:
        """Return the frame in `data`, its length bytes included, and its opaque. Raises `DecodeError` and nothing else."""
        length, word = _LENGTHS.unpack_from(data) if len(data) >= 17 else (0, 0)
        if length == len(data) - 4:
            if word >> 24 == JSON:
                stop = 8 + (word & 0xFFFFFF)
                at = data.find(_NAME, 8, stop) + 9
                number = _NUMBER.match(data, at, stop) if at > 8 else None
                if number is not None and stop <= len(data) and -_MOST <= (opaque := int(number[0])) <= _MOST:
                    # The length in front says how many digits there were: else some might be taken for the header's end.
                    key, body = data[4:at] + data[number.end() : stop], data[stop:]
                    known = self._known.get((key, body))
                    if known is not None:
                        return known, opaque
                    return self._unknown(data, key, body, opaque)
            elif word >> 24 == ROCKETMQ:
                # Where its body begins its fields say, whatever the length of its header: it is all header here.
                return self._unknown(data, data[:13] + data[17:], b"", _OPAQUE.unpack_from(data, 13)[0])
        known = KnownFrame(decode_frame(data))
        return known, known.frame.opaque

    def _unknown(self, data: bytes, key: bytes, body: bytes, opaque: int) -> tuple[KnownFrame, int]:
        """Return a frame that was not asked for of late, of which these stand for all but the opaque, and its opaque."""
        place = key, body
        known = self._known.get(place) or self._before.pop(place, None)
        if known is not None:
            if place not in self._known:
                self._bytes_before -= known.size
                self._keep(place, known)
            return known, opaque
        head = self._heads.get(key)
        if head is not None:
            known = KnownFrame(head._replace(opaque=opaque, body=body))
        else:
            known = KnownFrame(decode_frame(data))
            if known.frame.opaque != opaque or not _is_apart(data, known.frame):
                return known, known.frame.opaque
            if known.frame.serialization == JSON:
                if self._head_bytes > KNOWN_FRAMES_BYTES >> _HEADS_SHIFT:
                    self._heads.clear()
                    self._head_bytes = 0
                self._heads[key] = known.frame._replace(body=b"")
                self._head_bytes += len(key) + _OBJECT_BYTES
        # A decoded topic table is several times its text.
        factor = 8 if EVENT_TABLES.get(known.frame.code) == "registrations" else 1
        size = (len(key) + len(body)) * factor + _OBJECT_BYTES
        if size <= MAX_KNOWN_FRAME_BYTES:
            known.size = size
            self._keep(place, known)
        return known, opaque

    def _keep(self, place: tuple[bytes, bytes], known: KnownFrame) -> None:
        if 2 * (self._bytes + known.size) > KNOWN_FRAMES_BYTES:
            self._before, self._bytes_before = self._known, self._bytes
            self._known, self._bytes = {}, 0
        self._known[place] = known
        self._bytes += known.size


def _is_apart(data: bytes, frame: Frame) -> bool:
    """Return whether what was taken for the opaque of a frame is that and nothing else.

    In a header without escapes the name that is there once is a key, and no value has it. In another one, with another number
    of as many digits in its place, it must be the same frame with another opaque.
    """
    if frame.serialization == ROCKETMQ:
        return True
    header = data[8 : 8 + int.from_bytes(data[5:8], "big")]
    if header.count(_NAME[:-1]) == 1 and b"\\" not in header:
        return True
    at = data.find(_NAME, 8) + 9
    last = at + len(str(frame.opaque)) - 1
    other = bytearray(data)
    other[last] = ord("2") if data[last] == ord("1") else ord("1")
    try:
        again = decode_frame(bytes(other))
    except DecodeError:
        return False
    changed = int(other[at : last + 1])
    return again == frame._replace(opaque=changed)
