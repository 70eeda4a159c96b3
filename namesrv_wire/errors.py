"""The errors that leave `namesrv_wire`, and the reasons for which input is refused."""

from __future__ import annotations

from enum import Enum
from os import PathLike


class WireError(ValueError):
    """Base of the errors of this package."""


class CaptureError(WireError):
    """A capture file is foreign, damaged or ends too early.

    `offset` is a byte position in the file; in the unpacked data if the file is compressed.
    """

    def __init__(self, file: str | PathLike[str], offset: int, what: str) -> None:
        super().__init__(f"{file} at byte {offset}: {what}")
        self.file = str(file)
        self.offset = offset
        self.what = what


class UnorderedError(CaptureError):
    """The clock of a capture goes back so far that its packets have no order. `offset` is the number of the packet."""

    def __init__(self, file: str | PathLike[str], packet_no: int, what: str) -> None:
        super().__init__(file, packet_no, what)
        self.args = (f"{file}, packet {packet_no}: {what}",)


class Reason(str, Enum):
    """Why a piece of input was put into quarantine; the value is what the row says."""

    BAD_FRAME_LENGTH = "bad_frame_length"
    FRAME_TOO_LONG = "frame_too_long"
    BAD_HEADER_LENGTH = "bad_header_length"
    HEADER_TOO_LONG = "header_too_long"
    UNKNOWN_SERIALIZATION = "unknown_serialization"
    BAD_HEADER = "bad_header"
    TOO_MANY_EXT_FIELDS = "too_many_ext_fields"
    JSON_TOO_DEEP = "json_too_deep"
    JSON_TOO_BIG = "json_too_big"
    BAD_JSON = "bad_json"
    AMBIGUOUS_JSON = "ambiguous_json"
    BAD_BODY = "undecodable_body"
    INFLATED_TOO_BIG = "inflated_too_big"
    TOO_MANY_TOPICS = "too_many_topics"
    LOST_SEGMENT = "lost_segment"
    TRUNCATED_PACKET = "truncated_packet"
    INCOMPLETE_FRAME = "incomplete_frame"
    TLS = "tls"
    HTTP = "http"
    ZEROS = "zeros"
    BAD_PROXY_PREAMBLE = "bad_proxy_preamble"
    HALF_FRAME = "half_frame"
    SILENT_CONNECTION = "silent_connection"
    NAME_TOO_LONG = "name_too_long"
    LINE_TOO_LONG = "line_too_long"
    BAD_LINE = "bad_line"
    TOO_LATE = "too_late"
    CLOCK_WENT_BACK = "clock_went_back"
    AHEAD_OF_CLOCK = "ahead_of_clock"
    SEQ_TAKEN = "seq_taken"


LIMITS = frozenset(
    {
        *(Reason.FRAME_TOO_LONG, Reason.HEADER_TOO_LONG, Reason.LINE_TOO_LONG, Reason.NAME_TOO_LONG),
        *(Reason.TOO_MANY_EXT_FIELDS, Reason.TOO_MANY_TOPICS, Reason.INFLATED_TOO_BIG),
        *(Reason.JSON_TOO_DEEP, Reason.JSON_TOO_BIG, Reason.AMBIGUOUS_JSON),
    }
)
"""Reasons that are limits of this reader: a real name server might have accepted the input."""


STRANGERS = frozenset({Reason.TLS, Reason.HTTP, Reason.ZEROS, Reason.BAD_PROXY_PREAMBLE})
"""Reasons that hold for a connection as a whole: nothing more of it is read, in either direction."""
PIECES = STRANGERS | {
    *(Reason.HALF_FRAME, Reason.SILENT_CONNECTION, Reason.INCOMPLETE_FRAME, Reason.LOST_SEGMENT),
    *(Reason.TRUNCATED_PACKET, Reason.BAD_FRAME_LENGTH, Reason.FRAME_TOO_LONG),
}
"""Reasons of what is no whole frame: how much of it there is says nothing of what was understood."""


class DecodeError(WireError):
    """A frame, header, body or line cannot be decoded. The only error that leaves the decoders."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail
