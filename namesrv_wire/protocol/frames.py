"""RemotingCommand frames in both serializations: headers decoded, and answers as a name server of a release writes them.

Source: RocketMQ 4.9.7, 5.3.3 and 5.4.0 `NettyDecoder`, `RemotingCommand`, `RocketMQSerializable`,
`NettyRemotingAbstract.processRequestCommand`, `DefaultRequestProcessor`, `FAQUrl`.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from namesrv_core.asking.answers import writer
from namesrv_core.machine.codes import Answer, RequestCode, ResponseCode
from namesrv_core.machine.java_map import string_map
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.step import REGISTER_FAILED
from namesrv_wire.errors import MAX_EXT_FIELDS, MAX_HEADER_BYTES, MIN_BINARY_HEADER_BYTES, DecodeError, Reason
from namesrv_wire.json_text import INT, Fraction, ambiguous, java_integer, java_text, object_of, parse_json, text_of
from namesrv_wire.secrets import is_secret

JSON, ROCKETMQ = 0, 1
RESPONSE, ONE_WAY = 1, 2
LANGUAGES: Final = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY"),
    *("OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"),
)
_HEADER_FIELDS: Final = frozenset(
    {
        *("code", "language", "version", "opaque", "flag", "remark", "extFields", "serializeTypeCurrentRPC", "body"),
        *("customHeader", "suspended", "processTimer", "callbackList"),
    }
)
"""Source: the fields of `RemotingCommand`, 4.9.7 and 5.4.0; the last four are no part of the protocol."""
_LENGTHS = Struct(">iI")
FIXED = Struct(">hbhii")
"""The numbers of a binary header: code, language, version, opaque, flag."""
_INT = Struct(">i")
_SHORT = Struct(">h")


class Frame(NamedTuple):
    """A decoded frame. `ext` has no secret fields; an empty binary string is None there, as in Java."""

    code: int
    language: str | None
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext: dict[str, str | None]
    body: bytes
    serialization: int

    @property
    def is_response(self) -> bool:
        """Whether this answers a request."""
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether no answer is asked for."""
        return bool(self.flag & ONE_WAY)


def decode_frame(data: bytes) -> Frame:
    """Return the frame in `data`, its four length bytes included. Raises `DecodeError` and nothing else."""
    if len(data) < 8:
        raise DecodeError(Reason.BAD_FRAME_LENGTH, f"{len(data)} bytes hold no frame")
    length, word = _LENGTHS.unpack_from(data)
    if length != len(data) - 4:
        raise DecodeError(Reason.BAD_FRAME_LENGTH, f"length field {length}, {len(data) - 4} bytes follow")
    header_length, serialization = word & 0xFFFFFF, word >> 24
    if header_length > length - 4:
        raise DecodeError(Reason.BAD_HEADER_LENGTH, f"header length {header_length} in a frame of {length}")
    if header_length > MAX_HEADER_BYTES:
        raise DecodeError(Reason.HEADER_TOO_LONG, f"header length {header_length}, at most {MAX_HEADER_BYTES}")
    if serialization == JSON:
        return _json_frame(data, 8 + header_length)
    if serialization == ROCKETMQ:
        return _binary_frame(data, header_length)
    raise DecodeError(Reason.UNKNOWN_SERIALIZATION, f"serialization byte {serialization}")


def _json_frame(data: bytes, header_end: int) -> Frame:
    header = parse_json(data[8:header_end], "header")
    if header is None or isinstance(header, str | int | Fraction):
        raise DecodeError(Reason.BAD_HEADER, "the header is no object")
    fields = object_of(header, _HEADER_FIELDS, "header").get
    if fields("opaque") is None:
        raise ambiguous("a header without opaque: the name server makes one up")
    if fields("body") is not None or not isinstance(fields("serializeTypeCurrentRPC", ""), str):
        raise ambiguous("a header with a body, or a serialization that is no name")
    return Frame(
        java_integer(fields("code", 0), INT, "code"),
        _language(fields("language", "JAVA")),
        java_integer(fields("version", 0), INT, "version"),
        java_integer(fields("opaque"), INT, "opaque"),
        java_integer(fields("flag", 0), INT, "flag"),
        text_of(fields("remark"), "remark"),
        _json_ext(fields("extFields")),
        data[header_end:],
        JSON,
    )


def _language(value: object) -> str | None:
    if isinstance(value, str):
        if value in LANGUAGES:
            return value
        if value.isidentifier() and value.upper() not in LANGUAGES:
            return None
    elif value is None:
        return None
    raise ambiguous("a language that is no name, or a known one in other case")


def _json_ext(fields: object) -> dict[str, str | None]:
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise ambiguous("extFields is no object")
    if len(fields) > MAX_EXT_FIELDS:
        raise DecodeError(Reason.TOO_MANY_EXT_FIELDS, f"{len(fields)} ext fields, at most {MAX_EXT_FIELDS}")
    return {key: text_of(value, "an ext field") for key, value in fields.items() if not is_secret(key)}


