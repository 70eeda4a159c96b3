"""Frames decoded once: brokers and clients send the same bytes again and again, but for the number of the request.

A frame is known by its bytes without that number. Everything else is in the key, both lengths included, so that nobody can
have a frame taken for another one.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from namesrv_core.asking.answers import question_of
from namesrv_wire.codes import EVENT_TABLES, OBSERVED
from namesrv_wire.errors import DecodeError
from namesrv_wire.limits import KNOWN_FRAMES_BYTES, MAX_KNOWN_FRAME_BYTES
from namesrv_wire.protocol.bodies import TopicTable
from namesrv_wire.protocol.body_cache import BodyCache
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


class KnownFrame:
    """A decoded frame, whatever its opaque, and what rows are made of it, made when it is asked for and once."""

    __slots__ = ("_answer", "_observed", "_question", "_request", "frame", "is_kept", "request_name")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.is_kept = False
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
        if self.is_kept and found == request_columns(self.frame, event_ms + 1, bodies):
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
    """Decodes frames; equal ones, and ones that differ only in their opaque, once. Bounded in bytes."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownFrame] = {}
        self.kept_bytes = 0
        self.hits = 0

    def decode(self, data: bytes) -> tuple[KnownFrame, int]:
        """Return the frame in `data`, its length bytes included, and its opaque. Raises `DecodeError` and nothing else."""
        key, opaque = _key_and_opaque(data)
        if key is not None:
            known = self._known.get(key)
            if known is not None:
                self.hits += 1
                return known, opaque
        known = KnownFrame(decode_frame(data))
        if key is not None and known.frame.opaque == opaque and _is_apart(data, known.frame):
            self._keep(key, known)
        return known, known.frame.opaque

    def _keep(self, key: bytes, known: KnownFrame) -> None:
        # A decoded topic table is several times its text.
        size = len(key) * (8 if EVENT_TABLES.get(known.frame.code) == "registrations" else 1) + _OBJECT_BYTES
        if size > MAX_KNOWN_FRAME_BYTES:
            return
        if self.kept_bytes + size > KNOWN_FRAMES_BYTES:
            self._known.clear()
            self.kept_bytes = 0
        known.is_kept = True
        self._known[key] = known
        self.kept_bytes += size


def _key_and_opaque(data: bytes) -> tuple[bytes | None, int]:
    """Return the bytes that stand for a frame but its opaque, and that; no bytes where it does not stand where it should."""
    length, word = _LENGTHS.unpack_from(data) if len(data) >= 17 else (0, 0)
    at, number = 0, None
    if length == len(data) - 4:
        if word >> 24 == ROCKETMQ:
            return data[:13] + data[17:], _OPAQUE.unpack_from(data, 13)[0]
        if word >> 24 == JSON:
            at = data.find(_NAME, 8, 8 + (word & 0xFFFFFF)) + 9
            number = _NUMBER.match(data, at) if at > 8 else None
    if number is None:
        return None, 0
    end = number.end()
    opaque = int(data[at:end])
    # The first length says how many digits there were: else some might be taken for the header's last bytes.
    return (data[:at] + data[end:], opaque) if -_MOST <= opaque <= _MOST else (None, 0)


def _is_apart(data: bytes, frame: Frame) -> bool:
    """Return whether what was taken for the opaque of a frame is that and nothing else.

    With another number of as many digits in its place it must be the same frame with another opaque. Text that only looks
    like it, in a value, in a key or twice, does not pass.
    """
    if frame.serialization == ROCKETMQ:
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