def _binary_frame(data: bytes, header_length: int) -> Frame:
    """Decode a binary header as Java does.

    Strings are bounded by the header's length but read from the frame, so one may run past the header into
    the body; the body is then too short for Java, which refuses the frame. A header longer than its fields
    moves the body forward: it starts where the fields ended.
    """
    if header_length < MIN_BINARY_HEADER_BYTES:
        raise DecodeError(Reason.BAD_HEADER, f"a binary header of {header_length} bytes")
    body_length = len(data) - 8 - header_length
    try:
        code, language, version, opaque, flag = FIXED.unpack_from(data, 8)
        remark, at = _string(data, 8 + FIXED.size, _INT, header_length)
        (ext_length,) = _INT.unpack_from(data, at)
        ext: dict[str, str | None] = {}
        at += 4
        if ext_length > header_length:
            raise DecodeError(Reason.BAD_HEADER, f"ext fields of {ext_length} bytes in a header of {header_length}")
        end, entries = at + ext_length, 0
        while at < end:
            entries += 1
            if entries > MAX_EXT_FIELDS:
                raise DecodeError(Reason.TOO_MANY_EXT_FIELDS, f"more than {MAX_EXT_FIELDS} ext fields")
            key, at = _string(data, at, _SHORT, ext_length)
            value, at = _string(data, at, _INT, ext_length)
            if key is not None and not is_secret(key):
                ext[key] = value
    except struct_error:
        raise DecodeError(Reason.BAD_HEADER, "the binary header ends inside a field") from None
    if body_length and at + body_length > len(data):
        raise DecodeError(Reason.BAD_HEADER, "an ext field runs past the header")
    name = LANGUAGES[language] if 0 <= language < len(LANGUAGES) else None
    return Frame(code, name, version, opaque, flag, remark, ext, data[at : at + body_length], ROCKETMQ)


def _string(data: bytes, at: int, length: Struct, limit: int) -> tuple[str | None, int]:
    (size,) = length.unpack_from(data, at)
    start = at + length.size
    if size == 0:
        return None, start
    if size < 0 or size > limit or start + size > len(data):
        raise DecodeError(Reason.BAD_HEADER, f"a string of {size} bytes, at most {limit}")
    return java_text(data[start : start + size]), start + size


_OWN_REMARKS: Final = frozenset(
    {"crc32 not match", "namespace or key is null", "disable", "string2Properties error", REGISTER_FAILED}
)
"""Remarks that a request's processor writes; all others are exceptions that left it, and are answered without its header."""
_WITH_HEADER: Final = frozenset(
    {
        *(RequestCode.GET_KV_CONFIG, RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION),
        *(RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER),
    }
)
"""Requests whose answers have header fields, even if they are none; an exception's answer has not."""
_FAQ: Final = {"http": "faq/", "https": "bestPractice/06FAQ"}
_JAVA: Final = LANGUAGES.index("JAVA")


def answer_frame(answer: Answer, body: bytes, asked: Frame, opaque: int, namesrv: Namesrv, version: int) -> bytes:
    """Return the frame of an answer to `asked`, which came with this `opaque`. `body`: the answer's, as bytes.

    `version`: of the name server, as an ordinal of MQVersion. Since 4.9.4 a 4.x answers in the serialization in which it was asked;
    all others answer in JSON.
    """
    remark, fields = answer.remark, dict(answer.fields) if answer.fields else None
    is_thrown = answer.code == ResponseCode.SYSTEM_ERROR and remark not in _OWN_REMARKS
    if fields is None and asked.code in _WITH_HEADER and not is_thrown:
        fields = {}
    of_4x = not namesrv.profile.has_topic_registration
    alike = of_4x and namesrv.profile.writes_standard_json and not is_thrown
    serialization = asked.serialization if alike else JSON
    if serialization == ROCKETMQ:
        header = _binary(int(answer.code), version, opaque, remark, fields)
    else:
        header = _json(int(answer.code), opaque, remark, fields, namesrv, version)
    return _framed(header, body, serialization)


def completed(answer: Answer, namesrv: Namesrv) -> Answer:
    """Return an answer with its remark up to the end, which releases without a change of behaviour may write otherwise."""
    if answer.code != ResponseCode.TOPIC_NOT_EXIST or answer.remark is None:
        return answer
    return answer._replace(remark=f"{answer.remark}{_FAQ[namesrv.profile.faq_scheme]} for further details.")


def one_way_frame(code: int, fields: dict[str, str], opaque: int, namesrv: Namesrv, version: int) -> bytes:
    """Return the frame of a request that a name server sends and that nobody answers."""
    return _framed(_json(code, opaque, None, fields, namesrv, version, ONE_WAY), b"", JSON)


def _framed(header: bytes, body: bytes, serialization: int) -> bytes:
    return b"".join(
        (_LENGTHS.pack(4 + len(header) + len(body), serialization << 24 | len(header)), header, body),
    )


def _json(
    code: int,
    opaque: int,
    remark: str | None,
    fields: dict[str, str] | None,
    namesrv: Namesrv,
    version: int,
    flag: int = RESPONSE,
) -> bytes:
    write = writer(namesrv)
    ext = None
    if fields is not None:
        in_order = string_map(entries=fields.items()).java_items()
        ext = write.mapping((name, write.text(value)) for name, value in in_order)
    header = write.record(
        [
            ("code", str(code)),
            ("extFields", ext),
            ("flag", str(flag)),
            ("language", '"JAVA"'),
            ("opaque", str(opaque)),
            ("remark", write.text(remark)),
            ("serializeTypeCurrentRPC", '"JSON"'),
            ("version", str(version)),
        ]
    )
    return header.encode("utf-8", "replace")


def _binary(code: int, version: int, opaque: int, remark: str | None, fields: dict[str, str] | None) -> bytes:
    text = (remark or "").encode("utf-8", "replace")
    parts = []
    for name, value in string_map(entries=(fields or {}).items()).java_items():
        key, data = (name or "").encode("utf-8", "replace"), value.encode("utf-8", "replace")
        parts += [_SHORT.pack(len(key)), key, _INT.pack(len(data)), data]
    ext = b"".join(parts)
    fixed = FIXED.pack(code, _JAVA, version, opaque, RESPONSE)
    return b"".join((fixed, _INT.pack(len(text)), text, _INT.pack(len(ext)), ext))
